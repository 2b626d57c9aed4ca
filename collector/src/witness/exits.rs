//! When processes ended, to the kernel's own nanosecond: a bounded memory of recent process exits, filled by the
//! process-events connector (netlink) where it can be had. The docker source asks it for the true moment of an exit, which
//! the runtime tells tens of milliseconds late.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

/// One process that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Process id on the host.
    pub pid: u32,
    /// CLOCK_BOOTTIME of the exit, in nanoseconds.
    pub boot_ns: u64,
    /// Exit code, if it exited.
    pub code: Option<i32>,
    /// Signal, if one ended it.
    pub signal: Option<i32>,
}

/// Recent exits by pid, newest kept.
#[derive(Debug, Default)]
pub struct Exits(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    by_pid: HashMap<u32, Exit>,
    order: VecDeque<(u32, u64)>,
}

/// How many exits are remembered.
const REMEMBERED: usize = 8192;

impl Exits {
    /// Remembers an exit.
    pub fn record(&self, exit: Exit) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.by_pid.insert(exit.pid, exit);
        inner.order.push_back((exit.pid, exit.boot_ns));
        if inner.order.len() > REMEMBERED
            && let Some((pid, at)) = inner.order.pop_front()
            && inner.by_pid.get(&pid).is_some_and(|e| e.boot_ns == at)
        {
            inner.by_pid.remove(&pid);
        }
    }

    /// The last exit of `pid`, if it is remembered and came at or after `not_before` (boot time in nanoseconds).
    pub fn get(&self, pid: u32, not_before: u64) -> Option<Exit> {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.by_pid.get(&pid).filter(|e| e.boot_ns >= not_before).copied()
    }
}
