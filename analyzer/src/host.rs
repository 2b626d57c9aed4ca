//! Everything known of one host: its time, its watches, its own facts and its subjects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use linchpin_data::event::{Event, Fact as Told};
use linchpin_data::time::NS;
use linchpin_data::{Span, Timestamp};

use crate::change::{self, Tellings};
use crate::drills;
use crate::fact::{Fact, hash};
use crate::names::Names;
use crate::observed::{Lasts, Turn, Turns};
use crate::report::{self, Memory};
use crate::subject::{Extremes, SLOT_NS, Sample, Samples, Subject};
use crate::timeline::{Moment, Timeline};
use crate::view::View;

/// The most tellings of one sort of issue that are told apart; beyond, repeats may count twice.
const MOST_TELLINGS: usize = 10_000;
/// The host's own memory is kept by the hour.
const HOUR_NS: i64 = 3600 * NS;

/// One sort of issue.
#[derive(Clone, Debug, Default)]
struct Issues {
    tellings: BTreeSet<(Timestamp, u64, u64, u64)>,
    beyond: u64,
    last: Option<(Timestamp, u64, String, String)>,
}

/// The limits of the containers that run: their sum in bytes, and how many have none.
type Limits = (u64, Option<u64>);

/// What `host_up` says.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Machine {
    kernel: Option<String>,
    cgroup_version: Option<u64>,
    memory_total: Option<u64>,
    swap_total: Option<u64>,
}

/// One host.
#[derive(Debug, Default)]
pub struct Host {
    /// Its time.
    pub timeline: Timeline,
    turns: Turns,
    /// The last moment of each run in each boot: boot time, or wall-clock time where no boot is known.
    runs: BTreeMap<(u64, u32), Moment>,
    first: BTreeMap<u32, Moment>,
    machines: BTreeMap<u32, (Moment, Machine)>,
    samples: Samples,
    limits: BTreeMap<u32, (Moment, Limits)>,
    issues: BTreeMap<(String, String), Issues>,
    /// Its subjects.
    pub subjects: BTreeMap<Arc<str>, Subject>,
    /// What people marked.
    pub marks: Tellings<Box<str>>,
    /// What was told of drills.
    pub drills: Tellings<drills::Word>,
    /// Names that failed, by the client that asked.
    pub names: BTreeMap<Arc<str>, Names>,
}

impl Lasts for Host {
    fn before_run(&self, run: u64) -> Option<Timestamp> {
        self.runs.range(..(run, 0)).map(|(_, m)| self.timeline.axis(*m)).max()
    }

    fn end_of_boot(&self, boot: u32) -> Option<Timestamp> {
        self.timeline.end_of(boot)
    }
}

fn moment_key(m: &Moment) -> (u64, Timestamp) {
    (m.boot_ns, m.at)
}

impl Host {
    /// Takes one event in. An event of a kind that is not known is the ledger's to count.
    pub fn fold(&mut self, event: &Event) {
        let (moment, moved) = self.timeline.note(event);
        if moved {
            self.turns.replace(&self.timeline);
            for s in self.subjects.values_mut() {
                s.replace(&self.timeline);
            }
        }
        self.note(event, moment);
        match &event.fact {
            Told::WatchStarted(_) | Told::WatchStopped(_) => {
                if let Some(turn) = Turn::read(event, moment, &self.timeline) {
                    self.turns.insert(turn);
                }
            }
            Told::HostUp(f) => {
                let machine = Machine {
                    kernel: f.kernel.clone(),
                    cgroup_version: f.cgroup_version,
                    memory_total: f.memory_total_bytes,
                    swap_total: f.swap_total_bytes,
                };
                let entry = self.machines.entry(moment.boot).or_insert_with(|| (moment, machine.clone()));
                if (moment_key(&entry.0), &entry.1) < (moment_key(&moment), &machine) {
                    *entry = (moment, machine);
                }
            }
            Told::Issue(_) => self.issue(event),
            Told::Memory(_) => self.memory(event, moment),
            Told::DnsFailure(_) | Told::DnsOk(_) => {
                self.names.entry(event.subject.clone()).or_default().note(event, moment);
            }
            Told::Mark(f) => self.marks.note(event, moment, change::text(&f.text)),
            Told::Drill(f) => self.drills.note(event, moment, drills::Word::from(&**f)),
            _ if &*event.subject == "host:" => {}
            _ => {
                if let Some(fact) = Fact::read(event, moment, &self.timeline) {
                    self.subject(&event.subject).insert(fact);
                }
            }
        }
    }

    fn note(&mut self, event: &Event, moment: Moment) {
        let first = self.first.entry(moment.boot).or_insert(moment);
        if moment_key(&moment) < moment_key(first) {
            *first = moment;
        }
        if let Some(run) = event.run {
            let last = self.runs.entry((run, moment.boot)).or_insert(moment);
            if moment_key(&moment) > moment_key(last) {
                *last = moment;
            }
        }
    }

    fn subject(&mut self, name: &Arc<str>) -> &mut Subject {
        self.subjects.entry(name.clone()).or_default()
    }

    fn memory(&mut self, event: &Event, moment: Moment) {
        let Told::Memory(f) = &event.fact else { return };
        let memory = Memory {
            at: event.at,
            current_bytes: f.current_bytes,
            limit_bytes: f.limit_bytes,
            swap_bytes: f.swap_bytes,
        };
        let sample = Sample { moment, memory };
        if &*event.subject != "host:" {
            self.subject(&event.subject).samples.note(sample, SLOT_NS);
            return;
        }
        self.samples.note(sample, HOUR_NS);
        if let Some(sum) = f.container_limits_bytes.map(|sum| (sum, f.containers_unlimited)) {
            let last = self.limits.entry(moment.boot).or_insert((moment, sum));
            if (moment_key(&last.0), last.1) < (moment_key(&moment), sum) {
                *last = (moment, sum);
            }
        }
    }

    fn issue(&mut self, event: &Event) {
        let Told::Issue(f) = &event.fact else { return };
        let text = |t: &Option<String>, most: usize| {
            t.as_deref().unwrap_or("").chars().take(most).collect::<String>()
        };
        let issues = self.issues.entry((text(&f.source, 64), text(&f.what, 64))).or_default();
        let count = f.count.unwrap_or(1);
        if issues.tellings.len() >= MOST_TELLINGS {
            issues.beyond = issues.beyond.saturating_add(count);
        } else {
            issues.tellings.insert((event.at, hash(&event.subject), event.seq.unwrap_or(0), count));
        }
        let last = (event.at, count, text(&f.detail, 400), text(&f.sample, 200));
        if issues.last.as_ref().is_none_or(|l| *l < last) {
            issues.last = Some(last);
        }
    }

    /// The first moment known.
    #[must_use]
    pub fn first(&self) -> Option<Timestamp> {
        self.first.values().map(|m| self.timeline.axis(*m)).min()
    }

    /// When each source watched, up to `end`, and where boots began. The window is to be set by the caller.
    #[must_use]
    pub fn view(&self, end: Timestamp, shift: i64) -> View {
        View {
            window: Span::new(end, end),
            end,
            closed: false,
            shift,
            watches: self.turns.watches(self, end),
            boots: self.timeline.boots(),
        }
    }

    /// The host as it is reported.
    #[must_use]
    pub fn report(&self, name: &str, view: &View) -> report::Host {
        let last = |key: &u32| self.machines.get(key);
        let newest = self.machines.keys().max_by_key(|k| last(k).map(|(m, _)| self.timeline.axis(*m)));
        let machine = newest.and_then(last).map(|(_, m)| m.clone()).unwrap_or_default();
        // The boot that the window begins in, and those that begin in it.
        let began = view.boots.iter().filter(|b| **b <= view.window.to);
        let before = view.boots.iter().filter(|b| **b <= view.window.from).count();
        report::Host {
            host: name.into(),
            kernel: machine.kernel,
            cgroup_version: machine.cgroup_version,
            memory_total_bytes: machine.memory_total,
            swap_total_bytes: machine.swap_total,
            container_limits_bytes: self.limits().map(|l| l.0),
            boots: began.count().saturating_sub(before.saturating_sub(1)) as u64,
            memory: self.samples.last(&self.timeline),
        }
    }

    /// The limits of its running containers as told last: their sum in bytes, and how many have none.
    #[must_use]
    pub fn limits(&self) -> Option<Limits> {
        self.limits.values().max_by_key(|(m, _)| self.timeline.axis(*m)).map(|(_, limits)| *limits)
    }

    /// The extremes of its memory in the hours that a span of wall-clock time touches.
    #[must_use]
    pub fn extremes(&self, span: Span) -> Extremes {
        self.samples.extremes(span, HOUR_NS)
    }

    /// Each source's coverage of the window.
    #[must_use]
    pub fn coverage(&self, name: &str, view: &View) -> Vec<report::Coverage> {
        let watches = view.watches.iter();
        watches
            .map(|(source, w)| {
                let within = w.windows.clip(view.window);
                report::Coverage {
                    host: name.into(),
                    source: source.to_string(),
                    watching: within.spans().last().is_some_and(|s| s.to == view.window.to),
                    detail: w.detail.to_string(),
                    watched: within.spans().iter().map(|s| [view.wall(s.from), view.wall(s.to)]).collect(),
                    watched_seconds: within.seconds(),
                    gaps: view.gaps(&w.windows, &w.ends),
                }
            })
            .collect()
    }

    /// What its observers could not read or keep.
    #[must_use]
    pub fn issues(&self, name: &str) -> Vec<report::Issue> {
        let issues = self.issues.iter();
        issues
            .filter_map(|((source, what), i)| {
                let (last_at, _, detail, sample) = i.last.clone()?;
                let told = i.tellings.iter().map(|t| t.3).fold(0, u64::saturating_add);
                Some(report::Issue {
                    host: name.into(),
                    source: source.clone(),
                    what: what.clone(),
                    count: told.saturating_add(i.beyond),
                    last_at,
                    detail,
                    sample,
                })
            })
            .collect()
    }
}
