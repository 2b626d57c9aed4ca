//! ISO weeks (UTC), the spans that segments cover, and their names.

use chrono::{Datelike, Duration, NaiveDate, Weekday};

use crate::time::{NS, Timestamp};
use crate::window::Span;

const WEEK_NS: i128 = 7 * 86_400 * NS as i128;
/// 1970-01-01 was a Thursday: its week began three days before.
const EPOCH_IN_WEEK_NS: i128 = 3 * 86_400 * NS as i128;

/// An ISO week, counted from the one that holds 1970-01-01.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Week(i32);

impl Week {
    /// The week of a moment.
    pub(super) fn of(t: Timestamp) -> Week {
        let n = (i128::from(t.0) + EPOCH_IN_WEEK_NS).div_euclid(WEEK_NS);
        // A 64-bit count of nanoseconds spans some 30,000 weeks.
        Week(n as i32)
    }

    /// What it covers, cut to what a timestamp can hold.
    pub(super) fn span(self) -> Span {
        let start = |n: i32| {
            let ns = i128::from(n) * WEEK_NS - EPOCH_IN_WEEK_NS;
            Timestamp(ns.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64)
        };
        Span::new(start(self.0), start(self.0 + 1))
    }

    /// Whether a moment lies in it (its end counts as inside for the last week that a timestamp can hold).
    pub(super) fn contains(self, t: Timestamp) -> bool {
        Week::of(t) == self
    }

    /// The week after it; `None` after the last that a timestamp can hold.
    pub(super) fn next(self) -> Option<Week> {
        (self < Week::of(Timestamp::MAX)).then_some(Week(self.0 + 1))
    }

    fn monday(self) -> NaiveDate {
        let epoch = NaiveDate::default() - Duration::days(3);
        epoch + Duration::weeks(i64::from(self.0))
    }

    /// `2026-W32`.
    pub(super) fn name(self) -> String {
        let w = self.monday().iso_week();
        format!("{:04}-W{:02}", w.year(), w.week())
    }

    /// From [`Week::name`].
    pub(super) fn parse(name: &str) -> Option<Week> {
        let (year, week) = name.split_once("-W")?;
        if year.len() != 4 || week.len() != 2 {
            return None;
        }
        let monday = NaiveDate::from_isoywd_opt(year.parse().ok()?, week.parse().ok()?, Weekday::Mon)?;
        let epoch = NaiveDate::default() - Duration::days(3);
        let week = Week(i32::try_from((monday - epoch).num_weeks()).ok()?);
        let held = Week::of(Timestamp::MIN)..=Week::of(Timestamp::MAX);
        (held.contains(&week) && week.name() == name).then_some(week)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_the_calendar_does() {
        for (at, name) in [
            ("2026-08-09T23:59:59.999999999Z", "2026-W32"),
            ("2026-08-10T00:00:00Z", "2026-W33"),
            ("2027-01-01T12:00:00Z", "2026-W53"),
            ("1970-01-01T00:00:00Z", "1970-W01"),
            ("1969-12-28T23:59:59Z", "1969-W52"),
            ("2024-12-30T00:00:00Z", "2025-W01"),
        ] {
            let week = Week::of(at.parse().unwrap());
            assert_eq!(week.name(), name);
            assert_eq!(Week::parse(name), Some(week));
            assert!(week.span().contains(at.parse().unwrap()));
        }
        for t in [Timestamp::MIN, Timestamp::MAX, Timestamp(-1)] {
            let week = Week::of(t);
            assert_eq!(Week::parse(&week.name()), Some(week), "{}", week.name());
        }
        for bad in
            ["2026-W54", "2026-W1", "2026W01", "2026-W32.damaged-1", "+026-W01", "9999-W01", "", "META"]
        {
            assert_eq!(Week::parse(bad), None, "{bad}");
        }
    }
}
