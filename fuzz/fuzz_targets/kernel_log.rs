//! Any bytes as a kernel log: never a panic, the same records however the bytes are cut into pieces, and nothing unbounded.
#![no_main]

use libfuzzer_sys::fuzz_target;
use linchpin_collector::sources::kernel_log::attribute::{place, subject_of};
use linchpin_collector::sources::kernel_log::parse::{Decoder, Record};

fuzz_target!(|data: &[u8]| {
    let (cut, bytes) = data.split_first().map_or((1, data), |(c, rest)| (usize::from(*c) + 1, rest));
    let (mut whole, mut pieces) = (Vec::new(), Vec::new());
    let mut decoder = Decoder::default();
    decoder.feed(bytes, &mut whole);
    decoder.finish(&mut whole);
    let mut decoder = Decoder::default();
    for piece in bytes.chunks(cut) {
        decoder.feed(piece, &mut pieces);
    }
    decoder.finish(&mut pieces);
    assert_eq!(whole, pieces);
    for record in &whole {
        if let Record::Kill(kill) = record {
            assert!(
                kill.members > 0 && kill.process.chars().count() <= 640 && kill.line.chars().count() <= 4000
            );
            let subject = subject_of(&place(kill.cgroup.as_deref().unwrap_or_default()));
            assert!(subject.contains(':') && subject.chars().count() < 1024);
        }
    }
});
