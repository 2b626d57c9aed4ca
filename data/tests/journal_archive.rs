//! A journal written by a version stays here for ever and must always open: the directory as it was written, and the
//! events it holds as JSON Lines. Never rewrite one; add one when the format changes.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use linchpin_data::journal::{Journal, Options};
use linchpin_data::{Event, Timestamp, jsonl};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn opens(name: &str, weeks: usize, runs: u64) {
    let kept = fixtures().join(name);
    let want: Vec<Event> =
        jsonl::Reader::new(BufReader::new(File::open(fixtures().join(format!("{name}.jsonl"))).unwrap()))
            .collect::<Result<_, _>>()
            .unwrap();
    assert!(want.len() > 50);
    let dir = tempfile::tempdir().unwrap();
    copy(&kept, dir.path());
    let journal = Journal::open(dir.path(), Options::default()).unwrap();
    let got: Vec<Event> = journal.scan(Timestamp::MIN, Timestamp::MAX).collect::<Result<_, _>>().unwrap();
    assert_eq!(got, want);
    assert_eq!(journal.damage(), []);
    assert_eq!(journal.begin_run().unwrap(), runs + 1);
    // And it can be written on.
    let mut next = want[want.len() - 1].clone();
    (next.run, next.seq) = (Some(runs + 1), Some(1));
    journal.append(std::slice::from_ref(&next)).unwrap();
    journal.flush().unwrap();
    assert_eq!(journal.get(next.id()).unwrap(), Some(next));
    let dropped = journal.retain(Timestamp::MAX).unwrap();
    assert_eq!(dropped.len(), weeks);
}

#[test]
fn of_0_1() {
    opens("journal-0.1", 3, 2);
}

/// Writes a fixture from its JSON Lines: `LINCHPIN_WRITE_FIXTURE=journal-0.2 cargo test --test journal_archive`.
#[test]
fn writing_one_gives_the_same_events() {
    let source = fixtures().join("journal-0.1.jsonl");
    let events: Vec<Event> =
        jsonl::Reader::new(BufReader::new(File::open(source).unwrap())).collect::<Result<_, _>>().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let dir = match std::env::var("LINCHPIN_WRITE_FIXTURE") {
        Ok(name) if !fixtures().join(&name).exists() => fixtures().join(name),
        Ok(name) => panic!("{name} is there already; a fixture is never rewritten"),
        Err(_) => scratch.path().to_path_buf(),
    };
    let journal = Journal::open(&dir, Options::default()).unwrap();
    let last = events.iter().filter_map(|e| e.run).max().unwrap();
    while journal.begin_run().unwrap() < last {}
    for some in events.chunks(20) {
        journal.append(some).unwrap();
        journal.flush().unwrap();
    }
    drop(journal);
    // Opening fills files up to the database's block size: the fixture stays small.
    let read = tempfile::tempdir().unwrap();
    copy(&dir, read.path());
    let journal = Journal::open(read.path(), Options::default()).unwrap();
    let got: Vec<Event> = journal.scan(Timestamp::MIN, Timestamp::MAX).collect::<Result<_, _>>().unwrap();
    assert_eq!(got, events);
}
