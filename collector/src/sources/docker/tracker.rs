//! From the runtime's events to facts: what is known of each container, and what is to be told of it. Pure: takes events,
//! inspections and moments, gives what to tell, whom to inspect and what to enter into the roster. Tells each fact once,
//! whether it comes by the stream, by a replay of it, or by what inspect proves ([`super::conclude`]).

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use linchpin_data::clock::Stamp;
use linchpin_data::event::{Described, Ready, Removed, RestartsMissed, Started, Unready};
use linchpin_data::{Fact, Timestamp};

use super::decode::{Action, RuntimeEvent};
use super::inspect::Facts;
use super::operator::Operator;
use super::pending::{Pending, Unserved};
use super::subject::{Identity, identity};
use crate::resume::Resume;
use crate::roster::{Change, Container};
use crate::witness::Exits;

/// How finely a moment is known that the runtime alone tells, in milliseconds: measured on Docker 20.10, whose `die` comes
/// 15 to 60 ms after the kernel's exit.
pub const RUNTIME_RESOLUTION_MS: f64 = 100.0;
/// How long a `removed` is held back, in nanoseconds: a re-creation that comes within is no removal of the subject.
const REMOVED_HOLD_NS: u64 = 2_000_000_000;
/// A `die` of a container that does not run, this long after the last one, is an exit of a run whose start was lost.
const SAME_EXIT_NS: i64 = 5_000_000_000;
/// A `start` of a container that runs, this soon after its run was found by inspect, is the start of that very run.
const SAME_START_NS: i64 = 2_000_000_000;
/// How many events are remembered to know a replayed one by.
const SEEN: usize = 4096;

/// Why a container is inspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is listed, or new.
    Met,
    /// It was started at this moment of the runtime's.
    Started(Timestamp),
    /// It ended, says an event of this moment, and the kernel does not say when.
    Ended(Timestamp),
    /// Its facts may have changed.
    Changed,
}

/// What the tracker wants done, in this order.
#[derive(Clone, Debug)]
pub enum Out {
    /// A fact to tell.
    Tell(Told),
    /// A change to enter into the roster.
    Roster(Box<Container>, fn(Container) -> Change),
    /// A container to inspect.
    Inspect(Arc<str>, Why),
}

/// A fact to tell, with its moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// When it happened.
    pub stamp: Stamp,
    /// Since when it may have happened, where it was found later.
    pub after: Option<Timestamp>,
    /// About whom.
    pub subject: Arc<str>,
    /// What.
    pub fact: Fact,
}

/// One container, as far as it is known.
#[derive(Clone, Debug)]
pub(super) struct Tracked {
    pub identity: Identity,
    pub name: String,
    /// As last inspected.
    pub facts: Option<Facts>,
    /// As last told.
    pub told: Option<Described>,
    pub running: bool,
    pub pid: Option<u32>,
    /// The runtime's moment by which the present (or last) run had begun.
    pub run_at: Option<Timestamp>,
    /// `StartedAt` of that run, exactly as inspect has it, to know the same run by.
    pub run_started_at: Option<Timestamp>,
    /// Where its `started` was put, if one was told.
    pub started: Option<Stamp>,
    /// A start was seen and is still to be told, once inspected.
    pub start_untold: bool,
    /// The start of the present run was told.
    pub start_told: bool,
    /// The runtime's moment of the last start or exit that came as an event.
    pub turned_at: Option<Timestamp>,
    /// The runtime's moment of the last exit that is known.
    pub exit_at: Option<Timestamp>,
    /// The runtime's counter as last read.
    pub restart_count: Option<u64>,
    /// Exits known of since: each may have raised it by one, before it was told.
    pub exits_since_count: u64,
    /// The counter was read in the present run.
    pub counted: bool,
    /// A process in it was killed for want of memory since its start.
    pub oom: bool,
    pub operator: Operator,
    /// The health check's last word of this run.
    pub health: Option<bool>,
    pub paused: bool,
    pub pending: Option<Pending>,
    /// Removed; the moment (boot time) from which on that may be told.
    pub gone: Option<(Stamp, u64)>,
    /// The last moment at which it was known to be as it is here.
    pub last_known: Timestamp,
}

/// All containers of one runtime.
#[derive(Debug, Default)]
pub struct Tracker {
    pub(super) by_id: HashMap<Arc<str>, Tracked>,
    seen: HashSet<u64>,
    seen_order: VecDeque<u64>,
    newest: Option<Timestamp>,
    /// Events before this are history: they only tell what operators asked for.
    watch_from: Option<Timestamp>,
    /// What the journal does not know any more and happened up to here was told and removed.
    told_until: Option<Timestamp>,
    /// When the runtime last was found to answer nobody.
    pub(super) unserved: Unserved,
    pub(super) outs: Vec<Out>,
}

/// Stamps a moment of the wall clock with boot time, by the clocks' present distance.
pub(super) fn stamp_of(at: Timestamp, now: Stamp) -> Stamp {
    let boot = i128::from(now.boot_ns) + i128::from(at.0) - i128::from(now.at.0);
    Stamp { at, boot_ns: u64::try_from(boot.max(0)).unwrap_or(u64::MAX) }
}

impl Tracked {
    pub fn new(identity: Identity, name: String, now: Timestamp) -> Self {
        Tracked {
            identity,
            name,
            facts: None,
            told: None,
            running: false,
            pid: None,
            run_at: None,
            run_started_at: None,
            started: None,
            start_untold: false,
            start_told: false,
            turned_at: None,
            exit_at: None,
            restart_count: None,
            exits_since_count: 0,
            counted: false,
            oom: false,
            operator: Operator::default(),
            health: None,
            paused: false,
            pending: None,
            gone: None,
            last_known: now,
        }
    }

    /// Takes in the runtime's counter; gives how many restarts it counts that are not known of. It falls to 0 when an
    /// operator acts, which is none.
    pub fn count(&mut self, read: Option<u64>) -> u64 {
        let Some(read) = read else { return 0 };
        let expected = self.restart_count.map(|c| c.saturating_add(self.exits_since_count));
        self.restart_count = Some(read);
        self.exits_since_count = 0;
        self.counted = true;
        expected.map_or(0, |e| read.saturating_sub(e))
    }

    /// The roster's entry as it stands.
    pub fn container(&self, id: &Arc<str>) -> Container {
        let facts = self.facts.as_ref().map(Facts::container).unwrap_or_default();
        Container {
            id: id.clone(),
            subject: self.identity.subject.clone(),
            name: self.name.as_str().into(),
            pid: self.pid.filter(|_| self.running),
            running: self.running,
            removed: self.gone.is_some(),
            ..facts
        }
    }
}

impl Tracker {
    /// A tracker that knows what the journal knows. Events before `watch_from` (none: no bound) are not told.
    #[must_use]
    pub fn new(resume: &Resume, watch_from: Option<Timestamp>) -> Self {
        let told_until = resume.runtime_at;
        let mut tracker = Tracker { watch_from, told_until, newest: told_until, ..Tracker::default() };
        for (subject, known) in &resume.subjects {
            let Some(instance) = known.instance.as_ref().filter(|_| subject.starts_with("docker:")) else {
                continue;
            };
            let identity = Identity { subject: subject.clone(), service: None, replica: None };
            let last = resume.last_at.or(known.last_at).unwrap_or_default();
            let mut t = Tracked::new(identity, String::new(), last);
            t.running = known.running.unwrap_or(false);
            // Known to run, or not to, without a start or exit that was told: so it was by the last word on it.
            t.run_at = known.started_runtime_at.or(known.last_at.filter(|_| t.running));
            t.exit_at = known.exited_runtime_at.or(known.last_at.filter(|_| !t.running));
            t.start_told = known.started_runtime_at.is_some();
            t.restart_count = known.restart_count;
            t.exits_since_count = known.exits_since_count;
            tracker.by_id.insert(instance.clone(), t);
        }
        tracker
    }

    /// The runtime answered nobody from `from` until `to`: what happened to containers then, no client asked for.
    pub fn unserved(&mut self, from: Timestamp, to: Timestamp) {
        // A shutdown and the boot after it are one span.
        let from = if self.unserved.to >= from { self.unserved.from.min(from) } else { from };
        self.unserved = Unserved { from, to };
    }

    /// It answers at `at`: a span without an end has one.
    pub fn served(&mut self, at: Timestamp) {
        self.unserved.to = self.unserved.to.min(at);
    }

    /// The newest moment that the runtime put on an event.
    #[must_use]
    pub fn newest(&self) -> Option<Timestamp> {
        self.newest
    }

    /// The cgroup that a container had when last inspected.
    #[must_use]
    pub fn cgroup_of(&self, id: &str) -> Option<&str> {
        self.by_id.get(id)?.facts.as_ref()?.cgroup.as_deref()
    }

    /// Takes what is to be done since the last call.
    pub fn take(&mut self) -> Vec<Out> {
        std::mem::take(&mut self.outs)
    }

    /// How many containers run.
    #[must_use]
    pub fn running(&self) -> usize {
        self.by_id.values().filter(|t| t.running).count()
    }

    /// Whether another container of `subject` than `id` is there; running, if asked so.
    pub(super) fn another(&self, id: &str, subject: &str, running: bool) -> bool {
        self.by_id.iter().any(|(other, t)| {
            **other != *id && *t.identity.subject == *subject && t.gone.is_none() && (t.running || !running)
        })
    }

    /// Whether this very event was seen before.
    fn again(&mut self, e: &RuntimeEvent) -> bool {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut h = DefaultHasher::new();
        (&e.id, e.at.0, std::mem::discriminant(&e.action)).hash(&mut h);
        if let Action::Kill(signal) | Action::Die(signal) = &e.action {
            signal.hash(&mut h);
        }
        let key = h.finish();
        if !self.seen.insert(key) {
            return true;
        }
        self.seen_order.push_back(key);
        if self.seen_order.len() > SEEN
            && let Some(old) = self.seen_order.pop_front()
        {
            self.seen.remove(&old);
        }
        false
    }

    /// Takes in one event of the stream. `pid` is the main process as the kernel has it now, where that could be had.
    pub fn event(&mut self, e: &RuntimeEvent, pid: Option<u32>, now: Stamp, exits: &Exits) {
        if self.again(e) {
            return;
        }
        self.newest = self.newest.max(Some(e.at));
        let history = self.watch_from.is_some_and(|from| e.at < from);
        if !self.by_id.contains_key(&e.id) {
            // A word about a container that is long gone makes no new one.
            let told = self.told_until.is_some_and(|until| e.at <= until);
            if history || told || matches!(e.action, Action::Destroy | Action::Stop | Action::Rename) {
                return;
            }
            self.meet(e, now);
        }
        let Some(t) = self.by_id.get_mut(&e.id) else { return };
        t.last_known = t.last_known.max(e.at);
        let at = e.at.0.unsigned_abs();
        match &e.action {
            Action::Kill(signal) => t.operator.killed(*signal, at),
            Action::Stop if t.running && t.pending.is_none() => t.operator.stopping(at),
            _ if history => return,
            _ => {}
        }
        match &e.action {
            Action::Start => self.started(e, pid, now),
            Action::Die(code) => self.died(e, *code, now, exits),
            Action::Oom => t.oom = true,
            Action::Health(healthy) => self.health(e, *healthy, now),
            Action::Pause => self.paused(e, true, now),
            Action::Unpause => self.paused(e, false, now),
            Action::Update => self.outs.push(Out::Inspect(e.id.clone(), Why::Changed)),
            Action::Rename => self.renamed(e, now),
            Action::Destroy => self.destroyed(e, now),
            Action::Create | Action::Kill(_) | Action::Stop | Action::Restart => {}
        }
        self.follow(e, now, exits);
    }

    /// A container that was not known.
    fn meet(&mut self, e: &RuntimeEvent, now: Stamp) {
        let identity = identity(&e.name, &e.id, &e.attributes);
        // The subject is there again (or still): no removal of it is left to tell, and what ended was re-created.
        for t in self.by_id.values_mut().filter(|t| t.identity.subject == identity.subject) {
            if let Some(p) = &mut t.pending {
                p.followed.successor = true;
            }
        }
        self.by_id
            .retain(|_, t| t.gone.is_none() || t.pending.is_some() || t.identity.subject != identity.subject);
        let mut t = Tracked::new(identity, e.name.clone(), now.at);
        // Met by its death or its check's word: it ran.
        t.running = matches!(
            e.action,
            Action::Die(_) | Action::Health(_) | Action::Kill(_) | Action::Oom | Action::Pause
        );
        self.by_id.insert(e.id.clone(), t);
        if e.action != Action::Start {
            self.outs.push(Out::Inspect(e.id.clone(), Why::Met));
        }
    }

    fn started(&mut self, e: &RuntimeEvent, pid: Option<u32>, now: Stamp) {
        let Some(t) = self.by_id.get_mut(&e.id) else { return };
        if t.run_at.is_some_and(|at| e.at <= at) || t.exit_at.is_some_and(|at| e.at < at) {
            return;
        }
        t.turned_at = t.turned_at.max(Some(e.at));
        // Inspect told of this run first: its StartedAt lies a little before the event.
        let same = t.running && t.run_at.is_some_and(|at| e.at.0.saturating_sub(at.0) < SAME_START_NS);
        if same && (t.start_told || t.start_untold) {
            t.run_at = Some(e.at);
            return;
        }
        if t.running && !same && t.run_at.is_some() {
            // It ran, and runs anew: the exit between was lost.
            let (since, subject) = (t.run_at, t.identity.subject.clone());
            self.tell_start(&e.id, now);
            let fact =
                RestartsMissed { count: Some(1), since, last_finished_at: None, last_started_at: Some(e.at) };
            let stamp = stamp_of(e.at, now);
            self.outs.push(Out::Tell(Told { stamp, after: since, subject, fact: fact.into() }));
        }
        let Some(t) = self.by_id.get_mut(&e.id) else { return };
        t.running = true;
        t.pid = pid;
        t.run_at = Some(e.at);
        t.run_started_at = None;
        t.started = None;
        t.start_untold = true;
        t.start_told = false;
        t.counted = false;
        t.oom = false;
        t.health = None;
        t.paused = false;
        t.operator.started();
        if pid.is_some() {
            let entry = t.container(&e.id);
            self.outs.push(Out::Roster(Box::new(entry), Change::Started));
        }
        self.outs.push(Out::Inspect(e.id.clone(), Why::Started(e.at)));
    }

    /// Tells the start that was seen, with what is known of it by now.
    pub(super) fn tell_start(&mut self, id: &Arc<str>, now: Stamp) {
        let Some(t) = self.by_id.get_mut(id) else { return };
        if !std::mem::take(&mut t.start_untold) {
            return;
        }
        let Some(run_at) = t.run_at else { return };
        t.start_told = true;
        // StartedAt is nearer to the truth than the event that follows it, if it is of this run.
        let of_this_run =
            |s: &Timestamp| *s <= run_at && t.exit_at.is_none_or(|x| *s > x.plus_ns(-SAME_EXIT_NS));
        let stamp = stamp_of(t.run_started_at.filter(of_this_run).unwrap_or(run_at), now);
        t.started = Some(stamp);
        let fact = Started {
            instance: Some(id.to_string()),
            pid: t.pid.map(u64::from),
            restart_count: t.restart_count.filter(|_| t.counted),
            runtime_at: Some(run_at),
        };
        let subject = t.identity.subject.clone();
        self.outs.push(Out::Tell(Told { stamp, after: None, subject, fact: fact.into() }));
    }

    fn died(&mut self, e: &RuntimeEvent, code: Option<i64>, now: Stamp, exits: &Exits) {
        let Some(t) = self.by_id.get(&e.id) else { return };
        if t.run_at.is_some_and(|at| e.at < at) || t.exit_at.is_some_and(|at| e.at <= at) {
            return;
        }
        // Several words for one death.
        if !t.running && t.exit_at.is_some_and(|at| e.at.0.saturating_sub(at.0) < SAME_EXIT_NS) {
            return;
        }
        // A replay brings one death after another before anything is asked: what still waits of the one before is told now.
        if t.pending.is_some() {
            self.settle_before_start(&e.id, now, exits);
        }
        self.tell_start(&e.id, now);
        let subject = self.by_id.get(&e.id).map_or_else(|| "".into(), |t| t.identity.subject.clone());
        let successor = self.another(&e.id, &subject, false);
        let Some(t) = self.by_id.get_mut(&e.id) else { return };
        t.running = false;
        t.turned_at = t.turned_at.max(Some(e.at));
        t.exit_at = Some(e.at);
        t.exits_since_count += 1;
        t.health = None;
        t.paused = false;
        let mut pending = Pending::new(t, e, code, now, exits);
        pending.followed.successor = successor;
        if pending.wants_finished() {
            self.outs.push(Out::Inspect(e.id.clone(), Why::Ended(e.at)));
        }
        t.pending = Some(pending);
        let entry = t.container(&e.id);
        self.outs.push(Out::Roster(Box::new(entry), Change::Exited));
        self.settle(now, exits);
    }

    fn health(&mut self, e: &RuntimeEvent, healthy: bool, now: Stamp) {
        let Some(t) = self.by_id.get_mut(&e.id) else { return };
        if t.run_at.is_some_and(|at| e.at < at) || t.health == Some(healthy) {
            return;
        }
        t.health = Some(healthy);
        let interval = t.facts.as_ref().and_then(|f| f.health_interval).unwrap_or(30.0);
        let instance = Some(e.id.to_string());
        let (by, resolution_ms) = (Some("health".to_string()), Some(interval * 1000.0));
        let fact: Fact = if healthy {
            Ready { instance, by, resolution_ms, port: None }.into()
        } else {
            Unready { instance, by, resolution_ms, port: None }.into()
        };
        let told =
            Told { stamp: stamp_of(e.at, now), after: None, subject: t.identity.subject.clone(), fact };
        self.tell_start(&e.id, now);
        self.outs.push(Out::Tell(told));
    }

    /// A frozen container accepts no work until it is thawed.
    fn paused(&mut self, e: &RuntimeEvent, paused: bool, now: Stamp) {
        let Some(t) = self.by_id.get_mut(&e.id) else { return };
        if !t.running || std::mem::replace(&mut t.paused, paused) == paused {
            return;
        }
        let (instance, by) = (Some(e.id.to_string()), Some("pause".to_string()));
        let resolution_ms = Some(RUNTIME_RESOLUTION_MS);
        let fact: Fact = if paused {
            Unready { instance, by, resolution_ms, port: None }.into()
        } else {
            Ready { instance, by, resolution_ms, port: None }.into()
        };
        let told =
            Told { stamp: stamp_of(e.at, now), after: None, subject: t.identity.subject.clone(), fact };
        self.outs.push(Out::Tell(told));
    }

    fn renamed(&mut self, e: &RuntimeEvent, now: Stamp) {
        let Some(t) = self.by_id.get_mut(&e.id) else { return };
        t.name = e.name.clone();
        // Old engines tell no labels with it: what inspect told of them stands.
        let labels = t.facts.as_ref().map_or(&e.attributes, |f| &f.labels);
        let new = identity(&e.name, &e.id, labels);
        if new.subject != t.identity.subject {
            let old = std::mem::replace(&mut t.identity, new);
            t.told = None;
            let stamp = stamp_of(e.at, now);
            if !self.another(&e.id, &old.subject, false) {
                self.tell_removed(&old.subject, &e.id, stamp);
            }
        }
        self.outs.push(Out::Inspect(e.id.clone(), Why::Changed));
    }

    fn destroyed(&mut self, e: &RuntimeEvent, now: Stamp) {
        let Some(t) = self.by_id.get_mut(&e.id) else { return };
        if t.gone.is_some() {
            return;
        }
        t.gone = Some((stamp_of(e.at, now), now.boot_ns.saturating_add(REMOVED_HOLD_NS)));
        t.running = false;
        let entry = t.container(&e.id);
        self.outs.push(Out::Roster(Box::new(entry), Change::Removed));
    }

    pub(super) fn tell_removed(&mut self, subject: &Arc<str>, id: &str, stamp: Stamp) {
        let fact = Removed { instance: Some(id.to_string()) };
        self.outs.push(Out::Tell(Told { stamp, after: None, subject: subject.clone(), fact: fact.into() }));
    }
}
