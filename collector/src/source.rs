//! What a source is and what it is given. A source is a thin transport (connects, reconnects, never parses) and a pure
//! decode (bytes to facts and issues). It gets its clock, roots, output and shutdown from one context, records facts in
//! the past tense, and never judges.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use linchpin_data::clock::{SharedClock, Stamp};
use linchpin_data::event::{Issue, WatchStarted};
use linchpin_data::{Event, Fact};
use tokio::sync::{mpsc, watch};

use crate::resume::Resume;
use crate::roster::Roster;
use crate::witness::Exits;

/// Where the kernel's and the runtime's interfaces are found. Parameters, so that tests can lay out their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// The proc file system.
    pub proc: PathBuf,
    /// Where cgroup hierarchies are mounted.
    pub cgroup: PathBuf,
    /// The kernel log.
    pub kmsg: PathBuf,
    /// Docker's socket.
    pub docker: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Roots {
            proc: "/proc".into(),
            cgroup: "/sys/fs/cgroup".into(),
            kmsg: "/dev/kmsg".into(),
            docker: "/var/run/docker.sock".into(),
        }
    }
}

/// What people may set about collecting.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Settings {
    /// Sources not to run, by name.
    pub off: Vec<String>,
    /// Container name to the URL path or full URL to probe over HTTP (also by the label `linchpin.probe`).
    pub probes: std::collections::BTreeMap<String, String>,
    /// Whose failing lookups are watched.
    pub names: NameSettings,
}

/// Whose failing lookups are watched, and which names are asked for on a period.
#[derive(Clone, Debug, PartialEq)]
pub struct NameSettings {
    /// Container names to watch besides those that look like proxies; `*` is all.
    pub watch: Vec<String>,
    /// Container names not to watch, whatever they look like.
    pub skip: Vec<String>,
    /// Container name to names that are asked for on its behalf, from inside its network namespace.
    pub canary: std::collections::BTreeMap<String, Vec<String>>,
    /// How often.
    pub canary_period: std::time::Duration,
}

impl Default for NameSettings {
    fn default() -> Self {
        NameSettings {
            watch: Vec::new(),
            skip: Vec::new(),
            canary: std::collections::BTreeMap::new(),
            canary_period: std::time::Duration::from_secs(10),
        }
    }
}

/// Everything that a source is given. Cheap to clone.
#[derive(Clone)]
pub struct SourceContext {
    /// Time.
    pub clock: SharedClock,
    /// Where to look.
    pub roots: Arc<Roots>,
    /// What people set.
    pub settings: Arc<Settings>,
    /// This host's name.
    pub host: Arc<str>,
    /// This boot's id.
    pub boot_id: Arc<str>,
    /// What the journal already knows, to go on from.
    pub resume: Arc<Resume>,
    /// The containers known, shared between sources.
    pub roster: Arc<Roster>,
    /// When processes ended, to the kernel's own nanosecond.
    pub exits: Arc<Exits>,
    /// Becomes true when the source shall end.
    pub shutdown: watch::Receiver<bool>,
    pub(crate) name: &'static str,
    pub(crate) out: mpsc::Sender<Event>,
    pub(crate) announced: Arc<std::sync::atomic::AtomicBool>,
}

impl SourceContext {
    /// An event of now about `subject`.
    pub fn event(&self, subject: &str, fact: impl Into<Fact>) -> Event {
        self.event_at(self.clock.now(), subject, fact)
    }

    /// An event of a given moment about `subject`.
    pub fn event_at(&self, stamp: Stamp, subject: &str, fact: impl Into<Fact>) -> Event {
        let mut e = Event::new(stamp.at, &self.host, subject, fact);
        e.boot_ns = Some(stamp.boot_ns);
        e.boot_id = Some(self.boot_id.clone());
        e
    }

    /// The wall-clock and boot time of a moment given as boot time, by the clocks' present distance.
    pub fn stamp_of_boot(&self, boot_ns: u64) -> Stamp {
        let now = self.clock.now();
        let back = i64::try_from(i128::from(boot_ns) - i128::from(now.boot_ns)).unwrap_or(0);
        Stamp { at: now.at.plus_ns(back), boot_ns }
    }

    /// The boot time of a moment given as wall-clock time, by the clocks' present distance.
    pub fn stamp_of_wall(&self, at: linchpin_data::Timestamp) -> Stamp {
        let now = self.clock.now();
        let boot = i128::from(now.boot_ns) + i128::from(at.0) - i128::from(now.at.0);
        Stamp { at, boot_ns: u64::try_from(boot).unwrap_or(0) }
    }

    /// Hands an event on. Waits while the journal is behind: nothing is dropped here. False once the agent is ending.
    pub async fn emit(&self, event: Event) -> bool {
        self.out.send(event).await.is_ok()
    }

    /// As [`SourceContext::emit`], from a thread that is not the runtime's.
    pub fn emit_blocking(&self, event: Event) -> bool {
        self.out.blocking_send(event).is_ok()
    }

    /// Says that the source watches from now on: what it sees, and how finely.
    pub async fn watching(&self, reason: &str, detail: impl Into<String>) {
        let e = self.watching_event(reason, detail);
        self.emit(e).await;
    }

    /// The same, from a thread.
    pub fn watching_blocking(&self, reason: &str, detail: impl Into<String>) {
        let e = self.watching_event(reason, detail);
        self.emit_blocking(e);
    }

    fn watching_event(&self, reason: &str, detail: impl Into<String>) -> Event {
        self.announced.store(true, std::sync::atomic::Ordering::Release);
        self.event(
            "host:",
            WatchStarted {
                source: Some(self.name.into()),
                reason: Some(reason.into()),
                detail: Some(detail.into()),
            },
        )
    }

    /// An event about something that the source itself could not read or keep.
    pub fn issue(
        &self,
        subject: &str,
        what: &str,
        count: u64,
        detail: impl Into<String>,
        sample: &str,
    ) -> Event {
        self.event(
            subject,
            Issue {
                source: Some(self.name.into()),
                what: Some(what.into()),
                detail: Some(detail.into()),
                count: Some(count),
                sample: Some(sample.chars().take(200).collect()),
            },
        )
    }

    /// Resolves when the source shall end.
    pub async fn ended(&self) {
        let mut rx = self.shutdown.clone();
        // An error means that the supervisor is gone: that is an end too.
        let _ = rx.wait_for(|end| *end).await;
    }

    /// Whether the source shall end, for threads.
    pub fn is_ending(&self) -> bool {
        *self.shutdown.borrow()
    }
}

/// Why a source ended though nobody asked it to. It is started again with backoff; its blindness is recorded.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// An interface is not there or refuses us: said once, tried again slowly.
    #[error("{what}: {why}")]
    Unavailable {
        /// What was tried, on what.
        what: String,
        /// What it said, and what to do.
        why: String,
    },
    /// It worked, and then broke.
    #[error("{what}: {why}")]
    Lost {
        /// What was being read.
        what: String,
        /// What it said.
        why: String,
    },
}

/// What a source can see on this host, for `doctor`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case", tag = "status")]
pub enum Sight {
    /// All that it is made for.
    Works {
        /// What, in words.
        detail: String,
    },
    /// Part of it.
    Limited {
        /// What is seen.
        detail: String,
        /// What is not.
        missing: String,
        /// The one command or permission that grants it.
        grant: String,
    },
    /// Nothing.
    Blind {
        /// What is missing.
        missing: String,
        /// The one command or permission that grants it.
        grant: String,
    },
}

/// One way of watching this host.
#[async_trait]
pub trait Source: Send + Sync {
    /// Its name, as in `watch_started` and in the configuration.
    fn name(&self) -> &'static str;

    /// What it sees, in one line (the README's table and `doctor` show it).
    fn sees(&self) -> &'static str;

    /// Watches until the shutdown, or until it can not. Calls [`SourceContext::watching`] once it truly sees.
    async fn run(&self, cx: SourceContext) -> Result<(), SourceError>;

    /// What it would see here, without changing anything.
    async fn sight(&self, roots: &Roots) -> Sight;
}
