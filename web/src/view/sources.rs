//! What was seen and what was not: each source's coverage, what the observers could not read, what to grant.

use askama::Template;
use linchpin_analyzer::report::Report;
use serde_json::Value;

use super::frame::Frame;
use super::{Gaps, gap_rows, span, window_words};
use crate::markup::{self, Html, TEXT_MAX, visible};
use crate::svg::{self, Strip};
use crate::words::{self, Shown};

/// The sources' page.
#[derive(Template)]
#[template(path = "sources.html")]
pub struct Sources {
    /// What stands around.
    pub frame: Frame,
    /// The verdict.
    pub headline: String,
    /// `bad`, `good` or `unknown`.
    pub tone: &'static str,
    /// What the figures hold for.
    pub window: Html,
    /// The time axis below the strips.
    pub axis: Html,
    /// Coverage, one a source.
    pub strips: Vec<StripRow>,
    /// The doctor's word on each source.
    pub sights: Vec<SightRow>,
    /// What could not be read.
    pub issues: Vec<IssueRow>,
    /// The hosts.
    pub hosts: Vec<HostRow>,
    /// Kinds passed over, with how many.
    pub unknown: Vec<(String, String)>,
}

/// One source's coverage.
pub struct StripRow {
    /// Its name.
    pub source: Html,
    /// The host.
    pub host: Html,
    /// What it sees.
    pub detail: String,
    /// Whether it watches.
    pub watching: bool,
    /// The picture.
    pub svg: Html,
    /// Share of the window watched.
    pub share: String,
    /// Spans without.
    pub gaps: Gaps,
}

/// What the doctor says of a source.
pub struct SightRow {
    /// Its name.
    pub source: String,
    /// What it is for.
    pub sees: String,
    /// `works`, `limited`, `blind`, `unknown`.
    pub status: &'static str,
    /// What is seen.
    pub detail: String,
    /// What is not.
    pub missing: String,
    /// What grants it.
    pub grant: String,
}

/// One sort of trouble.
pub struct IssueRow {
    /// The source.
    pub source: Html,
    /// The sort.
    pub what: String,
    /// How many.
    pub count: String,
    /// When last.
    pub last: Html,
    /// What was tried, and what to do.
    pub detail: String,
    /// One of them.
    pub sample: String,
}

/// One host.
pub struct HostRow {
    /// Its name.
    pub host: Html,
    /// What it is, in facts.
    pub facts: Vec<(&'static str, String)>,
}

/// The page, from the report and the doctor's list.
#[must_use]
pub fn sources(report: &Report, doctor: &Value, frame: Frame) -> Sources {
    let sights: Vec<SightRow> =
        doctor.as_array().map_or(Vec::new(), |list| list.iter().take(100).map(sight).collect());
    let (headline, tone) = headline(report, &sights);
    Sources {
        frame,
        headline,
        tone,
        window: window_words(&report.window),
        axis: svg::axis(span(&report.window)),
        strips: report.sources.iter().take(200).map(|c| strip(report, c)).collect(),
        sights,
        issues: report.issues.iter().take(200).map(issue).collect(),
        hosts: report.hosts.iter().take(200).map(host).collect(),
        unknown: report
            .unknown_kinds
            .iter()
            .take(50)
            .map(|(k, n)| (visible(k, 60), words::count(*n)))
            .collect(),
    }
}

fn headline(report: &Report, sights: &[SightRow]) -> (String, &'static str) {
    let blind: Vec<&str> = sights.iter().filter(|s| s.status == "blind").map(|s| s.source.as_str()).collect();
    let limited: Vec<&str> =
        sights.iter().filter(|s| s.status == "limited").map(|s| s.source.as_str()).collect();
    let silent = report.sources.iter().filter(|c| !c.watching).count();
    if !blind.is_empty() {
        let verb = if blind.len() == 1 { "sees" } else { "see" };
        return (format!("{} {verb} nothing on this host; below stands what to grant.", list(&blind)), "bad");
    }
    if !limited.is_empty() {
        let verb = if limited.len() == 1 { "sees" } else { "see" };
        return (format!("{} {verb} only a part; below stands what to grant.", list(&limited)), "unknown");
    }
    match (report.sources.len(), silent) {
        (0, _) => ("No source has begun to watch yet.".into(), "unknown"),
        (n, 0) => (format!("All {} watch.", words::plural(n as u64, "source", "sources")), "good"),
        (n, s) if n == s => ("No source watches at the end of this window.".into(), "unknown"),
        (n, s) => {
            (format!("{s} of {} no longer watch.", words::plural(n as u64, "source", "sources")), "unknown")
        }
    }
}

fn list(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_string(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

fn strip(report: &Report, c: &linchpin_analyzer::report::Coverage) -> StripRow {
    let window = span(&report.window);
    let gaps = gap_rows(&c.gaps);
    let whole = window.seconds();
    StripRow {
        source: markup::name(&c.source),
        host: markup::name(&c.host),
        detail: visible(&c.detail, 300),
        watching: c.watching,
        svg: svg::coverage(&visible(&c.source, 60), &Strip { window, watched: c.watched.clone() }),
        share: if whole > 0.0 {
            let share = (c.watched_seconds / whole).clamp(0.0, 1.0);
            if share > 0.9999 {
                "all of it".into()
            } else {
                format!("{:.1}\u{a0}%", (share * 1000.0).floor() / 10.0)
            }
        } else {
            "unknown".into()
        },
        gaps,
    }
}

fn sight(v: &Value) -> SightRow {
    let text = |v: &Value, key: &str| {
        v.get(key).and_then(Value::as_str).map_or(String::new(), |s| visible(s, TEXT_MAX))
    };
    let sight = v.get("sight").unwrap_or(&Value::Null);
    SightRow {
        source: text(v, "source"),
        sees: text(v, "sees"),
        status: match sight.get("status").and_then(Value::as_str) {
            Some("works") => "works",
            Some("limited") => "limited",
            Some("blind") => "blind",
            _ => "unknown",
        },
        detail: text(sight, "detail"),
        missing: text(sight, "missing"),
        grant: text(sight, "grant"),
    }
}

fn issue(i: &linchpin_analyzer::report::Issue) -> IssueRow {
    IssueRow {
        source: markup::name(&i.source),
        what: visible(&i.what, 60),
        count: words::count(i.count),
        last: words::time(i.last_at, Shown::Second),
        detail: visible(&i.detail, TEXT_MAX),
        sample: visible(&i.sample, 200),
    }
}

fn host(h: &linchpin_analyzer::report::Host) -> HostRow {
    let mut facts = Vec::new();
    let mut put = |name, value: Option<String>| {
        if let Some(v) = value {
            facts.push((name, v));
        }
    };
    put("kernel", h.kernel.as_deref().map(|k| visible(k, 80)));
    put("cgroups", h.cgroup_version.map(|v| format!("v{v}")));
    put("memory", h.memory_total_bytes.map(words::bytes));
    put("swap", h.swap_total_bytes.map(words::bytes));
    put("limits of containers", h.container_limits_bytes.map(words::bytes));
    put("boots seen", Some(words::count(h.boots)));
    HostRow { host: markup::name(&h.host), facts }
}
