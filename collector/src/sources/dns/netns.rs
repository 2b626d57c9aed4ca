//! Making a thing (a socket) inside another process's network namespace: on a thread of its own that enters it, comes back and
//! ends. The thing stays in that namespace; holding it keeps the namespace alive.

use std::fs::File;
use std::io;
use std::path::Path;

use nix::sched::{CloneFlags, setns};

use crate::sources::ready::netns::{Home, InsideError};
pub use crate::sources::ready::netns::{Key, key_of};

/// What `make` gives inside the network namespace of `pid`, which must be `key`.
///
/// # Errors
/// The process is gone or elsewhere, we may not enter (CAP_SYS_ADMIN), or what `make` says.
pub async fn within<T: Send + 'static>(
    proc: &Path,
    pid: u32,
    key: Key,
    make: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let proc = proc.to_path_buf();
    on_a_thread(move || match Home::here()?.inside(&proc, pid, key, make) {
        Ok(made) => Ok(made),
        // The thread ends here: that it could not come back harms nobody, but what was made is lost.
        Err(InsideError::Failed(e) | InsideError::Stuck(e)) => Err(e),
    })
    .await
}

/// What `make` gives in our own namespace, entered all the same to learn whether we may; and which it is.
///
/// # Errors
/// We may not enter namespaces (CAP_SYS_ADMIN), or what `make` says.
pub async fn at_home<T: Send + 'static>(
    make: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<(T, Key)> {
    on_a_thread(move || {
        let key = Home::here()?.key();
        setns(&File::open("/proc/thread-self/ns/net")?, CloneFlags::CLONE_NEWNET)?;
        Ok((make()?, key))
    })
    .await
}

async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (done, made) = tokio::sync::oneshot::channel();
    std::thread::Builder::new().name("in-namespace".into()).spawn(move || {
        // Nobody waiting any more is fine: what was made is dropped.
        let _ = done.send(work());
    })?;
    made.await.unwrap_or_else(|_| Err(io::Error::other("the thread that entered the namespace ended early")))
}
