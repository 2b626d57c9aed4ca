//! Chains: a kill, a name that fails after it, a restart after that; found where a link's hits hold a failing name in between. A
//! name that was failing before the kill is no step of it.

use std::collections::BTreeMap;

use linchpin_data::Timestamp;
use linchpin_data::time::NS;

use crate::ceiling::quantile;
use crate::fact::{Fact, What};
use crate::host::Host;
use crate::link::pair::{Lag, Verdict, WINDOW_NS};
use crate::link::pairs::{self, Link, Party};
use crate::names::Failure;
use crate::report::Evidence;
use crate::report::diagnosis::{Chain, Control, Step, StepKind};
use crate::sentence;
use crate::view::{short, source_of};

/// A last word may be stamped this much later than the end of the process that wrote it, in nanoseconds.
const LATE_NS: i64 = NS / 10;
/// The least times that a chain must be seen.
const LEAST: usize = 2;
/// The least share of a link's hits that must hold a failing name.
const SHARE: f64 = 0.2;

/// One time that every step was seen.
struct Seen<'a> {
    kill: Timestamp,
    failure: &'a Failure<'a>,
    names: Vec<&'a str>,
    restart: Timestamp,
}

/// The chains into one victim, strongest link first. `links` are the host's, `failures` the victim's, in order.
#[must_use]
pub fn chains(
    host: (&str, &Host),
    victim: &Party,
    parties: &[Party],
    links: &[Link],
    failures: &[Failure<'_>],
) -> Vec<Chain> {
    if failures.is_empty() {
        return Vec::new();
    }
    let mine = || links.iter().filter(|l| l.victim == victim.name);
    let control = pairs::control(mine()).map(|l| Control {
        suspect: l.suspect.clone(),
        kills: l.kills,
        hits: l.hits,
        restarts: l.restarts,
    });
    mine()
        .filter(|l| l.verdict == Verdict::Linked)
        .filter_map(|link| {
            let kills = pairs::deaths(parties, &link.suspect);
            let seen: Vec<Seen<'_>> =
                victim.onsets.iter().filter_map(|r| look(*r, &kills, failures)).collect();
            let enough = seen.len() >= LEAST && seen.len() as f64 >= SHARE * link.hits as f64;
            enough.then(|| tell(host, link, &seen, control.clone(), parties))
        })
        .collect()
}

/// The latest kill within the window before a restart after which a name began to fail, and what failed until the restart.
fn look<'a>(restart: Timestamp, kills: &[Timestamp], failures: &'a [Failure<'a>]) -> Option<Seen<'a>> {
    let upto = kills.partition_point(|k| *k < restart);
    let from = kills.partition_point(|k| k.0 < restart.0.saturating_sub(WINDOW_NS));
    let between = |a: i64, b: i64| {
        let i = failures.partition_point(|f| f.axis.0 < a);
        let j = failures.partition_point(|f| f.axis.0 <= b);
        failures.get(i..j.max(i)).unwrap_or_default()
    };
    kills.get(from..upto)?.iter().rev().find_map(|kill| {
        let before = between(kill.0.saturating_sub(WINDOW_NS), kill.0.saturating_sub(1));
        let mut names: Vec<&str> = Vec::new();
        let mut first = None;
        for f in between(kill.0, restart.0.saturating_add(LATE_NS)) {
            if before.iter().any(|b| b.name == f.name) {
                continue;
            }
            first.get_or_insert(f);
            if !names.contains(&f.name) {
                names.push(f.name);
            }
        }
        Some(Seen { kill: *kill, failure: first?, names, restart })
    })
}

fn lag(mut seconds: Vec<f64>) -> Lag {
    seconds.sort_unstable_by(f64::total_cmp);
    Lag { median: quantile(&seconds, 0.5), p25: quantile(&seconds, 0.25), p75: quantile(&seconds, 0.75) }
}

fn tell(
    host: (&str, &Host),
    link: &Link,
    seen: &[Seen<'_>],
    control: Option<Control>,
    parties: &[Party],
) -> Chain {
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    for name in seen.iter().flat_map(|s| &s.names).filter(|n| !n.is_empty()) {
        *count.entry(name).or_insert(0) += 1;
    }
    let mut names: Vec<(&str, usize)> = count.into_iter().collect();
    names.sort_by_key(|(name, n)| (std::cmp::Reverse(*n), *name));
    let names: Vec<String> = names.into_iter().map(|(n, _)| n.to_string()).collect();
    let to_failure = lag(seen.iter().map(|s| s.failure.axis.seconds_since(s.kill)).collect());
    let to_restart = lag(seen.iter().map(|s| s.restart.seconds_since(s.failure.axis).max(0.0)).collect());
    let name = names.first().cloned().unwrap_or_else(|| "a name".into());
    let step = |what, who: &str, lag_seconds| Step { what, who: who.to_string(), lag_seconds };
    let sentence = words(link, seen.len(), &name, names.len(), [to_failure, to_restart], control.as_ref());
    Chain {
        victim: link.victim.clone(),
        suspect: link.suspect.clone(),
        host: host.0.to_string(),
        steps: vec![
            step(StepKind::Death, &link.suspect, None),
            step(StepKind::NameFails, &name, Some(to_failure)),
            step(StepKind::Restart, &link.victim, Some(to_restart)),
        ],
        names,
        seen: seen.len() as u64,
        restarts: link.restarts,
        control,
        sentence,
        example: seen.last().map(|s| example(host.1, link, s, parties)).unwrap_or_default(),
    }
}

/// "12 of 14 restarts of proxy: backend dies, backend.example fails to resolve 0.3 s later, proxy ends 0.9 s after that."
fn words(
    link: &Link,
    seen: usize,
    name: &str,
    names: usize,
    lags: [Lag; 2],
    control: Option<&Control>,
) -> String {
    let others = if names > 1 { format!(" (and {} more)", names - 1) } else { String::new() };
    let mut s = format!(
        "{seen} of {} restarts of {victim}: {} dies, {name}{others} fails to resolve {:.1} s later, {victim} ends {:.1} s after \
         that (medians).",
        link.restarts,
        short(&link.suspect),
        lags[0].median,
        lags[1].median,
        victim = short(&link.victim),
    );
    if let Some(c) = control {
        s +=
            &format!(" Control: {} died {} times, {} of {}.", short(&c.suspect), c.kills, c.hits, c.restarts);
    }
    s
}

/// The three facts of one time.
fn example(host: &Host, link: &Link, seen: &Seen<'_>, parties: &[Party]) -> Vec<Evidence> {
    let at = |subject: &str, axis: Timestamp| {
        let facts = host.subjects.get(subject)?.facts();
        let i = facts.partition_point(|f| f.axis < axis);
        let here = facts.get(i..)?.iter().take_while(|f| f.axis == axis);
        here.clone().find_map(|f| said(subject, f))
    };
    let kill = pairs::members(parties, &link.suspect).find_map(|p| at(&p.name, seen.kill));
    let mut failure = seen.failure.evidence();
    failure.text = format!("{}: {}", link.victim, failure.text);
    kill.into_iter().chain(Some(failure)).chain(at(&link.victim, seen.restart)).collect()
}

fn said(subject: &str, fact: &Fact) -> Option<Evidence> {
    let (source, text) = match &fact.what {
        What::Exited(e) => (source_of(subject), sentence::exit(e)),
        What::Oom(k) => (k.witness(), sentence::kill(k)),
        _ => return None,
    };
    Some(fact.evidence(source, format!("{subject}: {text}")))
}
