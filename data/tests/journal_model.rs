//! The journal against a model: what was appended, and nothing else, comes back in key order; over segments, after it
//! was closed and opened, and after retention.

use std::collections::BTreeMap;

use linchpin_data::journal::{Journal, JournalError, Options};
use linchpin_data::{Event, EventId, Timestamp};
use proptest::prelude::*;

const WEEK: i64 = 7 * 86_400 * 1_000_000_000;

fn event(at: i64, run: u64, seq: u64) -> Event {
    let line = format!(
        r#"{{"at":"{}","run":{run},"seq":{seq},"host":"h","subject":"docker:web-{}","kind":"exited","exit_code":{},"n":{seq}}}"#,
        Timestamp(at),
        seq % 7,
        seq as i64 - 3,
    );
    serde_json::from_str(&line).unwrap()
}

fn open(dir: &std::path::Path) -> Journal {
    Journal::open(dir, Options::default()).unwrap()
}

fn all(journal: &Journal) -> Vec<Event> {
    journal.scan(Timestamp::MIN, Timestamp::MAX).collect::<Result<_, _>>().unwrap()
}

#[derive(Clone, Debug)]
enum Step {
    Append(Vec<(i64, u64, u64)>),
    Flush,
    Reopen,
    Retain(i64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Six weeks around 1970, so that times are negative too, and more weeks than are open at once.
    let at = prop_oneof![-3 * WEEK..3 * WEEK, (-3i64..3).prop_map(|w| w * WEEK - 3 * 86_400_000_000_000)];
    let step = prop_oneof![
        6 => prop::collection::vec((at, 0u64..3, 0u64..400), 1..60).prop_map(Step::Append),
        2 => Just(Step::Flush),
        1 => Just(Step::Reopen),
        1 => (-3 * WEEK..WEEK).prop_map(Step::Retain),
    ];
    prop::collection::vec(step, 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn as_a_sorted_map(steps in steps(), probe in (-3 * WEEK..3 * WEEK, 0u64..3, 0u64..400)) {
        let dir = tempfile::tempdir().unwrap();
        let mut model: BTreeMap<EventId, Event> = BTreeMap::new();
        let mut journal = open(dir.path());
        for step in steps {
            match step {
                Step::Append(ids) => {
                    let events: Vec<_> = ids.iter().map(|(at, run, seq)| event(*at, *run, *seq)).collect();
                    journal.append(&events).unwrap();
                    model.extend(events.into_iter().map(|e| (e.id(), e)));
                }
                Step::Flush => journal.flush().unwrap(),
                Step::Reopen => {
                    drop(journal);
                    journal = open(dir.path());
                }
                Step::Retain(from) => {
                    for name in journal.retain(Timestamp(from)).unwrap() {
                        prop_assert!(!dir.path().join(name).exists());
                    }
                    // Weeks begin on Mondays, and 1970-01-01 was a Thursday.
                    let monday = (from + 3 * WEEK / 7).div_euclid(WEEK) * WEEK - 3 * WEEK / 7;
                    model.retain(|id, _| id.at.0 >= monday);
                }
            }
        }
        prop_assert_eq!(all(&journal), model.values().cloned().collect::<Vec<_>>());
        let id = EventId { at: Timestamp(probe.0), run: probe.1, seq: probe.2 };
        let after: Vec<_> = journal.scan_after(id).collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(&after, &model.range(id..).filter(|(k, _)| **k > id).map(|(_, v)| v.clone()).collect::<Vec<_>>());
        for (id, e) in model.iter().take(20) {
            prop_assert_eq!(journal.get(*id).unwrap(), Some(e.clone()));
        }
        prop_assert_eq!(journal.get(id).unwrap(), model.get(&id).cloned());
        let (from, to) = (Timestamp(probe.0), Timestamp(probe.0 + WEEK));
        let between: Vec<_> = journal.scan(from, to).collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(&between, &model.values().filter(|e| from <= e.at && e.at < to).cloned().collect::<Vec<_>>());
        prop_assert!(journal.damage().is_empty());
    }
}

#[test]
fn runs_are_counted_and_never_reused() {
    let dir = tempfile::tempdir().unwrap();
    let journal = open(dir.path());
    assert_eq!((journal.begin_run().unwrap(), journal.begin_run().unwrap()), (1, 2));
    journal.append(&[event(5, 2, 1), event(WEEK, 9, 1)]).unwrap();
    drop(journal);
    assert_eq!(open(dir.path()).begin_run().unwrap(), 3);
    // A counter that is lost is found again from the events.
    std::fs::write(dir.path().join("META"), "linchpin-journal 1\nruns 1\ncrc 00000000\n").unwrap();
    assert_eq!(open(dir.path()).begin_run().unwrap(), 10);
    assert!(dir.path().join("META.damaged-1").exists());
}

#[test]
fn what_no_version_knows_survives() {
    let dir = tempfile::tempdir().unwrap();
    let lines = [
        r#"{"at":"2026-08-09T06:05:03.458939354Z","run":1,"seq":1,"host":"h","subject":"docker:x","kind":"of_tomorrow","deep":{"a":[1,2.5,null,{"b":false}]},"signal":null}"#,
        r#"{"at":"2026-08-09T06:05:04Z","boot_ns":18446744073709551615,"boot_id":"b","run":1,"seq":2,"after":"2026-08-09T06:05:03Z","host":"h","subject":"docker:<script>","kind":"exited","exit_code":-1,"resolution_ms":0.1,"colour":"blue","signal":null,"low":-9223372036854775808}"#,
    ];
    let events: Vec<Event> = lines.iter().map(|l| serde_json::from_str(l).unwrap()).collect();
    let journal = open(dir.path());
    journal.append(&events).unwrap();
    journal.flush().unwrap();
    drop(journal);
    assert_eq!(all(&open(dir.path())), events);
}

#[test]
fn events_that_cannot_be_kept_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let journal = open(dir.path());
    let mut unnumbered = event(7, 1, 1);
    unnumbered.run = None;
    let err = journal.append(&[event(6, 1, 1), unnumbered]).unwrap_err();
    assert!(matches!(err, JournalError::Event { id, .. } if id.at == Timestamp(7)), "{err}");
    assert_eq!(all(&journal), []);
}

#[test]
fn large_events_are_kept_whole() {
    let dir = tempfile::tempdir().unwrap();
    let mut big: Vec<_> = (0..40).map(|n| event(n, 1, n as u64)).collect();
    for (n, e) in big.iter_mut().enumerate() {
        e.extra.insert("text".into(), "x".repeat(n * 20_000).into());
    }
    let journal = open(dir.path());
    journal.append(&big).unwrap();
    journal.flush().unwrap();
    drop(journal);
    assert_eq!(all(&open(dir.path())), big);
}

#[test]
fn a_scan_sees_what_is_appended_ahead_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let journal = open(dir.path());
    journal.append(&(0..600).map(|n| event(n, 1, n as u64)).collect::<Vec<_>>()).unwrap();
    let mut scan = journal.scan_after(EventId { at: Timestamp(0), run: 1, seq: 0 });
    assert_eq!(scan.next().unwrap().unwrap(), event(1, 1, 1));
    journal.append(&[event(WEEK, 1, 700), event(700, 1, 700)]).unwrap();
    let rest: Vec<_> = scan.collect::<Result<_, _>>().unwrap();
    assert_eq!(rest.len(), 600);
    assert_eq!(rest.last(), Some(&event(WEEK, 1, 700)));
}
