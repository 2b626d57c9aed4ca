//! The writer: what is submitted becomes durable, what cannot be kept is counted and holds up nothing.

use linchpin_data::event::{Exited, Memory, Note};
use linchpin_data::journal::{Journal, Options, Writer};
use linchpin_data::{Event, Timestamp};

fn event(seq: u64) -> Event {
    let mut e = Event::new(Timestamp(seq as i64), "h", "docker:x", Memory::default());
    (e.run, e.seq) = (Some(1), Some(seq));
    e
}

#[test]
fn all_that_is_submitted_is_durable_after_close() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(dir.path(), Options::default()).unwrap();
    let writer = Writer::spawn(journal.clone());
    // More than the queue holds, from several threads.
    std::thread::scope(|s| {
        for t in 0..4 {
            let writer = &writer;
            s.spawn(move || (1..=5_000).for_each(|n| writer.submit(event(t * 5_000 + n))));
        }
    });
    writer.close();
    let status = writer.status();
    assert_eq!((status.queued, status.written, status.dropped), (0, 20_000, 0));
    assert_eq!(status.durable_upto, Some(event(20_000).id()));
    assert_eq!(status.last_error, None);
    writer.submit(event(20_001));
    assert_eq!(writer.status().dropped, 1);
    let found: Vec<Event> = journal.scan(Timestamp::MIN, Timestamp::MAX).collect::<Result<_, _>>().unwrap();
    assert_eq!(found, (1..=20_000).map(event).collect::<Vec<_>>());
}

#[test]
fn becomes_durable_without_close() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::spawn(Journal::open(dir.path(), Options::default()).unwrap());
    let mut exit = event(1);
    exit.fact = Exited::default().into();
    for e in [exit, event(2)] {
        let id = e.id();
        writer.submit(e);
        while writer.status().durable_upto != Some(id) {
            std::thread::yield_now();
        }
    }
    assert_eq!(writer.status().written, 2);
}

#[test]
fn what_cannot_be_kept_is_counted_and_holds_up_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(dir.path(), Options::default()).unwrap();
    let writer = Writer::spawn(journal.clone());
    let mut unnumbered = event(2);
    unnumbered.seq = None;
    let mut huge = event(3);
    huge.fact = Note { text: Some("x".repeat(2 << 20)) }.into();
    for e in [event(1), unnumbered, huge, event(4)] {
        writer.submit(e);
    }
    writer.close();
    let status = writer.status();
    assert_eq!((status.written, status.dropped, status.last_error), (2, 2, None));
    let found: Vec<Event> = journal.scan(Timestamp::MIN, Timestamp::MAX).collect::<Result<_, _>>().unwrap();
    assert_eq!(found, [event(1), event(4)]);
}
