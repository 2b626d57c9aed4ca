//! Exits that have happened and are not told yet: the kernel's word on the moment may still come (milliseconds), and what
//! follows says what an operator asked for (under a second). A crash waits for the kernel only.

use std::sync::Arc;

use linchpin_data::Timestamp;
use linchpin_data::clock::Stamp;
use linchpin_data::event::Exited;

use super::decode::{Action, RuntimeEvent};
use super::operator::{Followed, Verdict};
use super::tracker::{Out, RUNTIME_RESOLUTION_MS, Told, Tracked, Tracker, stamp_of};
use crate::witness::{Exit, Exits};

/// How long the kernel's word is waited for, in nanoseconds; it comes before the runtime's but for a busy host.
const KERNEL_WAIT_NS: u64 = 20_000_000;
/// How often it is looked for meanwhile.
const KERNEL_LOOK_NS: u64 = 4_000_000;
/// How long what follows an operator's request is waited for: a restart's new start took 290 ms here.
const FOLLOW_NS: u64 = 750_000_000;
/// `restart` comes within a millisecond of its `start`.
const RESTART_NS: u64 = 30_000_000;
/// Where the kernel tells nothing, how long inspect's FinishedAt is waited for.
const FINISHED_WAIT_NS: u64 = 500_000_000;
/// FinishedAt is of this exit if it lies at most this far before the event.
const FINISHED_BEFORE_NS: i64 = 5_000_000_000;
/// How finely FinishedAt tells the moment at best, in milliseconds: it came 1 to 6 ms after the kernel's exit on an idle
/// host with Docker 20.10, and up to 66 ms on a busy one. The lag of the event behind it shows how busy: that is added.
const FINISHED_RESOLUTION_MS: f64 = 10.0;
/// The kernel's and the runtime's clocks on one start differ by less than this, in nanoseconds.
const START_SLACK_NS: u64 = 2_000_000_000;

/// A span (wall clock) in which the runtime answered nobody; empty by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unserved {
    /// First moment inside.
    pub from: Timestamp,
    /// First moment after.
    pub to: Timestamp,
}

impl Unserved {
    fn covers(self, at: u64) -> bool {
        i64::try_from(at).is_ok_and(|at| self.from.0 <= at && at < self.to.0)
    }
}

/// An exit to be told.
#[derive(Clone, Debug, PartialEq)]
pub struct Pending {
    event_at: Timestamp,
    code: Option<i64>,
    oom: bool,
    pid: Option<u32>,
    /// Where the run's `started` was put: the exit is not put before it.
    started: Option<Stamp>,
    not_before: u64,
    kernel: Option<Exit>,
    kernel_until: u64,
    /// The runtime's own record of the moment, nearer to it than its event.
    finished: Option<Timestamp>,
    finished_until: u64,
    verdict: Verdict,
    asked_at: Option<u64>,
    follow_until: u64,
    /// What followed so far.
    pub followed: Followed,
}

impl Pending {
    /// The exit of `t` that `e` tells of.
    pub(super) fn new(t: &Tracked, e: &RuntimeEvent, code: Option<i64>, now: Stamp, exits: &Exits) -> Self {
        let (stop_signal, stop_seconds) =
            t.facts.as_ref().map_or((15, 10.0), |f| (f.stop_signal, f.stop_timeout));
        let verdict = t.operator.exited(e.at.0.unsigned_abs(), code, stop_signal, stop_seconds);
        let kernel = t.pid.is_some() && exits.active();
        let begun = t.run_started_at.or(t.run_at).map_or(0, |at| stamp_of(at, now).boot_ns);
        Pending {
            event_at: e.at,
            code,
            oom: t.oom,
            pid: t.pid,
            started: t.started,
            not_before: begun.saturating_sub(START_SLACK_NS),
            kernel: None,
            kernel_until: if kernel { now.boot_ns.saturating_add(KERNEL_WAIT_NS) } else { 0 },
            finished: None,
            finished_until: if kernel { 0 } else { now.boot_ns.saturating_add(FINISHED_WAIT_NS) },
            verdict,
            asked_at: t.operator.asked_at(),
            follow_until: if verdict == Verdict::Unasked { 0 } else { now.boot_ns.saturating_add(FOLLOW_NS) },
            followed: Followed::default(),
        }
    }

    /// Whether inspect is to be asked for the moment: the kernel will not tell it.
    pub fn wants_finished(&self) -> bool {
        self.finished_until > 0
    }

    /// What inspect says of the exit whose event came at `event_at`: when it was, or nothing.
    pub(super) fn finished(&mut self, event_at: Timestamp, finished: Option<Timestamp>) {
        if self.event_at == event_at {
            let near = |f: &Timestamp| *f <= event_at && event_at.0.saturating_sub(f.0) <= FINISHED_BEFORE_NS;
            self.finished = finished.filter(near);
            self.finished_until = 0;
        }
    }

    /// Looks for the kernel's word.
    fn look(&mut self, exits: &Exits) {
        if self.kernel.is_none()
            && let Some(pid) = self.pid
        {
            self.kernel = exits.get(pid, self.not_before);
        }
    }

    /// When (boot time) it is to be looked at again; none if it can be told.
    fn due(&self, now: u64) -> Option<u64> {
        let kernel = (self.kernel.is_none() && self.kernel_until > now)
            .then(|| self.kernel_until.min(now + KERNEL_LOOK_NS));
        let follow = (self.follow_until > now).then_some(self.follow_until);
        let finished = (self.kernel.is_none() && self.finished_until > now).then_some(self.finished_until);
        // All of them are waited for; which comes first does not matter, it is looked at again then.
        [kernel, follow, finished].into_iter().flatten().min()
    }

    /// The fact and its moment.
    fn tell(&self, id: &str, now: Stamp, unserved: Unserved) -> (Stamp, Exited) {
        let (mut stamp, resolution) = match self.kernel {
            Some(exit) => {
                let back = i128::from(exit.boot_ns) - i128::from(now.boot_ns);
                let at = now.at.plus_ns(i64::try_from(back).unwrap_or(0));
                (Stamp { at, boot_ns: exit.boot_ns }, 1.0)
            }
            None => match self.finished {
                Some(finished) => {
                    let lag = self.event_at.seconds_since(finished) * 1000.0;
                    (stamp_of(finished, now), FINISHED_RESOLUTION_MS + lag.round())
                }
                None => (stamp_of(self.event_at, now), RUNTIME_RESOLUTION_MS),
            },
        };
        // A run that ends at once can end before the runtime says it began.
        if let Some(started) = self.started.filter(|s| s.boot_ns >= stamp.boot_ns || s.at >= stamp.at) {
            stamp = Stamp { at: started.at.plus_ns(1), boot_ns: started.boot_ns.saturating_add(1) };
        }
        let by_code = self.code.filter(|c| (129..=192).contains(c)).map(|c| c - 128);
        let signal = match self.kernel {
            // The kernel knows a signal from an exit code that only looks like one.
            Some(exit) => exit.signal.map(i64::from),
            None => by_code,
        };
        let kernel_code =
            self.kernel.and_then(|k| k.code.map(i64::from).or_else(|| k.signal.map(|s| 128 + i64::from(s))));
        let action = self.followed.action(self.verdict);
        // Asked for while the runtime answered nobody: its own doing.
        let by_runtime = action.is_some() && self.asked_at.is_some_and(|at| unserved.covers(at));
        let by_operator = Some(action.is_some() && !by_runtime);
        let action = if by_runtime { Some("runtime") } else { action };
        let fact = Exited {
            instance: Some(id.to_string()),
            exit_code: self.code.or(kernel_code),
            signal,
            oom_killed: Some(self.oom),
            by_operator,
            action: action.map(Into::into),
            resolution_ms: Some(resolution),
            runtime_at: Some(self.event_at),
        };
        (stamp, fact)
    }
}

impl Tracker {
    /// What an event says of an exit before it.
    pub(super) fn follow(&mut self, e: &RuntimeEvent, now: Stamp, exits: &Exits) {
        if let Some(p) = self.by_id.get_mut(&e.id).and_then(|t| t.pending.as_mut()) {
            let f = &mut p.followed;
            match e.action {
                Action::Stop => f.stop = true,
                Action::Restart => {
                    f.restart = true;
                    p.follow_until = 0;
                }
                Action::Start => {
                    f.start = true;
                    p.follow_until = p.follow_until.min(now.boot_ns.saturating_add(RESTART_NS));
                }
                Action::Destroy => f.destroy = true,
                _ => return,
            }
            self.settle(now, exits);
        }
    }

    /// Tells what has waited long enough. Call at [`Tracker::next`].
    pub fn settle(&mut self, now: Stamp, exits: &Exits) {
        let mut told: Vec<(Arc<str>, Stamp, Exited)> = Vec::new();
        let unserved = self.unserved;
        for (id, t) in &mut self.by_id {
            if let Some(p) = &mut t.pending {
                p.look(exits);
                if p.due(now.boot_ns).is_none() {
                    let (stamp, fact) = p.tell(id, now, unserved);
                    t.pending = None;
                    told.push((id.clone(), stamp, fact));
                }
            }
        }
        // In the order in which they happened, whatever the map's.
        told.sort_by_key(|(_, stamp, _)| stamp.boot_ns);
        for (id, stamp, fact) in told {
            if let Some(t) = self.by_id.get(&id) {
                let subject = t.identity.subject.clone();
                self.outs.push(Out::Tell(Told { stamp, after: None, subject, fact: fact.into() }));
            }
        }
        self.settle_removed(now);
    }

    fn settle_removed(&mut self, now: Stamp) {
        let due: Vec<(Arc<str>, Stamp)> = self
            .by_id
            .iter()
            .filter(|(_, t)| t.pending.is_none())
            .filter_map(|(id, t)| {
                t.gone.filter(|(_, from)| *from <= now.boot_ns).map(|(stamp, _)| (id.clone(), stamp))
            })
            .collect();
        for (id, stamp) in due {
            let Some(t) = self.by_id.remove(&id) else { continue };
            let subject = t.identity.subject;
            if !self.by_id.values().any(|t| t.identity.subject == subject) {
                self.tell_removed(&subject, &id, stamp);
            }
        }
    }

    /// A start of `id` is about to be told: tells the exits of its subject first, so that they stand in their order.
    pub(super) fn settle_before_start(&mut self, id: &Arc<str>, now: Stamp, exits: &Exits) {
        let Some(subject) = self.by_id.get(id).map(|t| t.identity.subject.clone()) else { return };
        for (_, t) in self.by_id.iter_mut().filter(|(_, t)| t.identity.subject == subject) {
            if let Some(p) = &mut t.pending {
                p.kernel_until = 0;
                p.finished_until = 0;
                p.follow_until = 0;
            }
        }
        self.settle(now, exits);
    }

    /// Tells all that waits, at the end.
    pub fn flush(&mut self, now: Stamp, exits: &Exits) {
        for t in self.by_id.values_mut() {
            if let Some(p) = &mut t.pending {
                p.kernel_until = 0;
                p.finished_until = 0;
                p.follow_until = 0;
            }
            if let Some((_, from)) = &mut t.gone {
                *from = 0;
            }
        }
        self.settle(now, exits);
    }

    /// When (boot time in nanoseconds) [`Tracker::settle`] is to be called next; none while nothing waits.
    #[must_use]
    pub fn next(&self, now: Stamp) -> Option<u64> {
        let exits = self
            .by_id
            .values()
            .filter_map(|t| t.pending.as_ref())
            .map(|p| p.due(now.boot_ns).unwrap_or(now.boot_ns));
        let removals =
            self.by_id.values().filter(|t| t.pending.is_none()).filter_map(|t| t.gone.map(|(_, from)| from));
        exits.chain(removals).min()
    }
}
