//! The ledger: folds one event at a time, live and replayed alike, and answers queries. The answer depends on which events
//! were told, not on their order or on how often.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use linchpin_data::event::Fact as Told;
use linchpin_data::{Event, Span, Timestamp, Windows};

use crate::fact::hash;
use crate::host::Host;
use crate::link::pairs::Link;
use crate::pressure::at_ceiling;
use crate::process::Subjected;
use crate::report::{Gap, Lane, Objective, ProcessDetail, Query, Report, Window};
use crate::view::{View, source_of};
use crate::why::{Inquiry, Why};

/// Sources that see restarts, whatever subjects there are.
const RUNTIMES: [&str; 6] = ["docker", "podman", "containerd", "systemd", "k8s", "nomad"];
/// The most kinds told apart that this version does not know, and the most of each that repeats are told apart of.
const MOST_KINDS: usize = 64;
const MOST_TELLINGS: usize = 10_000;

/// Events of one kind that this version does not know: each told apart, and those beyond what is kept apart.
#[derive(Debug, Default)]
struct Passed {
    tellings: BTreeSet<(Timestamp, u64, u64)>,
    beyond: u64,
}

/// Everything folded so far.
#[derive(Debug)]
pub struct Ledger {
    objective: Objective,
    hosts: BTreeMap<Arc<str>, Host>,
    unknown: BTreeMap<String, Passed>,
    folded: u64,
}

/// The hosts as a query sees them.
struct Seen<'a> {
    hosts: Vec<(&'a Arc<str>, &'a Host, View)>,
    window: Window,
}

impl Ledger {
    /// An empty ledger.
    #[must_use]
    pub fn new(objective: Objective) -> Self {
        Ledger { objective, hosts: BTreeMap::new(), unknown: BTreeMap::new(), folded: 0 }
    }

    /// Takes one event in. Any order will do, and repeats change nothing.
    pub fn fold(&mut self, event: &Event) {
        self.folded += 1;
        if let Told::Unknown(kind) = &event.fact {
            self.count_unknown(kind, event);
        }
        match self.hosts.get_mut(&event.host) {
            Some(host) => host.fold(event),
            None => self.hosts.entry(event.host.clone()).or_default().fold(event),
        }
    }

    fn count_unknown(&mut self, kind: &str, event: &Event) {
        let kind: String = kind.chars().take(64).collect();
        let known = self.unknown.contains_key(&kind);
        let kind = if known || self.unknown.len() < MOST_KINDS { kind } else { "…".to_string() };
        let passed = self.unknown.entry(kind).or_default();
        if passed.tellings.len() < MOST_TELLINGS {
            let whose = hash(&event.subject) ^ hash(&event.host).rotate_left(1);
            passed.tellings.insert((event.at, whose, event.seq.unwrap_or(0)));
        } else {
            passed.beyond += 1;
        }
    }

    /// How many events were folded, repeats among them.
    #[must_use]
    pub fn events_folded(&self) -> u64 {
        self.folded
    }

    /// Kinds that this version does not know, with how many of each were passed over.
    #[must_use]
    pub fn unknown_kinds(&self) -> BTreeMap<String, u64> {
        self.unknown.iter().map(|(k, p)| (k.clone(), p.tellings.len() as u64 + p.beyond)).collect()
    }

    /// The whole report.
    #[must_use]
    pub fn report(&self, q: Query) -> Report {
        let seen = self.look(q);
        let mut processes = Vec::new();
        let mut why = Why::default();
        for (name, host, view) in &seen.hosts {
            let inquiry = Inquiry::new(name, host, view, self.objective);
            processes.extend(inquiry.processes());
            why.merge(inquiry.why());
        }
        // Burn, and within equal burn (or none) the name.
        processes.sort_by(|a, b| {
            let burn = |p: &crate::report::Process| p.budget.burn_rate.unwrap_or(-1.0);
            burn(b).total_cmp(&burn(a)).then_with(|| (&a.subject, &a.host).cmp(&(&b.subject, &b.host)))
        });
        Report {
            processes,
            links: why.links,
            links_untold: why.links_untold,
            chains: why.chains,
            names: why.names,
            differentials: why.differentials,
            host_pressure: why.host_pressure,
            subject_pressure: why.subject_pressure.into_iter().filter(at_ceiling).collect(),
            changes: why.changes,
            proofs: why.proofs,
            drills: why.drills,
            redundancy: Vec::new(),
            findings: Vec::new(),
            not_computed: ["redundancy", "findings"].map(String::from).to_vec(),
            hosts: seen.hosts.iter().map(|(name, h, v)| h.report(name, v)).collect(),
            sources: seen.hosts.iter().flat_map(|(name, h, v)| h.coverage(name, v)).collect(),
            issues: seen.hosts.iter().flat_map(|(name, h, _)| h.issues(name)).collect(),
            unknown_kinds: self.unknown_kinds(),
            window: seen.window,
        }
    }

    /// One process with its episodes; without a host, that of the first host that has it.
    #[must_use]
    pub fn process(&self, host: Option<&str>, subject: &str, q: Query) -> Option<ProcessDetail> {
        let seen = self.look(q);
        let mine = seen.hosts.iter().filter(|(name, ..)| host.is_none_or(|h| h == &***name));
        let (name, host, view, s) = mine
            .filter_map(|(name, host, view)| Some((name, host, view, host.subjects.get(subject)?)))
            .find(|(.., s)| s.is_process())?;
        let subjected = Subjected::new(view, subject, s, self.objective);
        let gaps = view
            .watch(subject)
            .map_or_else(|| view.gaps(&Windows::new(), &[]), |w| view.gaps(&w.windows, &w.ends));
        let inquiry = Inquiry::new(name, host, view, self.objective);
        let why = inquiry.why();
        let links: Vec<Link> = why.links.iter().filter(|l| l.victim == subject).cloned().collect();
        let process = subjected.process(name, &host.timeline);
        let service = process.service.as_ref().map(|s| format!("service:{s}"));
        let causes = |l: &Link| {
            l.verdict.is_strong() && (l.suspect == subject || service.as_ref() == Some(&l.suspect))
        };
        Some(ProcessDetail {
            process,
            episodes: subjected.episodes(),
            other_deaths: subjected.other_deaths(),
            gaps,
            lag_histograms: inquiry.lag_histograms(subject, &links),
            links,
            causes_others: why.links.into_iter().filter(causes).collect(),
            chains: why.chains.into_iter().filter(|c| c.victim == subject).collect(),
            names: why.names.into_iter().filter(|n| n.client == subject).collect(),
            differential: why.differentials.into_iter().find(|d| d.subject == subject),
            pressure: why.subject_pressure.into_iter().find(|p| p.subject == subject),
            changes: why
                .changes
                .into_iter()
                .filter(|c| c.subject == subject || c.subject == "host:")
                .collect(),
            proofs: why.proofs.into_iter().filter(|p| p.victim == subject).collect(),
            drills: why.drills.into_iter().filter(|d| d.expected == subject).collect(),
            window: seen.window.clone(),
        })
    }

    /// Every process's times down over one axis, by host and name.
    #[must_use]
    pub fn lanes(&self, q: Query) -> Vec<Lane> {
        let seen = self.look(q);
        let mut lanes = Vec::new();
        for (name, host, view) in &seen.hosts {
            for (subject, s) in host.subjects.iter().filter(|(_, s)| s.is_process()) {
                let subjected = Subjected::new(view, subject, s, self.objective);
                if subjected.concerns() {
                    lanes.push(Lane {
                        subject: subject.to_string(),
                        host: name.to_string(),
                        episodes: subjected.lane(),
                        gaps: view.watch(subject).map_or_else(Vec::new, |w| view.gaps(&w.windows, &w.ends)),
                    });
                }
            }
        }
        lanes
    }

    /// Fits the query to each host's axis.
    fn look(&self, q: Query) -> Seen<'_> {
        let lone = self.hosts.len() == 1;
        let last = self.hosts.values().filter_map(|h| h.timeline.last()).max();
        let mut hosts: Vec<(&Arc<str>, &Host, View)> = Vec::new();
        for (name, host) in &self.hosts {
            let (end, shift) = now(host, q, lone);
            hosts.push((name, host, host.view(end.or(host.timeline.last()).unwrap_or_default(), shift)));
        }
        let sees = |source: &str| {
            RUNTIMES.contains(&source)
                || self.hosts.values().any(|h| {
                    // Names sort by their source, so that one look tells whether any begins with it.
                    let from: Arc<str> = format!("{source}:").into();
                    h.subjects.range(from..).next().is_some_and(|(n, _)| source_of(n) == source)
                })
        };
        let watched: Vec<Windows> = hosts.iter().map(|(_, _, v)| v.watched(sees)).collect();
        let begins = hosts.iter().zip(&watched).filter_map(|((_, h, v), w)| {
            let begin = w.hull().map(|s| s.from).or_else(|| h.first())?;
            Some(v.wall(begin))
        });
        let from = q.from.or_else(|| begins.min());
        let to = q.to.or(q.as_of).or(last);
        let (Some(from), Some(to)) = (from, to) else {
            return Seen { hosts, window: Window { from, to, observed_seconds: 0.0, gaps: Vec::new() } };
        };
        let to = to.max(from);
        for (_, _, v) in &mut hosts {
            v.window = Span::new(from.plus_ns(v.shift), to.plus_ns(v.shift));
            v.closed = q.to.is_none();
        }
        let window = window(&hosts, &watched, sees, Span::new(from, to));
        Seen { hosts, window }
    }
}

/// The report's window: what any host's watch of restarts covers of it, and what none does.
fn window(
    hosts: &[(&Arc<str>, &Host, View)],
    watched: &[Windows],
    sees: impl Fn(&str) -> bool,
    span: Span,
) -> Window {
    let moved = hosts
        .iter()
        .zip(watched)
        .flat_map(|((_, _, v), w)| w.spans().iter().map(|s| Span::new(v.wall(s.from), v.wall(s.to))));
    let covered = Windows::from_spans(moved);
    let mut ends: Vec<(Timestamp, &str)> = Vec::new();
    for (_, _, v) in hosts {
        let seeing = v.watches.iter().filter(|(s, _)| sees(s));
        ends.extend(seeing.flat_map(|(_, w)| &w.ends).map(|(t, r)| (v.wall(*t), &**r)));
    }
    ends.sort_unstable();
    let reason = |from: Timestamp| {
        let i = ends.partition_point(|(t, _)| *t <= from);
        i.checked_sub(1).and_then(|i| ends.get(i)).map_or("", |(_, r)| r).to_string()
    };
    Window {
        from: Some(span.from),
        to: Some(span.to),
        observed_seconds: covered.clip(span).seconds(),
        gaps: covered
            .gaps(span)
            .spans()
            .iter()
            .map(|g| Gap { from: g.from, to: g.to, reason: reason(g.from) })
            .collect(),
    }
}

/// Up to when a host is known, on its axis, and how far that axis is ahead of the asking side's wall clock.
fn now(host: &Host, q: Query, lone: bool) -> (Option<Timestamp>, i64) {
    let Some(as_of) = q.as_of else { return (None, 0) };
    let by_boot = q.as_of_boot_ns.and_then(|ns| host.timeline.now(ns));
    match by_boot {
        // Among several hosts, only the one that asks shares its boot clock: the one on which both clocks agree.
        Some(axis) if lone || axis.0.abs_diff(as_of.0) < 5_000_000_000 => {
            (Some(axis), axis.0.saturating_sub(as_of.0))
        }
        _ => (Some(as_of), 0),
    }
}
