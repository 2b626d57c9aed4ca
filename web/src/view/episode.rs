//! One time down as a row, with the evidence that it rests on.

use linchpin_analyzer::report::{Episode, Evidence};

use crate::markup::{Html, TEXT_MAX, visible};
use crate::svg::{self, Cause};
use crate::words::{self, Shown};

/// One episode.
pub struct EpisodeRow {
    /// Its id, and key.
    pub id: String,
    /// When it went down.
    pub at: Html,
    /// How long, with a sign where it is a bound.
    pub length: String,
    /// How finely that is known.
    pub resolution: String,
    /// Mark of the cause.
    pub mark: Html,
    /// The cause.
    pub cause: String,
    /// Restart or outage, exit code, signal, operator.
    pub besides: String,
    /// What it rests on.
    pub evidence: Vec<EvidenceRow>,
    /// Whether it is open.
    pub open: bool,
}

/// One fact.
pub struct EvidenceRow {
    /// The event's page.
    pub href: String,
    /// Its time.
    pub at: Html,
    /// Who says so.
    pub source: String,
    /// What.
    pub text: String,
}

/// The row of an episode.
pub(super) fn episode(e: &Episode) -> EpisodeRow {
    let mut besides =
        vec![if e.sort == "outage" { "outage, the process lived" } else { "restart" }.to_string()];
    if let Some(c) = e.exit_code {
        besides.push(format!("exit code {c}"));
    }
    if let Some(s) = e.signal {
        besides.push(format!("signal {s}"));
    }
    if e.by_operator {
        besides.push("asked for by an operator".into());
    }
    if !e.counted {
        besides.push("does not count".into());
    }
    let length = match (e.open, e.lower_bound) {
        (true, _) => format!("{} and counting", words::duration(e.seconds)),
        (false, true) => format!("≥\u{2009}{}", words::duration(e.seconds)),
        (false, false) => words::duration(e.seconds),
    };
    EpisodeRow {
        id: e.id.to_string(),
        at: words::time(e.down_at, Shown::Milli),
        length,
        resolution: match (e.lower_bound, e.resolution_ms) {
            (true, _) => "a lower bound: readiness was not seen".into(),
            (false, Some(ms)) if ms > 0.0 => format!("known to {}", words::duration(ms / 1000.0)),
            _ => String::new(),
        },
        mark: svg::mark(Cause::of(&e.cause)),
        cause: visible(&e.cause, 60),
        besides: besides.join(", "),
        evidence: e.evidence.iter().take(50).map(evidence).collect(),
        open: e.open,
    }
}

pub(super) fn evidence(e: &Evidence) -> EvidenceRow {
    EvidenceRow {
        href: format!("/event/{}", e.event),
        at: words::time(e.at, Shown::Milli),
        source: visible(&e.source, 60),
        text: visible(&e.text, TEXT_MAX),
    }
}
