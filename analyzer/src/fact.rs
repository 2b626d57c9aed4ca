//! What the ledger keeps of an event: small, sorted, comparable. Texts are cut, names of instances are hashes: memory grows
//! with deaths, not with what a log says about them.

use std::cmp::Ordering;
use std::sync::Arc;

use linchpin_data::event::{Described, Event, Fact as Told, Upstream};
use linchpin_data::{EventId, Timestamp};

use crate::report::Evidence;
use crate::timeline::{Moment, Timeline};

/// The longest text kept of a name or a detail, in characters.
const TEXT: usize = 160;

/// Facts told twice lie this close on the axis (an event may come five seconds late).
pub const TWICE_NS: i64 = 5_000_000_000;

/// Who saw that it accepts work, or that it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Witness {
    /// A listening port.
    Port,
    /// The declared health check.
    Health,
    /// A probe over HTTP.
    Http,
    /// A line in its log.
    Log,
    /// Not told.
    Unnamed,
}

impl Witness {
    fn read(by: Option<&str>) -> Self {
        match by {
            Some("listen") => Witness::Port,
            Some("health") => Witness::Health,
            Some("http") => Witness::Http,
            Some("log") => Witness::Log,
            _ => Witness::Unnamed,
        }
    }

    /// As a source in evidence.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Witness::Port => "port",
            Witness::Health => "health check",
            Witness::Http => "http probe",
            Witness::Log => "log",
            Witness::Unnamed => "readiness",
        }
    }
}

/// How a main process ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Exit {
    /// Exit code as told.
    pub code: Option<i64>,
    /// Signal as told.
    pub signal: Option<i64>,
    /// Whether the runtime claims a lack of memory.
    pub oom_claim: Option<bool>,
    /// Whether someone asked for it.
    pub by_operator: bool,
    /// What was asked for, cut.
    pub action: Option<Box<str>>,
    /// How finely the moment is known, in microseconds.
    pub resolution_us: Option<u64>,
}

/// One witness's word on a kernel OOM kill.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kill {
    /// Whether a counter is the witness; else the kernel's log.
    pub counter: bool,
    /// How many kills it tells of.
    pub count: u64,
    /// The victim's pid.
    pub pid: Option<u64>,
    /// The victim's name, cut.
    pub process: Option<Box<str>>,
    /// Its resident memory, bytes.
    pub rss: Option<u64>,
    /// The limit hit, bytes.
    pub limit: Option<u64>,
    /// Whether the machine ran out, rather than a cgroup.
    pub host: bool,
    /// Whether the whole group was killed.
    pub group: bool,
}

impl Kill {
    /// Who says it, as a source in evidence.
    #[must_use]
    pub fn witness(&self) -> &'static str {
        if self.counter { "cgroup counter" } else { "kernel log" }
    }
}

/// Facts about a subject, as far as the report shows them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Description {
    /// Whether its main process ran.
    pub running: Option<bool>,
    /// Its pid.
    pub pid: Option<u64>,
    /// What it is a replica of.
    pub service: Option<String>,
    /// Image reference.
    pub image: Option<String>,
    /// Content id of the image.
    pub image_id: Option<String>,
    /// Memory limit, bytes.
    pub memory_limit: Option<u64>,
    /// The runtime's restart counter.
    pub restart_count: Option<u64>,
    /// Hostnames served through it.
    pub hostnames: Option<Vec<String>>,
    /// Where those lead: a hash of the whole, and the begin in words.
    pub upstreams: Option<(u64, Box<str>)>,
    /// When its configuration was last changed.
    pub config_at: Option<Timestamp>,
}

/// What happened, in the order in which facts of one instant are taken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// A kernel OOM kill.
    Oom(Arc<Kill>),
    /// A trap that the kernel logged: its detail.
    Segfault(Box<str>),
    /// It stopped accepting while it lived.
    Unready { by: Witness, resolution_us: Option<u64> },
    /// Its main process ended.
    Exited(Arc<Exit>),
    /// It is gone.
    Removed,
    /// Restarts that only a counter proves.
    Missed { count: u64 },
    /// Facts about it.
    Described(Arc<Description>),
    /// Its main process was started.
    Started { pid: u64, restart_count: Option<u64> },
    /// It accepts again.
    Ready { by: Witness, resolution_us: Option<u64> },
}

impl What {
    /// The kind as a number, in the order of the variants.
    fn rank(&self) -> u8 {
        match self {
            What::Oom(_) => 0,
            What::Segfault(_) => 1,
            What::Unready { .. } => 2,
            What::Exited(_) => 3,
            What::Removed => 4,
            What::Missed { .. } => 5,
            What::Described(_) => 6,
            What::Started { .. } => 7,
            What::Ready { .. } => 8,
        }
    }
}

/// One fact about one subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Its place on the host's axis.
    pub axis: Timestamp,
    /// Its moment as told.
    pub moment: Moment,
    /// The runtime's own time of it, by which it is known when it is told again.
    pub told: Timestamp,
    /// The agent's run, or 0.
    pub run: u64,
    /// The number in the run, or 0.
    pub seq: u64,
    /// Hash of the instance (for kills and traps: of the pid and the witness); 0 if none is named.
    pub instance: u64,
    /// What happened.
    pub what: What,
}

impl Ord for Fact {
    /// By axis, then by kind and content: never by the order in which they came.
    fn cmp(&self, o: &Self) -> Ordering {
        (self.axis, self.what.rank(), self.instance, self.moment.at, self.run, self.seq)
            .cmp(&(o.axis, o.what.rank(), o.instance, o.moment.at, o.run, o.seq))
            .then_with(|| self.what.cmp(&o.what))
    }
}

impl PartialOrd for Fact {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Fact {
    /// The event's id.
    #[must_use]
    pub fn id(&self) -> EventId {
        EventId { at: self.moment.at, run: self.run, seq: self.seq }
    }

    /// As evidence: who says it, and what.
    #[must_use]
    pub fn evidence(&self, source: &str, text: String) -> Evidence {
        Evidence { event: self.id(), at: self.moment.at, source: source.into(), text }
    }

    /// Whether both tell of one happening: kind, instance and moment agree.
    #[must_use]
    pub fn same(&self, o: &Fact) -> bool {
        self.told == o.told && self.instance == o.instance && self.what.rank() == o.what.rank()
    }

    /// Of two that tell the same, the one to keep: the finer witness, else the one told first.
    #[must_use]
    pub fn better_than(&self, o: &Fact) -> bool {
        let key = |f: &Fact| (f.told == f.moment.at, f.run, f.seq, f.axis);
        key(self).cmp(&key(o)).then_with(|| self.what.cmp(&o.what)) == Ordering::Less
    }

    /// What is kept of an event about a process; `None` for kinds that say nothing about its life.
    #[must_use]
    pub fn read(event: &Event, moment: Moment, timeline: &Timeline) -> Option<Fact> {
        let mut instance = event.instance().map_or(0, hash);
        let mut told = event.at;
        let what = match &event.fact {
            Told::Exited(f) => {
                told = f.runtime_at.unwrap_or(told);
                What::Exited(Arc::new(Exit {
                    code: f.exit_code,
                    signal: f.signal.filter(|s| *s != 0),
                    oom_claim: f.oom_killed,
                    by_operator: f.by_operator.unwrap_or(false),
                    action: f.action.as_deref().map(cut),
                    resolution_us: micros(f.resolution_ms),
                }))
            }
            Told::Started(f) => {
                told = f.runtime_at.unwrap_or(told);
                What::Started { pid: f.pid.unwrap_or(0), restart_count: f.restart_count }
            }
            Told::Ready(f) => {
                What::Ready { by: Witness::read(f.by.as_deref()), resolution_us: micros(f.resolution_ms) }
            }
            Told::Unready(f) => {
                What::Unready { by: Witness::read(f.by.as_deref()), resolution_us: micros(f.resolution_ms) }
            }
            Told::Removed(_) => What::Removed,
            Told::RestartsMissed(f) => What::Missed { count: f.count.unwrap_or(1) },
            Told::OomKill(f) => {
                let counter = f.by.as_deref() == Some("cgroup");
                instance = f.pid.map_or(0, |p| hash(&p.to_string())) ^ u64::from(counter);
                What::Oom(Arc::new(Kill {
                    counter,
                    count: f.count.unwrap_or(1).max(1),
                    pid: f.pid,
                    process: f.process.as_deref().map(cut),
                    rss: f.rss_bytes,
                    limit: f.limit_bytes,
                    host: f.scope.as_deref() == Some("host"),
                    group: f.group.unwrap_or(false),
                }))
            }
            Told::Segfault(f) => {
                instance = f.pid.map_or(0, |p| hash(&p.to_string()));
                let process = f.process.as_deref().unwrap_or("a process");
                What::Segfault(cut(&format!("{process}: {}", f.detail.as_deref().unwrap_or("trap"))))
            }
            Told::Described(f) => What::Described(Arc::new(describe(f))),
            _ => return None,
        };
        let (run, seq) = (event.run.unwrap_or(0), event.seq.unwrap_or(0));
        Some(Fact { axis: timeline.axis(moment), moment, told, run, seq, instance, what })
    }
}

fn describe(f: &Described) -> Description {
    Description {
        running: f.running,
        pid: f.pid.filter(|p| *p > 0),
        service: f.service.clone(),
        image: f.image.clone(),
        image_id: f.image_id.clone(),
        memory_limit: f.memory_limit_bytes,
        restart_count: f.restart_count,
        hostnames: f.hostnames.clone(),
        upstreams: f.upstreams.as_deref().map(|all| {
            let words: Vec<String> = all.iter().map(upstream).collect();
            let whole = words.join(", ");
            (hash(&whole), cut(&whole))
        }),
        config_at: f.config_at,
    }
}

fn upstream(u: &Upstream) -> String {
    let host = if u.hostname.is_empty() { "*" } else { &u.hostname };
    format!("{host} to {} by {}", u.to.join(" "), u.by)
}

fn micros(ms: Option<f64>) -> Option<u64> {
    // Saturating, and 0 for what is no number: a resolution is a remark, not a figure to fail on.
    ms.map(|v| (v * 1000.0).round() as u64)
}

fn cut(text: &str) -> Box<str> {
    text.chars().take(TEXT).collect::<String>().into()
}

/// FNV-1a, 64 bits: the same on every machine and in every run, and never 0 for a name.
#[must_use]
pub fn hash(text: &str) -> u64 {
    let h =
        text.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    h.max(2)
}
