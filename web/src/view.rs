//! What a page says: pure functions from the analyzer's answers to view models, which the templates lay out. No request,
//! no clock, no lock reaches in here; tests call it with reports made by hand.

pub mod ceiling;
pub mod dashboard;
pub mod episode;
pub mod event;
pub mod frame;
pub mod process;
pub mod sources;
pub mod timeline;
pub mod why;

use linchpin_analyzer::data::{Span, Timestamp};
use linchpin_analyzer::report::{Gap, Window};

use crate::markup::{Html, escape, visible};
use crate::words::{self, Shown};

/// The window as a span; the moment 0 twice where nothing was observed.
fn span(window: &Window) -> Span {
    let from = window.from.unwrap_or_default();
    Span::new(from, window.to.unwrap_or(from).max(from))
}

/// "9 Aug 2026, 06:00 to 09:00 UTC, watched for 3 h of 3 h".
fn window_words(window: &Window) -> Html {
    let (Some(from), Some(to)) = (window.from, window.to) else {
        return Html("No window yet: it begins with the first event.".into());
    };
    let whole = to.seconds_since(from).max(0.0);
    let seen = if window.observed_seconds >= whole * 0.9999 {
        format!("watched throughout ({})", words::duration(whole))
    } else {
        format!("watched for {} of {}", words::duration(window.observed_seconds), words::duration(whole))
    };
    Html(format!("{} to {}, {seen}", words::time(from, Shown::Minute), words::time(to, Shown::Minute)))
}

/// A span in which nobody watched, as a table row shows it.
#[derive(Clone, Debug)]
pub struct GapRow {
    /// Its begin.
    pub from: Html,
    /// Its end.
    pub to: Html,
    /// Its length.
    pub length: String,
    /// Why.
    pub reason: String,
}

/// The longest gaps first told, at most this many of them; the rest is counted.
const GAPS_SHOWN: usize = 12;

/// Spans in which nobody watched, as a table shows them.
#[derive(Clone, Debug)]
pub struct Gaps {
    /// The longest of them, in order of time.
    pub rows: Vec<GapRow>,
    /// A sentence on those left out; empty if none.
    pub more: String,
}

fn gap_rows(gaps: &[Gap]) -> Gaps {
    let mut longest: Vec<&Gap> = gaps.iter().collect();
    longest.sort_by_key(|g| std::cmp::Reverse(Span::new(g.from, g.to).ns()));
    longest.truncate(GAPS_SHOWN);
    longest.sort_by_key(|g| g.from);
    let left = gaps.len().saturating_sub(GAPS_SHOWN);
    let rows = longest
        .iter()
        .map(|g| GapRow {
            from: words::time(g.from, Shown::Second),
            to: words::time(g.to, Shown::Second),
            length: words::duration(Span::new(g.from, g.to).seconds()),
            reason: if g.reason.is_empty() {
                "cut off without a word".into()
            } else {
                visible(&g.reason, 200)
            },
        })
        .collect();
    let more = match left {
        0 => String::new(),
        n => format!(
            "The longest are shown; {} stand in the JSON.",
            words::plural(n as u64, "shorter one", "shorter ones")
        ),
    };
    Gaps { rows, more }
}

/// An interval: `11.5 – 20.8`, `99.396 – 99.614 %`.
fn interval(ci: Option<[f64; 2]>, word: impl Fn(f64) -> String) -> String {
    ci.map_or(String::new(), |[lo, hi]| {
        let (lo, hi) = (word(lo), word(hi));
        // One sign of per cent serves both.
        let lo = if hi.ends_with('%') { lo.trim_end_matches(['%', '\u{a0}']) } else { &lo };
        format!("{lo}\u{2009}–\u{2009}{hi}")
    })
}

/// How the state of a process is told.
fn state_word(state: &str) -> (&'static str, String) {
    match state {
        "up" => ("up", "up".into()),
        "down" => ("down", "down".into()),
        "stopped" => ("gone", "stopped".into()),
        "gone" => ("gone", "gone".into()),
        "unknown" | "" => ("unknown", "unknown".into()),
        other => ("unknown", visible(other, 20)),
    }
}

/// A sentence for a title or description, escaped.
fn strong(text: &str) -> String {
    format!("<strong><bdi>{}</bdi></strong>", escape(text))
}

/// Seconds from a moment to now, never negative.
fn since(now: Timestamp, t: Timestamp) -> f64 {
    now.seconds_since(t).max(0.0)
}
