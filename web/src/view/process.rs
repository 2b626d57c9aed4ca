//! The page of one process: why it restarts, what that costs, and what the judgement rests on.

use askama::Template;
use linchpin_analyzer::ProcessDetail;
use linchpin_analyzer::data::Timestamp;
use linchpin_analyzer::report::{Lane, Process};

use super::dashboard::{cost_sentence, standing};
use super::episode::{EpisodeRow, episode};
use super::frame::Frame;
use super::timeline::{LaneRow, lane_rows, spending};
use super::why::{WhyView, why};
use super::{Gaps, gap_rows, interval, since, span, state_word, strong, window_words};
use crate::markup::{self, Html, TEXT_MAX, plain_subject, visible};
use crate::svg::{self, Cause, Ruler};
use crate::words::{self, Shown};

/// Episodes shown at once.
const NEWEST: usize = 15;
/// Episodes on the page, the older of them folded away; more are counted and stand in the JSON.
const EPISODES: usize = 200;

/// The process's page.
#[derive(Template)]
#[template(path = "process.html")]
pub struct ProcessPage {
    /// What stands around.
    pub frame: Frame,
    /// The process.
    pub name: Html,
    /// Its host.
    pub host: Html,
    /// Image, service: what is known of it.
    pub facts: Vec<(&'static str, Html)>,
    /// Class of its state.
    pub state: &'static str,
    /// Its state in a word.
    pub state_word: String,
    /// The verdict.
    pub headline: Html,
    /// `bad`, `good` or `unknown`.
    pub tone: &'static str,
    /// What follows.
    pub follow: Vec<Html>,
    /// Why it restarts.
    pub why: WhyView,
    /// What the figures hold for.
    pub window: Html,
    /// Scale and ruler.
    pub axis: Html,
    /// Ceiling against target.
    pub ruler: Html,
    /// Lanes: its own first.
    pub lanes: Vec<LaneRow>,
    /// How many other processes went down and are not drawn.
    pub lanes_left: usize,
    /// Marks of the causes in the lanes.
    pub legend: Vec<(Html, &'static str)>,
    /// The axis below them.
    pub time_axis: Html,
    /// What was spent and what is left, in words.
    pub budget_words: String,
    /// The budget line.
    pub budget: Html,
    /// Its figures, each with its interval or unit.
    pub figures: Vec<Figure>,
    /// Burn over the usual windows.
    pub burn: Vec<BurnRow>,
    /// Causes with counts.
    pub causes: Vec<(Html, String, String)>,
    /// Its episodes, newest first.
    pub episodes: Vec<EpisodeRow>,
    /// Older ones, folded away.
    pub older: Vec<EpisodeRow>,
    /// How many those are, in words.
    pub older_words: String,
    /// How many more.
    pub episodes_left: usize,
    /// Deaths in it that ended no episode.
    pub other_deaths: Vec<(Html, String, String)>,
    /// Spans in which it could not be seen.
    pub gaps: Gaps,
    /// Reservations.
    pub doubts: Vec<String>,
    /// Hostnames served.
    pub hostnames: Vec<String>,
    /// How many more.
    pub hostnames_left: usize,
    /// The JSON of this page.
    pub json: String,
    /// Events about it.
    pub events: String,
}

/// One figure.
pub struct Figure {
    /// What.
    pub label: &'static str,
    /// How much.
    pub value: String,
    /// Interval, or what it is measured against.
    pub note: String,
    /// Class for its look.
    pub class: &'static str,
}

/// Burn over one window.
pub struct BurnRow {
    /// Its length.
    pub window: String,
    /// Burn rate.
    pub burn: String,
    /// How much of it was observed.
    pub observed: String,
    /// The threshold of the usual pairs over it.
    pub alert: &'static str,
    /// `over`, `within` or `unknown`.
    pub class: &'static str,
}

/// The page, from the detail and the lanes of everything.
#[must_use]
pub fn process(d: &ProcessDetail, lanes: &[Lane], now: Timestamp, frame: Frame, query: &str) -> ProcessPage {
    let p = &d.process;
    let plain = plain_subject(&p.subject);
    let window = span(&d.window);
    let (state, state_word) = state_word(&p.state);
    let (headline, tone) = headline(p, now);
    let gaps = gap_rows(&d.gaps);
    let (lane_rows, lanes_left, legend) = lane_rows(d, lanes, window, query);
    let href = markup::process_href(&p.host, &p.subject).unwrap_or_default();
    let join = if query.is_empty() { "?" } else { "&" };
    ProcessPage {
        frame,
        name: markup::subject(&p.subject),
        host: markup::name(&p.host),
        facts: facts(p),
        state,
        state_word,
        headline,
        tone,
        follow: follow(p),
        why: why(d),
        window: window_words(&d.window),
        axis: svg::ruler_axis(),
        ruler: svg::ruler(
            &plain,
            &Ruler { target: p.budget.target, ceiling: p.ceiling, interval: p.ceiling_ci },
        ),
        lanes: lane_rows,
        lanes_left,
        legend,
        time_axis: svg::axis(window),
        budget_words: budget_words(p),
        budget: svg::budget_line(&plain, &spending(d, window)),
        figures: figures(p),
        burn: p.budget.burn_windows.iter().map(burn_row).collect(),
        causes: p
            .causes
            .iter()
            .map(|(c, n)| (svg::mark(Cause::of(c)), visible(c, 60), words::count(*n)))
            .collect(),
        episodes: d.episodes.iter().take(NEWEST).map(episode).collect(),
        older_words: words::plural(
            d.episodes.len().min(EPISODES).saturating_sub(NEWEST) as u64,
            "older one",
            "older ones",
        ),
        older: d.episodes.iter().take(EPISODES).skip(NEWEST).map(episode).collect(),
        episodes_left: d.episodes.len().saturating_sub(EPISODES),
        other_deaths: d
            .other_deaths
            .iter()
            .take(EPISODES)
            .map(|o| (words::time(o.at, Shown::Milli), o.id.to_string(), visible(&o.text, TEXT_MAX)))
            .collect(),
        gaps,
        doubts: doubts(p),
        hostnames: p.hostnames.iter().take(40).map(|h| visible(h, 100)).collect(),
        hostnames_left: p.hostnames.len().saturating_sub(40),
        json: format!("/api/v1{}{query}", href.replacen("/process/", "/processes/", 1)),
        events: format!("/events{query}{join}subject={}", markup::encode(&p.subject)),
    }
}

fn headline(p: &Process, now: Timestamp) -> (Html, &'static str) {
    let name = strong(&plain_subject(&p.subject));
    let down = if p.state == "down" {
        p.last_down_at.map(|t| format!("has been down for {}", words::duration(since(now, t))))
    } else {
        None
    };
    match (p.budget.burn_rate, down) {
        (Some(b), down) if b > 1.0 => {
            let fast = format!("burns its error budget {} times too fast", words::burn(b));
            (Html(format!("{name} {}{fast}.", down.map_or(String::new(), |d| format!("{d} and ")))), "bad")
        }
        (_, Some(down)) => (Html(format!("{name} {down}.")), "bad"),
        (Some(b), None) if b > 0.0 => (
            Html(format!(
                "{name} spends {}\u{a0}% of what its error budget allows.",
                words::significant(b * 100.0, 2)
            )),
            "good",
        ),
        (Some(_), None) => (Html(format!("{name} was not seen to go down.")), "good"),
        (None, None) => (Html(format!("What was seen of {name} is not enough to judge it.")), "unknown"),
    }
}

fn follow(p: &Process) -> Vec<Html> {
    let mut out = Vec::new();
    if p.restarts + p.outages > 0 {
        out.push(Html(cost_sentence(p)));
    }
    if let Some(days) = p.budget.lasts_days.filter(|d| *d < p.budget.window_days) {
        let unpaged = if p.budget.steady_burn_unpaged {
            " No usual alert fires at this rate: it stays below both pages (14.4 and 6)."
        } else {
            ""
        };
        out.push(Html(format!(
            "At this rate the budget of {} is gone after <strong>{}</strong>.{unpaged}",
            words::days(p.budget.window_days),
            words::duration(days * 86_400.0)
        )));
    }
    let mut causes: Vec<(&String, &u64)> = p.causes.iter().collect();
    causes.sort_by(|a, b| b.1.cmp(a.1));
    let word = |c: &str| markup::escape(&visible(c, 60));
    match causes.as_slice() {
        [] => {}
        [(cause, 1)] => out.push(Html(format!("Its cause: {}.", word(cause)))),
        [(cause, n)] => out.push(Html(format!("All {} have one cause: {}.", words::count(**n), word(cause)))),
        many => {
            let told: Vec<String> =
                many.iter().take(5).map(|(c, n)| format!("{} {}", words::count(**n), word(c))).collect();
            out.push(Html(format!(
                "Causes: {}{}.",
                told.join(", "),
                if many.len() > 5 { ", …" } else { "" }
            )));
        }
    }
    // A trend is told only where its interval leaves no doubt of its direction.
    if let Some(t) = p.trend.filter(|t| t.direction().is_some()) {
        let way = if t.factor_per_hour > 1.0 { "rise" } else { "fall" };
        out.push(Html(format!(
            "Restarts {way}: from {} to {} an hour over the window.",
            words::per_hour(t.from_per_hour),
            words::per_hour(t.to_per_hour)
        )));
    }
    out
}

fn facts(p: &Process) -> Vec<(&'static str, Html)> {
    let mut out = Vec::new();
    let shown = |s: &str| markup::name(s);
    if let Some(s) = &p.service {
        out.push(("replica of", shown(s)));
    }
    if let Some(i) = &p.image {
        out.push(("image", shown(i)));
    }
    if let Some(m) = &p.memory {
        let text = match (m.current_bytes, m.limit_bytes) {
            (Some(c), Some(l)) => format!("{} of {}", words::bytes(c), words::bytes(l)),
            (Some(c), None) => format!("{}, no limit", words::bytes(c)),
            (None, Some(l)) => format!("limit {}", words::bytes(l)),
            (None, None) => "unknown".into(),
        };
        out.push(("memory", Html(format!("{text}, {}", words::time(m.at, Shown::Second)))));
    }
    if let Some(n) = p.runtime_restart_count {
        out.push(("the runtime’s own count", Html(words::count(n))));
    }
    out
}

fn figures(p: &Process) -> Vec<Figure> {
    let unknown = || "unknown".to_string();
    let class = standing(p);
    let mut out = vec![
        Figure {
            label: "Ceiling",
            value: p.ceiling.map_or_else(unknown, words::availability),
            note: match interval(p.ceiling_ci.filter(|[lo, hi]| lo < hi), words::availability) {
                ci if ci.is_empty() => format!("target {}", words::target(p.budget.target)),
                ci => format!("{ci}; target {}", words::target(p.budget.target)),
            },
            class,
        },
        Figure {
            label: "Burn rate",
            value: p.budget.burn_rate.map_or_else(unknown, words::burn),
            note: format!(
                "1 spends {} in {}",
                words::duration(p.budget.allowed_seconds),
                words::days(p.budget.window_days)
            ),
            class,
        },
        Figure { label: "Restarts", value: words::count(p.restarts), note: besides(p), class: "" },
        Figure {
            label: "An hour",
            value: p.restarts_per_hour.map_or_else(unknown, words::per_hour),
            note: interval(p.restarts_per_hour_ci, words::per_hour),
            class: "",
        },
    ];
    if let Some(r) = p.recovery_seconds {
        let sign = if r.lower_bounds > 0 { "≥\u{2009}" } else { "" };
        out.push(Figure {
            label: "Recovery, median",
            value: format!("{sign}{}", words::duration(r.median)),
            note: format!(
                "95 % within {}, longest {}{}",
                words::duration(r.p95),
                words::duration(r.max),
                r.resolution_ms
                    .map_or(String::new(), |m| format!("; known to {}", words::duration(m / 1000.0)))
            ),
            class: "",
        });
    }
    out.push(Figure {
        label: "Downtime",
        value: format!(
            "{}{}",
            if p.downtime_lower_bound { "≥\u{2009}" } else { "" },
            words::duration(p.downtime_seconds)
        ),
        note: format!("of {} observed", words::duration(p.observed_seconds)),
        class: "",
    });
    out
}

fn besides(p: &Process) -> String {
    let mut out = Vec::new();
    if p.operator_restarts > 0 {
        out.push(format!("{} more asked for", words::count(p.operator_restarts)));
    }
    if p.outages > 0 {
        out.push(words::plural(p.outages, "outage", "outages"));
    }
    if p.restarts_missed > 0 {
        out.push(format!("{} unseen", words::count(p.restarts_missed)));
    }
    if p.oom_kills > 0 {
        out.push(words::plural(p.oom_kills, "kernel OOM kill", "kernel OOM kills"));
    }
    out.join(", ")
}

fn budget_words(p: &Process) -> String {
    if p.observed_seconds <= 0.0 {
        return "Nothing was observed: what is left is unknown.".into();
    }
    let spent = p.downtime_seconds / p.budget.allowed_seconds.max(1e-9);
    format!(
        "{}{} of {} for {} were spent in {} of watching: {}.",
        if p.downtime_lower_bound { "At least " } else { "" },
        words::duration(p.downtime_seconds),
        words::duration(p.budget.allowed_seconds),
        words::days(p.budget.window_days),
        words::duration(p.observed_seconds),
        if spent >= 1.0 {
            "nothing is left".into()
        } else {
            format!("{}\u{a0}% is left", words::significant((1.0 - spent) * 100.0, 3))
        }
    )
}

fn burn_row(w: &linchpin_analyzer::report::BurnWindow) -> BurnRow {
    let (limit, alert) = match w.window.as_str() {
        "5m" | "1h" => (14.4, "page at 14.4"),
        "30m" | "6h" => (6.0, "page at 6"),
        "2h" | "1d" => (3.0, "ticket at 3"),
        "3d" => (1.0, "ticket at 1"),
        _ => (f64::INFINITY, ""),
    };
    let window = match w.window.as_str() {
        "5m" => "5 min".into(),
        "30m" => "30 min".into(),
        "1h" => "1 hour".into(),
        "2h" => "2 hours".into(),
        "6h" => "6 hours".into(),
        "1d" => "1 day".into(),
        "3d" => "3 days".into(),
        _ => words::duration(w.seconds),
    };
    BurnRow {
        window,
        burn: w.burn_rate.map_or("unknown".into(), words::burn),
        observed: if w.observed_seconds >= w.seconds * 0.9999 {
            "all of it".into()
        } else {
            words::duration(w.observed_seconds)
        },
        alert,
        class: w.burn_rate.map_or("unknown", |b| if b >= limit { "over" } else { "within" }),
    }
}

fn doubts(p: &Process) -> Vec<String> {
    let mut out = Vec::new();
    if let Some(r) = p.recovery_seconds.filter(|r| r.lower_bounds > 0) {
        out.push(format!(
            "{} of {} recoveries are lower bounds: the start was seen, the moment it accepted work was not. The ceiling can only be lower.",
            words::count(r.lower_bounds),
            words::count(r.episodes)
        ));
    }
    if p.restarts_missed > 0 {
        out.push(format!(
            "{} happened unseen: the runtime’s counter proves them, their length is unknown.",
            words::plural(p.restarts_missed, "restart", "restarts")
        ));
    }
    if p.observed_seconds < p.budget.window_days * 86_400.0 {
        out.push(format!(
            "The rates rest on {} of watching and are carried on over {}; the intervals say how far they may be off.",
            words::duration(p.observed_seconds),
            words::days(p.budget.window_days)
        ));
    }
    out
}
