//! One segment: a sled database in a folder. Everything of sled stays behind this file, its panics too.
//!
//! What sled 0.34 does that is dealt with here: its flush is no fsync; a damaged page can let it open and then make
//! reads fail for ever; it panics on damaged files; an error while writing leaves it useless until it is opened anew;
//! after a close its file stays locked for a moment; a flush can wait for ever when a write fails beside it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::event::{Event, EventId};
use crate::journal::codec::{self, Key, Unreadable};
use crate::journal::error::JournalError;
use crate::journal::mark::Mark;
use crate::journal::meta::sync_dir;
use crate::journal::rescue::Rescue;

/// The tree that holds the events.
const EVENTS: &str = "events";
/// Size of sled's log segments and of its write buffer. Fixed for ever: sled refuses to open with another.
const LOG_SEGMENT: usize = 256 * 1024;
/// How long a database that was just closed may stay locked, in milliseconds.
const UNLOCK_TRIES: u32 = 2_000;
/// How many values are read before the database is opened anew. sled's cache forgets a page only after thousands of
/// others were touched, whatever its cap; a long read would take many times the memory of the cap. Opening takes time in
/// proportion to the segment, so a large one is read in at most some [`PARTS`] parts.
const READS: u64 = 4_096;
const PARTS: u64 = 16;

/// Why a segment did not do what it was asked.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The files are not what was written.
    Damaged(String),
    /// The system or the request is at fault; the files may be well.
    Outside(JournalError),
}

impl From<JournalError> for Trouble {
    fn from(e: JournalError) -> Self {
        Trouble::Outside(e)
    }
}

/// An open segment.
#[derive(Debug)]
pub(super) struct Segment {
    path: PathBuf,
    db: sled::Db,
    events: sled::Tree,
    /// The database's file, to be fsynced.
    file: File,
    state: Mutex<State>,
    /// Values read since it was opened.
    reads: AtomicU64,
}

#[derive(Debug)]
struct State {
    /// Events held, as far as is known; never more than there are.
    count: u64,
    mark: Mark,
    /// The newest spilled value that was fsynced.
    blob_synced: Option<i64>,
}

impl Segment {
    /// Opens or creates the database in `path`.
    pub(super) fn open(path: &Path, cache_bytes: u64) -> Result<Segment, Trouble> {
        let outside = JournalError::io("opening the segment", path);
        let fresh = !path.exists();
        if let Err(e) = fs::create_dir_all(path) {
            return Err(outside(e).into());
        }
        let config = sled::Config::new()
            .path(path)
            .segment_size(LOG_SEGMENT)
            .cache_capacity(cache_bytes)
            .flush_every_ms(None)
            .mode(sled::Mode::LowSpace);
        let (db, events) = guarded(|| {
            let db = patiently(|| config.open()).map_err(|e| classify(e, "opening the segment", path))?;
            let events = db.open_tree(EVENTS).map_err(|e| classify(e, "opening the segment", path))?;
            Ok((db, events))
        })?;
        let rest = || {
            let file = File::open(path.join("db"))?;
            let mark = Mark::open(path)?;
            file.sync_all()?;
            sync_dir(path)?;
            if fresh && let Some(parent) = path.parent() {
                sync_dir(parent)?;
            }
            Ok((file, mark))
        };
        let (file, mark) = rest().map_err(JournalError::io("opening the segment", path))?;
        // All that an earlier life of it in this process inserted was flushed, and so marked; otherwise it is counted by
        // `verify`.
        let state = State { count: mark.acknowledged(), mark, blob_synced: None };
        Ok(Segment {
            path: path.to_path_buf(),
            db,
            events,
            file,
            state: Mutex::new(state),
            reads: AtomicU64::new(0),
        })
    }

    /// Reads values after a key, each of which must be whole, and counts them: how many, and where to go on; `None` there
    /// after the last.
    pub(super) fn count(&self, after: Option<Key>) -> Result<(u64, Option<Key>), Trouble> {
        let low = after.map_or(Bound::Unbounded, Bound::Excluded);
        let limit = self.reads_at_once();
        let mut count = 0;
        let mut last = None;
        guarded(|| {
            for item in self.events.range::<Key, _>((low, Bound::Unbounded)) {
                let (key, value) = item.map_err(|e| classify(e, "reading", &self.path))?;
                codec::check(&value).map_err(|e| self.unreadable(e))?;
                let key = key.as_ref().try_into();
                last = Some(key.map_err(|_| Trouble::Damaged("a key of a wrong length".into()))?);
                count += 1;
                if count >= limit {
                    return Ok(());
                }
            }
            last = None;
            Ok(())
        })?;
        Ok((count, last))
    }

    /// Takes note of how many events there are.
    ///
    /// # Errors
    /// There are fewer than were acknowledged.
    pub(super) fn settle(&self, count: u64) -> Result<(), Trouble> {
        let mut state = self.lock();
        let acknowledged = state.mark.acknowledged();
        if count < acknowledged {
            let lost = acknowledged - count;
            return Err(Trouble::Damaged(format!(
                "{lost} of {acknowledged} acknowledged events are missing"
            )));
        }
        state.count = count;
        Ok(())
    }

    /// Whether so much was read that it should be closed, to give back memory.
    pub(super) fn is_full(&self) -> bool {
        self.reads.load(Relaxed) >= self.reads_at_once()
    }

    fn reads_at_once(&self) -> u64 {
        READS.max(self.lock().count / PARTS)
    }

    /// Adds values; one that is there already is replaced.
    pub(super) fn insert<'a>(
        &self,
        values: impl IntoIterator<Item = (Key, &'a [u8])>,
    ) -> Result<(), Trouble> {
        let mut new = 0;
        guarded(|| {
            for (key, value) in values {
                let old =
                    self.events.insert(key, value).map_err(|e| classify(e, "writing to", &self.path))?;
                new += u64::from(old.is_none());
            }
            Ok(())
        })?;
        let mut state = self.lock();
        state.count += new;
        Ok(())
    }

    /// Makes durable what was inserted before the call.
    pub(super) fn flush(&self, rescue: &Rescue) -> Result<(), Trouble> {
        let count = self.lock().count;
        {
            let _watched = rescue.watch(&self.db);
            guarded(|| self.db.flush().map_err(|e| classify(e, "flushing", &self.path)))?;
        }
        let io = |e| Trouble::Outside(JournalError::io("fsyncing", &self.path)(e));
        self.sync_blobs().map_err(io)?;
        self.file.sync_data().map_err(io)?;
        // The mark guards against silent loss; that it cannot be written loses nothing.
        let _ = self.lock().mark.set(count);
        Ok(())
    }

    /// Fsyncs the values that sled keeps in files of their own, named by the log position.
    fn sync_blobs(&self) -> io::Result<()> {
        let dir = self.path.join("blobs");
        let mut state = self.lock();
        let mut newest = state.blob_synced;
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            let number = entry.file_name().to_str().and_then(|n| n.parse::<i64>().ok());
            if number > state.blob_synced {
                match File::open(entry.path()).and_then(|f| f.sync_all()) {
                    Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
                    _ => newest = newest.max(number),
                }
            }
        }
        if newest > state.blob_synced {
            sync_dir(&dir)?;
            state.blob_synced = newest;
        }
        Ok(())
    }

    pub(super) fn get(&self, id: EventId) -> Result<Option<Event>, Trouble> {
        // Each get may load a page of sixteen.
        self.reads.fetch_add(16, Relaxed);
        guarded(|| {
            let value = self.events.get(codec::key(id)).map_err(|e| classify(e, "reading", &self.path))?;
            value.map(|v| codec::decode(&v).map_err(|e| self.unreadable(e))).transpose()
        })
    }

    /// The events from `low` to before `high`, at most `limit` of them and about `bytes` of their values.
    pub(super) fn chunk(
        &self,
        low: Bound<Key>,
        high: Bound<Key>,
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<Event>, Trouble> {
        let mut out = Vec::new();
        let mut taken = 0;
        guarded(|| {
            for item in self.events.range::<Key, _>((low, high)) {
                let (_, value) = item.map_err(|e| classify(e, "reading", &self.path))?;
                out.push(codec::decode(&value).map_err(|e| self.unreadable(e))?);
                taken += value.len();
                if out.len() >= limit || taken >= bytes {
                    break;
                }
            }
            Ok(())
        })?;
        self.reads.fetch_add(out.len() as u64, Relaxed);
        Ok(out)
    }

    /// The greatest run of its events.
    pub(super) fn last_run(&self) -> Result<u64, Trouble> {
        let mut runs = BTreeSet::new();
        guarded(|| {
            for key in self.events.iter().keys() {
                let key = key.map_err(|e| classify(e, "reading", &self.path))?;
                runs.insert(codec::id(&key).map_or(0, |id| id.run));
            }
            Ok(())
        })?;
        Ok(runs.last().copied().unwrap_or(0))
    }

    /// Closes it. What was not flushed is written if it can be.
    pub(super) fn close(self) {
        let Segment { db, events, .. } = self;
        // sled flushes as it drops, and panics where that fails: what was not acknowledged may be lost.
        let _ = catch_unwind(AssertUnwindSafe(move || {
            drop(events);
            drop(db);
        }));
    }

    fn unreadable(&self, e: Unreadable) -> Trouble {
        match e {
            Unreadable::Damaged(why) => Trouble::Damaged(why),
            Unreadable::Format(found) => Trouble::Outside(JournalError::Format {
                path: self.path.clone(),
                found: u64::from(found),
                supported: u64::from(codec::VERSION),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tries again while the database's file is still locked by its last life in this process.
fn patiently(open: impl Fn() -> sled::Result<sled::Db>) -> sled::Result<sled::Db> {
    for _ in 0..UNLOCK_TRIES {
        match open() {
            Err(e) if still_locked(&e) => std::thread::sleep(Duration::from_millis(1)),
            other => return other,
        }
    }
    open()
}

fn still_locked(e: &sled::Error) -> bool {
    matches!(e, sled::Error::Io(e) if e.to_string().contains("could not acquire lock"))
}

/// Runs what may panic within sled; a panic there is damage.
fn guarded<T>(f: impl FnOnce() -> Result<T, Trouble>) -> Result<T, Trouble> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("without a word");
        Err(Trouble::Damaged(format!(
            "the database panicked: {}",
            text.chars().take(200).collect::<String>()
        )))
    })
}

fn classify(e: sled::Error, action: &'static str, path: &Path) -> Trouble {
    let damaged = match &e {
        sled::Error::Io(io) => {
            matches!(io.kind(), ErrorKind::UnexpectedEof | ErrorKind::InvalidData | ErrorKind::NotFound)
                || (action == "reading" && io.raw_os_error() == Some(nix::libc::EIO))
        }
        // A worker of sled's has panicked: nothing works in this process any more, whatever the files hold.
        sled::Error::ReportableBug(text) => !text.contains("IO thread"),
        _ => true,
    };
    if damaged {
        return Trouble::Damaged(e.to_string());
    }
    Trouble::Outside(match e {
        sled::Error::Io(source) => JournalError::Io { action, path: path.to_path_buf(), source },
        other => JournalError::Segment { action, path: path.to_path_buf(), detail: other.to_string() },
    })
}
