//! When processes ended, to the kernel's own nanosecond: a bounded memory of recent process exits, filled by the
//! process-events connector ([`super::connector`]) where it can be had. The docker source asks it for the true moment of
//! an exit, which the runtime tells tens of milliseconds late. Holds no judgement: which exit is a container's is not known here.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;

/// One process that ended, all its threads with it.
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

/// Called for every exit, on the witness's own thread: must be quick and must not block.
type Hear = dyn Fn(&Exit) + Send + Sync;

/// Keeps a listener of [`Exits::hear`] listening; dropping it ends that.
pub struct Hearing(
    #[allow(dead_code, reason = "held, not read: the listener lives as long as this")] Arc<Hear>,
);

/// Recent exits by pid, newest kept, and whether anybody fills them.
#[derive(Default)]
pub struct Exits {
    inner: Mutex<Inner>,
    /// CLOCK_BOOTTIME since which every exit is seen; 0 while none is.
    since: AtomicU64,
    /// Times that the kernel had to drop exits because we were late.
    overruns: AtomicU64,
    recorded: Notify,
    listeners: Mutex<Vec<Weak<Hear>>>,
    why_not: Mutex<String>,
}

#[derive(Default)]
struct Inner {
    by_pid: HashMap<u32, Exit>,
    order: VecDeque<(u32, u64)>,
    /// When a container's listening socket closed last, by its main process.
    closes: HashMap<u32, u64>,
}

/// A listening socket that closes this long before its process's end (nanoseconds) closed because of it.
const CLOSING_NS: u64 = 100_000_000;

impl Inner {
    /// The moment from which it accepted nothing any more, where its socket told that, else that of its end.
    fn finest(&self, exit: Exit) -> Exit {
        let closed = self.closes.get(&exit.pid).copied();
        let of_it = closed.filter(|c| *c <= exit.boot_ns && exit.boot_ns - c <= CLOSING_NS);
        Exit { boot_ns: of_it.unwrap_or(exit.boot_ns), ..exit }
    }
}

/// How many exits are remembered.
const REMEMBERED: usize = 8192;

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Exits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exits")
            .field("remembered", &lock(&self.inner).order.len())
            .field("active_since", &self.active_since())
            .field("overruns", &self.overruns())
            .finish_non_exhaustive()
    }
}

impl Exits {
    /// Remembers an exit and tells those who wait or listen.
    pub fn record(&self, exit: Exit) {
        let mut inner = lock(&self.inner);
        inner.by_pid.insert(exit.pid, exit);
        inner.order.push_back((exit.pid, exit.boot_ns));
        if inner.order.len() > REMEMBERED
            && let Some((pid, at)) = inner.order.pop_front()
            && inner.by_pid.get(&pid).is_some_and(|e| e.boot_ns == at)
        {
            inner.by_pid.remove(&pid);
        }
        drop(inner);
        self.recorded.notify_waiters();
        let listeners: Vec<_> = lock(&self.listeners).iter().filter_map(Weak::upgrade).collect();
        for hear in listeners {
            hear(&exit);
        }
    }

    /// A thread of `pid` ended at `boot_ns`, after its first thread and before that was heard of as the process's end.
    pub fn extend(&self, pid: u32, boot_ns: u64) {
        if let Some(exit) = lock(&self.inner).by_pid.get_mut(&pid)
            && boot_ns > exit.boot_ns
            && boot_ns - exit.boot_ns <= CLOSING_NS
        {
            exit.boot_ns = boot_ns;
        }
    }

    /// A listening socket of the container whose main process is `pid` closed at `boot_ns`. A process takes up to tens of
    /// milliseconds to end; its sockets tell when in them it ceased to accept.
    pub fn note_close(&self, pid: u32, boot_ns: u64) {
        let mut inner = lock(&self.inner);
        if inner.closes.len() >= REMEMBERED {
            inner.closes.clear();
        }
        inner.closes.insert(pid, boot_ns);
    }

    /// The last exit of `pid`, if it is remembered and came at or after `not_before` (boot time in nanoseconds).
    pub fn get(&self, pid: u32, not_before: u64) -> Option<Exit> {
        let inner = lock(&self.inner);
        inner.by_pid.get(&pid).filter(|e| e.boot_ns >= not_before).map(|e| inner.finest(*e))
    }

    /// As [`Exits::get`], waiting at most `limit` for it. `None` at once while nobody fills this.
    pub async fn wait(&self, pid: u32, not_before: u64, limit: Duration) -> Option<Exit> {
        let seen = async {
            loop {
                // Made before the look, so that an exit between look and wait is not missed.
                let next = self.recorded.notified();
                if let Some(exit) = self.get(pid, not_before) {
                    return Some(exit);
                }
                if !self.active() {
                    return None;
                }
                next.await;
            }
        };
        tokio::time::timeout(limit, seen).await.ok().flatten()
    }

    /// Calls `hear` for every exit from now on, on the witness's own thread, until the returned guard is dropped.
    #[must_use = "listening ends when this is dropped"]
    pub fn hear(&self, hear: impl Fn(&Exit) + Send + Sync + 'static) -> Hearing {
        let hear: Arc<Hear> = Arc::new(hear);
        let mut listeners = lock(&self.listeners);
        listeners.retain(|l| l.strong_count() > 0);
        listeners.push(Arc::downgrade(&hear));
        Hearing(hear)
    }

    /// Whether the kernel tells us of every exit now.
    pub fn active(&self) -> bool {
        self.active_since().is_some()
    }

    /// Since when (CLOCK_BOOTTIME, nanoseconds) every exit is seen. An exit before that may be unknown here.
    pub fn active_since(&self) -> Option<u64> {
        Some(self.since.load(Ordering::Acquire)).filter(|s| *s > 0)
    }

    /// Why the kernel does not tell us, and what would grant it; empty while it does.
    pub fn why_inactive(&self) -> String {
        lock(&self.why_not).clone()
    }

    /// How often the kernel dropped exits because they were read too late.
    pub fn overruns(&self) -> u64 {
        self.overruns.load(Ordering::Relaxed)
    }

    /// Every exit is seen from `boot_ns` on.
    pub(super) fn set_active(&self, boot_ns: u64) {
        lock(&self.why_not).clear();
        self.since.store(boot_ns.max(1), Ordering::Release);
    }

    /// No exit is seen from now on, because of `why`.
    pub(super) fn set_inactive(&self, why: &str) {
        *lock(&self.why_not) = why.to_string();
        self.since.store(0, Ordering::Release);
        self.recorded.notify_waiters();
    }

    /// Some exits were dropped by the kernel; they are complete again from `boot_ns` on.
    pub(super) fn set_overrun(&self, boot_ns: u64) {
        self.overruns.fetch_add(1, Ordering::Relaxed);
        self.set_active(boot_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_closed_as_its_process_ended_tells_the_moment() {
        const MS: u64 = 1_000_000;
        let exits = Exits::default();
        let exit = |pid| Exit { pid, boot_ns: 1_000 * MS, code: Some(0), signal: None };
        for (pid, closed, told) in [(1, 975, 975), (2, 899, 1_000), (3, 1_001, 1_000), (4, 1_000, 1_000)] {
            exits.note_close(pid, closed * MS);
            exits.record(exit(pid));
            assert_eq!(exits.get(pid, 0).unwrap().boot_ns, told * MS, "closed at {closed}");
        }
        exits.record(exit(5));
        assert_eq!(exits.get(5, 0), Some(exit(5)));
    }

    fn exit(pid: u32, boot_ns: u64) -> Exit {
        Exit { pid, boot_ns, code: Some(0), signal: None }
    }

    #[test]
    fn the_newest_exit_of_a_pid_counts_and_old_ones_are_forgotten() {
        let exits = Exits::default();
        exits.record(exit(1, 10));
        exits.record(exit(1, 20));
        assert_eq!(exits.get(1, 0), Some(exit(1, 20)));
        assert_eq!(exits.get(1, 20), Some(exit(1, 20)));
        assert_eq!(exits.get(1, 21), None);
        for n in 0..REMEMBERED as u64 {
            exits.record(exit(2 + n as u32, 30 + n));
        }
        assert_eq!(exits.get(1, 0), None);
        assert_eq!(exits.get(2, 0), Some(exit(2, 30)));
        assert_eq!(lock(&exits.inner).by_pid.len(), REMEMBERED);
    }

    #[test]
    fn listeners_hear_until_they_are_dropped() {
        let exits = Exits::default();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let into = heard.clone();
        let hearing = exits.hear(move |e| lock(&into).push(e.pid));
        exits.record(exit(7, 1));
        drop(hearing);
        exits.record(exit(8, 2));
        assert_eq!(*lock(&heard), [7]);
    }

    #[tokio::test]
    async fn waiting_ends_with_the_exit_or_with_the_witness() {
        let exits = Arc::new(Exits::default());
        assert_eq!(exits.wait(5, 0, Duration::from_secs(60)).await, None, "nobody fills it");
        exits.set_active(1);
        let (other, long) = (exits.clone(), Duration::from_secs(60));
        let waiting = tokio::spawn(async move { other.wait(5, 10, long).await });
        tokio::task::yield_now().await;
        exits.record(exit(5, 9));
        exits.record(exit(5, 11));
        assert_eq!(waiting.await.unwrap(), Some(exit(5, 11)));
        let other = exits.clone();
        let waiting = tokio::spawn(async move { other.wait(6, 10, long).await });
        tokio::task::yield_now().await;
        exits.set_inactive("gone");
        assert_eq!(waiting.await.unwrap(), None);
        assert_eq!(exits.why_inactive(), "gone");
    }
}
