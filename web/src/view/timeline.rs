//! A process's time down beside that of others, and what it spent of its budget: what the pictures are drawn from.

use linchpin_analyzer::ProcessDetail;
use linchpin_analyzer::data::Span;
use linchpin_analyzer::report::Lane;

use crate::markup::{self, Html, plain_subject};
use crate::svg::{self, BudgetLine, Cause, LanePicture};
use crate::words;

/// Lanes of other processes beside its own.
const OTHERS: usize = 7;

/// One lane.
pub struct LaneRow {
    /// The subject.
    pub name: Html,
    /// Its page.
    pub href: Option<String>,
    /// Whether it is the page's own.
    pub own: bool,
    /// The picture.
    pub svg: Html,
    /// Times down.
    pub count: String,
}

/// The lanes of a process's page, its own first; how many are left out; the legend of their causes.
pub(super) fn lane_rows(
    d: &ProcessDetail,
    lanes: &[Lane],
    window: Span,
    query: &str,
) -> (Vec<LaneRow>, usize, Vec<(Html, &'static str)>) {
    let own = |l: &Lane| l.subject == d.process.subject && l.host == d.process.host;
    let mut shown: Vec<&Lane> = lanes.iter().filter(|l| own(l) || !l.episodes.is_empty()).collect();
    shown.sort_by_key(|l| (!own(l), std::cmp::Reverse(l.episodes.len())));
    let left = shown.len().saturating_sub(OTHERS + 1);
    shown.truncate(OTHERS + 1);
    let mut seen = std::collections::BTreeSet::new();
    let rows = shown
        .into_iter()
        .map(|l| {
            let episodes: Vec<_> = l.episodes.iter().map(|(a, b, c)| (*a, *b, Cause::of(c))).collect();
            seen.extend(episodes.iter().map(|e| e.2));
            let gaps = l.gaps.iter().map(|g| Span::new(g.from, g.to)).collect();
            LaneRow {
                name: markup::subject(&l.subject),
                href: (!own(l))
                    .then(|| markup::process_href(&l.host, &l.subject).map(|h| format!("{h}{query}")))
                    .flatten(),
                own: own(l),
                count: words::count(episodes.len() as u64),
                svg: svg::lane(&plain_subject(&l.subject), &LanePicture { window, episodes, gaps }),
            }
        })
        .collect();
    (rows, left, seen.into_iter().map(|c| (svg::mark(c), c.label())).collect())
}

/// Spending over the window, oldest first. The report's own sum, in which overlaps and unobserved parts are settled, is
/// where the line ends.
pub(super) fn spending(d: &ProcessDetail, window: Span) -> BudgetLine {
    let p = &d.process;
    let mut spent = Vec::new();
    let mut sum = 0.0;
    for e in d.episodes.iter().rev().filter(|e| e.counted) {
        spent.push((e.down_at.seconds_since(window.from).max(0.0), sum));
        sum += e.seconds;
        spent.push((e.down_at.seconds_since(window.from).max(0.0) + e.seconds, sum));
    }
    let scale = if sum > 0.0 { p.downtime_seconds / sum } else { 0.0 };
    BudgetLine {
        allowed_seconds: p.budget.allowed_seconds,
        window_days: p.budget.window_days,
        observed_seconds: p.observed_seconds,
        spent: spent.into_iter().map(|(t, s)| (t, s * scale)).collect(),
        burn_rate: p.budget.burn_rate,
    }
}
