//! The journal and the life of processes: killed with -9 in the middle, held by another, out of disk space. This test
//! starts itself again as the other process.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use linchpin_data::event::{Exited, Memory};
use linchpin_data::journal::{Journal, JournalError, Options, Writer, holder};
use linchpin_data::{Event, EventId, Timestamp};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

const CHILD: &str = "JOURNAL_TEST_CHILD";
/// Half a minute before a new ISO week: each run crosses into it.
const START: i64 = (1_786_320_000 - 30) * 1_000_000_000;
const SCENES: &[(&str, fn())] = &[
    ("what_was_acknowledged_survives_kill_9", survives_kill),
    ("what_the_writer_calls_durable_survives_kill_9", writer_survives_kill),
    ("a_second_process_learns_who_holds_it", held),
    ("a_full_disk_loses_nothing_that_fits_the_memory", full_disk),
    ("a_directory_that_may_not_be_written", read_only),
];

fn main() -> ExitCode {
    if let Ok(child) = std::env::var(CHILD) {
        let dir = std::env::args().nth(1).unwrap();
        match child.as_str() {
            "append" => append_for_ever(Path::new(&dir)),
            "write" => write_for_ever(Path::new(&dir)),
            "hold" => hold(Path::new(&dir)),
            "full" => fill(Path::new(&dir)),
            other => panic!("no child {other}"),
        }
        return ExitCode::SUCCESS;
    }
    let wanted = std::env::args().skip(1).find(|a| !a.starts_with('-')).unwrap_or_default();
    if std::env::args().any(|a| a == "--list") {
        SCENES.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let mut failed = false;
    for (name, scene) in SCENES.iter().filter(|(name, _)| name.contains(&wanted)) {
        let ok = std::panic::catch_unwind(scene).is_ok();
        println!("test {name} ... {}", if ok { "ok" } else { "FAILED" });
        failed |= !ok;
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn event(run: u64, seq: u64) -> Event {
    let at = Timestamp(START + (run * 10_000 + seq) as i64 * 10_000_000);
    let mut e = if seq.is_multiple_of(3) {
        Event::new(at, "h", "docker:web", Exited { exit_code: Some(seq as i64), ..Exited::default() })
    } else {
        Event::new(at, "h", "docker:web", Memory { current_bytes: Some(seq), ..Memory::default() })
    };
    (e.run, e.seq) = (Some(run), Some(seq));
    e
}

fn child(kind: &str, dir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(dir).env(CHILD, kind).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

fn lines(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok)
}

fn say(text: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").unwrap();
    out.flush().unwrap();
}

fn append_for_ever(dir: &Path) {
    let journal = Journal::open(dir, Options::default()).unwrap();
    let run = journal.begin_run().unwrap();
    let mut seq = 0;
    for n in (1..20u64).cycle() {
        let batch: Vec<_> = (seq + 1..=seq + n).map(|s| event(run, s)).collect();
        seq += n;
        journal.append(&batch).unwrap();
        journal.flush().unwrap();
        say(event(run, seq).id());
    }
}

fn write_for_ever(dir: &Path) {
    let journal = Journal::open(dir, Options::default()).unwrap();
    let run = journal.begin_run().unwrap();
    let writer = Writer::spawn(journal);
    let mut told = None;
    for seq in 1.. {
        writer.submit(event(run, seq));
        let durable = writer.status().durable_upto;
        if durable != told {
            told = durable;
            say(durable.unwrap());
        }
        if seq.is_multiple_of(10) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Kills the child after some acknowledgements, several times; each time all that was acknowledged must be there.
fn kill_rounds(kind: &str) {
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged = Vec::new();
    for round in 1..=8u64 {
        let mut process = child(kind, dir.path()).spawn().unwrap();
        let mut acks = lines(&mut process);
        let last: EventId =
            acks.by_ref().take(5 + (round as usize * 37) % 60).last().unwrap().parse().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
        // What it still said before it died counts too.
        let last = acks.filter_map(|l| l.parse().ok()).last().unwrap_or(last);
        acknowledged.push(last);

        let journal = Journal::open(dir.path(), Options::default()).unwrap();
        let found: Vec<Event> =
            journal.scan(Timestamp::MIN, Timestamp::MAX).collect::<Result<_, _>>().unwrap();
        assert!(found.is_sorted_by_key(Event::id));
        for last in &acknowledged {
            for seq in 1..=last.seq {
                let want = event(last.run, seq);
                let i = found.binary_search_by_key(&want.id(), Event::id);
                assert_eq!(i.map(|i| &found[i]), Ok(&want), "run {} seq {seq} of {last}", last.run);
            }
        }
        assert_eq!(last.run, 2 * round - 1, "runs are durable");
        assert_eq!(journal.begin_run().unwrap(), 2 * round);
        assert_eq!(journal.damage(), []);
    }
    let total: u64 = acknowledged.iter().map(|a| a.seq).sum();
    println!("{kind}: {} kills, {total} acknowledged events, all there", acknowledged.len());
}

fn survives_kill() {
    kill_rounds("append");
}

fn writer_survives_kill() {
    kill_rounds("write");
}

fn hold(dir: &Path) {
    let journal = Journal::open(dir, Options::default()).unwrap();
    journal.set_note("http://127.0.0.1:7420").unwrap();
    say("held");
    let _ = std::io::stdin().read(&mut [0]);
}

fn held() {
    let dir = tempfile::tempdir().unwrap();
    let mut process = child("hold", dir.path()).spawn().unwrap();
    assert_eq!(lines(&mut process).next().as_deref(), Some("held"));
    let err = Journal::open(dir.path(), Options::default()).unwrap_err();
    let text = err.to_string();
    assert!(
        text.contains(&format!("pid {}", process.id())) && text.contains("http://127.0.0.1:7420"),
        "{text}"
    );
    let JournalError::Held { holder: who, .. } = err else { panic!("{text}") };
    assert_eq!(holder(dir.path()), Some(who));
    // The lock dies with the process, whatever the file says.
    process.kill().unwrap();
    process.wait().unwrap();
    assert_eq!(holder(dir.path()), None);
    Journal::open(dir.path(), Options::default()).unwrap();
}

/// Submits until the disk refuses, goes on, and says what was told; then there is room again.
fn fill(dir: &Path) {
    let writer = Writer::spawn(Journal::open(dir, Options::default()).unwrap());
    let wait = |until: &dyn Fn() -> bool| {
        while !until() {
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    let mut seq = 0;
    while writer.status().last_error.is_none() {
        seq += 1;
        writer.submit(event(1, seq));
        if seq.is_multiple_of(50) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    for _ in 0..5_000 {
        seq += 1;
        writer.submit(event(1, seq));
    }
    let status = writer.status();
    assert!(status.queued >= 5_000 && status.dropped == 0, "{status:?}");
    say(status.last_error.unwrap_or_default());
    let (_, hard) = getrlimit(Resource::RLIMIT_FSIZE).unwrap();
    setrlimit(Resource::RLIMIT_FSIZE, hard, hard).unwrap();
    wait(&|| writer.status().written == seq);
    writer.submit(event(1, seq + 1));
    writer.close();
    let status = writer.status();
    assert_eq!((status.queued, status.dropped, status.last_error), (0, 0, None));
    assert_eq!(status.durable_upto, Some(event(1, seq + 1).id()));
    say(seq + 1);
}

fn full_disk() {
    let dir = tempfile::tempdir().unwrap();
    // The signal that comes with the limit is ignored, so that writes fail as on a full disk.
    let mut process = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -S -f 4000; exec \"$0\" \"$1\""])
        .arg(std::env::current_exe().unwrap())
        .arg(dir.path())
        .env(CHILD, "full")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said: Vec<_> = lines(&mut process).collect();
    assert!(process.wait().unwrap().success(), "{said:?}");
    assert!(said[0].contains("2026-W3"), "{said:?}");
    println!("full disk: {}; {} events", said[0], said[1]);
    let last: u64 = said[1].parse().unwrap();
    let journal = Journal::open(dir.path(), Options::default()).unwrap();
    let found: Vec<Event> = journal.scan(Timestamp::MIN, Timestamp::MAX).collect::<Result<_, _>>().unwrap();
    assert_eq!(found, (1..=last).map(|s| event(1, s)).collect::<Vec<_>>());
    assert_eq!(journal.damage(), []);
}

fn read_only() {
    let dir = tempfile::tempdir().unwrap();
    let closed = dir.path().join("closed");
    std::fs::create_dir(&closed).unwrap();
    let mode =
        |m| std::fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(m)).unwrap();
    mode(0o555);
    std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    // Root may write anywhere: this thread gives that up.
    let text = std::thread::spawn({
        let closed = closed.clone();
        move || {
            nix::unistd::setfsuid(nix::unistd::Uid::from_raw(65_534));
            let inside = Journal::open(&closed, Options::default()).unwrap_err().to_string();
            let below = Journal::open(&closed.join("new"), Options::default()).unwrap_err().to_string();
            [inside, below]
        }
    })
    .join()
    .unwrap();
    for text in text {
        assert!(text.contains(closed.to_str().unwrap()) && text.contains("--journal"), "{text}");
    }
}
