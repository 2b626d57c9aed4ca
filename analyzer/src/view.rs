//! One host as one query sees it: the window on the host's axis, who watched when, and where boots began.

use std::collections::BTreeMap;
use std::sync::Arc;

use linchpin_data::{Span, Timestamp, Windows};

use crate::observed::Watch;
use crate::report::Gap;

/// An existence that begins this soon after a watch began is taken to have been there at its begin: a source describes
/// what it finds one by one.
const FOUND_NS: i64 = 5_000_000_000;

/// One host within one query.
#[derive(Clone, Debug)]
pub struct View {
    /// The window, on the axis.
    pub window: Span,
    /// Up to when anything is known: now, or the last event.
    pub end: Timestamp,
    /// Whether the window ends where knowledge ends, so that what happened at its very end counts too.
    pub closed: bool,
    /// What to take from the axis to get the wall clock of whoever asks, in nanoseconds.
    pub shift: i64,
    /// Who watched when.
    pub watches: BTreeMap<Arc<str>, Watch>,
    /// Where each boot began.
    pub boots: Vec<Timestamp>,
}

impl View {
    /// The source that sees a subject's restarts: the one its name begins with.
    #[must_use]
    pub fn watch(&self, subject: &str) -> Option<&Watch> {
        self.watches.get(source_of(subject))
    }

    /// When a source saw restarts, of whatever subject.
    #[must_use]
    pub fn watched(&self, sees_restarts: impl Fn(&str) -> bool) -> Windows {
        let seen = self.watches.iter().filter(|(s, _)| sees_restarts(s));
        Windows::from_spans(seen.flat_map(|(_, w)| w.windows.spans()).copied())
    }

    /// Whether a moment lies in `observed`, its very end counting where knowledge ends there.
    #[must_use]
    pub fn seen(&self, observed: &Windows, at: Timestamp) -> bool {
        observed.contains(at)
            || (self.closed && at == self.window.to && observed.spans().last().is_some_and(|s| s.to == at))
    }

    /// Whether a moment lies in the window, its very end counting where knowledge ends there.
    #[must_use]
    pub fn inside(&self, at: Timestamp) -> bool {
        self.window.contains(at) || (self.closed && at == self.window.to)
    }

    /// Begin of an existence first heard of at `at`.
    #[must_use]
    pub fn begin(&self, at: Timestamp, watched: &Windows) -> Timestamp {
        let begun = watched.spans().partition_point(|s| s.from <= at).checked_sub(1);
        match begun.and_then(|i| watched.spans().get(i)) {
            Some(s) if at.0.saturating_sub(s.from.0) <= FOUND_NS => s.from,
            _ => at,
        }
    }

    /// A moment of the axis as the asking side's wall clock has it.
    #[must_use]
    pub fn wall(&self, axis: Timestamp) -> Timestamp {
        axis.plus_ns(self.shift.saturating_neg())
    }

    /// The gaps of `watched` within the window, each with the reason of the end before it.
    #[must_use]
    pub fn gaps(&self, watched: &Windows, ends: &[(Timestamp, Box<str>)]) -> Vec<Gap> {
        let reason = |from: Timestamp| {
            let i = ends.partition_point(|(t, _)| *t <= from);
            i.checked_sub(1).and_then(|i| ends.get(i)).map_or("", |(_, r)| r).to_string()
        };
        let gaps = watched.gaps(self.window);
        gaps.spans()
            .iter()
            .map(|g| Gap { from: self.wall(g.from), to: self.wall(g.to), reason: reason(g.from) })
            .collect()
    }
}

/// A name without the runtime it came from: `docker:shop/proxy/1` is `shop/proxy/1`.
#[must_use]
pub fn short(name: &str) -> &str {
    name.split_once(':').map_or(name, |(_, n)| n)
}

/// The part of a subject's name that says which source sees it.
#[must_use]
pub fn source_of(subject: &str) -> &str {
    subject.split_once(':').map_or(subject, |(s, _)| s)
}
