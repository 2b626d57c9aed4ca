//! A stage for the tracker: plays events to it on a clock of its own and answers its inspections from a small model of an
//! engine. No transport.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use linchpin_data::clock::Stamp;
use linchpin_data::{Fact, Timestamp};
use serde_json::json;

use super::super::decode::{Action, Decoded, RuntimeEvent, decode};
use super::super::inspect::{Facts, facts};
use super::super::tracker::{Out, Told, Tracker, Why};
use crate::resume::Resume;
use crate::witness::Exits;

/// Boot time at the epoch of these tests.
const BOOTED: i64 = 1_700_000_000_000_000_000;

/// A moment `ms` milliseconds into the test, of the wall clock.
pub fn t(ms: i64) -> Timestamp {
    Timestamp(BOOTED + ms * 1_000_000)
}

/// Both clocks at a moment of the wall clock.
pub fn stamp(at: Timestamp) -> Stamp {
    Stamp { at, boot_ns: u64::try_from(at.0 - BOOTED + 1_000_000_000_000).unwrap() }
}

/// What an engine knows of a container.
#[derive(Clone, Debug, Default)]
pub struct Life {
    pub name: String,
    pub labels: HashMap<String, String>,
    pub pid: u32,
    pub started: Option<Timestamp>,
    pub finished: Option<Timestamp>,
    pub count: u64,
    pub code: i64,
    pub memory: u64,
    pub restarting: bool,
    pub created: Option<Timestamp>,
}

impl Life {
    pub fn facts(&self, id: &str) -> Facts {
        let time = |t: Option<Timestamp>| t.map_or("0001-01-01T00:00:00Z".to_string(), |t| t.to_string());
        facts(&json!({
            "Id": id, "Name": format!("/{}", self.name), "RestartCount": self.count, "Created": time(self.created),
            "State": {"Running": self.pid > 0, "Restarting": self.restarting, "Pid": self.pid, "ExitCode": self.code,
                "StartedAt": time(self.started), "FinishedAt": time(self.finished)},
            "HostConfig": {"Memory": self.memory}, "Config": {"Labels": self.labels},
        }))
        .unwrap()
    }
}

/// The tracker, the engine and what was told.
pub struct Stage {
    pub tracker: Tracker,
    pub exits: Exits,
    pub engine: HashMap<Arc<str>, Life>,
    pub told: Vec<Told>,
    pub now: Timestamp,
    /// Inspections are answered; else they find nothing.
    pub answers: bool,
    next_pid: u32,
    /// Inspections under way: an engine takes some milliseconds.
    waiting: Vec<(Timestamp, Arc<str>, Why)>,
}

/// How long an inspection takes.
const INSPECTION_NS: i64 = 3_000_000;

impl Stage {
    pub fn new(resume: &Resume, now: Timestamp) -> Self {
        Stage {
            tracker: Tracker::new(resume, None),
            exits: Exits::default(),
            engine: HashMap::new(),
            told: Vec::new(),
            now,
            answers: true,
            next_pid: 1000,
            waiting: Vec::new(),
        }
    }

    /// Lets time pass up to `to`, settling what falls due and answering inspections.
    pub fn pass(&mut self, to: Timestamp) {
        loop {
            let settle = self.tracker.next(stamp(self.now)).map(|due| {
                self.now.plus_ns(i64::try_from(due.saturating_sub(stamp(self.now).boot_ns)).unwrap())
            });
            let answer = self.waiting.first().map(|(at, ..)| *at);
            let Some(at) = settle.into_iter().chain(answer).min().filter(|at| *at <= to) else { break };
            self.now = at.max(self.now);
            if answer.is_some_and(|a| a <= self.now) {
                let (_, id, why) = self.waiting.remove(0);
                self.inspect(&id, why);
            } else {
                self.tracker.settle(stamp(self.now), &self.exits);
            }
            self.perform();
        }
        self.now = self.now.max(to);
    }

    /// The engine does what the event tells, and tells it.
    pub fn play(&mut self, e: &RuntimeEvent) {
        self.pass(e.at);
        let next_pid = &mut self.next_pid;
        let life = self.engine.entry(e.id.clone()).or_default();
        life.name.clone_from(&e.name);
        life.labels = e.attributes.clone().into_iter().filter(|(k, _)| k.starts_with("com.")).collect();
        match e.action {
            Action::Create => life.created = Some(e.at.plus_ns(-5_000_000)),
            Action::Start => {
                *next_pid += 1;
                life.pid = *next_pid;
                life.started = Some(e.at.plus_ns(-2_000_000));
                life.code = 0;
            }
            Action::Die(code) => {
                life.pid = 0;
                life.finished = Some(e.at.plus_ns(-30_000_000));
                life.code = code.unwrap_or(0);
            }
            Action::Update => life.memory += 1024,
            Action::Destroy => {
                self.engine.remove(&e.id);
            }
            _ => {}
        }
        self.tracker.event(e, None, stamp(self.now), &self.exits);
        self.perform();
    }

    fn perform(&mut self) {
        for out in self.tracker.take() {
            match out {
                Out::Tell(told) => self.told.push(told),
                Out::Roster(..) => {}
                Out::Inspect(id, why) => self.waiting.push((self.now.plus_ns(INSPECTION_NS), id, why)),
            }
        }
    }

    /// Answers the inspections that are under way, and no more.
    pub fn answer(&mut self) {
        self.pass(self.now.plus_ns(INSPECTION_NS));
    }

    fn inspect(&mut self, id: &Arc<str>, why: Why) {
        let facts = self.engine.get(id).filter(|_| self.answers).map(|l| l.facts(id));
        self.tracker.inspected(id, why, facts, stamp(self.now), &self.exits);
    }

    /// Everything is inspected and compared, as after a gap; inspections under way are awaited first.
    pub fn conclude(&mut self) {
        self.answer();
        let at = stamp(self.now);
        let listed: HashSet<Arc<str>> = self.engine.keys().cloned().collect();
        let inspected = self.engine.iter().map(|(id, l)| (id.clone(), (l.facts(id), at))).collect();
        self.tracker.conclude(&listed, &inspected, at, &self.exits);
        self.perform();
    }

    /// What was told since the last call, in words, but for descriptions.
    pub fn words(&mut self) -> Vec<String> {
        self.told.drain(..).filter_map(|t| words(&t)).collect()
    }
}

/// One fact in words.
pub fn words(told: &Told) -> Option<String> {
    let s = told.subject.trim_start_matches("docker:");
    Some(match &told.fact {
        Fact::Described(_) => return None,
        Fact::Started(f) => format!("{s} started {}", f.restart_count.map_or("?".into(), |c| c.to_string())),
        Fact::Exited(f) => {
            let by = match f.by_operator {
                Some(true) => f.action.clone().unwrap_or_default(),
                Some(false) => f.action.clone().unwrap_or("unasked".into()),
                None => "found".into(),
            };
            let oom = if f.oom_killed == Some(true) { " oom" } else { "" };
            format!("{s} exited {} {by}{oom}", f.exit_code.map_or("?".into(), |c| c.to_string()))
        }
        Fact::Removed(_) => format!("{s} removed"),
        Fact::Ready(f) => format!("{s} ready by {}", f.by.as_deref().unwrap_or("?")),
        Fact::Unready(f) => format!("{s} unready by {}", f.by.as_deref().unwrap_or("?")),
        Fact::RestartsMissed(f) => format!("{s} missed {}", f.count.unwrap_or(0)),
        other => other.kind().to_string(),
    })
}

/// The events of a recording.
pub fn recorded(text: &str) -> Vec<RuntimeEvent> {
    text.lines()
        .filter_map(|l| match decode(&serde_json::from_str(l).unwrap()) {
            Decoded::Event(e) => Some(e),
            Decoded::Other => None,
            Decoded::Unreadable(why) => panic!("{why}: {l}"),
        })
        .collect()
}

/// An event of the container `id`, named like it.
pub fn event(ms: i64, id: &str, action: Action) -> RuntimeEvent {
    RuntimeEvent { action, id: id.into(), name: id.into(), attributes: [].into(), at: t(ms), fine: true }
}
