//! Memory under pressure: what was promised against what there is, how often the kernel had to kill, and whether that rises; for
//! the host and for each subject against its own limit.

use std::cmp::Ordering;
use std::sync::Arc;

use linchpin_data::{Span, Windows};

use crate::host::Host;
use crate::process::Subjected;
use crate::report::Trend;
use crate::report::diagnosis::{HostPressure, SubjectPressure};
use crate::sentence::bytes;
use crate::subject::{SLOT_NS, Subject};
use crate::trend;
use crate::view::{View, short};

/// From this share of its limit on a subject is at its ceiling.
const AT_CEILING: f64 = 0.9;

/// When kernel OOM kills could be seen: while the kernel's log or the cgroups' counters were watched.
#[must_use]
pub fn kernel_watched(view: &View) -> Windows {
    let seen = ["kernel_log", "cgroup"].iter().filter_map(|s| view.watches.get(*s));
    Windows::from_spans(seen.flat_map(|w| w.windows.spans()).copied()).clip(view.window)
}

/// The window by the wall clock, by which samples are kept.
fn wall(view: &View) -> Span {
    Span::new(view.wall(view.window.from), view.wall(view.window.to))
}

fn per_hour(kills: u64, watched: &Windows) -> Option<f64> {
    let hours = watched.seconds() / 3600.0;
    (hours > 0.0).then(|| kills as f64 / hours)
}

/// How a host stands; `None` where nothing is known of its memory and nothing was killed.
#[must_use]
pub fn host(
    name: &str,
    host: &Host,
    view: &View,
    subjects: &[(&Arc<str>, Subjected<'_>)],
    watched: &Windows,
) -> Option<HostPressure> {
    let facts = host.report(name, view);
    let limits = host.limits();
    let ratio = |part: u64, whole: Option<u64>| whole.filter(|w| *w > 0).map(|w| part as f64 / w as f64);
    let swap = host.extremes(wall(view)).swap;
    let swap_share = swap.and_then(|[least, most]| {
        Some([ratio(least, facts.swap_total_bytes)?, ratio(most, facts.swap_total_bytes)?])
    });
    let killed = || subjects.iter().flat_map(|(_, s)| s.oom_kills()).map(|(at, n, _)| (at, n));
    let kills = killed().map(|(_, n)| n).fold(0, u64::saturating_add);
    if facts.memory_total_bytes.is_none() && limits.is_none() && swap_share.is_none() && kills == 0 {
        return None;
    }
    let mut told = HostPressure {
        host: name.into(),
        memory_total_bytes: facts.memory_total_bytes,
        container_limits_bytes: limits.map(|l| l.0),
        overcommit: limits.and_then(|l| ratio(l.0, facts.memory_total_bytes)),
        containers_unlimited: limits.and_then(|l| l.1),
        swap_share,
        kills,
        kills_per_hour: per_hour(kills, watched),
        trend: trend::hourly(view.window, watched, killed()),
        sentences: Vec::new(),
    };
    told.sentences = sentences(&told);
    Some(told)
}

fn sentences(p: &HostPressure) -> Vec<String> {
    let mut all = Vec::new();
    if let (Some(limits), Some(total), Some(times)) =
        (p.container_limits_bytes, p.memory_total_bytes, p.overcommit)
    {
        let all_fit = if times <= 1.0 { "; all could use theirs at once" } else { "" };
        all.push(format!(
            "Container limits add up to {}, {times:.1} times the {} of RAM{all_fit}.",
            bytes(limits),
            bytes(total)
        ));
    }
    match p.containers_unlimited {
        Some(1) => all.push("One running container has no limit.".into()),
        Some(n) if n > 1 => all.push(format!("{n} running containers have no limit.")),
        _ => {}
    }
    if let Some([least, most]) = p.swap_share {
        let (least, most) = (format!("{:.0}", least * 100.0), format!("{:.0}", most * 100.0));
        let share = if least == most { least } else { format!("{least}–{most}") };
        all.push(format!("Swap is {share} % full."));
    }
    if p.kills > 0 {
        let rate = p.kills_per_hour.map_or(String::new(), |r| format!(", {r:.1} an hour"));
        all.push(format!("The kernel killed {}{rate}{}.", times(p.kills), climb(p.trend)));
    }
    all
}

fn times(n: u64) -> String {
    if n == 1 { "once".into() } else { format!("{n} times") }
}

/// ", rising from 9 to 25 an hour": only where the interval of the slope says so.
fn climb(trend: Option<Trend>) -> String {
    let Some(t) = trend else { return String::new() };
    let way = match t.direction() {
        Some(Ordering::Greater) => "rising",
        Some(_) => "falling",
        None => return ", neither rising nor falling for sure".into(),
    };
    format!(", {way} from {:.0} to {:.0} an hour", t.from_per_hour, t.to_per_hour)
}

/// How a subject stands against its own limit; `None` where it has none that is known.
#[must_use]
pub fn subject(
    (host, name): (&str, &str),
    subject: &Subject,
    judged: &Subjected<'_>,
    view: &View,
    watched: &Windows,
) -> Option<SubjectPressure> {
    let own = || judged.oom_kills().filter(|(_, _, k)| !k.host);
    let at_kill = own().filter_map(|(_, _, k)| k.limit).max();
    let limit = subject.latest().memory_limit.filter(|l| *l > 0).or(at_kill)?;
    let kills = own().map(|(_, n, _)| n).fold(0, u64::saturating_add);
    let sampled = subject.samples.extremes(wall(view), SLOT_NS).peak;
    // Killed at its limit it had reached it, whatever the samples caught.
    let reached = (kills > 0).then_some(at_kill.unwrap_or(limit).min(limit));
    let peak = sampled.max(reached);
    let observed = watched.and(judged.observed());
    let mut told = SubjectPressure {
        subject: name.into(),
        host: host.into(),
        limit_bytes: Some(limit),
        peak_bytes: peak,
        peak_share: peak.map(|p| p as f64 / limit as f64),
        kills,
        kills_per_hour: per_hour(kills, &observed),
        trend: trend::hourly(view.window, &observed, own().map(|(at, n, _)| (at, n))),
        sentence: String::new(),
    };
    told.sentence = sentence(&told, limit);
    Some(told)
}

fn sentence(p: &SubjectPressure, limit: u64) -> String {
    let name = short(&p.subject);
    let used = match (p.peak_bytes, p.peak_share) {
        (Some(peak), Some(share)) => {
            format!("used at most {} of {} ({:.0} %)", bytes(peak), bytes(limit), share * 100.0)
        }
        _ => format!("has a limit of {}, and nobody read how much it used", bytes(limit)),
    };
    if p.kills == 0 {
        return format!("{name} {used}, and was never killed for it.");
    }
    let rate = p.kills_per_hour.map_or(String::new(), |r| format!(", {r:.1} an hour"));
    format!("{name} {used}, and was killed at its limit {}{rate}{}.", times(p.kills), climb(p.trend))
}

/// Whether a subject is at its ceiling: killed there, or close under it.
#[must_use]
pub fn at_ceiling(p: &SubjectPressure) -> bool {
    p.kills > 0 || p.peak_share.is_some_and(|s| s >= AT_CEILING)
}
