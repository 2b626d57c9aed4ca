//! Being woken when a cgroup's memory runs out: v2 by inotify on memory.events, v1 by an eventfd registered on
//! memory.oom_control. One descriptor for all cgroups stands on the runtime's poller; each watch ends with its entry.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use inotify::{EventMask, Inotify, WatchDescriptor, WatchMask, Watches};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use tokio::io::unix::AsyncFd;

use crate::readiness::readable;

/// Which cgroup: a number given by whoever watches, never used twice.
pub type Key = u64;

/// Wakes for many cgroups.
pub enum Watch {
    /// Through eventfds.
    V1(Eventfds),
    /// Through inotify.
    V2(Modified),
}

impl Watch {
    /// Nothing is watched yet.
    ///
    /// # Errors
    /// The kernel gives no further descriptors.
    pub fn new(version: u64) -> io::Result<Self> {
        if version == 2 { Modified::new().map(Watch::V2) } else { Eventfds::new().map(Watch::V1) }
    }

    /// Watches a cgroup's directory.
    ///
    /// # Errors
    /// The directory is gone, or the kernel refuses the watch.
    pub fn add(&mut self, key: Key, dir: &Path) -> io::Result<()> {
        match self {
            Watch::V1(w) => w.add(key, dir),
            Watch::V2(w) => w.add(key, dir),
        }
    }

    /// Ends a watch; one that has ended with its directory is no error.
    pub fn remove(&mut self, key: Key) {
        match self {
            Watch::V1(w) => drop(w.fds.remove(&key)),
            Watch::V2(w) => w.remove(key),
        }
    }

    /// How many are watched.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        match self {
            Watch::V1(w) => w.fds.len(),
            Watch::V2(w) => w.by_key.len(),
        }
    }

    /// Waits until at least one cgroup says that something happened.
    ///
    /// # Errors
    /// The kernel took the descriptor away.
    pub async fn woken(&mut self) -> io::Result<Vec<Key>> {
        match self {
            Watch::V1(w) => w.woken().await,
            Watch::V2(w) => w.woken().await,
        }
    }
}

/// v1: an eventfd a cgroup, all in one epoll set, which is itself polled.
pub struct Eventfds {
    epoll: Epoll,
    poll: AsyncFd<OwnedFd>,
    fds: HashMap<Key, EventFd>,
}

impl Eventfds {
    fn new() -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let poll = readable(epoll.0.try_clone()?)?;
        Ok(Eventfds { epoll, poll, fds: HashMap::new() })
    }

    fn add(&mut self, key: Key, dir: &Path) -> io::Result<()> {
        let fd = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let control = File::open(dir.join("memory.oom_control"))?;
        // The kernel takes both descriptors by number; its registration ends when the eventfd is closed.
        let order = format!("{} {}", fd.as_raw_fd(), control.as_raw_fd());
        let mut into = std::fs::OpenOptions::new().write(true).open(dir.join("cgroup.event_control"))?;
        io::Write::write_all(&mut into, order.as_bytes())?;
        self.epoll.add(&fd, EpollEvent::new(EpollFlags::EPOLLIN, key))?;
        self.fds.insert(key, fd);
        Ok(())
    }

    async fn woken(&mut self) -> io::Result<Vec<Key>> {
        loop {
            let mut guard = self.poll.readable().await?;
            let mut events = [EpollEvent::empty(); 64];
            let n = match self.epoll.wait(&mut events, EpollTimeout::ZERO) {
                Err(nix::errno::Errno::EINTR) => continue,
                other => other?,
            };
            if n == 0 {
                guard.clear_ready();
                continue;
            }
            let keys: Vec<Key> = events.iter().take(n).map(EpollEvent::data).collect();
            for key in &keys {
                // Takes the count, so that the descriptor sleeps again. The kernel also signals once as the cgroup goes.
                if let Some(fd) = self.fds.get(key) {
                    let _ = fd.read();
                }
            }
            return Ok(keys);
        }
    }
}

/// v2: one inotify instance.
pub struct Modified {
    inotify: Inotify,
    watches: Watches,
    poll: AsyncFd<OwnedFd>,
    by_key: HashMap<Key, WatchDescriptor>,
    by_watch: HashMap<WatchDescriptor, Key>,
}

impl Modified {
    fn new() -> io::Result<Self> {
        let inotify = Inotify::init()?;
        let poll = readable(std::os::fd::AsFd::as_fd(&inotify).try_clone_to_owned()?)?;
        let watches = inotify.watches();
        Ok(Modified { inotify, watches, poll, by_key: HashMap::new(), by_watch: HashMap::new() })
    }

    fn add(&mut self, key: Key, dir: &Path) -> io::Result<()> {
        // memory.events is hierarchical: a victim below this cgroup wakes us too.
        let wd = self.watches.add(dir.join("memory.events"), WatchMask::MODIFY)?;
        if let Some(old) = self.by_watch.insert(wd.clone(), key) {
            self.by_key.remove(&old);
        }
        self.by_key.insert(key, wd);
        Ok(())
    }

    fn remove(&mut self, key: Key) {
        if let Some(wd) = self.by_key.remove(&key) {
            self.by_watch.remove(&wd);
            // Gone already, where the directory is.
            let _ = self.watches.remove(wd);
        }
    }

    async fn woken(&mut self) -> io::Result<Vec<Key>> {
        let mut buffer = [0u8; 4096];
        loop {
            let mut guard = self.poll.readable().await?;
            let events = match self.inotify.read_events(&mut buffer) {
                Ok(events) => events,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    guard.clear_ready();
                    continue;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            let (mut keys, mut overflow) = (Vec::new(), false);
            let mut gone = Vec::new();
            for event in events {
                let event: inotify::Event<&OsStr> = event;
                overflow |= event.mask.contains(EventMask::Q_OVERFLOW);
                let Some(key) = self.by_watch.get(&event.wd).copied() else { continue };
                if event.mask.contains(EventMask::IGNORED) {
                    gone.push(key);
                }
                if !keys.contains(&key) {
                    keys.push(key);
                }
            }
            for key in gone {
                if let Some(wd) = self.by_key.remove(&key) {
                    self.by_watch.remove(&wd);
                }
            }
            if overflow {
                // Some were lost: each may be one of them.
                keys = self.by_key.keys().copied().collect();
            }
            if !keys.is_empty() {
                return Ok(keys);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn soon(watch: &mut Watch) -> Vec<Key> {
        tokio::time::timeout(Duration::from_secs(20), watch.woken()).await.expect("a wake in time").unwrap()
    }

    #[tokio::test]
    async fn v2_wakes_for_the_one_that_changed_and_ends_with_its_directory() {
        let dir = tempfile::tempdir().unwrap();
        let mut watch = Watch::new(2).unwrap();
        for (key, name) in [(1, "a"), (2, "b")] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
            std::fs::write(dir.path().join(name).join("memory.events"), "oom_kill 0\n").unwrap();
            watch.add(key, &dir.path().join(name)).unwrap();
        }
        std::fs::write(dir.path().join("b/memory.events"), "oom_kill 1\n").unwrap();
        assert_eq!(soon(&mut watch).await, [2]);
        std::fs::remove_dir_all(dir.path().join("b")).unwrap();
        assert_eq!(soon(&mut watch).await, [2]);
        assert_eq!(watch.len(), 1);
        watch.remove(2);
        watch.remove(1);
        assert_eq!(watch.len(), 0);
        assert!(watch.add(3, &dir.path().join("gone")).is_err());
    }

    #[tokio::test]
    async fn v1_registers_an_eventfd_and_closes_it() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("memory.oom_control"), "").unwrap();
        std::fs::write(dir.path().join("cgroup.event_control"), "").unwrap();
        let mut watch = Watch::new(1).unwrap();
        watch.add(7, dir.path()).unwrap();
        watch.add(8, dir.path()).unwrap();
        let Watch::V1(inner) = &watch else { unreachable!() };
        let fd = inner.fds[&8].as_raw_fd();
        let order = std::fs::read_to_string(dir.path().join("cgroup.event_control")).unwrap();
        assert_eq!(order.split(' ').next(), Some(&*fd.to_string()));
        // The kernel's part.
        inner.fds[&8].write(1).unwrap();
        assert_eq!(soon(&mut watch).await, [8]);
        // Taken, it sleeps again.
        assert!(tokio::time::timeout(Duration::from_millis(50), watch.woken()).await.is_err());
        for key in 100..600 {
            watch.add(key, dir.path()).unwrap();
            watch.remove(key);
        }
        assert_eq!(watch.len(), 2);
        let open = std::fs::read_dir("/proc/self/fd").unwrap().count();
        assert!(open < 200, "{open} descriptors are open");
        assert!(watch.add(9, &dir.path().join("gone")).is_err());
    }
}
