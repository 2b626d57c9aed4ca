//! The one place that reads the clocks of the machine. Everything else is given a [`Clock`] or takes time from events.

use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::time::Timestamp;

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Wall clock; may step.
    pub at: Timestamp,
    /// CLOCK_BOOTTIME: nanoseconds since this host booted, suspend included; never steps.
    pub boot_ns: u64,
}

/// Where time comes from.
pub trait Clock: Send + Sync + 'static {
    /// Both clocks, read as close together as can be.
    fn now(&self) -> Stamp;
}

/// A clock that can be handed around.
pub type SharedClock = Arc<dyn Clock>;

/// The machine's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Stamp {
        // Wall time before 1970 or a kernel without CLOCK_BOOTTIME reads as 0: still ordered, never a panic.
        #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clocks")]
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let boot = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME)
            .map(|t| t.tv_sec().unsigned_abs() * 1_000_000_000 + t.tv_nsec().unsigned_abs())
            .unwrap_or_default();
        Stamp { at: Timestamp(i64::try_from(wall.as_nanos()).unwrap_or(i64::MAX)), boot_ns: boot }
    }
}

/// How far CLOCK_BOOTTIME is ahead of CLOCK_MONOTONIC, in nanoseconds: the time this host spent suspended. Kernel
/// interfaces that stamp with the monotonic clock are brought to boot time by adding it. Changes only over a suspend.
#[must_use]
pub fn suspended_ns() -> u64 {
    let read = |id| {
        nix::time::clock_gettime(id)
            .map(|t| i128::from(t.tv_sec()) * 1_000_000_000 + i128::from(t.tv_nsec()))
            .unwrap_or_default()
    };
    // Monotonic first: a delay between the two reads can only make the distance larger, so the least of three is best.
    (0..3)
        .map(|_| {
            let monotonic = read(nix::time::ClockId::CLOCK_MONOTONIC);
            u64::try_from(read(nix::time::ClockId::CLOCK_BOOTTIME) - monotonic).unwrap_or(0)
        })
        .min()
        .unwrap_or(0)
}

/// A clock that tests set and move.
#[derive(Debug)]
pub struct ManualClock(Mutex<Stamp>);

impl ManualClock {
    /// A clock that stands at `at` and `boot_ns`.
    #[must_use]
    pub fn new(at: Timestamp, boot_ns: u64) -> Self {
        ManualClock(Mutex::new(Stamp { at, boot_ns }))
    }

    /// Moves both clocks on by `ns`.
    pub fn advance(&self, ns: u64) {
        let mut s = self.lock();
        s.at = s.at.plus_ns(i64::try_from(ns).unwrap_or(i64::MAX));
        s.boot_ns = s.boot_ns.saturating_add(ns);
    }

    /// Steps the wall clock alone, as an administrator or NTP would.
    pub fn step(&self, ns: i64) {
        let mut s = self.lock();
        s.at = s.at.plus_ns(ns);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Stamp> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Stamp {
        *self.lock()
    }
}
