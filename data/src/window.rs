//! Half-open spans of time and sets of them: observed windows, downtime, and their measure. Pure arithmetic in
//! nanoseconds; what a span means is the caller's.

use crate::time::{NS, Timestamp};

/// A half-open span `[from, to)`. Empty when `to <= from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// First moment inside.
    pub from: Timestamp,
    /// First moment after.
    pub to: Timestamp,
}

impl Span {
    /// A span from `from` to `to`.
    #[must_use]
    pub const fn new(from: Timestamp, to: Timestamp) -> Self {
        Span { from, to }
    }

    /// Whether nothing lies inside.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.to <= self.from
    }

    /// Whether `t` lies inside.
    #[must_use]
    pub fn contains(self, t: Timestamp) -> bool {
        self.from <= t && t < self.to
    }

    /// Its length in nanoseconds, 0 if empty.
    #[must_use]
    pub fn ns(self) -> i128 {
        (i128::from(self.to.0) - i128::from(self.from.0)).max(0)
    }

    /// Its length in seconds, 0 if empty.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.ns() as f64 / NS as f64
    }

    /// What both cover.
    #[must_use]
    pub fn and(self, other: Span) -> Span {
        Span::new(self.from.max(other.from), self.to.min(other.to))
    }
}

/// A set of moments as sorted, disjoint, non-empty, non-touching spans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Windows(Vec<Span>);

impl Windows {
    /// The set of nothing.
    #[must_use]
    pub const fn new() -> Self {
        Windows(Vec::new())
    }

    /// The union of any spans, in any order, overlapping or not.
    #[must_use]
    pub fn from_spans(spans: impl IntoIterator<Item = Span>) -> Self {
        let mut spans: Vec<Span> = spans.into_iter().filter(|s| !s.is_empty()).collect();
        spans.sort_unstable();
        let mut out: Vec<Span> = Vec::with_capacity(spans.len());
        for s in spans {
            match out.last_mut() {
                Some(last) if s.from <= last.to => last.to = last.to.max(s.to),
                _ => out.push(s),
            }
        }
        Windows(out)
    }

    /// The spans, sorted and disjoint.
    #[must_use]
    pub fn spans(&self) -> &[Span] {
        &self.0
    }

    /// Whether it holds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `t` is inside.
    #[must_use]
    pub fn contains(&self, t: Timestamp) -> bool {
        let i = self.0.partition_point(|s| s.to <= t);
        self.0.get(i).is_some_and(|s| s.contains(t))
    }

    /// Total length in nanoseconds.
    #[must_use]
    pub fn ns(&self) -> i128 {
        self.0.iter().map(|s| s.ns()).sum()
    }

    /// Total length in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.ns() as f64 / NS as f64
    }

    /// What lies in this set and within `span`.
    #[must_use]
    pub fn clip(&self, span: Span) -> Windows {
        let first = self.0.partition_point(|s| s.to <= span.from);
        Windows(
            self.0[first..]
                .iter()
                .take_while(|s| s.from < span.to)
                .map(|s| s.and(span))
                .filter(|s| !s.is_empty())
                .collect(),
        )
    }

    /// What lies in both sets.
    #[must_use]
    pub fn and(&self, other: &Windows) -> Windows {
        let (mut i, mut j) = (0, 0);
        let mut out = Vec::new();
        while let (Some(a), Some(b)) = (self.0.get(i), other.0.get(j)) {
            let both = a.and(*b);
            if !both.is_empty() {
                out.push(both);
            }
            if a.to <= b.to { i += 1 } else { j += 1 }
        }
        Windows(out)
    }

    /// What lies in either set.
    #[must_use]
    pub fn or(&self, other: &Windows) -> Windows {
        Windows::from_spans(self.0.iter().chain(&other.0).copied())
    }

    /// What of `span` this set does not cover: its gaps.
    #[must_use]
    pub fn gaps(&self, span: Span) -> Windows {
        let mut out = Vec::new();
        let mut from = span.from;
        for s in self.clip(span).0 {
            if from < s.from {
                out.push(Span::new(from, s.from));
            }
            from = s.to;
        }
        if from < span.to {
            out.push(Span::new(from, span.to));
        }
        Windows(out)
    }

    /// From the first moment inside to the end of the last span; `None` when empty.
    #[must_use]
    pub fn hull(&self) -> Option<Span> {
        Some(Span::new(self.0.first()?.from, self.0.last()?.to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spans() -> impl Strategy<Value = Vec<(i8, i8)>> {
        prop::collection::vec((any::<i8>(), any::<i8>()), 0..12)
    }

    fn set(v: &[(i8, i8)]) -> Windows {
        Windows::from_spans(
            v.iter().map(|(a, b)| Span::new(Timestamp(i64::from(*a)), Timestamp(i64::from(*b)))),
        )
    }

    proptest! {
        #[test]
        fn agrees_with_counting_moments(a in spans(), b in spans(), s in (any::<i8>(), any::<i8>())) {
            let (wa, wb) = (set(&a), set(&b));
            let span = Span::new(Timestamp(i64::from(s.0)), Timestamp(i64::from(s.1)));
            let member = |v: &[(i8, i8)], t: i64| v.iter().any(|(f, e)| i64::from(*f) <= t && t < i64::from(*e));
            let (mut both, mut either, mut clipped, mut gaps) = (0, 0, 0, 0);
            for t in -130..130 {
                let at = Timestamp(t);
                prop_assert_eq!(wa.contains(at), member(&a, t));
                both += i128::from(member(&a, t) && member(&b, t));
                either += i128::from(member(&a, t) || member(&b, t));
                clipped += i128::from(member(&a, t) && span.contains(at));
                gaps += i128::from(!member(&a, t) && span.contains(at));
            }
            prop_assert_eq!(wa.and(&wb).ns(), both);
            prop_assert_eq!(wa.or(&wb).ns(), either);
            prop_assert_eq!(wa.clip(span).ns(), clipped);
            prop_assert_eq!(wa.gaps(span).ns(), gaps);
            prop_assert_eq!(clipped + gaps, span.ns());
        }
    }
}
