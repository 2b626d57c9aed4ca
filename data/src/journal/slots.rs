//! Which segments there are and which of them are open: opened when needed, few at a time, the least recently used
//! closed, sled's caches together within the cap. Also what happens to a segment that turns out damaged.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::journal::Damage;
use crate::journal::error::JournalError;
use crate::journal::mark::Mark;
use crate::journal::meta::sync_dir;
use crate::journal::rescue::Rescue;
use crate::journal::salvage::{self, COPYING, DAMAGED, DROPPED, FRESH, OPENING, beside};
use crate::journal::segment::{Segment, Trouble};
use crate::journal::week::Week;

/// How many segments are open at once.
const MAX_OPEN: usize = 3;
/// How often an operation is tried while its segment keeps turning out damaged.
const MAX_TRIES: usize = 3;
/// How many appends in a row must go to another week before that one becomes the current one.
const STRAYS: u32 = 64;

/// One week's place.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) week: Week,
    path: PathBuf,
    used: AtomicU64,
    /// Its files were read through in this process.
    verified: AtomicBool,
    /// It was closed after trouble: how many events it holds is not known.
    uncounted: AtomicBool,
    /// Something was appended since the last flush.
    dirty: AtomicBool,
    /// Something that was appended and not flushed may be gone.
    lost: AtomicBool,
    dropped: AtomicBool,
    open: RwLock<Option<(u64, Segment)>>,
}

impl Slot {
    fn read(&self) -> RwLockReadGuard<'_, Option<(u64, Segment)>> {
        self.open.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Option<(u64, Segment)>> {
        self.open.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes it after trouble: what was not flushed may be lost.
    fn abandon(&self, open: &mut Option<(u64, Segment)>) {
        if let Some((_, segment)) = open.take() {
            segment.close();
            self.uncounted.store(true, SeqCst);
            if self.dirty.swap(false, SeqCst) {
                self.lost.store(true, SeqCst);
            }
        }
    }
}

#[derive(Debug, Default)]
struct Known {
    slots: BTreeMap<Week, Arc<Slot>>,
    current: Option<Week>,
    strays: u32,
}

/// All segments of a journal.
#[derive(Debug)]
pub(super) struct Slots {
    dir: PathBuf,
    cache_bytes: u64,
    known: Mutex<Known>,
    /// Held while room is made and a segment opened, so that no two do it at once.
    opening: Mutex<()>,
    ticks: AtomicU64,
    damage: Mutex<Vec<Damage>>,
    rescue: Rescue,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Slots {
    /// Finds the segments in `dir`, and ends what a killed process left half done.
    pub(super) fn find(dir: &Path, cache_bytes: u64) -> Result<Slots, JournalError> {
        recover(dir).map_err(JournalError::io("looking through the journal", dir))?;
        let slots = Slots {
            dir: dir.to_path_buf(),
            cache_bytes,
            known: Mutex::default(),
            opening: Mutex::default(),
            ticks: AtomicU64::new(0),
            damage: Mutex::default(),
            rescue: Rescue::new(),
        };
        let names = names(dir).map_err(JournalError::io("looking through the journal", dir))?;
        for week in names.iter().filter_map(|n| Week::parse(n)) {
            slots.slot(week);
        }
        Ok(slots)
    }

    pub(super) fn damage(&self) -> Vec<Damage> {
        lock(&self.damage).clone()
    }

    /// The segment of a week, which need not be there yet.
    pub(super) fn slot(&self, week: Week) -> Arc<Slot> {
        let make = || {
            Arc::new(Slot {
                week,
                path: self.dir.join(week.name()),
                used: AtomicU64::new(0),
                verified: AtomicBool::new(false),
                uncounted: AtomicBool::new(false),
                dirty: AtomicBool::new(false),
                lost: AtomicBool::new(false),
                dropped: AtomicBool::new(false),
                open: RwLock::new(None),
            })
        };
        lock(&self.known).slots.entry(week).or_insert_with(make).clone()
    }

    /// The first segment of `week` or after it.
    pub(super) fn from(&self, week: Week) -> Option<Arc<Slot>> {
        lock(&self.known).slots.range(week..).next().map(|(_, s)| s.clone())
    }

    /// The segment of exactly this week, if there is one.
    pub(super) fn at(&self, week: Week) -> Option<Arc<Slot>> {
        lock(&self.known).slots.get(&week).cloned()
    }

    /// The greatest run of all events that can be read.
    pub(super) fn last_run(&self) -> u64 {
        self.all().iter().filter_map(|slot| self.with(slot, Segment::last_run).ok()).max().unwrap_or(0)
    }

    fn all(&self) -> Vec<Arc<Slot>> {
        lock(&self.known).slots.values().cloned().collect()
    }

    /// Does something with an open segment. If that shows damage, the segment is set aside, salvaged, and the thing
    /// done again with what is left.
    pub(super) fn with<T>(
        &self,
        slot: &Slot,
        f: impl Fn(&Segment) -> Result<T, Trouble>,
    ) -> Result<T, JournalError> {
        let mut last = String::new();
        for _ in 0..MAX_TRIES {
            slot.used.store(self.ticks.fetch_add(1, SeqCst), SeqCst);
            let (life, trouble) = {
                let open = slot.read();
                match &*open {
                    Some((life, segment)) => match f(segment) {
                        Ok(done) => {
                            let full = segment.is_full().then_some(*life);
                            drop(open);
                            if let Some(life) = full {
                                self.close_if(slot, life);
                            }
                            return Ok(done);
                        }
                        Err(trouble) => (*life, trouble),
                    },
                    None => {
                        drop(open);
                        self.open(slot)?;
                        continue;
                    }
                }
            };
            match trouble {
                Trouble::Outside(e @ JournalError::Format { .. }) => return Err(e),
                Trouble::Outside(e) => {
                    let mut open = slot.write();
                    if open.as_ref().is_some_and(|o| o.0 == life) {
                        slot.abandon(&mut open);
                    }
                    return Err(e);
                }
                Trouble::Damaged(reason) => {
                    let mut open = slot.write();
                    if open.as_ref().is_some_and(|o| o.0 == life) {
                        slot.abandon(&mut open);
                        *open = Some(self.set_aside(slot, &slot.path, &reason)?);
                    }
                    last = reason;
                }
            }
        }
        Err(JournalError::Segment { action: "using the segment", path: slot.path.clone(), detail: last })
    }

    /// As [`Slots::with`], and notes that the segment wants a flush.
    pub(super) fn append(
        &self,
        week: Week,
        f: impl Fn(&Segment) -> Result<(), Trouble>,
        count: u32,
    ) -> Result<(), JournalError> {
        self.note_append(week, count);
        let slot = self.slot(week);
        self.with(&slot, |segment| {
            f(segment)?;
            slot.dirty.store(true, SeqCst);
            Ok(())
        })
    }

    pub(super) fn flush(&self) -> Result<(), JournalError> {
        for slot in self.all() {
            let lost = || {
                JournalError::Segment {
                action: "flushing",
                path: slot.path.clone(),
                detail: "it had to be opened anew, and what was appended since the last flush may be lost: append it again".into(),
            }
            };
            if slot.dirty.swap(false, SeqCst) {
                let done = self.with(&slot, |segment| segment.flush(&self.rescue));
                if done.is_err() {
                    slot.lost.store(true, SeqCst);
                }
                done?;
            }
            if slot.lost.swap(false, SeqCst) {
                return Err(lost());
            }
        }
        Ok(())
    }

    /// Drops the segments, also those set aside, that end at or before `from`.
    pub(super) fn retain(&self, from: crate::Timestamp) -> Result<Vec<String>, JournalError> {
        let mut gone = Vec::new();
        let names = names(&self.dir).map_err(JournalError::io("looking through the journal", &self.dir))?;
        for name in names {
            let base = name.split_once(DAMAGED).map_or(&*name, |(week, _)| week);
            let Some(week) = Week::parse(base).filter(|w| w.span().to <= from) else { continue };
            let path = self.dir.join(&name);
            let removed = if base == name { self.close_for_good(week) } else { None };
            let mut guard = removed.as_ref().map(|slot| slot.write());
            if let (Some(slot), Some(open)) = (&removed, &mut guard) {
                slot.abandon(open);
            }
            let dying = self.dir.join(format!("{name}{DROPPED}"));
            let drop = || {
                salvage::remove(&dying)?;
                fs::rename(&path, &dying)?;
                salvage::remove(&dying)
            };
            drop().map_err(JournalError::io("dropping the segment", &path))?;
            lock(&self.damage).retain(|d| d.set_aside != path);
            gone.push(name);
        }
        if !gone.is_empty() {
            sync_dir(&self.dir).map_err(JournalError::io("dropping segments of", &self.dir))?;
        }
        Ok(gone)
    }

    fn close_for_good(&self, week: Week) -> Option<Arc<Slot>> {
        let slot = lock(&self.known).slots.remove(&week)?;
        slot.dropped.store(true, SeqCst);
        Some(slot)
    }

    /// Closes all.
    pub(super) fn close(&self) {
        for slot in self.all() {
            let mut open = slot.write();
            self.close_slot(&slot, &mut open);
        }
    }

    /// Closes a segment that has read much; its next use opens it anew.
    fn close_if(&self, slot: &Slot, life: u64) {
        let mut open = slot.write();
        if open.as_ref().is_some_and(|o| o.0 == life) {
            self.close_slot(slot, &mut open);
        }
    }

    fn close_slot(&self, slot: &Slot, open: &mut Option<(u64, Segment)>) {
        if let Some((_, segment)) = open.take() {
            if slot.dirty.swap(false, SeqCst) && segment.flush(&self.rescue).is_err() {
                slot.lost.store(true, SeqCst);
            }
            segment.close();
        }
    }

    /// The week that is appended to gets the most of the cache; when another takes over, both are opened anew.
    fn note_append(&self, week: Week, count: u32) {
        let before = {
            let mut known = lock(&self.known);
            match known.current {
                Some(current) if current == week => {
                    known.strays = 0;
                    return;
                }
                Some(current) => {
                    known.strays = known.strays.saturating_add(count);
                    if known.strays < STRAYS {
                        return;
                    }
                    known.strays = 0;
                    known.current = Some(week);
                    Some(current)
                }
                None => {
                    known.current = Some(week);
                    None
                }
            }
        };
        let _one = lock(&self.opening);
        for slot in [before.and_then(|w| self.at(w)), self.at(week)].into_iter().flatten() {
            let mut open = slot.write();
            self.close_slot(&slot, &mut open);
        }
    }

    fn cache_share(&self, week: Week) -> u64 {
        let half = self.cache_bytes / 2;
        if lock(&self.known).current == Some(week) { half } else { half / (MAX_OPEN as u64 - 1) }
    }

    /// Opens a segment, after closing others if there are too many.
    fn open(&self, slot: &Slot) -> Result<(), JournalError> {
        let _one = lock(&self.opening);
        self.make_room(slot);
        let mut open = slot.write();
        if open.is_some() {
            return Ok(());
        }
        if slot.dropped.load(SeqCst) {
            return Err(JournalError::Segment {
                action: "opening the segment",
                path: slot.path.clone(),
                detail: "it was dropped by retention".into(),
            });
        }
        *open = Some(self.open_checked(slot)?);
        Ok(())
    }

    /// The newest places count most: the current week stays, whatever its last use.
    fn make_room(&self, wanted: &Slot) {
        let current = lock(&self.known).current;
        let mut others: Vec<_> =
            self.all().into_iter().filter(|s| s.week != wanted.week && s.read().is_some()).collect();
        others.sort_by_key(|s| (Some(s.week) == current, s.used.load(SeqCst)));
        let surplus = (others.len() + 1).saturating_sub(MAX_OPEN);
        for slot in others.into_iter().take(surplus) {
            let mut open = slot.write();
            self.close_slot(&slot, &mut open);
        }
    }

    fn life(&self, segment: Segment) -> (u64, Segment) {
        (self.ticks.fetch_add(1, SeqCst), segment)
    }

    /// The first time in a process, the segment is read through, with a copy from before kept until it proved whole.
    fn open_checked(&self, slot: &Slot) -> Result<(u64, Segment), JournalError> {
        let share = self.cache_share(slot.week);
        let keep = beside(&slot.path, OPENING);
        let there = slot.path.join("db").exists();
        let first = there && !slot.verified.load(SeqCst);
        let kept = first && self.keep_copy(slot, &keep)?;
        let recount = first || slot.uncounted.load(SeqCst);
        let opened = if recount { open_counted(&slot.path, share) } else { Segment::open(&slot.path, share) };
        match opened {
            Ok(segment) => {
                slot.verified.store(true, SeqCst);
                slot.uncounted.store(false, SeqCst);
                if kept {
                    salvage::remove(&keep).map_err(JournalError::io("removing the copy", &keep))?;
                }
                Ok(self.life(segment))
            }
            Err(Trouble::Damaged(reason)) => {
                self.set_aside(slot, if kept { &keep } else { &slot.path }, &reason)
            }
            Err(Trouble::Outside(e)) => {
                if kept {
                    put_back(&slot.path, &keep).map_err(JournalError::io("putting back", &slot.path))?;
                }
                Err(e)
            }
        }
    }

    /// Copies the segment before the database touches it. A full disk must not keep the journal shut: there it goes
    /// without.
    fn keep_copy(&self, slot: &Slot, keep: &Path) -> Result<bool, JournalError> {
        let copying = beside(&slot.path, COPYING);
        match salvage::copy(&slot.path, keep, &copying) {
            Ok(()) => Ok(true),
            Err(e) if matches!(e.kind(), StorageFull | QuotaExceeded | FileTooLarge) => {
                salvage::remove(&copying).map_err(JournalError::io("removing", &copying))?;
                Ok(false)
            }
            Err(e) => Err(JournalError::io("copying, before it is opened,", &slot.path)(e)),
        }
    }

    /// Salvages the files in `source` (the segment's own, or the copy from before it was opened), sets them aside, and
    /// opens what was salvaged in their place. The segment must be closed.
    fn set_aside(&self, slot: &Slot, source: &Path, reason: &str) -> Result<(u64, Segment), JournalError> {
        let outside = |trouble| match trouble {
            Trouble::Outside(e) => e,
            Trouble::Damaged(detail) => {
                JournalError::Segment { action: "salvaging the segment", path: slot.path.clone(), detail }
            }
        };
        let fresh_path = beside(&slot.path, FRESH);
        salvage::remove(&fresh_path).map_err(JournalError::io("removing", &fresh_path))?;
        let fresh = Segment::open(&fresh_path, self.cache_share(slot.week)).map_err(outside)?;
        let carved =
            salvage::carve(source, slot.week, &fresh).and_then(|n| fresh.flush(&self.rescue).map(|()| n));
        fresh.close();
        let salvaged = carved.map_err(outside)?;
        let acknowledged = Mark::open(source).map_or(0, |m| m.acknowledged());

        let aside = salvage::free_name(&slot.path);
        let swap = || {
            if source != slot.path {
                salvage::remove(&slot.path)?;
            }
            fs::rename(source, &aside)?;
            fs::rename(&fresh_path, &slot.path)?;
            sync_dir(&self.dir)
        };
        swap().map_err(JournalError::io("setting aside the segment", &slot.path))?;
        lock(&self.damage).push(Damage {
            segment: slot.week.name(),
            set_aside: aside,
            span: slot.week.span(),
            salvaged,
            lost: acknowledged.saturating_sub(salvaged),
            reason: reason.to_string(),
        });
        slot.verified.store(true, SeqCst);
        slot.uncounted.store(false, SeqCst);
        Segment::open(&slot.path, self.cache_share(slot.week)).map(|s| self.life(s)).map_err(outside)
    }
}

/// Opens a segment and reads all of it, giving back memory in between.
fn open_counted(path: &Path, cache_bytes: u64) -> Result<Segment, Trouble> {
    let (mut total, mut after) = (0, None);
    loop {
        let segment = Segment::open(path, cache_bytes)?;
        let counted = segment.count(after).and_then(|(count, last)| {
            total += count;
            after = last;
            if last.is_none() { segment.settle(total) } else { Ok(()) }
        });
        match counted {
            Ok(()) if after.is_none() => return Ok(segment),
            Ok(()) => segment.close(),
            Err(trouble) => {
                segment.close();
                return Err(trouble);
            }
        }
    }
}

fn put_back(path: &Path, keep: &Path) -> std::io::Result<()> {
    salvage::remove(path)?;
    fs::rename(keep, path)
}

fn names(dir: &Path) -> std::io::Result<Vec<String>> {
    let mut out = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir()
            && let Ok(name) = entry.file_name().into_string()
        {
            out.push(name);
        }
    }
    out.sort();
    Ok(out)
}

/// A process may have been killed while it opened, salvaged or dropped a segment.
fn recover(dir: &Path) -> std::io::Result<()> {
    let names = names(dir)?;
    let ending = |ending: &'static str| {
        names.iter().filter_map(move |n| n.strip_suffix(ending)).filter(|n| Week::parse(n).is_some())
    };
    for name in names.iter().filter(|n| n.ends_with(DROPPED) || n.ends_with(COPYING)) {
        if Week::parse(name.split('.').next().unwrap_or_default()).is_some() {
            salvage::remove(&dir.join(name))?;
        }
    }
    // The copy is whole, and nothing is appended before it is gone.
    for week in ending(OPENING) {
        put_back(&dir.join(week), &dir.join(format!("{week}{OPENING}")))?;
    }
    for week in ending(FRESH) {
        let (path, fresh) = (dir.join(week), dir.join(format!("{week}{FRESH}")));
        if path.exists() {
            salvage::remove(&fresh)?;
        } else {
            fs::rename(&fresh, &path)?;
        }
    }
    Ok(())
}
