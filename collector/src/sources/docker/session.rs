//! One connection to the engine, from subscribing to its end.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bollard::Docker;
use bollard::query_parameters::ListContainersOptionsBuilder;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{StreamExt, stream};
use linchpin_data::Timestamp;
use linchpin_data::time::NS;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::ask::{Inspected, Item, ids_of, inspect, ping, read};
use super::decode::{Action, RuntimeEvent};
use super::kernel;
use super::tracker::{Out, Tracker, Why};
use crate::roster::Change;
use crate::source::{SourceContext, SourceError};

/// Inspections that are under way at once.
const AT_ONCE: usize = 16;
/// Events that are read ahead while the journal is behind; engines drop events of readers that do not read.
const AHEAD: usize = 65_536;
/// A replay is over when nothing came for this long; at the longest it is waited for this long.
const QUIET: Duration = Duration::from_millis(100);
const REPLAY: Duration = Duration::from_secs(2);
/// Told exits can be newer than one that was still held back when the agent died: a replay begins this much earlier.
const OVERLAP_NS: i64 = 10 * NS;
/// On a first start the last seconds' requests by operators are read, to know a stop that is under way.
const HISTORY_NS: i64 = 15 * NS;
/// How often a source that learns nothing of what it sees may say so.
const BLIND_EVERY: Duration = Duration::from_secs(3600);
/// Sessions in a row that end at an unreadable event before anything was understood.
const BROKEN_IN_A_ROW: u32 = 5;

/// What is kept across connections.
pub struct Memory {
    tracker: Tracker,
    /// There was a connection in this run of the agent.
    pub connected: bool,
    /// Where to subscribe from.
    since: Timestamp,
    /// Whether what happened between may have been missed.
    gap: bool,
    broken: u32,
    /// When the connection was lost, and the last moment after it at which nobody answered.
    lost: Option<Timestamp>,
    pub refused: Option<Timestamp>,
}

impl Memory {
    /// What the journal knows.
    pub fn new(cx: &SourceContext) -> Self {
        let now = cx.clock.now().at;
        let last = cx.resume.runtime_at.or(cx.resume.last_at);
        Memory {
            tracker: Tracker::new(&cx.resume, if last.is_none() { Some(now) } else { None }),
            connected: false,
            since: last.map_or(now.plus_ns(-HISTORY_NS), |t| t.plus_ns(-OVERLAP_NS)),
            gap: last.is_some(),
            broken: 0,
            lost: None,
            refused: None,
        }
    }
}

/// How a session ended that did not fail.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// The agent ends.
    Shutdown,
    /// An event could not be read and broke the stream: go on behind it.
    Unreadable,
}

/// Ends the reader with the session.
struct Reader(AbortHandle);

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// One connection.
pub struct Session<'a> {
    cx: &'a SourceContext,
    docker: &'a Docker,
    memory: &'a mut Memory,
    learned: u64,
    failed: u64,
    last_failure: String,
}

type Inspection<'a> = BoxFuture<'a, (Arc<str>, Why, Inspected)>;

impl<'a> Session<'a> {
    /// A session over what is known.
    pub fn new(cx: &'a SourceContext, docker: &'a Docker, memory: &'a mut Memory) -> Self {
        Session { cx, docker, memory, learned: 0, failed: 0, last_failure: String::new() }
    }

    fn lost(&self, what: &str, why: impl Into<String>) -> SourceError {
        SourceError::Lost { what: format!("{what} of {}", self.cx.roots.docker.display()), why: why.into() }
    }

    /// Watches until the end.
    pub async fn run(mut self) -> Result<End, SourceError> {
        let (items, mut rx) = mpsc::channel(AHEAD);
        let reader = read(self.docker.clone(), self.memory.since, items);
        let _reader = Reader(tokio::spawn(reader).abort_handle());
        if let (Some(lost), Some(refused)) = (self.memory.lost.take(), self.memory.refused.take()) {
            self.memory.tracker.unserved(lost, refused.max(lost));
        }
        self.catch_up(&mut rx).await?;
        let reason = if self.memory.connected { "reconnected" } else { "agent started" };
        self.memory.connected = true;
        self.memory.gap = true;
        let detail = format!("Docker's events and inspect at {}", self.cx.roots.docker.display());
        self.cx.watching(reason, detail).await;
        let ended = self.watch(&mut rx).await;
        self.memory.lost = Some(self.cx.clock.now().at);
        // What waits for more is told with what there is: after a lost connection nothing more may come.
        self.memory.tracker.flush(self.cx.clock.now(), &self.cx.exits);
        let mut none = FuturesUnordered::new();
        self.perform(&mut none).await;
        ended
    }

    /// Lists and inspects everything, takes in the replay, and tells what happened in between.
    async fn catch_up(&mut self, rx: &mut mpsc::Receiver<Item>) -> Result<(), SourceError> {
        let asked = self.cx.clock.now();
        let all = ListContainersOptionsBuilder::default().all(true).build();
        let list = match self.docker.list_containers(Some(all)).await {
            Ok(list) => list.into_iter().filter_map(|c| c.id).collect::<Vec<_>>(),
            Err(e) => ids_of(e).map_err(|e| self.lost("the list of containers", e))?,
        };
        let listed: HashSet<Arc<str>> = list.into_iter().map(Into::into).collect();
        let (docker, cx) = (self.docker, self.cx);
        let mut answers = stream::iter(listed.clone())
            .map(|id| async move { (id.clone(), inspect(docker, cx, &id).await) })
            .buffer_unordered(AT_ONCE);
        let mut inspected = HashMap::new();
        while let Some((id, answer)) = answers.next().await {
            self.count(&id, &answer);
            if let Inspected::Facts(facts, at) = answer {
                self.cx.roster.put(facts.container(), Change::Described);
                inspected.insert(id, (*facts, at));
            }
        }
        drop(answers);
        self.cx.roster.set_filled();
        let mut inspections = FuturesUnordered::new();
        if self.memory.gap {
            self.replay(rx, &mut inspections).await?;
        }
        // Starts that the replay told of are complete before what inspect proves is compared with them.
        while let Some((id, why, answer)) = inspections.next().await {
            self.take_in(&id, why, answer);
            self.perform(&mut inspections).await;
        }
        self.memory.tracker.conclude(&listed, &inspected, asked, &self.cx.exits);
        self.perform(&mut inspections).await;
        Ok(())
    }

    /// Takes in events until they cease.
    async fn replay(
        &mut self,
        rx: &mut mpsc::Receiver<Item>,
        inspections: &mut FuturesUnordered<Inspection<'a>>,
    ) -> Result<(), SourceError> {
        let end = tokio::time::Instant::now() + REPLAY;
        loop {
            let quiet = (tokio::time::Instant::now() + QUIET).min(end);
            match tokio::time::timeout_at(quiet, rx.recv()).await {
                Ok(Some(item)) => {
                    if self.item(item).await?.is_some() {
                        return Ok(());
                    }
                    self.perform(inspections).await;
                }
                Ok(None) => return Err(self.lost("the event stream", "it ended")),
                Err(_) => return Ok(()),
            }
        }
    }

    async fn watch(&mut self, rx: &mut mpsc::Receiver<Item>) -> Result<End, SourceError> {
        let mut inspections: FuturesUnordered<Inspection<'a>> = FuturesUnordered::new();
        let mut blind = tokio::time::interval(BLIND_EVERY);
        blind.tick().await;
        let mut pings: FuturesUnordered<BoxFuture<'a, (Timestamp, bool)>> = FuturesUnordered::new();
        loop {
            let now = self.cx.clock.now();
            let wait = self.memory.tracker.next(now).map(|at| {
                // Never nothing: an injected clock may stand still.
                Duration::from_nanos(at.saturating_sub(now.boot_ns)).max(Duration::from_millis(1))
            });
            tokio::select! {
                // Events before answers: a `restart` right behind its `start` is heard before the start is told.
                biased;
                () = self.cx.ended() => return Ok(End::Shutdown),
                item = rx.recv() => match item {
                    Some(item) => {
                        if let Item::Event(RuntimeEvent { action: Action::Kill(_), at, .. }) = &item
                            && pings.is_empty()
                        {
                            pings.push(Box::pin(ping(self.docker, *at)));
                        }
                        if let Some(end) = self.item(item).await? {
                            return Ok(end);
                        }
                    }
                    None => return Err(self.lost("the event stream", "it ended")),
                },
                Some((id, why, answer)) = inspections.next(), if !inspections.is_empty() => {
                    self.take_in(&id, why, answer);
                }
                Some((at, answered)) = pings.next(), if !pings.is_empty() => {
                    let tracker = &mut self.memory.tracker;
                    if answered {
                        tracker.served(at);
                    } else {
                        tracker.unserved(at.plus_ns(-NS), Timestamp::MAX);
                    }
                }
                () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some() => {
                    self.memory.tracker.settle(self.cx.clock.now(), &self.cx.exits);
                }
                _ = blind.tick() => self.tell_blind().await,
            }
            self.perform(&mut inspections).await;
        }
    }

    /// Takes in one word of the reader's; some end where it is one.
    async fn item(&mut self, item: Item) -> Result<Option<End>, SourceError> {
        match item {
            Item::Event(e) => {
                self.memory.broken = 0;
                self.memory.since = self.memory.since.max(e.at);
                let tracker = &mut self.memory.tracker;
                let pid = match (&e.action, tracker.cgroup_of(&e.id)) {
                    (Action::Start, Some(cgroup)) => kernel::main_process(&self.cx.roots, cgroup),
                    _ => None,
                };
                tracker.event(&e, pid, self.cx.clock.now(), &self.cx.exits);
                Ok(None)
            }
            Item::Odd(why, sample) => {
                let detail = format!(
                    "an event of {} was not understood and is skipped: {why}",
                    self.cx.roots.docker.display()
                );
                self.cx.emit(self.cx.issue("host:", "unreadable", 1, detail, &sample)).await;
                Ok(None)
            }
            Item::Broken(why, sample, at) => {
                let detail = format!(
                    "the event stream of {} broke at an event that can not be read ({why}); going on behind it",
                    self.cx.roots.docker.display()
                );
                self.cx.emit(self.cx.issue("host:", "unreadable", 1, detail, &sample)).await;
                // Behind it; where its moment is not known, from now on, and inspect tells what is lost by that.
                let behind = at.map_or(self.cx.clock.now().at, |t| t.plus_ns(1));
                self.memory.since = self.memory.since.max(behind);
                self.memory.broken += 1;
                if self.memory.broken > BROKEN_IN_A_ROW {
                    return Err(self.lost(
                        "the event stream",
                        format!("{BROKEN_IN_A_ROW} unreadable events in a row, the last: {why}"),
                    ));
                }
                Ok(Some(End::Unreadable))
            }
            Item::Lost(why) => Err(self.lost("the event stream", why)),
        }
    }

    fn take_in(&mut self, id: &Arc<str>, why: Why, answer: Inspected) {
        self.count(id, &answer);
        let facts = match answer {
            Inspected::Facts(facts, _) => Some(*facts),
            Inspected::Gone | Inspected::Failed(_) => None,
        };
        self.memory.tracker.inspected(id, why, facts, self.cx.clock.now(), &self.cx.exits);
    }

    fn count(&mut self, id: &str, answer: &Inspected) {
        match answer {
            Inspected::Facts(..) => self.learned += 1,
            Inspected::Gone => {}
            Inspected::Failed(why) => {
                self.failed += 1;
                self.last_failure = format!("{}: {why}", id.chars().take(12).collect::<String>());
                tracing::warn!(%id, %why, "a container could not be inspected");
            }
        }
    }

    /// Does what the tracker wants done.
    async fn perform(&mut self, inspections: &mut FuturesUnordered<Inspection<'a>>) {
        for out in self.memory.tracker.take() {
            match out {
                Out::Tell(told) => {
                    let mut event = self.cx.event_at(told.stamp, &told.subject, told.fact);
                    event.after = told.after;
                    self.cx.emit(event).await;
                }
                Out::Roster(container, change) => self.cx.roster.put(*container, change),
                Out::Inspect(id, why) => {
                    let (docker, cx) = (self.docker, self.cx);
                    inspections.push(Box::pin(async move {
                        let answer = inspect(docker, cx, &id).await;
                        (id, why, answer)
                    }));
                }
            }
        }
    }

    /// A source that sees containers and learns nothing about them says so.
    async fn tell_blind(&mut self) {
        if let Some(detail) = blind(self.learned, self.failed) {
            self.cx.emit(self.cx.issue("host:", "blind", self.failed, detail, &self.last_failure)).await;
        }
        (self.learned, self.failed) = (0, 0);
    }
}

/// What to say of a time in which that many inspections told something and that many did not; `None` while there is sight, or
/// nothing to see.
fn blind(learned: u64, failed: u64) -> Option<String> {
    (failed > 0 && learned == 0).then(|| {
        format!(
            "containers were seen and none of {failed} inspections told anything; an engine newer than this version may answer \
             in another shape: run `linchpin doctor`"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::blind;

    #[test]
    fn an_engine_that_tells_nothing_is_said() {
        assert!(blind(0, 3).unwrap().contains("none of 3 inspections"));
        assert_eq!(blind(1, 3), None, "some told: a container that went away is no blindness");
        assert_eq!(blind(0, 0), None, "nothing to see");
    }
}
