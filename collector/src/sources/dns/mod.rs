//! Lookups that fail, as seen on the wire: a packet socket in the network namespace of each container that looks like a proxy
//! (or is named), from which `dns_failure`, `dns_ok` and a `tally` a minute are told with the container as their subject. This file
//! follows the containers; [`watch`] does one container's work, [`filter`], [`decode`], [`matching`] and [`judge`] are its pure parts,
//! [`canary`] asks by itself where configured. Names that are answered are never kept, beyond counters and a keyed hash.

pub mod canary;
pub mod capture;
pub mod decode;
pub mod filter;
pub mod judge;
pub mod known;
pub mod matching;
pub mod netns;
pub mod proxies;
pub mod resolv;
pub mod watch;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch as signal;
use tokio::task::JoinSet;

use self::canary::Canary;
use self::capture::Capture;
use self::known::{Known, OwnPorts};
use self::netns::{Key, key_of};
use self::watch::{SharedJudge, Watch};
use crate::roster::{Change, Container};
use crate::source::{Roots, Sight, Source, SourceContext, SourceError};

/// How many containers are watched at once.
const MOST: usize = 128;
/// Of how many clients the names that worked are remembered after they ended.
const JUDGES: usize = 512;
/// What is missing where we may not.
const GRANT: &str = "run as root, or grant CAP_SYS_ADMIN (to enter a container's network namespace), CAP_NET_RAW (to hear packets) and CAP_SYS_PTRACE (to find it below /proc)";

/// The source.
#[derive(Debug, Default)]
pub struct Dns;

/// For the registry.
#[must_use]
pub fn source() -> Box<dyn Source> {
    Box::new(Dns)
}

#[async_trait]
impl Source for Dns {
    fn name(&self) -> &'static str {
        "dns"
    }

    fn sees(&self) -> &'static str {
        "failing lookups of proxies, on the wire in their network namespaces"
    }

    async fn run(&self, cx: SourceContext) -> Result<(), SourceError> {
        // Opened in our own namespace and closed at once: whether we may at all.
        let own = Capture::try_here().await.map_err(|e| SourceError::Unavailable {
            what: "hearing packets in a network namespace".into(),
            why: format!("{e}; {GRANT}"),
        })?;
        let mut changes = cx.roster.subscribe();
        cx.watching("agent started", "lookups of containers that look like proxies or are named; five seconds without an answer is a timeout").await;
        let mut team = Team::new(cx.clone(), own);
        team.all().await;
        loop {
            tokio::select! {
                () = cx.ended() => break,
                change = changes.recv() => match change {
                    Ok(change) => team.changed(change).await,
                    Err(RecvError::Lagged(_)) => team.all().await,
                    Err(RecvError::Closed) => break,
                },
                Some(_) = team.tasks.join_next() => {}
            }
        }
        team.end().await;
        Ok(())
    }

    async fn sight(&self, _: &Roots) -> Sight {
        match Capture::try_here().await {
            Ok(_) => Sight::Works { detail: "can enter network namespaces and hear packets there".into() },
            Err(e) => Sight::Blind {
                missing: format!("hearing packets in a network namespace: {e}"),
                grant: GRANT.into(),
            },
        }
    }
}

/// One container that is watched.
struct Watched {
    pid: u32,
    namespace: Key,
    stop: signal::Sender<bool>,
}

/// All that are watched.
struct Team {
    cx: SourceContext,
    /// Our own namespace, and the host's as far as we know: whose lookups are heard there is not known.
    own: Key,
    known: Arc<Known>,
    watched: HashMap<Arc<str>, Watched>,
    /// By subject, with the turn in which it was last used.
    judges: HashMap<Arc<str>, (SharedJudge, u64)>,
    turn: u64,
    tasks: JoinSet<()>,
    refused: bool,
    full: bool,
}

impl Team {
    fn new(cx: SourceContext, own: Key) -> Self {
        Team {
            cx,
            own,
            known: Arc::default(),
            watched: HashMap::new(),
            judges: HashMap::new(),
            turn: 0,
            tasks: JoinSet::new(),
            refused: false,
            full: false,
        }
    }

    /// Brings what is watched in line with all containers known.
    async fn all(&mut self) {
        let all = self.cx.roster.all();
        self.known.learn(&all, &self.cx.settings.names);
        let gone: Vec<Arc<str>> = self
            .watched
            .keys()
            .filter(|id| !all.iter().any(|c| c.id == **id && c.running))
            .cloned()
            .collect();
        for id in gone {
            self.stop(&id);
        }
        for c in all {
            self.consider(c).await;
        }
    }

    async fn changed(&mut self, change: Change) {
        match change {
            Change::Described(c) => {
                self.known.learn(&self.cx.roster.all(), &self.cx.settings.names);
                self.consider(c).await;
            }
            Change::Started(c) => self.consider(c).await,
            Change::Exited(c) => self.stop(&c.id),
            Change::Removed(c) => {
                self.stop(&c.id);
                self.known.learn(&self.cx.roster.all(), &self.cx.settings.names);
            }
        }
    }

    /// Watches the container if it shall be, and is not yet.
    async fn consider(&mut self, c: Container) {
        let Some(pid) = c.pid.filter(|_| c.running) else { return };
        if self.watched.get(&c.id).is_some_and(|w| w.pid == pid)
            || !proxies::watched(&c, &self.cx.settings.names)
        {
            return;
        }
        self.stop(&c.id);
        if self.watched.len() >= MOST {
            if !std::mem::replace(&mut self.full, true) {
                let detail = format!(
                    "lookups of more than {MOST} containers are not watched; name those to leave out in the settings"
                );
                self.cx.emit(self.cx.issue(&c.subject, "dropped", 1, detail, "")).await;
            }
            return;
        }
        match self.open(pid).await {
            Ok(Some((capture, namespace))) => self.start(c, pid, capture, namespace),
            Ok(None) => {}
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                if !std::mem::replace(&mut self.refused, true) {
                    let detail = format!("entering the network namespace of process {pid}: {e}; {GRANT}");
                    self.cx.emit(self.cx.issue(&c.subject, "unreadable", 1, detail, "")).await;
                }
            }
            // It ended meanwhile, as short-lived ones do; its end is told by others.
            Err(e) => {
                tracing::debug!(subject = %c.subject, pid, error = %e, "its network namespace was not entered")
            }
        }
    }

    /// A socket in its namespace; none where that is ours, or is heard already for another that shares it.
    async fn open(&self, pid: u32) -> io::Result<Option<(Capture, Key)>> {
        let theirs = key_of(&self.cx.roots.proc, pid)?;
        if theirs == self.own || self.watched.values().any(|w| w.namespace == theirs) {
            return Ok(None);
        }
        Ok(Some((Capture::open(&self.cx.roots.proc, pid, theirs).await?, theirs)))
    }

    fn start(&mut self, c: Container, pid: u32, capture: Capture, namespace: Key) {
        let (stop, stopped) = signal::channel(false);
        self.watched.insert(c.id.clone(), Watched { pid, namespace, stop });
        let own: Arc<OwnPorts> = Arc::default();
        if let Some(names) = self.cx.settings.names.canary.get(&*c.name) {
            let (cx, subject, names) = (self.cx.clone(), c.subject.clone(), names.clone());
            self.tasks.spawn(
                Canary { cx, subject, pid, namespace, names, own: own.clone(), stop: stopped.clone() }.run(),
            );
        }
        let (cx, subject, known) = (self.cx.clone(), c.subject.clone(), self.known.clone());
        let watch = Watch {
            cx: cx.clone(),
            subject: subject.clone(),
            judge: self.judge(&c.subject),
            known,
            own,
            stop: stopped,
        };
        self.tasks.spawn(async move {
            if let Err(e) = watch.run(capture).await {
                let detail = format!("hearing packets in the network namespace of process {pid}: {e}; heard again from its next start");
                cx.emit(cx.issue(&subject, "unreadable", 1, detail, "")).await;
            }
        });
    }

    /// The client's judge, the same over its restarts.
    fn judge(&mut self, subject: &Arc<str>) -> SharedJudge {
        self.turn += 1;
        if self.judges.len() >= JUDGES && !self.judges.contains_key(subject) {
            let oldest = self.judges.iter().min_by_key(|(_, (_, turn))| *turn).map(|(s, _)| s.clone());
            self.judges.remove(&oldest.unwrap_or_default());
        }
        let entry = self.judges.entry(subject.clone()).or_default();
        entry.1 = self.turn;
        entry.0.clone()
    }

    fn stop(&mut self, id: &str) {
        if let Some(w) = self.watched.remove(id) {
            // A task that has ended by itself does not hear it: fine.
            let _ = w.stop.send(true);
        }
    }

    /// Stops all, and waits until each has told what it had.
    async fn end(mut self) {
        for w in self.watched.values() {
            let _ = w.stop.send(true);
        }
        while self.tasks.join_next().await.is_some() {}
    }
}
