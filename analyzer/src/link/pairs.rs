//! Every pair of a report: who restarted against whoever died, told apart where two suspects die together, strongest first.
//! What is counted of one pair is [`super::pair`]'s.

use std::collections::BTreeMap;

use linchpin_data::{Timestamp, Windows};
use serde::{Deserialize, Serialize};

use super::chance::Bins;
use crate::view::short;

use super::pair::{BIN_NS, Counted, Lag, Verdict, WINDOW_NS, benjamini_hochberg};

/// The most pairs that a report holds; what is beyond is counted.
pub const MOST_TOLD: usize = 2_000;

/// One subject as the links see it. Moments are sorted, on one host's axis.
#[derive(Clone, Debug, Default)]
pub struct Party {
    /// Its name.
    pub name: String,
    /// What it is a replica of.
    pub service: Option<String>,
    /// When its restarts could be seen.
    pub observed: Windows,
    /// Restart onsets, those by an operator left out.
    pub onsets: Vec<Timestamp>,
    /// Every death, and whether an operator asked for it.
    pub deaths: Vec<(Timestamp, bool)>,
}

/// Another suspect of the same victim that dies with this one, and which restarts only one of them explains.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rival {
    /// The other suspect.
    pub suspect: String,
    /// Restarts that follow a death of both.
    pub both: u64,
    /// Restarts that follow only this suspect.
    pub only_this: u64,
    /// Restarts that follow only the other.
    pub only_other: u64,
}

/// What is said of one pair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Who restarted.
    pub victim: String,
    /// Who died: a subject, or `service:NAME` for all replicas of a service together.
    pub suspect: String,
    /// The host of both.
    pub host: String,
    /// Restart onsets of the victim in observed time.
    pub restarts: u64,
    /// Deaths of the suspect in it.
    pub kills: u64,
    /// Of those, how many an operator asked for.
    pub kills_by_operator: u64,
    /// Restarts that begin within five seconds after a death.
    pub hits: u64,
    /// Hits that chance would give, bursts and drift allowed for.
    pub expected_hits: f64,
    /// (hits − expected) / restarts.
    pub attributable_share: f64,
    /// P(as many hits or more by chance).
    pub p_value: f64,
    /// Benjamini–Hochberg over all pairs of the report.
    pub q_value: f64,
    /// The chance to have shown a link of strength one half; told where it was asked (no link was found).
    pub power: Option<f64>,
    /// Restarts that a death follows within five seconds.
    pub reverse_hits: u64,
    /// P(Bin(hits + reverse hits, ½) ≥ hits).
    pub p_direction: f64,
    /// From the last death to the restart, in seconds; `None` without hits.
    pub lag_seconds: Option<Lag>,
    /// Share of the deaths that a restart follows within five seconds.
    pub followed_share: Option<f64>,
    /// Other suspects that die together with this one.
    pub rivals: Vec<Rival>,
    /// What follows.
    pub verdict: Verdict,
    /// The same as a sentence that can be checked.
    pub sentence: String,
}

/// A suspect: a subject or a service, with its deaths.
struct Suspect<'a> {
    name: String,
    service: Option<&'a str>,
    deaths: Vec<(Timestamp, bool)>,
}

/// One pair, counted.
struct Pair<'a> {
    victim: &'a Party,
    suspect: &'a Suspect<'a>,
    counted: Counted,
    by_operator: usize,
}

/// All links of one host's parties, strongest first, at most [`MOST_TOLD`]; and how many more pairs there were.
#[must_use]
pub fn links(host: &str, parties: &[Party]) -> (Vec<Link>, u64) {
    let suspects = suspects(parties);
    let pairs = count(parties, &suspects);
    let q = benjamini_hochberg(&pairs.iter().map(|p| p.counted.p_value).collect::<Vec<_>>());
    let mut judged: Vec<(Verdict, f64, &Pair<'_>)> =
        pairs.iter().zip(q).map(|(p, q)| (p.counted.verdict(q), q, p)).collect();
    judged.sort_by(|a, b| {
        let key = |x: &(Verdict, f64, &Pair<'_>)| (x.0, x.2.counted.p_value);
        let ((va, pa), (vb, pb)) = (key(a), key(b));
        va.cmp(&vb)
            .then(pa.total_cmp(&pb))
            .then_with(|| (&a.2.victim.name, &a.2.suspect.name).cmp(&(&b.2.victim.name, &b.2.suspect.name)))
    });
    let more = judged.len().saturating_sub(MOST_TOLD) as u64;
    judged.truncate(MOST_TOLD);
    let strong: Vec<&Pair<'_>> = judged.iter().filter(|(v, ..)| v.is_strong()).map(|(_, _, p)| *p).collect();
    let told = judged.iter().map(|(verdict, q, pair)| tell(host, *verdict, *q, pair, &strong)).collect();
    (told, more)
}

/// Everyone who died, and services of two or more replicas.
fn suspects(parties: &[Party]) -> Vec<Suspect<'_>> {
    let mut out: Vec<Suspect<'_>> = Vec::new();
    let mut services: BTreeMap<&str, Vec<&Party>> = BTreeMap::new();
    for p in parties {
        if !p.deaths.is_empty() {
            out.push(Suspect {
                name: p.name.clone(),
                service: p.service.as_deref(),
                deaths: p.deaths.clone(),
            });
        }
        if let Some(service) = &p.service {
            services.entry(service).or_default().push(p);
        }
    }
    for (service, replicas) in services.into_iter().filter(|(_, r)| r.len() >= 2) {
        let mut deaths: Vec<_> = replicas.iter().flat_map(|p| &p.deaths).copied().collect();
        deaths.sort_unstable();
        // With one replica that dies, the service says nothing that the replica does not.
        if replicas.iter().filter(|p| !p.deaths.is_empty()).count() >= 2 {
            out.push(Suspect { name: format!("service:{service}"), service: Some(service), deaths });
        }
    }
    out
}

/// Who is meant by a suspect: a subject, or all replicas of `service:NAME`.
pub(crate) fn members<'a>(parties: &'a [Party], suspect: &str) -> impl Iterator<Item = &'a Party> {
    let service = suspect.strip_prefix("service:");
    parties
        .iter()
        .filter(move |p| p.name == suspect || (service.is_some() && p.service.as_deref() == service))
}

/// Of one victim's links the control that died most.
pub(crate) fn control<'a>(links: impl Iterator<Item = &'a Link>) -> Option<&'a Link> {
    links.filter(|l| l.verdict == Verdict::Control).max_by_key(|l| l.kills)
}

/// The deaths of a suspect, sorted.
pub(crate) fn deaths(parties: &[Party], suspect: &str) -> Vec<Timestamp> {
    let mut all: Vec<Timestamp> =
        members(parties, suspect).flat_map(|p| p.deaths.iter().map(|(t, _)| *t)).collect();
    all.sort_unstable();
    all
}

/// Counts every pair. Victims of the same observed time share the bins of a suspect.
fn count<'a>(parties: &'a [Party], suspects: &'a [Suspect<'a>]) -> Vec<Pair<'a>> {
    let mut groups: Vec<(&Windows, Vec<&Party>)> = Vec::new();
    for victim in parties.iter().filter(|p| !p.onsets.is_empty()) {
        match groups.iter_mut().find(|(w, _)| **w == victim.observed) {
            Some((_, members)) => members.push(victim),
            None => groups.push((&victim.observed, vec![victim])),
        }
    }
    let mut pairs = Vec::new();
    for (observed, victims) in groups {
        for suspect in suspects {
            let seen: Vec<(Timestamp, bool)> =
                suspect.deaths.iter().filter(|(t, _)| observed.contains(*t)).copied().collect();
            let kills: Vec<Timestamp> = seen.iter().map(|(t, _)| *t).collect();
            if kills.is_empty() {
                continue;
            }
            let bins = Bins::new(observed, &kills, BIN_NS);
            let by_operator = seen.iter().filter(|(_, asked)| *asked).count();
            for victim in victims.iter().filter(|v| !is_own(v, suspect)) {
                let counted = Counted::new(&victim.onsets, &kills, &bins, WINDOW_NS);
                pairs.push(Pair { victim, suspect, counted, by_operator });
            }
        }
    }
    pairs
}

/// Whether the suspect is the victim itself, or the service that it is a replica of.
fn is_own(victim: &Party, suspect: &Suspect<'_>) -> bool {
    suspect.name == victim.name
        || (suspect.name.starts_with("service:") && victim.service.as_deref() == suspect.service)
}

fn tell(host: &str, verdict: Verdict, q_value: f64, pair: &Pair<'_>, strong: &[&Pair<'_>]) -> Link {
    let c = &pair.counted;
    let is_strong = verdict.is_strong();
    let rivals = if is_strong { rivals(pair, strong) } else { Vec::new() };
    Link {
        victim: pair.victim.name.clone(),
        suspect: pair.suspect.name.clone(),
        host: host.to_string(),
        restarts: c.restarts as u64,
        kills: c.kills as u64,
        kills_by_operator: pair.by_operator as u64,
        hits: c.hits as u64,
        expected_hits: c.expected_hits,
        attributable_share: c.attributable_share(),
        p_value: c.p_value,
        q_value,
        power: (!is_strong).then(|| c.power()),
        reverse_hits: c.reverse_hits as u64,
        p_direction: c.p_direction,
        lag_seconds: c.lag(),
        followed_share: (c.kills > 0).then(|| c.followed as f64 / c.kills as f64),
        rivals,
        verdict,
        sentence: sentence(pair, verdict),
    }
}

/// For each other strong suspect of the same victim: the restarts that only one of the two explains.
fn rivals(pair: &Pair<'_>, strong: &[&Pair<'_>]) -> Vec<Rival> {
    let hit = |p: &Pair<'_>, r: Timestamp| {
        let before = p.suspect.deaths.partition_point(|(t, _)| *t < r);
        let last = before.checked_sub(1).and_then(|i| p.suspect.deaths.get(i));
        last.is_some_and(|(t, _)| t.0 >= r.0.saturating_sub(WINDOW_NS))
    };
    let others = strong.iter().filter(|o| {
        o.victim.name == pair.victim.name
            && o.suspect.name != pair.suspect.name
            // A replica and the service that it belongs to are no rivals.
            && (o.suspect.service.is_none() || o.suspect.service != pair.suspect.service)
    });
    others
        .map(|other| {
            let mut rival =
                Rival { suspect: other.suspect.name.clone(), both: 0, only_this: 0, only_other: 0 };
            for r in &pair.victim.onsets {
                match (hit(pair, *r), hit(other, *r)) {
                    (true, true) => rival.both += 1,
                    (true, false) => rival.only_this += 1,
                    (false, true) => rival.only_other += 1,
                    (false, false) => {}
                }
            }
            rival
        })
        .filter(|r| r.both > 0)
        .collect()
}

fn sentence(pair: &Pair<'_>, verdict: Verdict) -> String {
    let c = &pair.counted;
    let (victim, suspect) = (short(&pair.victim.name), short(&pair.suspect.name));
    let chance = format!("chance would give {:.1}", c.expected_hits);
    let lag = c.lag().map_or(String::new(), |l| format!(" by {:.1} s (median)", l.median));
    match verdict {
        Verdict::Linked => {
            format!(
                "{} of {} restarts of {victim} follow a death of {suspect}{lag}; {chance}.",
                c.hits, c.restarts
            )
        }
        Verdict::Together => format!(
            "{} of {} restarts of {victim} fall together with deaths of {suspect}, {} before and {} after; {chance}. Look for what \
             both share.",
            c.hits.max(c.reverse_hits),
            c.restarts,
            c.hits,
            c.reverse_hits
        ),
        Verdict::Control => {
            format!(
                "Control: {suspect} died {} times, and {} of {} restarts of {victim} followed; {chance}.",
                c.kills, c.hits, c.restarts
            )
        }
        Verdict::Inconclusive => format!(
            "{suspect} died {} times, and {} of {} restarts of {victim} followed; {chance}. Too little to say.",
            c.kills, c.hits, c.restarts
        ),
    }
}
