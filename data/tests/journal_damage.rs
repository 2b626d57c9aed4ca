//! Damaged files: the journal opens all the same, gives back what can be read and only what was written, says what it
//! set aside, and takes new events.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use linchpin_data::event::Note;
use linchpin_data::journal::{Damage, Journal, Options};
use linchpin_data::{Event, EventId, Timestamp};

const EVENTS: u64 = 1_200;
/// A Monday, 2026-08-03.
const START: i64 = 1_785_715_200_000_000_000;

fn event(seq: u64) -> Event {
    let text = format!("event {seq} {}", "lorem ipsum ".repeat(seq as usize % 9));
    let mut e = Event::new(
        Timestamp(START + seq as i64 * 1_000_000_000),
        "host",
        &format!("docker:web-{}", seq % 5),
        Note { text: Some(text) },
    );
    (e.run, e.seq) = (Some(1), Some(seq));
    e
}

/// A journal of one segment, written in many small flushes, one event large enough for a file of its own.
fn written(dir: &Path) -> BTreeMap<EventId, Event> {
    let journal = Journal::open(dir, Options::default()).unwrap();
    let mut events: Vec<_> = (1..=EVENTS).map(event).collect();
    events[100].extra.insert("big".into(), "z".repeat(300_000).into());
    for piece in events.chunks(50) {
        journal.append(piece).unwrap();
        journal.flush().unwrap();
    }
    events.into_iter().map(|e| (e.id(), e)).collect()
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

fn files(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            files(&entry.path(), out);
        } else {
            out.push(entry.path());
        }
    }
}

/// Opens the journal, reads it all, appends, and reads again; how many events came back, and what was set aside.
fn use_it(dir: &Path, truth: &BTreeMap<EventId, Event>) -> (usize, Vec<Damage>) {
    let journal = Journal::open(dir, Options::default()).unwrap();
    let read: Vec<Event> = journal.scan(Timestamp::MIN, Timestamp::MAX).collect::<Result<_, _>>().unwrap();
    assert!(read.is_sorted_by_key(Event::id));
    for e in &read {
        assert_eq!(truth.get(&e.id()), Some(e), "nothing is made up");
    }
    let fresh = event(EVENTS + 1);
    journal.append(std::slice::from_ref(&fresh)).unwrap();
    journal.flush().unwrap();
    assert_eq!(journal.get(fresh.id()).unwrap(), Some(fresh));
    let damage = journal.damage();
    for d in &damage {
        assert_eq!(d.segment, "2026-W32");
        assert!(d.set_aside.join("db").exists() && d.span.contains(Timestamp(START)), "{d:?}");
        assert_eq!(d.salvaged as usize, read.len());
    }
    // What is missing is told.
    if read.len() < truth.len() {
        assert_eq!(damage.len(), 1);
        assert_eq!(damage[0].lost as usize, truth.len() - read.len(), "{damage:?}");
    }
    drop(journal);
    let again = Journal::open(dir, Options::default()).unwrap();
    assert_eq!(again.scan(Timestamp::MIN, Timestamp::MAX).filter(Result::is_ok).count(), read.len() + 1);
    assert!(again.damage().is_empty());
    (read.len(), damage)
}

/// Offsets over a file: densely where its structures are, and spread over the rest.
fn offsets(len: u64) -> Vec<u64> {
    let dense = (0..64).step_by(13);
    let spread = (0..16).map(|n| n * len / 16 + (n * 7_919) % 997);
    dense.chain(spread).chain(len.checked_sub(1)).filter(|o| *o < len).collect()
}

#[test]
fn flipped_bytes_anywhere() {
    let base = tempfile::tempdir().unwrap();
    let pristine = base.path().join("pristine");
    let truth = written(&pristine);
    let mut all = Vec::new();
    files(&pristine.join("2026-W32"), &mut all);
    assert!(all.iter().any(|f| f.parent().unwrap().ends_with("blobs")), "{all:?}");
    let (mut tried, mut set_aside, mut least) = (0, 0, usize::MAX);
    for file in all {
        let name = file.strip_prefix(&pristine).unwrap();
        for (i, offset) in offsets(fs::metadata(&file).unwrap().len()).into_iter().enumerate() {
            let dir = base.path().join("try");
            copy(&pristine, &dir);
            let mut bytes = fs::read(dir.join(name)).unwrap();
            bytes[offset as usize] ^= [0x01, 0x80, 0xff][i % 3];
            fs::write(dir.join(name), bytes).unwrap();
            let (read, damage) = use_it(&dir, &truth);
            tried += 1;
            set_aside += damage.len();
            least = least.min(read);
            // One byte costs few events: those whose only copy holds it.
            assert!(read + 20 >= truth.len(), "{} at {offset}: {read} of {}", name.display(), truth.len());
            fs::remove_dir_all(dir).unwrap();
        }
    }
    println!("{tried} flips: {set_aside} set aside, at least {least} of {} read", truth.len());
    assert!(set_aside > 0);
}

#[test]
fn truncated_and_emptied_files() {
    let base = tempfile::tempdir().unwrap();
    let pristine = base.path().join("pristine");
    let truth = written(&pristine);
    let mut all = Vec::new();
    files(&pristine.join("2026-W32"), &mut all);
    for file in all {
        let name = file.strip_prefix(&pristine).unwrap();
        let len = fs::metadata(&file).unwrap().len();
        for keep in [0, 1, len / 3, len / 2, len - len.min(1_000), len - 1] {
            let dir = base.path().join("try");
            copy(&pristine, &dir);
            fs::OpenOptions::new().write(true).open(dir.join(name)).unwrap().set_len(keep).unwrap();
            let (read, _) = use_it(&dir, &truth);
            println!("{} cut to {keep} of {len}: {read} of {}", name.display(), truth.len());
            fs::remove_dir_all(dir).unwrap();
        }
    }
}

#[test]
fn retention_drops_what_was_set_aside_with_its_week() {
    let dir = tempfile::tempdir().unwrap();
    let truth = written(dir.path());
    fs::write(dir.path().join("2026-W32/db"), b"not a database").unwrap();
    let journal = Journal::open(dir.path(), Options::default()).unwrap();
    assert!(journal.scan(Timestamp::MIN, Timestamp::MAX).filter(Result::is_ok).count() < truth.len());
    let damage = journal.damage();
    assert_eq!(damage.len(), 1);
    assert_eq!(journal.retain(damage[0].span.from).unwrap(), Vec::<String>::new());
    assert_eq!(journal.retain(damage[0].span.to).unwrap(), ["2026-W32", "2026-W32.damaged-1"]);
    assert!(!damage[0].set_aside.exists() && journal.damage().is_empty());
    assert_eq!(journal.scan(Timestamp::MIN, Timestamp::MAX).count(), 0);
}

#[test]
fn a_newer_format_is_refused_by_name_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    drop(Journal::open(dir.path(), Options::default()).unwrap());
    let segment = dir.path().join("2026-W32");
    {
        let db = sled::Config::new().path(&segment).segment_size(256 * 1024).open().unwrap();
        let mut key = [0; 24];
        key[..8].copy_from_slice(&(START as u64 ^ (1 << 63)).to_be_bytes());
        db.open_tree("events").unwrap().insert(key, b"\x02of tomorrow").unwrap();
        db.flush().unwrap();
    }
    let journal = Journal::open(dir.path(), Options::default()).unwrap();
    let err = journal.scan(Timestamp::MIN, Timestamp::MAX).next().unwrap().unwrap_err().to_string();
    assert!(err.contains("2026-W32") && err.contains("format 2"), "{err}");
    let err = journal.append(&[event(1)]).unwrap_err().to_string();
    assert!(err.contains("format 2"), "{err}");
    // Other weeks go on.
    let mut other = event(2);
    other.at = Timestamp(0);
    journal.append(std::slice::from_ref(&other)).unwrap();
    journal.flush().unwrap();
    assert!(journal.damage().is_empty());
    drop(journal);
    fs::write(dir.path().join("META"), "linchpin-journal 2\n").unwrap();
    let err = Journal::open(dir.path(), Options::default()).unwrap_err().to_string();
    assert!(err.contains("format 2") && err.contains("newer"), "{err}");
}
