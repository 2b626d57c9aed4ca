//! The earliest sign of a start: a container's cgroup directory appears before its process runs, and tens of milliseconds
//! before its runtime says anything. Watched by inotify on the directories that hold containers' directories, which are
//! learned from the containers known. Names to ids is a pure function.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use inotify::{EventMask, Inotify, WatchDescriptor, WatchMask};

/// A container's directory came or went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sign {
    /// It came: the container is about to start.
    Came(String, PathBuf),
    /// It went: all its processes have ended.
    Went(String, PathBuf),
    /// Signs were lost.
    Overrun,
}

/// Most directories watched.
const PARENTS: usize = 64;
/// Most processes read of one cgroup.
const PROCS_LIMIT: usize = 16_384;

/// The container id in the name of a cgroup directory: `<id>`, `docker-<id>.scope`. Exactly 64 hex digits.
#[must_use]
pub fn container_id(name: &str) -> Option<&str> {
    let id = name.strip_suffix(".scope").and_then(|n| n.strip_prefix("docker-")).unwrap_or(name);
    (id.len() == 64 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))).then_some(id)
}

/// The directory of a process's cgroup below `mount`, from the text of its /proc/PID/cgroup: of the memory controller (v1),
/// else of the unified hierarchy (v2).
#[must_use]
pub fn directory(mount: &Path, text: &str) -> Option<PathBuf> {
    let line = |want: &str| {
        text.lines().find_map(|l| {
            let mut fields = l.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            controllers.split(',').any(|c| c == want).then_some(path)
        })
    };
    let (hierarchy, path) = match line("memory") {
        Some(path) => (mount.join("memory"), path),
        None => (mount.to_path_buf(), line("")?),
    };
    let path = Path::new(path.strip_prefix('/')?);
    // A path outside of our own cgroup namespace reads `/../…`: it is not below the mount.
    let inside = path.components().all(|c| matches!(c, std::path::Component::Normal(_)));
    (inside && path.components().next().is_some()).then(|| hierarchy.join(path))
}

/// The processes in a cgroup directory. Those gone meanwhile are not there; a directory gone is empty.
#[must_use]
pub fn processes(directory: &Path) -> Vec<u32> {
    let text = std::fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|l| l.parse().ok()).filter(|p| *p > 0).take(PROCS_LIMIT).collect()
}

/// The watch on all directories that hold containers' directories.
pub struct Starts {
    inotify: Inotify,
    parents: HashMap<WatchDescriptor, PathBuf>,
}

impl Starts {
    /// A watch on nothing yet.
    ///
    /// # Errors
    /// The kernel has no inotify instance left for us.
    pub fn open() -> io::Result<Starts> {
        Ok(Starts { inotify: Inotify::init()?, parents: HashMap::new() })
    }

    /// Watches the directory that holds `container`'s too. False if it can not be watched.
    pub fn learn(&mut self, container: &Path) -> bool {
        let Some(parent) = container.parent() else { return false };
        if self.parents.values().any(|p| p == parent) {
            return true;
        }
        if self.parents.len() >= PARENTS
            || container.file_name().and_then(|n| n.to_str()).is_none_or(|n| container_id(n).is_none())
        {
            return false;
        }
        let mask = WatchMask::CREATE | WatchMask::DELETE | WatchMask::ONLYDIR;
        match self.inotify.watches().add(parent, mask) {
            Ok(wd) => {
                self.parents.insert(wd, parent.to_path_buf());
                true
            }
            Err(error) => {
                tracing::debug!(%error, parent = %parent.display(), "can not watch for new containers there");
                false
            }
        }
    }

    /// All signs that wait.
    ///
    /// # Errors
    /// The watch broke.
    pub fn signs(&mut self) -> io::Result<Vec<Sign>> {
        let mut buffer = [0u8; 8192];
        let mut out = Vec::new();
        loop {
            let events = match self.inotify.read_events(&mut buffer) {
                Ok(events) => events,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(out),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            for event in events {
                if event.mask.contains(EventMask::Q_OVERFLOW) {
                    out.push(Sign::Overrun);
                } else if event.mask.contains(EventMask::IGNORED) {
                    self.parents.remove(&event.wd);
                } else if let (Some(parent), Some(name)) =
                    (self.parents.get(&event.wd), event.name.and_then(|n| n.to_str()))
                    && let Some(id) = container_id(name)
                {
                    let make = if event.mask.contains(EventMask::CREATE) { Sign::Came } else { Sign::Went };
                    out.push(make(id.to_string(), parent.join(name)));
                }
            }
        }
    }
}

impl AsFd for Starts {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "00748bf4e957f82c239a1db8a88579059b7d40c7b5fbd3f43617d31d3f646f12";

    #[test]
    fn ids_in_names() {
        assert_eq!(container_id(ID), Some(ID));
        assert_eq!(container_id(&format!("docker-{ID}.scope")), Some(ID));
        for name in
            ["", "docker", "docker-.scope", &ID[1..], &format!("{ID}0"), &ID.to_uppercase(), "docker-é.scope"]
        {
            assert_eq!(container_id(name), None, "{name}");
        }
    }

    #[test]
    fn directories_of_both_hierarchies() {
        let at = |text: &str| directory(Path::new("/cg"), text);
        let v1 = "9:name=systemd:/docker/x\n4:cpu,memory:/docker/x\n0::/\n";
        assert_eq!(at(v1), Some("/cg/memory/docker/x".into()));
        assert_eq!(at("0::/system.slice/docker-x.scope\n"), Some("/cg/system.slice/docker-x.scope".into()));
        for text in ["", "0::/\n", "0::/../../x\n", "nonsense", "1:cpu:/x\n", "0:memory\n"] {
            assert_eq!(at(text), None, "{text:?}");
        }
    }

    #[test]
    fn directories_that_come_and_go_are_told() {
        let root = tempfile::tempdir().unwrap();
        let first = root.path().join(ID);
        let mut starts = Starts::open().unwrap();
        assert!(starts.learn(&first));
        std::fs::create_dir(root.path().join("other")).unwrap();
        std::fs::create_dir(&first).unwrap();
        std::fs::write(first.join("cgroup.procs"), "12\nx\n0\n34\n").unwrap();
        assert_eq!(processes(&first), [12, 34]);
        std::fs::remove_file(first.join("cgroup.procs")).unwrap();
        std::fs::remove_dir(&first).unwrap();
        assert!(processes(&first).is_empty());
        let (came, went) = (Sign::Came(ID.into(), first.clone()), Sign::Went(ID.into(), first));
        assert_eq!(starts.signs().unwrap(), [came, went]);
    }
}
