//! Any bytes as any of the files that are imported: never a panic, never out of the order of time where little waits, and
//! nothing unbounded.
#![no_main]

use libfuzzer_sys::fuzz_target;
use linchpin_collector::import::engine::EngineEvents;
use linchpin_collector::import::inspected::Inspected;
use linchpin_collector::import::kernel::KernelText;
use linchpin_collector::import::merge::Merge;
use linchpin_collector::import::names::Names;
use linchpin_collector::import::when::{Calendar, Years};
use linchpin_data::Timestamp;

fuzz_target!(|data: &[u8]| {
    let (form, bytes) = data.split_first().map_or((0, data), |(f, rest)| (*f, rest));
    let input = std::io::Cursor::new(bytes.to_vec());
    let (host, names) = ("web-1".into(), Names::default());
    let years = if form & 4 == 0 { Years::From(2017) } else { Years::Until(Timestamp(1_512_605_115_000_000_000)) };
    let boot = (form & 8 == 0).then_some(Timestamp(1_512_605_115_000_000_000));
    let calendar = Calendar::new(years, i32::from(form) * 60, boot);
    let mut merge = Merge::default();
    match form % 4 {
        0 => merge.add(Box::new(KernelText::new(input, host, names, calendar))),
        1 => merge.add(Box::new(KernelText::journal(input, host, names, calendar))),
        2 => merge.add(Box::new(EngineEvents::new(input, host, names))),
        _ => match Inspected::read(input, host, &names, true) {
            Ok(inspected) => merge.add(Box::new(inspected)),
            Err(_) => return,
        },
    }
    let mut last = Timestamp::MIN;
    while let Ok(Some(event)) = merge.following() {
        assert!(last <= event.at && event.subject.contains(':') && event.subject.chars().count() < 1024);
        last = event.at;
    }
    for outcome in merge.outcomes() {
        assert!(outcome.unplaced.sorts().all(|(_, sort)| sort.samples.len() <= 3 && sort.count > 0));
    }
});
