//! Times down, derived from a subject's sorted facts by one small machine that can be set back: a fact that comes late
//! undoes the derivation from the last time down before it, never the whole history. Why it was down is [`crate::cause`]'s.

use crate::fact::{Fact, What, Witness};

/// An `unready` this long before an `exited` still belongs to the same time down.
const SAME_DOWN_NS: i64 = 60_000_000_000;
/// A port closes this long at most before an exit that was asked for: longer, and its closing was an outage of its own that
/// must not pass for the operator's.
const GRACE_NS: i64 = 15_000_000_000;

/// What ended a time down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was ready: measured.
    Ready,
    /// It was started, and readiness was not seen: a lower bound.
    Started,
    /// It was removed.
    Removed,
    /// Its main process ended, which began a time down of its own.
    Exit,
}

/// One time down. Numbers are places among the subject's facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Down {
    /// The fact that began it: an exit, an unready, or a description that found it not running.
    pub began: usize,
    /// The exit, if its main process ended.
    pub exit: Option<usize>,
    /// The start after it.
    pub started: Option<usize>,
    /// What ended it.
    pub end: Option<(usize, Ended)>,
    before: State,
}

/// A span in which the subject was expected to be there: from a fact to its removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The fact that began it.
    pub from: usize,
    /// The removal.
    pub to: Option<usize>,
}

/// How it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Nothing is known.
    #[default]
    Fresh,
    /// Known, and never seen running.
    Stopped,
    /// Running, and as far as known ready.
    Up,
    /// Running and not ready.
    Out,
    /// Its main process ended.
    Down,
    /// Started again, and not seen ready yet.
    Starting,
    /// Removed.
    Gone,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    phase: Phase,
    /// The instance that lives or lived last, the one before it, and the one described last.
    live: u64,
    before: u64,
    latest: u64,
    /// Main process id, 0 if unknown.
    pid: u64,
    expected: usize,
    open: bool,
}

/// The machine with what it derived.
#[derive(Clone, Debug, Default)]
pub struct Episodes {
    state: State,
    done: usize,
    downs: Vec<Down>,
    expected: Vec<Expected>,
}

impl Episodes {
    /// The times down, in order; they do not overlap.
    #[must_use]
    pub fn downs(&self) -> &[Down] {
        &self.downs
    }

    /// When it was expected to be there.
    #[must_use]
    pub fn expected(&self) -> &[Expected] {
        &self.expected
    }

    /// Forgets what was derived from the fact at `place` and those after it, as far back as it must.
    pub fn set_back(&mut self, place: usize) {
        if place >= self.done {
            return;
        }
        while let Some(down) = self.downs.pop() {
            if down.began < place {
                self.restore(down.began, down.before);
                return;
            }
        }
        self.restore(0, State::default());
    }

    fn restore(&mut self, done: usize, state: State) {
        self.done = done;
        self.state = state;
        self.expected.truncate(state.expected);
        if state.open
            && let Some(last) = self.expected.last_mut()
        {
            last.to = None;
        }
    }

    /// Goes on to the end of the facts.
    pub fn advance(&mut self, facts: &[Fact]) {
        while let Some(fact) = facts.get(self.done) {
            self.step(fact, self.done, facts);
            self.done += 1;
        }
    }

    fn step(&mut self, fact: &Fact, i: usize, facts: &[Fact]) {
        match &fact.what {
            What::Described(d) => {
                self.described(fact.instance, d.running, d.pid.unwrap_or(0), i);
            }
            What::Started { pid, .. } => self.started(fact.instance, *pid, i),
            What::Ready { .. } => self.ready(fact.instance, i),
            What::Unready { .. } => self.unready(i),
            What::Exited(_) => self.exited(fact.instance, i, facts),
            What::Removed => self.removed(fact.instance, i),
            What::Missed { .. } => {
                if self.state.phase == Phase::Fresh {
                    self.appear(i);
                }
            }
            // The kernel's record of a death says that something lived, not that it is expected to be there.
            What::Oom(_) | What::Segfault(_) => {}
        }
    }

    /// From here on it is expected to be up.
    fn appear(&mut self, i: usize) {
        if !self.state.open {
            self.expected.push(Expected { from: i, to: None });
            self.state.expected = self.expected.len();
            self.state.open = true;
        }
        self.state.phase = Phase::Up;
    }

    fn lives(&mut self, instance: u64) {
        let s = &mut self.state;
        if instance != 0 {
            s.latest = instance;
            if instance != s.live {
                (s.before, s.live) = (s.live, instance);
            }
        }
    }

    fn open(&mut self, i: usize, exit: Option<usize>, phase: Phase) {
        self.downs.push(Down { began: i, exit, started: None, end: None, before: self.state });
        self.state.phase = phase;
    }

    fn described(&mut self, instance: u64, running: Option<bool>, pid: u64, i: usize) {
        let s = self.state;
        if running == Some(false) {
            if s.phase == Phase::Up && instance != 0 && instance == s.live {
                // It ran when last heard of; nobody saw it end.
                self.open(i, None, Phase::Down);
            } else if matches!(s.phase, Phase::Fresh | Phase::Gone) {
                self.state.phase = Phase::Stopped;
            }
            if instance != 0 {
                self.state.latest = instance;
            }
            return;
        }
        match s.phase {
            Phase::Fresh | Phase::Stopped | Phase::Gone => {
                self.appear(i);
                self.lives(instance);
            }
            // A process of another number than the one that ended: it was started, though nobody told.
            Phase::Down if running == Some(true) && pid != 0 && s.pid != 0 && pid != s.pid => {
                self.started(instance, pid, i);
            }
            Phase::Up | Phase::Out | Phase::Starting if running == Some(true) || s.live == 0 => {
                self.lives(instance);
            }
            _ => {}
        }
        if pid != 0 && self.state.phase != Phase::Down {
            self.state.pid = pid;
        }
    }

    fn started(&mut self, instance: u64, pid: u64, i: usize) {
        match self.state.phase {
            Phase::Fresh | Phase::Stopped | Phase::Gone => self.appear(i),
            Phase::Down => {
                if let Some(down) = self.downs.last_mut() {
                    if down.started.is_none() {
                        down.started = Some(i);
                    }
                    down.end = Some((i, Ended::Started));
                }
                self.state.phase = Phase::Starting;
            }
            Phase::Up | Phase::Out | Phase::Starting => {}
        }
        self.lives(instance);
        self.state.pid = pid;
    }

    fn ready(&mut self, instance: u64, i: usize) {
        match self.state.phase {
            Phase::Fresh | Phase::Stopped => self.appear(i),
            Phase::Down | Phase::Starting | Phase::Out => {
                if let Some(down) = self.downs.last_mut() {
                    down.end = Some((i, Ended::Ready));
                }
                self.state.phase = Phase::Up;
            }
            Phase::Up => {}
            Phase::Gone => return,
        }
        self.lives(instance);
    }

    fn unready(&mut self, i: usize) {
        match self.state.phase {
            Phase::Fresh => {
                self.appear(i);
                self.open(i, None, Phase::Out);
            }
            Phase::Up => self.open(i, None, Phase::Out),
            Phase::Starting => {
                // Told not to be ready after its start: that start did not end the time down.
                if let Some(down) = self.downs.last_mut() {
                    down.end = None;
                }
                self.state.phase = Phase::Down;
            }
            Phase::Stopped | Phase::Out | Phase::Down | Phase::Gone => {}
        }
    }

    fn exited(&mut self, instance: u64, i: usize, facts: &[Fact]) {
        let s = self.state;
        let replaced = instance != 0 && s.live != 0 && instance != s.live && instance == s.before;
        match s.phase {
            Phase::Gone if instance == 0 || instance == s.live || replaced => return,
            Phase::Fresh | Phase::Stopped | Phase::Gone => {
                self.appear(i);
                self.open(i, Some(i), Phase::Down);
            }
            // The end of an instance that another had replaced before.
            _ if replaced => return,
            Phase::Up | Phase::Starting => self.open(i, Some(i), Phase::Down),
            Phase::Out => self.out_exited(i, facts),
            Phase::Down => self.down_exited(i),
        }
        let latest = self.state.latest;
        self.lives(instance);
        // What was described since is newer than what ended.
        if latest != 0 {
            self.state.latest = latest;
        }
    }

    /// The port closed, then the process ended: one time down if close together, else the outage ends where the other begins.
    fn out_exited(&mut self, i: usize, facts: &[Fact]) {
        let Some(down) = self.downs.last_mut() else { return };
        let (Some(exit), Some(began)) = (facts.get(i), facts.get(down.began)) else { return };
        let asked = matches!(&exit.what, What::Exited(e) if e.by_operator);
        let port = matches!(began.what, What::Unready { by: Witness::Port, .. });
        let reach = if asked && port { GRACE_NS } else { SAME_DOWN_NS };
        if exit.axis.0.saturating_sub(began.axis.0) <= reach {
            down.exit = Some(i);
            self.state.phase = Phase::Down;
        } else {
            down.end = Some((i, Ended::Exit));
            self.open(i, Some(i), Phase::Down);
        }
    }

    fn down_exited(&mut self, i: usize) {
        let Some(down) = self.downs.last_mut() else { return };
        if down.started.is_some() {
            down.end = Some((i, Ended::Exit));
            self.open(i, Some(i), Phase::Down);
        } else if down.exit.is_none() {
            down.exit = Some(i);
        }
        // Else the same death, told again in other words.
    }

    fn removed(&mut self, instance: u64, i: usize) {
        let s = self.state;
        let known = if s.latest != 0 { s.latest } else { s.live };
        if s.phase == Phase::Gone || (instance != 0 && known != 0 && instance != known) {
            return;
        }
        if matches!(s.phase, Phase::Down | Phase::Out)
            && let Some(down) = self.downs.last_mut()
        {
            down.end = Some((i, Ended::Removed));
        }
        if s.open
            && let Some(last) = self.expected.last_mut()
        {
            last.to = Some(i);
        }
        self.state.open = false;
        self.state.phase = Phase::Gone;
    }
}
