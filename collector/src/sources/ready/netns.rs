//! Network namespaces: which one a process is in, and doing something inside one. The calling thread must be one of our
//! own, not a worker of the runtime: it is moved and moved back.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::sched::{CloneFlags, setns};

/// Which namespace: device and inode of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(u64, u64);

/// Why something inside a namespace was not done.
#[derive(Debug, thiserror::Error)]
pub enum InsideError {
    /// The namespace can not be opened or entered, or what was done there failed; the thread is where it was.
    #[error("{0}")]
    Failed(#[from] io::Error),
    /// The thread could not return to its own namespace and must end.
    #[error("return to the own network namespace: {0}")]
    Stuck(io::Error),
}

/// The namespace of a process.
///
/// # Errors
/// The process is gone, or its namespaces may not be seen (it takes CAP_SYS_PTRACE or the same user).
pub fn key_of(proc: &Path, pid: u32) -> io::Result<Key> {
    let m = std::fs::metadata(proc.join(format!("{pid}/ns/net")))?;
    Ok(Key(m.dev(), m.ino()))
}

/// Whether a process is in that namespace now.
#[must_use]
pub fn is_in(proc: &Path, pid: u32, key: Key) -> bool {
    key_of(proc, pid).is_ok_and(|k| k == key)
}

/// The way back: the namespace of the calling thread.
pub struct Home(File, Key);

impl Home {
    /// Remembers the calling thread's namespace.
    ///
    /// # Errors
    /// /proc is not there.
    pub fn here() -> io::Result<Home> {
        // Always the kernel's own: this is about our thread, not about what is watched.
        let file = File::open("/proc/thread-self/ns/net")?;
        let m = file.metadata()?;
        Ok(Home(file, Key(m.dev(), m.ino())))
    }

    /// Which one it is.
    #[must_use]
    pub fn key(&self) -> Key {
        self.1
    }

    /// Does `work` inside the namespace of `pid`, which must still be `key`.
    ///
    /// # Errors
    /// See [`InsideError`].
    pub fn inside<T>(
        &self,
        proc: &Path,
        pid: u32,
        key: Key,
        work: impl FnOnce() -> io::Result<T>,
    ) -> Result<T, InsideError> {
        if key == self.1 {
            return Ok(work()?);
        }
        let there = File::open(proc.join(format!("{pid}/ns/net")))?;
        let m = there.metadata()?;
        if Key(m.dev(), m.ino()) != key {
            return Err(io::Error::other("the process changed its network namespace meanwhile").into());
        }
        setns(&there, CloneFlags::CLONE_NEWNET).map_err(io::Error::from)?;
        let done = work();
        setns(&self.0, CloneFlags::CLONE_NEWNET).map_err(|e| InsideError::Stuck(e.into()))?;
        Ok(done?)
    }
}
