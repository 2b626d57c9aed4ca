//! Any bytes as a container's log: never a panic, the same lines however the bytes are cut into pieces, and what is told is plain and short.
#![no_main]

use libfuzzer_sys::fuzz_target;
use linchpin_collector::sources::proxy_log::lines::Lines;
use linchpin_collector::sources::proxy_log::tell::{Teller, stamped};
use linchpin_data::Timestamp;

fuzz_target!(|data: &[u8]| {
    let (cut, bytes) = data.split_first().map_or((1, data), |(c, rest)| (usize::from(*c) + 1, rest));
    let mut lines = Lines::default();
    let mut whole = lines.push(bytes);
    whole.extend(lines.rest());
    let mut lines = Lines::default();
    let mut pieces: Vec<String> = bytes.chunks(cut).flat_map(|piece| lines.push(piece)).collect();
    pieces.extend(lines.rest());
    assert_eq!(whole, pieces);
    let mut teller = Teller::default();
    for (n, line) in whole.iter().enumerate() {
        let _ = stamped(line);
        let at = Timestamp(n as i64 * 400_000_000);
        if let Some(told) = teller.take(at, line) {
            let kept = told.line.unwrap_or_default();
            assert!(kept.chars().count() <= 301 && !kept.chars().any(char::is_control));
            assert!(told.name.is_none_or(|n| n.len() <= 253 && n.bytes().all(|b| b.is_ascii_graphic())));
            assert!(
                told.outcome
                    .is_none_or(|o| ["nxdomain", "servfail", "refused", "timeout", "nodata"].contains(&&*o))
            );
        }
    }
});
