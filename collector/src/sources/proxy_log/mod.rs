//! Lookups that fail, in the client's own words: the logs of containers that look like proxies (or are named), followed through
//! Docker, of which the lines that tell of a failing lookup become `dns_failure`. No other line is kept. This file follows the
//! containers; [`follow`] reads one log, [`lines`], [`recognise`] and [`tell`] are its pure parts.

pub mod follow;
pub mod lines;
pub mod recognise;
pub mod tell;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bollard::Docker;
use linchpin_data::Timestamp;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch as signal;
use tokio::task::JoinSet;

use self::follow::{Follow, Log};
use super::dns::proxies;
use super::docker::connect;
use crate::roster::{Change, Container};
use crate::source::{Roots, Sight, Source, SourceContext, SourceError};

/// How many logs are followed at once.
const MOST: usize = 128;
/// How long after the end of the log of a container that is said to run it is read again.
const AGAIN: Duration = Duration::from_secs(2);
/// Of how many containers it is remembered how far their logs were read.
const REMEMBERED: usize = 1024;

/// The source.
#[derive(Debug, Default)]
pub struct ProxyLog;

/// For the registry.
#[must_use]
pub fn source() -> Box<dyn Source> {
    Box::new(ProxyLog)
}

#[async_trait]
impl Source for ProxyLog {
    fn name(&self) -> &'static str {
        "proxy_log"
    }

    fn sees(&self) -> &'static str {
        "failing lookups that proxies write into their logs"
    }

    async fn run(&self, cx: SourceContext) -> Result<(), SourceError> {
        let Some(docker) = connect::patiently(&cx, false, &mut None).await? else { return Ok(()) };
        let mut changes = cx.roster.subscribe();
        let mut team = Team::new(cx.clone(), docker);
        cx.watching("agent started", "logs of containers that look like proxies or are named, from now on")
            .await;
        team.all();
        loop {
            tokio::select! {
                () = cx.ended() => break,
                change = changes.recv() => match change {
                    Ok(Change::Described(c) | Change::Started(c)) => team.consider(c),
                    // A log outlives its container's life: what was written last is read still.
                    Ok(Change::Exited(c)) => team.last_words(c),
                    Ok(Change::Removed(c)) => team.forget(&c.id),
                    Err(RecvError::Lagged(_)) => team.all(),
                    Err(RecvError::Closed) => break,
                },
                Some(read) = team.tasks.join_next() => {
                    if let Ok((id, log)) = read {
                        team.finished(id, log);
                    }
                }
            }
        }
        let _ = team.stop.send(true);
        while team.tasks.join_next().await.is_some() {}
        Ok(())
    }

    async fn sight(&self, roots: &Roots) -> Sight {
        match connect::sight(&roots.docker).await {
            Sight::Works { .. } => {
                Sight::Works { detail: "can ask Docker for the logs of containers".into() }
            }
            other => other,
        }
    }
}

/// All logs that are followed.
struct Team {
    cx: SourceContext,
    docker: Docker,
    since: Timestamp,
    stop: signal::Sender<bool>,
    following: HashSet<Arc<str>>,
    /// Containers of which there is more to read once the present read is finished.
    again: HashSet<Arc<str>>,
    /// How far each log was read, for those that are not followed now.
    logs: HashMap<Arc<str>, Log>,
    tasks: JoinSet<(Arc<str>, Log)>,
}

impl Team {
    fn new(cx: SourceContext, docker: Docker) -> Self {
        Team {
            since: cx.clock.now().at,
            cx,
            docker,
            stop: signal::channel(false).0,
            following: HashSet::new(),
            again: HashSet::new(),
            logs: HashMap::new(),
            tasks: JoinSet::new(),
        }
    }

    fn all(&mut self) {
        for c in self.cx.roster.all() {
            self.consider(c);
        }
    }

    /// Follows the log of a container that runs.
    fn consider(&mut self, c: Container) {
        if c.running {
            self.last_words(c);
        }
    }

    /// Reads a log from where it was left, to its end, whether the container still runs or not.
    fn last_words(&mut self, c: Container) {
        self.read(c, Duration::ZERO);
    }

    fn read(&mut self, c: Container, pause: Duration) {
        if !proxies::read(&c, &self.cx.settings.names) {
            return;
        }
        if self.following.contains(&c.id) {
            self.again.insert(c.id);
            return;
        }
        if self.following.len() >= MOST {
            tracing::debug!(subject = %c.subject, "too many logs are followed; this one is not");
            return;
        }
        let log = self.logs.remove(&c.id).unwrap_or_else(|| Log::from(self.since));
        self.following.insert(c.id.clone());
        let (cx, docker, id, subject) = (self.cx.clone(), self.docker.clone(), c.id, c.subject);
        let follow = Follow { cx, docker, id: id.clone(), subject, stop: self.stop.subscribe() };
        self.tasks.spawn(async move {
            tokio::time::sleep(pause).await;
            (id, follow.run(log).await)
        });
    }

    /// The log has been read to its end. If the container runs again, or ended meanwhile, there may be more.
    fn finished(&mut self, id: Arc<str>, log: Log) {
        self.following.remove(&id);
        let more = self.again.remove(&id);
        let Some(c) = self.cx.roster.get(&id).filter(|c| !c.removed) else { return };
        if self.logs.len() >= REMEMBERED {
            self.logs.clear();
        }
        self.logs.insert(id, log);
        if more {
            self.last_words(c);
        } else if c.running {
            // It has ended and we have not heard of it yet, or the engine ended the stream by itself.
            self.read(c, AGAIN);
        }
    }

    fn forget(&mut self, id: &str) {
        self.logs.remove(id);
        self.again.remove(id);
    }
}
