//! Any bytes as packets: never a panic in the decoder, the matcher, the judge or the filter's twin; what is told is bounded and was asked.
#![no_main]

use libfuzzer_sys::fuzz_target;
use linchpin_collector::sources::dns::decode::{message, packet};
use linchpin_collector::sources::dns::judge::{Judge, Told};
use linchpin_collector::sources::dns::matching::Matcher;
use linchpin_collector::sources::dns::resolv;

fuzz_target!(|data: &[u8]| {
    let _ = resolv::parse(&String::from_utf8_lossy(data));
    let (mut matcher, mut judge) = (Matcher::default(), Judge::default());
    let (mut now, mut asked, mut rest) = (0u64, 0u64, data);
    let mut told = Vec::new();
    // Packets one after the other: how long since the last (in 16 ms), its length in one byte, its bytes. The first byte 1 is
    // the whole rest as one packet.
    while let [wait, len, tail @ ..] = rest {
        now += u64::from(*wait) * 16_000_000;
        let len = if *len == 0 { tail.len() } else { usize::from(*len).min(tail.len()) };
        let (bytes, tail) = tail.split_at(len);
        rest = tail;
        let _ = message(bytes);
        if let Some(m) = packet(bytes) {
            assert!(
                !m.name.is_empty() && m.name.len() <= 255 && m.name.bytes().all(|b| b.is_ascii_graphic())
            );
            asked += u64::from(m.reply.is_none());
            let known = m.id % 2 == 0;
            if let Some(lookup) = matcher.see(m, now, true, false) {
                assert!(lookup.ended >= lookup.asked);
                told.extend(judge.take(lookup, known));
            }
        }
        for lookup in matcher.expire(now) {
            told.extend(judge.take(lookup, false));
        }
        told.extend(judge.settle(now, &matcher));
    }
    for lookup in matcher.expire(u64::MAX) {
        told.extend(judge.take(lookup, true));
    }
    told.extend(judge.end());
    assert!(matcher.take_counts().asked <= asked);
    let failures: u64 =
        told.iter().map(|t| if let Told::Failure { count, .. } = t { *count } else { 0 }).sum();
    assert!(failures <= asked && matcher.deadline().is_none());
});
