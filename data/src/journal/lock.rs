//! Who holds the journal: `LOCK`, flocked for as long as it is open, says pid, process name, since when, and where the
//! holder's API listens. The lock dies with its process; the text alone means nothing.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::clock::{Clock, SystemClock};
use crate::journal::error::JournalError;
use crate::time::Timestamp;

const NAME: &str = "LOCK";
/// How much of the file is read: it is ours, but anybody may have written to it.
const MAX_TEXT: u64 = 4096;

/// Who holds a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// Its process id, as it sees itself; 0 where the lock does not say.
    pub pid: u32,
    /// Its process name.
    pub process: String,
    /// The URL of its API, once it listens.
    pub note: Option<String>,
    /// Since when it holds the journal.
    pub since: Option<Timestamp>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} (pid {})",
            if self.process.is_empty() { "a process" } else { &self.process },
            self.pid
        )?;
        match self.since {
            Some(t) => write!(f, " since {}", t.to_millis_text()),
            None => Ok(()),
        }
    }
}

/// The lock, held until dropped.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    path: PathBuf,
    me: Holder,
}

impl Lock {
    pub(super) fn take(dir: &Path, note: Option<String>) -> Result<Lock, JournalError> {
        let path = dir.join(NAME);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(JournalError::io("opening the lock", &path))?;
        // Somebody who only asks who holds it (`holder`) has it for a moment.
        for wait_ms in [5, 20, 50, 100, 0] {
            match file.try_lock() {
                Ok(()) => {
                    let me = Holder {
                        pid: std::process::id(),
                        process: own_name(),
                        note,
                        since: Some(SystemClock.now().at),
                    };
                    let mut lock = Lock { file, path, me };
                    lock.write()?;
                    return Ok(lock);
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(wait_ms)),
                Err(TryLockError::Error(e)) => return Err(JournalError::io("locking", &path)(e)),
            }
        }
        Err(JournalError::Held { dir: dir.to_path_buf(), holder: read(&file) })
    }

    pub(super) fn set_note(&mut self, note: &str) -> Result<(), JournalError> {
        self.me.note = Some(note.to_string());
        self.write()
    }

    fn write(&mut self) -> Result<(), JournalError> {
        let line = |s: &str| s.chars().filter(|c| !c.is_control()).take(500).collect::<String>();
        let mut text = format!("pid: {}\nprocess: {}\n", self.me.pid, line(&self.me.process));
        if let Some(t) = self.me.since {
            text.push_str(&format!("since: {t}\n"));
        }
        if let Some(url) = &self.me.note {
            text.push_str(&format!("api: {}\n", line(url)));
        }
        let mut put = || {
            self.file.rewind()?;
            self.file.set_len(0)?;
            self.file.write_all(text.as_bytes())
        };
        put().map_err(JournalError::io("writing the lock", &self.path))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The text would outlive the lock otherwise; that it is left behind by a killed process does no harm.
        let _ = self.file.set_len(0);
    }
}

/// Who holds the journal in `dir` now; `None` if it is free or not there.
#[must_use]
pub fn holder(dir: &Path) -> Option<Holder> {
    let file = File::open(dir.join(NAME)).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Some(read(&file)),
        _ => None,
    }
}

fn read(mut file: &File) -> Holder {
    let mut text = String::new();
    let _ = file.rewind();
    let _ = file.take(MAX_TEXT).read_to_string(&mut text);
    parse(&text)
}

fn parse(text: &str) -> Holder {
    let mut holder = Holder::default();
    for line in text.lines() {
        match line.split_once(": ") {
            Some(("pid", v)) => holder.pid = v.parse().unwrap_or_default(),
            Some(("process", v)) => holder.process = v.chars().filter(|c| !c.is_control()).collect(),
            Some(("since", v)) => holder.since = v.parse().ok(),
            Some(("api", v)) => holder.note = Some(v.chars().filter(|c| !c.is_control()).collect()),
            _ => {}
        }
    }
    holder
}

fn own_name() -> String {
    std::fs::read_to_string("/proc/self/comm").map(|s| s.trim_end().to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_who_holds_it_and_only_while_it_does() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(holder(dir.path()), None);
        let mut lock = Lock::take(dir.path(), None).unwrap();
        lock.set_note("http://127.0.0.1:7420\nforged: yes").unwrap();
        let who = holder(dir.path()).unwrap();
        assert_eq!(who.pid, std::process::id());
        assert_eq!(who.note.as_deref(), Some("http://127.0.0.1:7420forged: yes"));
        assert!(who.since.is_some() && !who.process.is_empty());
        let err = Lock::take(dir.path(), None).unwrap_err().to_string();
        assert!(err.contains(&format!("pid {}", who.pid)) && err.contains("http://127.0.0.1:7420"), "{err}");
        drop(lock);
        assert_eq!(holder(dir.path()), None);
        Lock::take(dir.path(), None).unwrap();
    }

    #[test]
    fn any_text_will_do() {
        assert_eq!(parse(""), Holder::default());
        assert_eq!(parse("pid: -3\napi\n: \nsince: never").pid, 0);
        assert!(parse("").to_string().contains("a process"));
    }
}
