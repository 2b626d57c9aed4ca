//! The two clocks that the truth is told in, and what else the kernel has to be asked for.

use std::sync::atomic::{AtomicBool, Ordering};

fn read(id: libc::clockid_t) -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a valid timespec to write to; both clock ids exist on every kernel that the lab runs on.
    unsafe { libc::clock_gettime(id, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// CLOCK_BOOTTIME in nanoseconds.
pub fn boot() -> u64 {
    read(libc::CLOCK_BOOTTIME)
}

/// CLOCK_REALTIME in nanoseconds.
pub fn wall() -> u64 {
    read(libc::CLOCK_REALTIME)
}

/// Lets a listening socket hold as many waiting connections as the kernel allows.
pub fn lengthen_queue(listener: i32) {
    // SAFETY: no pointers; listening again on a listening socket only changes the length of its queue.
    unsafe { libc::listen(listener, 4096) };
}

static ENDING: AtomicBool = AtomicBool::new(false);

extern "C" fn note_end(_: libc::c_int) {
    ENDING.store(true, Ordering::Release);
}

/// From now on SIGTERM and SIGINT are noted (process 1 of a container would ignore them otherwise).
pub fn heed_term() {
    let handler = note_end as extern "C" fn(libc::c_int);
    // SAFETY: the handler only stores to an atomic, which is async-signal-safe.
    unsafe {
        libc::signal(libc::SIGTERM, handler as libc::sighandler_t);
        libc::signal(libc::SIGINT, handler as libc::sighandler_t);
    }
}

/// Whether a SIGTERM or SIGINT came.
pub fn ending() -> bool {
    ENDING.load(Ordering::Acquire)
}
