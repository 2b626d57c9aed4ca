//! Any text as the small files of a cgroup: never a panic, and paths only ever shortened.
#![no_main]

use libfuzzer_sys::fuzz_target;
use linchpin_collector::sources::cgroup::files::{bytes, cgroup_of, memory_events, oom_control, own_level};
use linchpin_collector::sources::kernel_log::attribute::{place, subject_of};

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let counters = memory_events(&text);
    // Two readers of one format: what one finds, the other does.
    assert_eq!(oom_control(&text).is_some(), counters.oom_kill.is_some());
    assert!(bytes(&text).is_none_or(|n| n < 1 << 60));
    if let Some(path) = cgroup_of(&text) {
        assert!(path.starts_with('/'));
        let id = path.get(path.len() / 2..).unwrap_or_default();
        assert!(path.starts_with(own_level(&path, id)));
        assert!(subject_of(&place(&path)).contains(':'));
    }
});
