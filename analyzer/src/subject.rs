//! Everything known of one subject: its facts, sorted on the host's axis and without repeats, and the times down derived
//! from them as they come. Whatever the order in which facts are told, the state is that of their sorted list.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use linchpin_data::time::NS;
use linchpin_data::{Span, Timestamp};

use crate::ceiling;
use crate::episode::Episodes;
use crate::fact::{Description, Fact, TWICE_NS, What};
use crate::report::Memory;
use crate::timeline::{Moment, Timeline};

/// A sample of memory, and where it stands.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Its moment.
    pub moment: Moment,
    /// What was read.
    pub memory: Memory,
}

/// The last sample of each boot, so that the last of all is known however the axis moves; and of each slot of wall-clock time
/// what was used most, and of swap also least.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    last: Vec<Sample>,
    slots: BTreeMap<i64, Extremes>,
}

/// The extremes of one slot of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extremes {
    /// The most in use, bytes.
    pub peak: Option<u64>,
    /// Swap in use, bytes: least and most.
    pub swap: Option<[u64; 2]>,
}

impl Extremes {
    fn take(&mut self, o: Extremes) {
        self.peak = self.peak.max(o.peak);
        self.swap = match (self.swap, o.swap) {
            (Some(a), Some(b)) => Some([a[0].min(b[0]), a[1].max(b[1])]),
            (a, b) => a.or(b),
        };
    }
}

/// Six hours, for containers: 30 days of them are 120 slots.
pub const SLOT_NS: i64 = 6 * 3600 * NS;
/// The most slots kept of one series: the latest.
const MOST_SLOTS: usize = 1_000;

impl Samples {
    /// Takes a sample in, by slots of `slot_ns` nanoseconds (the same for the whole series).
    pub fn note(&mut self, sample: Sample, slot_ns: i64) {
        let m = sample.memory;
        let slot = self.slots.entry(m.at.0.div_euclid(slot_ns)).or_default();
        slot.take(Extremes { peak: m.current_bytes, swap: m.swap_bytes.map(|s| [s, s]) });
        if self.slots.len() > MOST_SLOTS {
            self.slots.pop_first();
        }
        let key = |s: &Sample| {
            let m = s.memory;
            (s.moment.boot_ns, s.moment.at, m.current_bytes, m.limit_bytes, m.swap_bytes)
        };
        match self.last.iter_mut().find(|s| s.moment.boot == sample.moment.boot) {
            Some(last) if key(last) < key(&sample) => *last = sample,
            Some(_) => {}
            None => self.last.push(sample),
        }
    }

    /// The extremes of the slots that a span of wall-clock time touches.
    #[must_use]
    pub fn extremes(&self, span: Span, slot_ns: i64) -> Extremes {
        let mut all = Extremes::default();
        let (from, to) = (span.from.0.div_euclid(slot_ns), span.to.0.div_euclid(slot_ns));
        for (_, e) in self.slots.range(from..=to.max(from)) {
            all.take(*e);
        }
        all
    }

    /// The last of all.
    #[must_use]
    pub fn last(&self, timeline: &Timeline) -> Option<Memory> {
        self.last.iter().max_by_key(|s| (timeline.axis(s.moment), s.moment.at)).map(|s| s.memory)
    }
}

/// One subject.
#[derive(Debug, Default)]
pub struct Subject {
    facts: Vec<Fact>,
    episodes: Episodes,
    /// Samples of its memory.
    pub samples: Samples,
    drawn: Mutex<Option<(u64, [f64; 2])>>,
}

/// What is known about a subject, each field as told last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latest {
    /// What it is a replica of.
    pub service: Option<String>,
    /// Image reference.
    pub image: Option<String>,
    /// Hostnames served through it.
    pub hostnames: Vec<String>,
    /// The runtime's restart counter.
    pub restart_count: Option<u64>,
    /// Memory limit, bytes.
    pub memory_limit: Option<u64>,
}

impl Subject {
    /// The facts, sorted.
    #[must_use]
    pub fn facts(&self) -> &[Fact] {
        &self.facts
    }

    /// The fact at a place; places come from [`Subject::episodes`].
    #[must_use]
    pub fn fact(&self, i: usize) -> Option<&Fact> {
        self.facts.get(i)
    }

    /// Where a fact stands on the axis.
    #[must_use]
    pub fn axis(&self, i: usize) -> Timestamp {
        self.facts.get(i).map_or(Timestamp::MIN, |f| f.axis)
    }

    /// What was derived from them.
    #[must_use]
    pub fn episodes(&self) -> &Episodes {
        &self.episodes
    }

    /// Takes a fact in, unless it is known.
    pub fn insert(&mut self, fact: Fact) {
        let mut from = usize::MAX;
        if let Some(i) = self.twin(&fact) {
            if !fact.better_than(&self.facts[i]) {
                return;
            }
            self.facts.remove(i);
            from = i;
        }
        let place = match self.facts.last() {
            Some(last) if *last > fact => self.facts.partition_point(|f| *f < fact),
            _ => self.facts.len(),
        };
        self.facts.insert(place, fact);
        self.episodes.set_back(from.min(place));
        self.episodes.advance(&self.facts);
    }

    /// The same fact, told before.
    fn twin(&self, fact: &Fact) -> Option<usize> {
        let near = self.facts.partition_point(|f| f.axis.0 < fact.axis.0.saturating_sub(TWICE_NS));
        let upto = fact.axis.0.saturating_add(TWICE_NS);
        let span = self.facts.get(near..)?.iter().take_while(|f| f.axis.0 <= upto);
        span.enumerate().find(|(_, f)| f.same(fact)).map(|(i, _)| near + i)
    }

    /// Places every fact anew after the axis of a boot has moved.
    pub fn replace(&mut self, timeline: &Timeline) {
        let mut facts = std::mem::take(&mut self.facts);
        for f in &mut facts {
            f.axis = timeline.axis(f.moment);
        }
        facts.sort_unstable();
        self.episodes = Episodes::default();
        // One by one: what had been too far apart to be the same may be so no more.
        for f in facts {
            self.insert(f);
        }
    }

    /// Whether anything tells that it ran: a container that was only made is no process yet.
    #[must_use]
    pub fn is_process(&self) -> bool {
        !self.episodes.expected().is_empty() || self.facts.iter().any(|f| matches!(f.what, What::Oom(_)))
    }

    /// Each described fact, newest first.
    pub fn descriptions(&self) -> impl Iterator<Item = &Arc<Description>> {
        self.facts.iter().rev().filter_map(|f| match &f.what {
            What::Described(d) => Some(d),
            _ => None,
        })
    }

    /// What is known about it.
    #[must_use]
    pub fn latest(&self) -> Latest {
        let mut l = Latest::default();
        let mut hostnames = None;
        for d in self.descriptions() {
            l.service = l.service.or_else(|| d.service.clone());
            l.image = l.image.or_else(|| d.image.clone());
            l.memory_limit = l.memory_limit.or(d.memory_limit);
            hostnames = hostnames.or_else(|| d.hostnames.clone());
            if l.service.is_some() && l.image.is_some() && l.memory_limit.is_some() && hostnames.is_some() {
                break;
            }
        }
        l.hostnames = hostnames.unwrap_or_default();
        l.restart_count = self.facts.iter().rev().find_map(|f| match &f.what {
            What::Started { restart_count, .. } => *restart_count,
            What::Described(d) => d.restart_count,
            _ => None,
        });
        l
    }

    /// [`ceiling::downtime_quantiles`], remembered: a page asks for the same history again and again, as time goes on.
    #[must_use]
    pub fn downtime_quantiles(&self, durations: &[f64]) -> [f64; 2] {
        let key = durations.iter().fold(durations.len() as u64, |h, d| {
            (h ^ d.to_bits()).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
        });
        let mut drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        match *drawn {
            Some((k, q)) if k == key => q,
            _ => drawn.insert((key, ceiling::downtime_quantiles(durations))).1,
        }
    }
}
