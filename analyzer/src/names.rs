//! Names that failed to resolve, by the client that asked: every witness's words, and the failures, spells and outcomes that
//! follow from them. Which failures lie between a kill and a restart is [`crate::chain`]'s.

use std::collections::{BTreeMap, BTreeSet};

use linchpin_data::event::{Event, Fact as Told};
use linchpin_data::time::NS;
use linchpin_data::{EventId, Timestamp};

use crate::report::Evidence;
use crate::report::diagnosis::FailingName;
use crate::timeline::{Moment, Timeline};
use crate::view::View;

/// The most words kept of one client: the latest.
const MOST_WORDS: usize = 20_000;
/// The most names told of one client; what is beyond is told as one.
const MOST_NAMES: usize = 100;
/// The most spells told of one name: the latest.
const MOST_SPELLS: usize = 100;
/// The longest name kept, in characters: what DNS allows.
const TEXT: usize = 253;
/// Two witnesses tell of one failure within this time of each other: the capture tells of a name once a second.
const SAME_NS: i64 = 2 * NS;

/// What one word says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Says {
    /// Lookups failed.
    Failed { outcome: Box<str>, count: u64 },
    /// One succeeded, after failures.
    Resolved,
}

/// One witness's word on one name. Sorted by what was told, never by how it arrived.
#[derive(Clone, Debug)]
pub struct Word {
    moment: Moment,
    run: u64,
    seq: u64,
    /// The name; empty where the witness does not say it.
    name: Box<str>,
    by: Box<str>,
    says: Says,
}

impl Word {
    fn key(&self) -> (Timestamp, u64, u64, u64, &str, &str, &Says) {
        (self.moment.at, self.moment.boot_ns, self.run, self.seq, &self.name, &self.by, &self.says)
    }
}

impl PartialEq for Word {
    fn eq(&self, o: &Self) -> bool {
        self.key() == o.key()
    }
}

impl Eq for Word {}

impl PartialOrd for Word {
    fn partial_cmp(&self, o: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(o))
    }
}

impl Ord for Word {
    fn cmp(&self, o: &Self) -> std::cmp::Ordering {
        self.key().cmp(&o.key())
    }
}

/// The words of one client.
#[derive(Debug, Default)]
pub struct Names {
    words: BTreeSet<Word>,
}

/// One failure on the axis.
#[derive(Clone, Debug)]
pub struct Failure<'a> {
    /// When.
    pub axis: Timestamp,
    /// The event.
    pub id: EventId,
    /// The name; empty where it was not said.
    pub name: &'a str,
    /// Who saw it.
    pub by: &'a str,
    /// How it failed, as told.
    pub outcome: &'a str,
}

impl Failure<'_> {
    /// As evidence: who says that which name did not resolve, and how it failed.
    #[must_use]
    pub fn evidence(&self) -> Evidence {
        let name = if self.name.is_empty() { "a name" } else { self.name };
        let outcome = if self.outcome.is_empty() { String::new() } else { format!(" ({})", self.outcome) };
        Evidence {
            event: self.id,
            at: self.id.at,
            source: format!("dns {}", self.by),
            text: format!("{name} did not resolve{outcome}"),
        }
    }
}

impl Names {
    /// Takes an event in, if it is a word on a name.
    pub fn note(&mut self, event: &Event, moment: Moment) {
        let cut = |t: &Option<String>, most: usize| -> Box<str> {
            t.as_deref().unwrap_or("").chars().take(most).collect::<String>().into()
        };
        let (name, by, says) = match &event.fact {
            Told::DnsFailure(f) => {
                let says = Says::Failed { outcome: cut(&f.outcome, 32), count: f.count.unwrap_or(1).max(1) };
                (cut(&f.name, TEXT), cut(&f.by, 32), says)
            }
            Told::DnsOk(f) => (cut(&f.name, TEXT), cut(&f.by, 32), Says::Resolved),
            _ => return,
        };
        let name = name.trim_end_matches('.').to_ascii_lowercase().into();
        let (run, seq) = (event.run.unwrap_or(0), event.seq.unwrap_or(0));
        self.words.insert(Word { moment, run, seq, name, by, says });
        if self.words.len() > MOST_WORDS {
            self.words.pop_first();
        }
    }

    /// Every failure within the window, in order.
    #[must_use]
    pub fn failures<'a>(&'a self, view: &View, timeline: &Timeline) -> Vec<Failure<'a>> {
        let mut all: Vec<Failure<'a>> = self
            .placed(view, timeline)
            .filter(|(_, w)| matches!(w.says, Says::Failed { .. }))
            .map(|(axis, w)| Failure {
                axis,
                id: EventId { at: w.moment.at, run: w.run, seq: w.seq },
                name: &w.name,
                by: &w.by,
                outcome: match &w.says {
                    Says::Failed { outcome, .. } => outcome,
                    Says::Resolved => "",
                },
            })
            .collect();
        all.sort_by_key(|f| f.axis);
        all
    }

    fn placed<'a>(&'a self, view: &View, timeline: &Timeline) -> impl Iterator<Item = (Timestamp, &'a Word)> {
        self.words.iter().map(|word| (timeline.axis(word.moment), word)).filter(|(t, _)| view.inside(*t))
    }

    /// What failed for this client within the window, most failures first.
    #[must_use]
    pub fn told(&self, client: &str, host: &str, view: &View, timeline: &Timeline) -> Vec<FailingName> {
        let mut by_name: BTreeMap<&str, Vec<(Timestamp, &Word)>> = BTreeMap::new();
        for (axis, word) in self.placed(view, timeline) {
            by_name.entry(&word.name).or_default().push((axis, word));
        }
        for words in by_name.values_mut() {
            words.sort();
        }
        let unnamed = by_name.remove("").unwrap_or_default();
        let mut named: Vec<Timestamp> = by_name.values().flatten().map(|(t, _)| *t).collect();
        named.sort_unstable();
        // A line that leaves the name out tells of the failure that a better witness names.
        let alone: Vec<_> = unnamed.into_iter().filter(|(t, _)| !near(&named, *t)).collect();
        let mut out: Vec<FailingName> = by_name
            .into_iter()
            .chain((!alone.is_empty()).then_some(("", alone)))
            .filter_map(|(name, words)| failing(client, host, name, &words, view))
            .collect();
        out.sort_by(|a, b| b.failures.cmp(&a.failures).then_with(|| a.name.cmp(&b.name)));
        fold_rest(out)
    }
}

fn near(sorted: &[Timestamp], t: Timestamp) -> bool {
    let i = sorted.partition_point(|x| x.0 < t.0.saturating_sub(SAME_NS));
    sorted.get(i).is_some_and(|x| x.0 <= t.0.saturating_add(SAME_NS))
}

/// What one spell's witnesses told, each with its count by outcome.
#[derive(Default)]
struct Spell<'a> {
    from: Option<Timestamp>,
    by: BTreeMap<&'a str, BTreeMap<&'a str, u64>>,
}

impl Spell<'_> {
    /// What the witness that saw most saw: the others tell of the same lookups.
    fn close(&mut self, told: &mut FailingName, until: Option<Timestamp>, view: &View) {
        let Some(from) = self.from.take() else { return };
        let by = std::mem::take(&mut self.by);
        told.spells.push((view.wall(from), until.map(|t| view.wall(t))));
        for witness in by.keys().filter(|b| !b.is_empty()) {
            if !told.witnesses.iter().any(|w| w == witness) {
                told.witnesses.push((*witness).to_string());
            }
        }
        let sum = |o: &BTreeMap<&str, u64>| o.values().copied().fold(0, u64::saturating_add);
        // Of equals the last by name, so that the order of arrival decides nothing.
        if let Some(most) = by.values().max_by_key(|o| sum(o)) {
            told.failures = told.failures.saturating_add(sum(most));
            for (outcome, n) in most {
                let outcome = if outcome.is_empty() { "unsaid" } else { outcome };
                *told.outcomes.entry(outcome.to_string()).or_insert(0) += n;
            }
        }
    }
}

fn failing(
    client: &str,
    host: &str,
    name: &str,
    words: &[(Timestamp, &Word)],
    view: &View,
) -> Option<FailingName> {
    let mut told = FailingName {
        client: client.into(),
        host: host.into(),
        name: name.into(),
        failures: 0,
        spells: Vec::new(),
        outcomes: BTreeMap::new(),
        witnesses: Vec::new(),
    };
    let mut spell = Spell::default();
    for (axis, word) in words {
        match &word.says {
            Says::Failed { outcome, count } => {
                spell.from.get_or_insert(*axis);
                let n = spell.by.entry(&word.by).or_default().entry(outcome).or_insert(0);
                *n = n.saturating_add(*count);
            }
            Says::Resolved => spell.close(&mut told, Some(*axis), view),
        }
    }
    spell.close(&mut told, None, view);
    told.witnesses.sort_unstable();
    let early = told.spells.len().saturating_sub(MOST_SPELLS);
    told.spells.drain(..early);
    (told.failures > 0).then_some(told)
}

/// Names beyond the most that are told, as one.
fn fold_rest(mut names: Vec<FailingName>) -> Vec<FailingName> {
    if names.len() <= MOST_NAMES {
        return names;
    }
    let rest = names.split_off(MOST_NAMES - 1);
    let many = rest.len();
    let mut rest = rest.into_iter();
    if let Some(mut sum) = rest.next() {
        for n in rest {
            sum.failures = sum.failures.saturating_add(n.failures);
            for (outcome, count) in n.outcomes {
                *sum.outcomes.entry(outcome).or_insert(0) += count;
            }
            sum.witnesses.extend(n.witnesses);
        }
        sum.witnesses.sort_unstable();
        sum.witnesses.dedup();
        sum.spells.clear();
        sum.name = format!("({many} more names)");
        names.push(sum);
    }
    names
}
