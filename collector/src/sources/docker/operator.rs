//! Was it asked for? Tells an operator's stop, kill, restart, re-creation or removal from a crash by the order of the
//! runtime's events. Pure: a state machine for one container.
//!
//! What Docker 20.10 to 28 say, in order:
//! ```text
//! stop      kill(15) [kill(9) at the timeout] die stop
//! restart   kill(15) [kill(9)] die stop start restart
//! kill      kill(9) die
//! rm -f     kill(9) die destroy
//! compose   create(new, same labels) kill(15) die stop destroy rename(new) start(new)
//! crash     die                                   (a `stop` after it only ended the wait for the next restart)
//! OOM kill  oom die
//! kill -HUP kill(1)                               (and any crash later is a crash)
//! ```
//! Podman sends no `kill` for a stop and puts `stop` first. A program that calls the API (an auto-healer, an updater) is an
//! operator here.
//!
//! A daemon that shuts down stops its containers in the same words (`kill die stop`, all at once, then the stream ends),
//! and one that was killed ends what is left over when it boots (`kill die`, then `start`). Nobody asked for those
//! containers to stop. What tells it: the daemon answers no questions then, so no client can have asked. Moments at which
//! it was found not to answer are kept ([`super::tracker::Tracker::unserved`]), and a request in them is `runtime`'s.

/// Nanoseconds in a second.
const S: u64 = 1_000_000_000;
/// A SIGKILL works within this, short of a process that hangs in the kernel.
const KILLED_WITHIN: u64 = 30 * S;
/// Slack on the time that a container is given to stop.
const STOP_SLACK: u64 = 5 * S;
/// A signal that reloads most and ends some ends those within this.
const ENDED_WITHIN: u64 = 2 * S;

/// What is known of requests to one container since its last start. Moments are the runtime's, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operator {
    /// The last signal that was sent through the runtime, and when.
    kill: Option<(i64, u64)>,
    /// A `stop` came while it ran (Podman).
    stop: Option<u64>,
}

/// What is said of an exit when it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nobody asked.
    Unasked,
    /// Somebody asked: what for becomes clear by what follows.
    Asked,
    /// A request was made long ago, and may still be what ended it: so if a `stop` or `restart` follows.
    Maybe,
}

impl Operator {
    /// A signal was sent through the runtime.
    pub fn killed(&mut self, signal: Option<i64>, at: u64) {
        // A stop that times out sends SIGKILL after SIGTERM: the later one is the one that ends it.
        self.kill = Some((signal.unwrap_or(9), at));
    }

    /// A stop was told of while it ran.
    pub fn stopping(&mut self, at: u64) {
        self.stop = Some(at);
    }

    /// It was started anew: what was asked of its last life is past.
    pub fn started(&mut self) {
        *self = Operator::default();
    }

    /// When the last request was made, in the runtime's nanoseconds.
    #[must_use]
    pub fn asked_at(&self) -> Option<u64> {
        self.kill.map(|(_, at)| at).max(self.stop)
    }

    /// Its main process ended at `at` with `exit_code`; `stop_signal` and `stop_seconds` are what it declares for stopping.
    #[must_use]
    pub fn exited(&self, at: u64, exit_code: Option<i64>, stop_signal: i64, stop_seconds: f64) -> Verdict {
        let patience = (stop_seconds.clamp(0.0, 86_400.0) * S as f64) as u64 + STOP_SLACK;
        if self.stop.is_some_and(|s| at.saturating_sub(s) <= patience) {
            return Verdict::Asked;
        }
        let Some((signal, sent)) = self.kill else {
            return Verdict::Unasked;
        };
        // An event may be stamped a little out of order.
        let since = at.saturating_sub(sent);
        let within = |limit: u64| if since <= limit { Verdict::Asked } else { Verdict::Maybe };
        match signal {
            9 => within(KILLED_WITHIN),
            s if s == stop_signal || s == 15 || s == 2 || s == 3 => within(patience),
            // Reloads and the like: only an exit by that very signal, at once, is its doing.
            s if since <= ENDED_WITHIN && exit_code == Some(128 + s) => Verdict::Asked,
            _ => Verdict::Unasked,
        }
    }
}

/// What followed an exit that was or may have been asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    /// `stop`
    pub stop: bool,
    /// `start` of the same container.
    pub start: bool,
    /// `restart`
    pub restart: bool,
    /// `destroy`
    pub destroy: bool,
    /// Another container of the same subject is there or was made.
    pub successor: bool,
}

impl Followed {
    /// What was asked for: `restart`, `recreate`, `remove`, `stop` or `kill`; none if nobody asked after all.
    #[must_use]
    pub fn action(self, verdict: Verdict) -> Option<&'static str> {
        let asked = match verdict {
            Verdict::Unasked => false,
            Verdict::Asked => true,
            Verdict::Maybe => self.stop || self.restart,
        };
        asked.then_some(if self.restart {
            "restart"
        } else if self.successor {
            "recreate"
        } else if self.destroy {
            "remove"
        } else if self.stop {
            "stop"
        } else {
            "kill"
        })
    }
}
