//! Waking when a descriptor of the kernel becomes readable. The one place that hands descriptors to the runtime's poller.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers a descriptor that is in non-blocking mode; it is closed with the returned handle.
///
/// # Errors
/// The kernel refuses descriptors that cannot be polled (regular files).
pub fn readable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is an open descriptor that nobody else closes, it names the same one each time it is asked,
    // and `AsyncFd` takes it off the poller before dropping it.
    unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }.map_err(|e| e.into_parts().1)
}
