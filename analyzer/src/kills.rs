//! Kernel OOM kills: two witnesses (a line in the kernel's log, a counter of the cgroup) of one kill count once, and a kill
//! and the exit it leads to are one death.

use crate::fact::{Kill, What};
use crate::subject::Subject;

/// Two witnesses this close tell of one kill.
const WITNESS_NS: i64 = 2_000_000_000;
/// A kill and the exit it leads to lie this close, either way.
pub const DEATH_NS: i64 = 1_000_000_000;

/// What one witness adds: the kills that no other witness had told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The fact.
    pub fact: usize,
    /// How many kills it adds; 0 for a second witness.
    pub count: u64,
    /// The time down (its place) whose exit it led to.
    pub down: Option<usize>,
}

/// The kills of a subject.
#[derive(Clone, Debug, Default)]
pub struct Kills {
    /// Every witness, in order.
    pub witnesses: Vec<Counted>,
    /// Those that led to an exit, by their time down.
    attached: Vec<(usize, Counted)>,
}

impl Kills {
    /// Counts the kills among a subject's facts.
    #[must_use]
    pub fn of(subject: &Subject) -> Kills {
        let oom = |i: usize| match subject.fact(i).map(|f| &f.what) {
            Some(What::Oom(k)) => Some(k),
            _ => None,
        };
        let all: Vec<(usize, &Kill)> =
            (0..subject.facts().len()).filter_map(|i| oom(i).map(|k| (i, &**k))).collect();
        let mut witnesses: Vec<Counted> = Vec::with_capacity(all.len());
        let near =
            |a: usize, b: usize| subject.axis(a).0.abs_diff(subject.axis(b).0) <= WITNESS_NS.unsigned_abs();
        // The kernel's lines first: each is a kill, but for a pid printed twice.
        let mut lines: Vec<(usize, u64)> = Vec::new();
        for (i, k) in all.iter().filter(|(_, k)| !k.counter) {
            let twice = k.pid.is_some()
                && lines
                    .iter()
                    .rev()
                    .take_while(|(j, _)| near(*i, *j))
                    .any(|(j, _)| oom(*j).is_some_and(|other| other.pid == k.pid));
            let count = if twice { 0 } else { k.count };
            lines.push((*i, count));
            witnesses.push(Counted { fact: *i, count, down: None });
        }
        // Then the counters: what they rose by beyond the lines near them. Each line answers for one counter's rise.
        let mut first = 0;
        for (i, k) in all.iter().filter(|(_, k)| k.counter) {
            let mut rest = k.count;
            while lines.get(first).is_some_and(|(j, _)| j < i && !near(*i, *j)) {
                first += 1;
            }
            for (_, free) in lines.iter_mut().skip(first).take_while(|(j, _)| j < i || near(*i, *j)) {
                let used = rest.min(*free);
                *free -= used;
                rest -= used;
            }
            witnesses.push(Counted { fact: *i, count: rest, down: None });
        }
        witnesses.sort_unstable_by_key(|w| w.fact);
        let mut kills = Kills { witnesses, attached: Vec::new() };
        kills.attach(subject);
        kills
    }

    /// Gives each kill to the nearest exit within reach.
    fn attach(&mut self, subject: &Subject) {
        let exits: Vec<(i64, usize)> = subject
            .episodes()
            .downs()
            .iter()
            .enumerate()
            .filter_map(|(d, down)| Some((subject.axis(down.exit?).0, d)))
            .collect();
        for w in &mut self.witnesses {
            let at = subject.axis(w.fact).0;
            let after = exits.partition_point(|(t, _)| *t < at);
            w.down = [after.checked_sub(1), Some(after)]
                .into_iter()
                .flatten()
                .filter_map(|i| exits.get(i))
                .map(|(t, d)| (t.abs_diff(at), *d))
                .filter(|(lag, _)| *lag <= DEATH_NS.unsigned_abs())
                .min()
                .map(|(_, d)| d);
        }
        self.attached = self.witnesses.iter().filter_map(|w| Some((w.down?, *w))).collect();
        self.attached.sort_by_key(|(d, w)| (*d, w.fact));
    }

    /// The witnesses of the kill that led to a time down.
    pub fn of_down(&self, down: usize) -> impl Iterator<Item = &Counted> {
        let first = self.attached.partition_point(|(d, _)| *d < down);
        self.attached.iter().skip(first).take_while(move |(d, _)| *d == down).map(|(_, w)| w)
    }
}
