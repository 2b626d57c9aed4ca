//! The journal on disk: what one host saw, appended for years.
//!
//! ```text
//! DIR/LOCK       flocked; who holds it (one process at a time)
//! DIR/META       format of the journal, and how many runs it has seen
//! DIR/2026-W32/  one segment: a sled database with the events whose `at` lies in that ISO week (UTC), and its MARK
//! DIR/2026-W32.damaged-1/  a segment set aside: kept as it was found, until retention drops its week
//! ```
//!
//! Events are keyed by (`at`, `run`, `seq`); what is told twice is kept once. A segment that turns out damaged, however
//! late, is set aside, what can still be read goes into a fresh one, [`Journal::damage`] tells of it, and the journal
//! goes on. Judging what the gap means is for others. [`Writer`] appends from a thread of its own.

mod codec;
mod error;
mod lock;
mod mark;
mod meta;
mod rescue;
mod salvage;
mod scan;
mod segment;
mod slots;
mod week;
mod writer;

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::event::{Event, EventId};
use crate::time::Timestamp;
use crate::window::Span;

pub use error::JournalError;
pub use lock::{Holder, holder};
pub use scan::Scan;
pub use writer::{Writer, WriterStatus};

use lock::Lock;
use slots::Slots;
use week::Week;

/// How a journal is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Cap on the page caches of all open segments together, in bytes. In memory a page takes some three times what it
    /// counts for.
    pub cache_bytes: u64,
    /// The URL of the holder's API, written into the lock for who finds it held.
    pub note: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        // Writing and reading in order gain nothing from more; 16 MiB would cost an idle agent 8 MiB resident.
        Options { cache_bytes: 4 << 20, note: None }
    }
}

/// A segment that was set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Its name, such as `2026-W32`; a fresh segment has it now.
    pub segment: String,
    /// Where the damaged one lies.
    pub set_aside: PathBuf,
    /// What it covered.
    pub span: Span,
    /// Events that could still be read, and are in the fresh segment.
    pub salvaged: u64,
    /// Events that are known to have been durable and are gone; 0 also where none is known.
    pub lost: u64,
    /// What was found.
    pub reason: String,
}

/// An open journal. A cheap handle; the last one closes it.
#[derive(Clone, Debug)]
pub struct Journal(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    dir: PathBuf,
    slots: Slots,
    runs: Mutex<u64>,
    /// Last, so that it is given back only when all else is closed.
    lock: Mutex<Lock>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.slots.close();
    }
}

impl Journal {
    /// Opens the journal in `dir`, which is made (for this user alone) if it is not there. Segments are opened when they
    /// are needed.
    ///
    /// # Errors
    /// Another process holds it; it was written by a newer version; the system refuses.
    pub fn open(dir: &Path, options: Options) -> Result<Journal, JournalError> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(JournalError::io("making the journal's directory", dir))?;
        let lock = Lock::take(dir, options.note)?;
        let said = meta::read(dir)?;
        let slots = Slots::find(dir, options.cache_bytes)?;
        let runs = match said {
            Some(Ok(runs)) => runs,
            other => {
                if other.is_some() {
                    let path = dir.join(meta::NAME);
                    fs::rename(&path, salvage::free_name(&path))
                        .map_err(JournalError::io("setting aside", &path))?;
                }
                let runs = slots.last_run();
                meta::write(dir, runs)?;
                runs
            }
        };
        let shared = Shared { dir: dir.to_path_buf(), slots, runs: Mutex::new(runs), lock: Mutex::new(lock) };
        Ok(Journal(Arc::new(shared)))
    }

    /// Counts another run of the agent, from 1; durable, and never given out again.
    ///
    /// # Errors
    /// The counter cannot be written.
    pub fn begin_run(&self) -> Result<u64, JournalError> {
        let mut runs = self.0.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let next = *runs + 1;
        meta::write(&self.0.dir, next)?;
        *runs = next;
        Ok(next)
    }

    /// Appends events, which carry `run` and `seq`. They can be read at once and are durable after [`Journal::flush`].
    ///
    /// # Errors
    /// [`JournalError::Event`] names one that cannot be kept; then none was appended. After any other error some may
    /// have been: append them all again, that is harmless.
    pub fn append(&self, events: &[Event]) -> Result<(), JournalError> {
        let mut values = Vec::with_capacity(events.len());
        for event in events {
            let id = event.id();
            let value = codec::encode(event).map_err(|why| JournalError::Event { id, why })?;
            values.push((Week::of(id.at), codec::key(id), value));
        }
        values.sort_by_key(|v| v.0);
        for group in values.chunk_by(|a, b| a.0 == b.0) {
            let Some((week, ..)) = group.first() else { continue };
            let count = u32::try_from(group.len()).unwrap_or(u32::MAX);
            let put = |segment: &segment::Segment| {
                segment.insert(group.iter().map(|(_, key, value)| (*key, value.as_slice())))
            };
            self.0.slots.append(*week, put, count)?;
        }
        Ok(())
    }

    /// Makes durable, through to the disk, what was appended before.
    ///
    /// # Errors
    /// What was appended since the last success may be lost: append it again.
    pub fn flush(&self) -> Result<(), JournalError> {
        self.0.slots.flush()
    }

    /// Events with `at` in [`from`, `to`).
    #[must_use]
    pub fn scan(&self, from: Timestamp, to: Timestamp) -> Scan {
        Scan::between(self.0.clone(), from, to)
    }

    /// Events strictly after `cursor`.
    #[must_use]
    pub fn scan_after(&self, cursor: EventId) -> Scan {
        Scan::after(self.0.clone(), cursor)
    }

    /// One event.
    ///
    /// # Errors
    /// Its segment cannot be read.
    pub fn get(&self, id: EventId) -> Result<Option<Event>, JournalError> {
        match self.0.slots.at(Week::of(id.at)) {
            Some(slot) => self.0.slots.with(&slot, |segment| segment.get(id)),
            None => Ok(None),
        }
    }

    /// Drops whole segments, set aside or not, that end at or before `from`; their names.
    ///
    /// # Errors
    /// A folder cannot be removed.
    pub fn retain(&self, from: Timestamp) -> Result<Vec<String>, JournalError> {
        self.0.slots.retain(from)
    }

    /// The segments that were set aside since the journal was opened.
    #[must_use]
    pub fn damage(&self) -> Vec<Damage> {
        self.0.slots.damage()
    }

    /// Writes the URL of the holder's API into the lock, once it listens.
    ///
    /// # Errors
    /// The lock cannot be written.
    pub fn set_note(&self, note: &str) -> Result<(), JournalError> {
        self.0.lock.lock().unwrap_or_else(PoisonError::into_inner).set_note(note)
    }
}
