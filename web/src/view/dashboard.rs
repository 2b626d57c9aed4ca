//! The overview: the verdict, a ruler a process, the figures, how sure, and what was not seen.

use std::cmp::Ordering;

use askama::Template;
use linchpin_analyzer::data::Timestamp;
use linchpin_analyzer::report::{Process, Report};

use super::frame::Frame;
use super::{Gaps, gap_rows, interval, since, state_word, strong, window_words};
use crate::markup::{self, Html, escape, plain_subject};
use crate::svg::{self, Cause, Ruler};
use crate::words::{self, Shown};

/// Rulers in the picture; the table has every process.
const RULERS: usize = 12;
/// Rows in the table; more are counted and stand in the JSON.
const ROWS: usize = 500;

/// The overview's page.
#[derive(Template)]
#[template(path = "dashboard.html")]
pub struct Dashboard {
    /// What stands around.
    pub frame: Frame,
    /// The verdict: a sentence one could say aloud.
    pub headline: Html,
    /// `bad`, `good` or `unknown`, for the look of the headline.
    pub tone: &'static str,
    /// What follows from it.
    pub follow: Vec<Html>,
    /// What the figures hold for.
    pub window: Html,
    /// The scale above the rulers.
    pub axis: Html,
    /// The picture.
    pub rulers: Vec<RulerRow>,
    /// How many processes the picture leaves to the table.
    pub rulers_left: usize,
    /// The target that the picture's mark stands for.
    pub target: String,
    /// The table.
    pub rows: Vec<Row>,
    /// How many processes the table leaves out.
    pub rows_left: usize,
    /// Whether there is more than one host.
    pub hosts: bool,
    /// Reservations: lower bounds, missed restarts, issues.
    pub doubts: Vec<Html>,
    /// Spans in which nobody watched.
    pub gaps: Gaps,
    /// The query of this page's address.
    pub query: String,
}

/// One row of the picture.
pub struct RulerRow {
    /// The process.
    pub name: Html,
    /// Its page.
    pub href: Option<String>,
    /// The ruler.
    pub svg: Html,
    /// The ceiling as text.
    pub ceiling: String,
    /// Class for its standing.
    pub class: &'static str,
}

/// One row of the table.
pub struct Row {
    /// A key that stays the same over refreshes.
    pub key: String,
    /// The process.
    pub name: Html,
    /// Its host.
    pub host: Html,
    /// Its page.
    pub href: Option<String>,
    /// Class of its state.
    pub state: &'static str,
    /// Its state in a word.
    pub state_word: String,
    /// Restarts that count.
    pub restarts: String,
    /// What else befell it: operator restarts, outages.
    pub besides: String,
    /// Restarts an hour.
    pub rate: String,
    /// Its interval.
    pub rate_ci: String,
    /// Median recovery.
    pub median: String,
    /// 95th percentile.
    pub p95: String,
    /// Ceiling.
    pub ceiling: String,
    /// Its interval.
    pub ceiling_ci: String,
    /// Target.
    pub target: String,
    /// Burn rate.
    pub burn: String,
    /// Class for its standing.
    pub class: &'static str,
    /// Hostnames served, as a count.
    pub serves: String,
    /// The first few of them.
    pub hostnames: String,
    /// When last.
    pub last: Option<Html>,
    /// How long ago that is.
    pub last_ago: String,
    /// Marks of the causes seen, most frequent first.
    pub causes: Vec<(Html, String)>,
    /// Deaths over time.
    pub spark: Html,
}

/// What a process costs in the order of the page: its burn rate, times the hostnames that share it.
fn weight(p: &Process) -> f64 {
    p.budget.burn_rate.unwrap_or(0.0) * p.hostnames.len().max(1) as f64
}

fn too_fast(p: &Process) -> bool {
    p.budget.burn_rate.is_some_and(|b| b > 1.0)
}

/// The overview of a report.
#[must_use]
pub fn dashboard(report: &Report, now: Timestamp, frame: Frame, query: String) -> Dashboard {
    let mut order: Vec<&Process> = report.processes.iter().collect();
    order.sort_by(|a, b| {
        (too_fast(b), weight(b)).partial_cmp(&(too_fast(a), weight(a))).unwrap_or(Ordering::Equal)
    });
    let (headline, tone) = headline(report, &order, now);
    let hosts = report.processes.iter().any(|p| Some(&p.host) != report.processes.first().map(|f| &f.host));
    let gaps = gap_rows(&report.window.gaps);
    let pictured = order.iter().filter(|p| p.restarts + p.outages > 0).count().clamp(3, RULERS);
    Dashboard {
        frame,
        headline,
        tone,
        follow: follow(&order, now),
        window: window_words(&report.window),
        axis: svg::ruler_axis(),
        rulers: order.iter().take(pictured).map(|p| ruler_row(p, &query)).collect(),
        rulers_left: order.len().saturating_sub(pictured),
        target: order.first().map_or(String::new(), |p| words::target(p.budget.target)),
        rows: order.iter().take(ROWS).map(|p| row(p, now, &query)).collect(),
        rows_left: order.len().saturating_sub(ROWS),
        hosts,
        doubts: doubts(report),
        gaps,
        query,
    }
}

fn headline(report: &Report, order: &[&Process], now: Timestamp) -> (Html, &'static str) {
    let Some(worst) = order.first() else {
        return (Html("Nothing has been seen yet.".into()), "unknown");
    };
    let name = strong(&plain_subject(&worst.subject));
    let shared = match worst.hostnames.len() {
        0 => String::new(),
        n => format!(", which serves {},", words::plural(n as u64, "hostname", "hostnames")),
    };
    let down: Vec<&&Process> = order.iter().filter(|p| p.state == "down").collect();
    match worst.budget.burn_rate {
        _ if report.window.observed_seconds <= 0.0 => {
            (Html("Nobody watched in this window: nothing can be said of it.".into()), "unknown")
        }
        Some(burn) if burn > 1.0 => {
            let fast = format!("burns its error budget {} times too fast", words::burn(burn));
            let text = match down.iter().find(|p| p.subject == worst.subject && p.host == worst.host) {
                Some(p) => format!("{name}{shared} has been down{} and {fast}.", down_since(p, now)),
                None => format!("{name}{shared} {fast}."),
            };
            (Html(text), "bad")
        }
        _ if !down.is_empty() => {
            let first = strong(&plain_subject(&down[0].subject));
            let more = match down.len() {
                1 => String::new(),
                n => format!(", and {} more {} down", n - 1, if n == 2 { "is" } else { "are" }),
            };
            (Html(format!("{first} has been down{}{more}.", down_since(down[0], now))), "bad")
        }
        Some(burn) if burn > 0.0 => (
            Html(format!(
                "No process burns its error budget too fast. The nearest is {name}, at {} of what is allowed.",
                share(burn)
            )),
            "good",
        ),
        Some(_) => (Html("No process was seen to go down.".into()), "good"),
        None => (Html("What was seen is not enough to judge any process.".into()), "unknown"),
    }
}

fn share(burn: f64) -> String {
    format!("{}\u{a0}%", words::significant(burn * 100.0, 2))
}

fn down_since(p: &Process, now: Timestamp) -> String {
    p.last_down_at.map_or(String::new(), |t| format!(" for {}", words::duration(since(now, t))))
}

fn follow(order: &[&Process], now: Timestamp) -> Vec<Html> {
    let mut out = Vec::new();
    let Some(worst) = order.first().filter(|p| p.budget.burn_rate.is_some_and(|b| b > 1.0)) else {
        return out;
    };
    out.push(Html(cost_sentence(worst)));
    if let Some(days) = worst.budget.lasts_days {
        let unpaged = if worst.budget.steady_burn_unpaged {
            " No usual alert fires at this rate: it stays below both pages (14.4 and 6) and still spends everything."
        } else {
            ""
        };
        out.push(Html(format!(
            "At this rate the budget of {} is gone after <strong>{}</strong>.{unpaged}",
            words::days(worst.budget.window_days),
            words::duration(days * 86_400.0)
        )));
    }
    let down: Vec<String> = order
        .iter()
        .skip(1)
        .filter(|p| p.state == "down")
        .map(|p| format!("{}{}", escape(&plain_subject(&p.subject)), down_since(p, now)))
        .collect();
    if !down.is_empty() {
        let more = if down.len() > 3 { format!(", and {} more", down.len() - 3) } else { String::new() };
        out.push(Html(format!("Down now: {}{more}.", down[..down.len().min(3)].join(", "))));
    }
    let others: Vec<String> = order
        .iter()
        .skip(1)
        .filter_map(|p| p.budget.burn_rate.filter(|b| *b > 1.0).map(|b| (p, b)))
        .map(|(p, b)| format!("{} ({} times)", escape(&plain_subject(&p.subject)), words::burn(b)))
        .collect();
    match others.len() {
        0 => {}
        n if n <= 3 => out.push(Html(format!("Also too fast: {}.", others.join(", ")))),
        n => out.push(Html(format!("Also too fast: {}, and {} more.", others[..3].join(", "), n - 3))),
    }
    out
}

/// "47 restarts of 1.09 s (median) in 3 h hold it at 99.517 % at best: short of 99.9 %."
pub(super) fn cost_sentence(p: &Process) -> String {
    let what = match (p.restarts, p.outages) {
        (0, o) => words::plural(o, "outage", "outages"),
        (r, 0) => words::plural(r, "restart", "restarts"),
        (r, o) => format!(
            "{} and {}",
            words::plural(r, "restart", "restarts"),
            words::plural(o, "outage", "outages")
        ),
    };
    let median =
        p.recovery_seconds.map_or(String::new(), |r| format!(" of {} (median)", words::duration(r.median)));
    let Some(ceiling) = p.ceiling else {
        return format!("{what}{median} were told of; nothing was watched, so no ceiling can be given.");
    };
    let observed = words::duration(p.observed_seconds);
    let (hold, leave) = if p.restarts + p.outages == 1 { ("holds", "leaves") } else { ("hold", "leave") };
    if ceiling < p.budget.target {
        let more = if p.downtime_lower_bound { " or less" } else { "" };
        format!(
            "{what}{median} in {observed} {hold} it at <strong>{}</strong>{more} at best, whatever stands behind it: short of its target of {}.",
            words::availability(ceiling),
            words::target(p.budget.target)
        )
    } else {
        format!(
            "{what}{median} in {observed} {leave} it at {} at best: its target of {} can be reached.",
            words::availability(ceiling),
            words::target(p.budget.target)
        )
    }
}

/// How a process stands to its target: `over`, `within`, `calm` (no downtime at all) or `unknown`.
pub(super) fn standing(p: &Process) -> &'static str {
    match p.ceiling {
        None => "unknown",
        Some(c) if c < p.budget.target => "over",
        // What never went down needs no colour.
        Some(c) if c >= 1.0 => "calm",
        Some(_) => "within",
    }
}

fn link(p: &Process, query: &str) -> Option<String> {
    markup::process_href(&p.host, &p.subject).map(|h| format!("{h}{query}"))
}

fn ruler_row(p: &Process, query: &str) -> RulerRow {
    RulerRow {
        name: markup::subject(&p.subject),
        href: link(p, query),
        svg: svg::ruler(
            &plain_subject(&p.subject),
            &Ruler { target: p.budget.target, ceiling: p.ceiling, interval: p.ceiling_ci },
        ),
        ceiling: p.ceiling.map_or("unknown".into(), words::availability),
        class: standing(p),
    }
}

fn row(p: &Process, now: Timestamp, query: &str) -> Row {
    let (state, state_word) = state_word(&p.state);
    let mut besides = Vec::new();
    if p.outages > 0 {
        besides.push(words::plural(p.outages, "outage", "outages"));
    }
    if p.operator_restarts > 0 {
        besides.push(format!("{} asked for", words::count(p.operator_restarts)));
    }
    if p.restarts_missed > 0 {
        besides.push(format!("{} unseen", words::count(p.restarts_missed)));
    }
    let bound = p.recovery_seconds.is_some_and(|r| r.lower_bounds > 0);
    let recovery = |f: fn(&linchpin_analyzer::report::Recovery) -> f64| {
        p.recovery_seconds.as_ref().map_or("–".to_string(), |r| {
            format!("{}{}", if bound { "≥\u{2009}" } else { "" }, words::duration(f(r)))
        })
    };
    let mut causes: Vec<(&String, &u64)> = p.causes.iter().collect();
    causes.sort_by(|a, b| b.1.cmp(a.1));
    let mut hostnames: Vec<String> = p.hostnames.iter().take(3).map(|h| markup::visible(h, 60)).collect();
    if p.hostnames.len() > 3 {
        hostnames.push("…".into());
    }
    Row {
        key: markup::encode(&markup::visible(&format!("{} {}", p.host, p.subject), 200)),
        name: markup::subject(&p.subject),
        host: markup::name(&p.host),
        href: link(p, query),
        state,
        state_word,
        restarts: words::count(p.restarts),
        besides: besides.join(", "),
        rate: p.restarts_per_hour.map_or("unknown".into(), words::per_hour),
        rate_ci: interval(p.restarts_per_hour_ci, words::per_hour),
        median: recovery(|r| r.median),
        p95: recovery(|r| r.p95),
        ceiling: p.ceiling.map_or("unknown".into(), words::availability),
        ceiling_ci: interval(p.ceiling_ci.filter(|[lo, hi]| lo < hi), words::availability),
        target: words::target(p.budget.target),
        burn: p.budget.burn_rate.map_or("unknown".into(), words::burn),
        class: standing(p),
        serves: if p.hostnames.is_empty() { "–".into() } else { words::count(p.hostnames.len() as u64) },
        hostnames: hostnames.join(", "),
        last: p.last_down_at.map(|t| words::time(t, Shown::Second)),
        last_ago: p.last_down_at.map_or(String::new(), |t| words::ago(since(now, t))),
        causes: causes
            .into_iter()
            .take(4)
            .map(|(c, n)| {
                (svg::mark(Cause::of(c)), format!("{} {}", words::count(*n), markup::visible(c, 40)))
            })
            .collect(),
        spark: svg::sparkline(&plain_subject(&p.subject), &p.sparkline),
    }
}

fn doubts(report: &Report) -> Vec<Html> {
    let mut out = Vec::new();
    if let Some(p) = report.processes.iter().find(|p| p.downtime_lower_bound) {
        out.push(format!(
            "Part of the downtime is a lower bound (of {} among others): a start was seen, but not the moment it accepted work again.",
            escape(&plain_subject(&p.subject))
        ));
    }
    let missed: u64 = report.processes.iter().map(|p| p.restarts_missed).fold(0, u64::saturating_add);
    if missed > 0 {
        out.push(format!("{} happened while nobody watched: the runtime’s own counter proves them, their length is unknown.", words::plural(missed, "restart", "restarts")));
    }
    let issues: u64 = report.issues.iter().map(|i| i.count).fold(0, u64::saturating_add);
    if issues > 0 {
        out.push(format!(
            "The observers could not read or keep everything: <a href=\"/sources\">{} to look at</a>.",
            words::plural(issues, "thing", "things")
        ));
    }
    let unknown: u64 = report.unknown_kinds.values().fold(0, |a, b| a.saturating_add(*b));
    if unknown > 0 {
        out.push(format!(
            "{} of kinds that this version does not know were passed over.",
            words::plural(unknown, "event", "events")
        ));
    }
    if !report.not_computed.is_empty() {
        let parts: Vec<String> =
            report.not_computed.iter().map(|p| escape(&markup::visible(p, 60))).collect();
        out.push(format!(
            "Not computed by this version: {}. Nothing said here speaks about them.",
            parts.join(", ")
        ));
    }
    out.into_iter().map(Html).collect()
}
