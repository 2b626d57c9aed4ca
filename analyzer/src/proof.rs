//! Proof of a fix: after a change, how many deaths of the linked suspect the victim has survived. With k and no restart the 95 % upper
//! bound of P(restart | kill) is 1 − 0.05^(1/k) (Clopper and Pearson's for nought of k); with none, nothing is proven.

use linchpin_data::{Span, Timestamp};

use crate::link::pair::{Verdict, WINDOW_NS, follows};
use crate::link::pairs::{self, Link, Party};
use crate::report::diagnosis::{Change, Proof};
use crate::view::{View, short};

/// The most moments of change that are looked at, newest first.
const MOST_MOMENTS: usize = 5;

/// What has been survived since the latest change that concerns each link that had held before it.
#[must_use]
pub fn proofs(
    host: &str,
    view: &View,
    parties: &[Party],
    links: &[Link],
    changes: &[(Timestamp, Change)],
) -> Vec<Proof> {
    let mut out: Vec<Proof> = Vec::new();
    for (at, change) in changes.iter().rev().take(MOST_MOMENTS) {
        let victims = victims(change, parties, links);
        if victims.is_empty() {
            continue;
        }
        let (before, _) = pairs::links(host, &until(*at, view, parties, &victims));
        for link in before.iter().filter(|l| l.verdict == Verdict::Linked) {
            let known = out.iter().any(|p| p.victim == link.victim && p.suspect == link.suspect);
            let victim = parties.iter().find(|p| p.name == link.victim);
            if let Some(victim) = victim.filter(|_| !known && concerns(change, link, parties)) {
                out.push(proof(host, view, parties, (link, victim), (*at, change)));
            }
        }
    }
    out
}

/// Whose restarts a change may have ended: its own, and those linked to it; after a mark without a subject all that are linked.
fn victims<'a>(change: &Change, parties: &'a [Party], links: &'a [Link]) -> Vec<&'a str> {
    let own =
        parties.iter().filter(|p| p.name == change.subject && !p.onsets.is_empty()).map(|p| p.name.as_str());
    let linked = links.iter().filter(|l| l.verdict == Verdict::Linked && concerns(change, l, parties));
    let mut all: Vec<&str> = own.chain(linked.map(|l| l.victim.as_str())).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn concerns(change: &Change, link: &Link, parties: &[Party]) -> bool {
    change.subject == "host:"
        || link.victim == change.subject
        || pairs::members(parties, &link.suspect).any(|p| p.name == change.subject)
}

/// The parties as they were until a moment; only the victims asked for have restarts.
fn until(at: Timestamp, view: &View, parties: &[Party], victims: &[&str]) -> Vec<Party> {
    let span = Span::new(view.window.from.min(at), at);
    let cut = |p: &Party| Party {
        name: p.name.clone(),
        service: p.service.clone(),
        observed: p.observed.clip(span),
        onsets: match victims.contains(&p.name.as_str()) {
            true => p.onsets.iter().copied().filter(|t| *t < at).collect(),
            false => Vec::new(),
        },
        deaths: p.deaths.iter().copied().filter(|(t, _)| *t < at).collect(),
    };
    parties.iter().map(cut).collect()
}

fn proof(
    host: &str,
    view: &View,
    parties: &[Party],
    (link, victim): (&Link, &Party),
    (at, change): (Timestamp, &Change),
) -> Proof {
    // A death is survived when the window after it has passed.
    let ended = Timestamp(view.window.to.0.saturating_sub(WINDOW_NS));
    let mut since: Vec<(Timestamp, bool)> = pairs::members(parties, &link.suspect)
        .flat_map(|p| p.deaths.iter().copied())
        .filter(|(t, _)| *t >= at && *t <= ended && victim.observed.contains(*t))
        .collect();
    since.sort_unstable();
    let followed = since.iter().filter(|(k, _)| follows(*k, &victim.onsets, WINDOW_NS)).count() as u64;
    let triggers = since.len() as u64;
    let bound = (triggers > 0 && followed == 0).then(|| bound(triggers));
    let mut told = Proof {
        victim: link.victim.clone(),
        suspect: link.suspect.clone(),
        host: host.into(),
        change: change.clone(),
        triggers,
        triggers_by_operator: since.iter().filter(|(_, asked)| *asked).count() as u64,
        followed,
        bound,
        verdict: match (triggers, followed) {
            (0, _) => "not proven",
            (_, 0) => "held",
            _ => "failed",
        }
        .into(),
        sentence: String::new(),
    };
    told.sentence = sentence(&told);
    told
}

/// The 95 % upper bound of a probability that showed in none of `k` trials.
fn bound(k: u64) -> f64 {
    1.0 - 0.05f64.powf(1.0 / k as f64)
}

fn sentence(p: &Proof) -> String {
    let (victim, suspect) = (short(&p.victim), short(&p.suspect));
    let c = &p.change;
    let whose = if c.subject == "host:" { String::new() } else { format!(" of {}", short(&c.subject)) };
    let since = format!("since the {} change{whose} at {}", c.what, c.at.to_millis_text());
    let since = if c.what == "mark" {
        format!("since the mark {:?} at {}", c.text, c.at.to_millis_text())
    } else {
        since
    };
    let times = if p.triggers == 1 { "once".to_string() } else { format!("{} times", p.triggers) };
    match (p.triggers, p.bound) {
        (0, _) => {
            format!("Not proven: {suspect} has not died {since}. Waiting proves nothing; a drill would.")
        }
        (_, Some(bound)) => {
            let asked = match p.triggers_by_operator {
                0 => String::new(),
                n => format!(" ({n} on purpose)"),
            };
            format!(
                "Held so far: {suspect} died {times}{asked} {since}, and no restart of {victim} followed; at most {:.0} % of such \
                 deaths can still restart it (95 %).",
                bound * 100.0
            )
        }
        _ => format!(
            "Not fixed: {suspect} died {times} {since}, and {} were followed by a restart of {victim}.",
            p.followed
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::bound;

    #[test]
    fn the_bound_by_hand() {
        assert!((bound(1) - 0.95).abs() < 1e-12);
        assert!((bound(14) - 0.192_636).abs() < 1e-6);
    }
}
