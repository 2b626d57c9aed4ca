//! Several inputs become one stream in the order of time. Each input need only be nearly sorted: a bounded number of its
//! events wait for earlier ones. The same kill told by two inputs comes out once.

use std::cmp::Ordering;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;

use linchpin_data::{Event, Fact, Timestamp};

use super::{Input, Told};

/// Events of one input that wait for earlier ones.
const WAITING: usize = 4096;
/// Two logs of the same kill may differ by this: syslog writes whole seconds, and late.
const SAME_NS: u64 = 2_000_000_000;
/// Kills and faults that are remembered to know a second telling by.
const REMEMBERED: usize = 4096;

/// An event in a heap whose greatest is the earliest.
#[derive(Debug)]
pub struct Waiting {
    at: Timestamp,
    number: u64,
    event: Event,
}

impl Waiting {
    pub(super) fn new(event: Event, number: u64) -> Self {
        Waiting { at: event.at, number, event }
    }

    pub(super) fn at(&self) -> Timestamp {
        self.at
    }

    pub(super) fn into_event(self) -> Event {
        self.event
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Waiting {}
impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

struct Reading {
    input: Box<dyn Input>,
    told: Told,
    ended: bool,
}

/// The inputs of one import, merged.
#[derive(Default)]
pub struct Merge {
    inputs: Vec<Reading>,
    seen: Seen,
    watching: Watching,
}

impl Merge {
    /// Adds an input.
    pub fn add(&mut self, input: Box<dyn Input>) {
        self.inputs.push(Reading { input, told: Told::default(), ended: false });
    }

    /// The next event in time; none when all inputs have ended.
    ///
    /// # Errors
    /// Those of the readers, with the number of the input.
    pub fn following(&mut self) -> Result<Option<Event>, (usize, io::Error)> {
        loop {
            for (i, r) in self.inputs.iter_mut().enumerate() {
                while !r.ended && r.told.len() < WAITING {
                    r.ended = !r.input.step(&mut r.told).map_err(|e| (i, e))?;
                }
            }
            let first = self.inputs.iter_mut().filter(|r| r.told.len() > 0).min_by_key(|r| r.told.earliest());
            let Some(event) = first.and_then(|r| r.told.pop()) else { return Ok(None) };
            if self.watching.turns(&event) && !self.seen.again(&event) {
                return Ok(Some(event));
            }
        }
    }

    /// Kills and faults that were told again, mostly by another input.
    #[must_use]
    pub fn told_twice(&self) -> u64 {
        self.seen.twice
    }

    /// What became of each input, in the order in which they were added.
    pub fn outcomes(&mut self) -> Vec<super::Outcome> {
        self.inputs.iter_mut().map(|r| r.input.outcome()).collect()
    }
}

/// How many inputs of each source cover the present: where several do, only the first begin and the last end are told.
#[derive(Default)]
struct Watching(HashMap<String, u32>);

impl Watching {
    fn turns(&mut self, event: &Event) -> bool {
        let (source, begins) = match &event.fact {
            Fact::WatchStarted(f) => (&f.source, true),
            Fact::WatchStopped(f) => (&f.source, false),
            _ => return true,
        };
        let count = self.0.entry(source.clone().unwrap_or_default()).or_default();
        let before = *count;
        *count = if begins { before + 1 } else { before.saturating_sub(1) };
        before == 0 || *count == 0
    }
}

/// Kills and faults by pid and process.
#[derive(Default)]
struct Seen {
    last: HashMap<(u64, Arc<str>), Timestamp>,
    order: VecDeque<((u64, Arc<str>), Timestamp)>,
    twice: u64,
}

impl Seen {
    fn again(&mut self, event: &Event) -> bool {
        let (pid, process) = match &event.fact {
            Fact::OomKill(k) => (k.pid, k.process.as_deref()),
            Fact::Segfault(s) => (s.pid, s.process.as_deref()),
            _ => return false,
        };
        let (Some(pid), Some(process)) = (pid, process) else { return false };
        let key = (pid, Arc::from(format!("{} {process}", event.fact.kind())));
        if let Some(last) = self.last.get(&key)
            && event.at.0.abs_diff(last.0) <= SAME_NS
        {
            self.twice += 1;
            return true;
        }
        self.order.push_back((key.clone(), event.at));
        self.last.insert(key, event.at);
        if self.order.len() > REMEMBERED
            && let Some((old, at)) = self.order.pop_front()
            // Unless it was told of again since.
            && self.last.get(&old) == Some(&at)
        {
            self.last.remove(&old);
        }
        false
    }
}
