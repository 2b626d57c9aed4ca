//! Which failing lookups are told: those of a name that worked. Resolvers ask for much that is not there (search domains, IPv6
//! addresses of names that have none, names that never were), and none of that is a name that failed. Pure: time is given.
//!
//! A lookup *fails* with NXDOMAIN, SERVFAIL, REFUSED, a timeout, or (where the same kind of record was there before) without
//! data. It *counts* if all of this holds:
//! 1. that kind of record (A, AAAA, SRV) was answered for that name before, to the same client; or the name is that of a
//!    container or one that people named, and no kind of record was ever answered for it; or it is answered later, within ten minutes;
//! 2. no other kind of record was answered for the name by a lookup that was under way at the same time, or within 20 ms of it;
//! 3. no name that is its beginning or continuation by whole labels (`backend` and `backend.example.test`) was answered
//!    by a lookup begun between 50 ms before it and half a second after its end: then a search list did its work;
//! 4. a timeout only: no lookup for the same name and kind that was begun while it was under way was answered: a packet was lost.
//!
//! So it is settled half a second after its end, or as soon as lookups under way that could still excuse it have ended, four
//! seconds at most; what is told bears its own moment. Of a name that goes on failing one event a second is told, with the
//! number of lookups it stands for. Of names that are answered only a keyed hash is remembered, never the name.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::IpAddr;

use super::decode::{Kind, Reply};
use super::matching::{End, Lookup, Matcher};

const MS: u64 = 1_000_000;
/// How long after its end a failing lookup is settled.
const SETTLE: u64 = 500 * MS;
/// The longest that it waits for others that are under way.
const LONGEST: u64 = 4_000 * MS;
/// How close two lookups are begun that belong together though one ended first.
const TOGETHER: u64 = 20 * MS;
/// How much before the failing one a lookup of a search list may have begun (they can run side by side).
const BESIDE: u64 = 50 * MS;
/// At least this long between two events of one name.
const QUIET: u64 = 1_000 * MS;
/// How late a failure may be told with its own moment.
const LATE: u64 = 5_000 * MS;
/// How long a name that failed and never worked is remembered, should it be answered yet.
const HOPE: u64 = 600_000 * MS;
/// How many hashes of names that worked are remembered for a client.
const WORKED: usize = 4096;
/// How many failing names are remembered for a client.
const FAILING: usize = 512;
/// How many failing lookups wait to be settled for a client.
const PENDING: usize = 256;

/// What is told of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// It failed.
    Failure {
        /// The name.
        name: String,
        /// The record type.
        kind: Kind,
        /// `nxdomain`, `servfail`, `refused`, `timeout`, `nodata`.
        outcome: &'static str,
        /// Who was asked.
        resolver: IpAddr,
        /// How long it took, in nanoseconds.
        took: u64,
        /// When (boot time, nanoseconds).
        at: u64,
        /// How many failing lookups this stands for, since the last that was told.
        count: u64,
    },
    /// It is answered again.
    Recovered {
        /// The name.
        name: String,
        /// Who answered.
        resolver: IpAddr,
        /// How long it took, in nanoseconds.
        took: u64,
        /// When (boot time, nanoseconds).
        at: u64,
        /// When the first failing lookup ended (boot time, nanoseconds).
        since: u64,
        /// How many lookups failed.
        failures: u64,
    },
}

#[derive(Debug)]
struct Pending {
    lookup: Lookup,
    outcome: &'static str,
    /// A container's name, or one that people named.
    known: bool,
}

#[derive(Debug)]
struct Failing {
    /// The last one, for the record.
    last: Lookup,
    outcome: &'static str,
    /// Kinds of record that failed.
    kinds: u8,
    since: u64,
    failures: u64,
    told: bool,
    /// Nothing more is told of it before that moment.
    quiet_until: u64,
    untold: u64,
}

/// What is remembered of a name that was answered.
#[derive(Clone, Copy, Debug, Default)]
struct Worked {
    /// Kinds of record that were answered.
    kinds: u8,
    /// Of each kind, when the last lookup that was answered was begun and ended.
    last: [Option<(Kind, u64, u64)>; 3],
    used: u64,
}

/// What is known of one client's names. Lives on over the client's restarts.
#[derive(Debug, Default)]
pub struct Judge {
    hasher: RandomState,
    /// By the hash of the name.
    worked: HashMap<u64, Worked>,
    pending: Vec<Pending>,
    failing: HashMap<String, Failing>,
    failed: u64,
}

/// The word for a failing lookup; none for one that does not fail.
fn outcome(end: End) -> Option<&'static str> {
    Some(match end {
        End::TimedOut => "timeout",
        End::Replied(Reply::NxDomain) => "nxdomain",
        End::Replied(Reply::ServFail) => "servfail",
        End::Replied(Reply::Refused) => "refused",
        End::Replied(Reply::NoData) => "nodata",
        End::Replied(Reply::Records | Reply::Neutral) => return None,
    })
}

/// Whether one name is the other with labels added behind it, as search lists do.
fn of_one_search(a: &str, b: &str) -> bool {
    let (long, short) = if a.len() > b.len() { (a, b) } else { (b, a) };
    long.strip_prefix(short).is_some_and(|rest| rest.starts_with('.'))
}

impl Judge {
    /// Takes in a lookup that has ended. `known`: the name is that of a container, or one that people named.
    pub fn take(&mut self, lookup: Lookup, known: bool) -> Vec<Told> {
        if lookup.kind.bit() == 0 {
            return Vec::new();
        }
        if lookup.end == End::Replied(Reply::Records) {
            return self.good(lookup);
        }
        let Some(outcome) = outcome(lookup.end) else { return Vec::new() };
        if self.excused_by_the_past(&lookup) {
            return Vec::new();
        }
        let mut out = Vec::new();
        if self.pending.len() >= PENDING {
            // The oldest is settled early rather than forgotten.
            let oldest = self.pending.remove(0);
            out.extend(self.conclude(oldest));
        }
        self.pending.push(Pending { lookup, outcome, known });
        out
    }

    /// Rules 2 and 4 for a success that came first.
    fn excused_by_the_past(&self, bad: &Lookup) -> bool {
        let Some(worked) = self.worked.get(&self.hasher.hash_one(&bad.name)) else { return false };
        worked.last.iter().flatten().any(|&(kind, asked, ended)| {
            let beside = kind != bad.kind && side_by_side(asked, ended, bad);
            beside || (kind == bad.kind && bad.end == End::TimedOut && asked >= bad.asked)
        })
    }

    fn good(&mut self, good: Lookup) -> Vec<Told> {
        let hash = self.hasher.hash_one(&good.name);
        self.pending.retain(|p| {
            let bad = &p.lookup;
            let same = bad.name == good.name;
            let beside = same && bad.kind != good.kind && side_by_side(good.asked, good.ended, bad);
            let lost = same
                && bad.kind == good.kind
                && bad.end == End::TimedOut
                && good.asked >= bad.asked
                && good.asked <= bad.ended;
            let begun = good.asked.saturating_add(BESIDE) >= bad.asked
                && good.asked <= bad.ended.saturating_add(SETTLE);
            !(beside || lost || begun && of_one_search(&bad.name, &good.name))
        });
        // What failed before and is not excused, failed: the name works, so it is told now, before it is told to be back.
        let mut out = Vec::new();
        let (mine, rest) =
            std::mem::take(&mut self.pending).into_iter().partition(|p| p.lookup.name == good.name);
        self.pending = rest;
        let mine: Vec<Pending> = mine;
        for pending in mine {
            out.extend(self.conclude(pending));
        }
        self.remember(hash, &good);
        out.extend(self.recover(&good));
        out
    }

    fn remember(&mut self, hash: u64, good: &Lookup) {
        let mut worked = self.worked.get(&hash).copied().unwrap_or_default();
        worked.kinds |= good.kind.bit();
        worked.used = good.ended;
        if let Some(slot) = worked.last.get_mut(good.kind.bit().trailing_zeros() as usize) {
            *slot = Some((good.kind, good.asked, good.ended));
        }
        if self.worked.len() >= WORKED && !self.worked.contains_key(&hash) {
            // The older half goes at once: seldom, and without an order to keep on every answer.
            let mut times: Vec<u64> = self.worked.values().map(|w| w.used).collect();
            let middle = *times.select_nth_unstable(WORKED / 2).1;
            self.worked.retain(|_, w| w.used > middle);
        }
        self.worked.insert(hash, worked);
    }

    /// A name that failed is answered.
    fn recover(&mut self, good: &Lookup) -> Vec<Told> {
        let Some(failing) = self.failing.get(&good.name) else { return Vec::new() };
        // Another kind of record that is answered says nothing of the one that failed, unless that one failed too.
        let stale = good.ended >= failing.last.ended.saturating_add(HOPE);
        if !failing.told && (stale || failing.kinds & good.kind.bit() == 0) {
            self.failing.remove(&good.name);
            return Vec::new();
        }
        let Some(failing) = self.failing.remove(&good.name) else { return Vec::new() };
        let mut out = Vec::new();
        if !failing.told {
            // It was not known to be a name that works, and is: rule 1, last part.
            self.failed += failing.failures;
            if good.ended.saturating_sub(failing.last.ended) <= LATE {
                out.push(failure(&failing.last, failing.outcome, failing.failures));
            }
        }
        out.push(Told::Recovered {
            name: good.name.clone(),
            resolver: good.resolver,
            took: good.ended - good.asked,
            at: good.ended,
            since: failing.since,
            failures: failing.failures,
        });
        out
    }

    /// Tells what has come to be due at `now`. `open` are the questions under way.
    pub fn settle(&mut self, now: u64, open: &Matcher) -> Vec<Told> {
        let mut due = Vec::new();
        let mut waiting = Vec::new();
        for p in std::mem::take(&mut self.pending) {
            let ended = p.lookup.ended;
            let settled = now >= ended.saturating_add(SETTLE)
                && (now >= ended.saturating_add(LONGEST) || !may_be_excused(&p.lookup, open));
            if settled { due.push(p) } else { waiting.push(p) }
        }
        self.pending = waiting;
        self.failing.retain(|_, f| f.told || now < f.last.ended.saturating_add(HOPE));
        due.into_iter().filter_map(|p| self.conclude(p)).collect()
    }

    /// The client has ended: nothing that could excuse it will come. Tells all that waits.
    pub fn end(&mut self) -> Vec<Told> {
        let told = std::mem::take(&mut self.pending).into_iter().filter_map(|p| self.conclude(p)).collect();
        // Its next life's first failure is told at once, however soon it comes.
        for failing in self.failing.values_mut() {
            failing.quiet_until = 0;
        }
        told
    }

    /// Rule 1, and the limit of one event a second.
    fn conclude(&mut self, pending: Pending) -> Option<Told> {
        let Pending { lookup, outcome, known } = pending;
        let (bit, name, ended) = (lookup.kind.bit(), lookup.name.clone(), lookup.ended);
        let worked = self.worked.get(&self.hasher.hash_one(&name)).map_or(0, |w| w.kinds);
        // A record that never was is no loss; nor is one of a kind that this name does not have.
        if worked & bit == 0 && (worked != 0 || outcome == "nodata") {
            return None;
        }
        let counts = worked != 0 || known;
        if self.failing.len() >= FAILING && !self.failing.contains_key(&name) {
            self.make_room();
        }
        let failing = self.failing.entry(name).or_insert_with(|| Failing {
            last: lookup.clone(),
            outcome,
            kinds: 0,
            since: ended,
            failures: 0,
            told: false,
            quiet_until: 0,
            untold: 0,
        });
        failing.kinds |= bit;
        failing.failures += 1;
        failing.untold += 1;
        failing.since = failing.since.min(ended);
        (failing.last, failing.outcome) = (lookup, outcome);
        if !counts {
            return None;
        }
        self.failed += 1;
        if ended < failing.quiet_until {
            return None;
        }
        failing.told = true;
        failing.quiet_until = ended.saturating_add(QUIET);
        let count = std::mem::take(&mut failing.untold);
        Some(failure(&failing.last, outcome, count))
    }

    /// The name that has not failed for the longest time is forgotten, one that was never told of first.
    fn make_room(&mut self) {
        let oldest = self.failing.iter().min_by_key(|(_, f)| (f.told, f.last.ended)).map(|(n, _)| n.clone());
        if let Some(name) = oldest {
            self.failing.remove(&name);
        }
    }

    /// When [`Judge::settle`] has something to do, at the earliest.
    #[must_use]
    pub fn deadline(&self, now: u64) -> Option<u64> {
        let first = self.pending.iter().map(|p| p.lookup.ended.saturating_add(SETTLE)).min()?;
        // What waits for others is looked at again when they have ended; that they end late is found every half second.
        Some(if first > now { first } else { now.saturating_add(SETTLE) })
    }

    /// How many lookups failed that count, since the last time.
    pub fn take_failed(&mut self) -> u64 {
        std::mem::take(&mut self.failed)
    }
}

fn failure(l: &Lookup, outcome: &'static str, count: u64) -> Told {
    let (name, took) = (l.name.clone(), l.ended - l.asked);
    Told::Failure { name, kind: l.kind, outcome, resolver: l.resolver, took, at: l.ended, count }
}

/// Whether a good lookup and a failing one were under way together, or one followed the other at once.
fn side_by_side(asked: u64, ended: u64, bad: &Lookup) -> bool {
    asked <= bad.ended.saturating_add(TOGETHER) && bad.asked <= ended.saturating_add(TOGETHER)
}

/// Whether a question is under way whose answer could excuse the failing one.
fn may_be_excused(bad: &Lookup, open: &Matcher) -> bool {
    open.any_open(|name, kind, asked| {
        let beside = name == bad.name && kind != bad.kind && asked <= bad.ended.saturating_add(TOGETHER);
        let begun = asked.saturating_add(BESIDE) >= bad.asked && asked <= bad.ended.saturating_add(SETTLE);
        beside || begun && of_one_search(name, &bad.name)
    })
}

#[cfg(test)]
mod tests;
