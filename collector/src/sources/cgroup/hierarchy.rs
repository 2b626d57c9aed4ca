//! Where this host keeps the memory controller: v1, v2, or a hybrid of both, of which the one that has `memory` counts. The
//! roots are given, so that tests can lay out their own.

use std::path::{Path, PathBuf};

use cgroups_rs::fs::Controllers;
use cgroups_rs::fs::hierarchies::V1;
use procfs::FromRead;
use procfs::process::MountInfos;

use crate::source::Roots;

/// The hierarchy that holds the memory controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// 1 or 2.
    pub version: u64,
    /// Both kinds are mounted.
    pub hybrid: bool,
    /// Where it is mounted.
    pub root: PathBuf,
    /// The cgroup that the mount shows as its root (`/`, unless we live in a container of our own).
    pub shows: String,
}

impl Hierarchy {
    /// Finds it. None where no memory controller is to be seen.
    #[must_use]
    pub fn detect(roots: &Roots) -> Option<Self> {
        let unified = roots.cgroup.join("unified/cgroup.controllers").exists();
        let v1 = |root: PathBuf, shows: String| Hierarchy { version: 1, hybrid: unified, root, shows };
        // A v1 memory controller takes memory away from v2, so it is looked for first.
        if *roots == Roots::default()
            && let Some((point, shows)) = V1::new().get_mount_point(Controllers::Mem)
        {
            return Some(v1(point, shows.to_string_lossy().into_owned()));
        }
        let beside = roots.cgroup.join("memory");
        if beside.join("memory.oom_control").exists() || beside.join("memory.usage_in_bytes").exists() {
            return Some(v1(beside, "/".into()));
        }
        let v2 = |root: PathBuf, shows: String| Hierarchy { version: 2, hybrid: false, root, shows };
        if has_memory(&roots.cgroup) {
            return Some(v2(roots.cgroup.clone(), "/".into()));
        }
        // Mounted somewhere else.
        let mounts = MountInfos::from_file(roots.proc.join("self/mountinfo")).ok()?;
        let mut second = None;
        for m in mounts.0.into_iter().take(4096) {
            if m.fs_type == "cgroup" && m.super_options.contains_key("memory") {
                return Some(Hierarchy { version: 1, hybrid: unified, root: m.mount_point, shows: m.root });
            }
            if m.fs_type == "cgroup2" && has_memory(&m.mount_point) {
                second = Some(v2(m.mount_point, m.root));
            }
        }
        second
    }

    /// The directory of a cgroup path as `/proc/PID/cgroup` tells it.
    #[must_use]
    pub fn dir(&self, path: &str) -> PathBuf {
        let below = path.strip_prefix(self.shows.trim_end_matches('/')).unwrap_or(path);
        // `/..` stands before the path of a process outside our own cgroup namespace.
        let parts = below.split('/').filter(|p| !p.is_empty() && *p != ".." && *p != ".");
        parts.fold(self.root.clone(), |dir, part| dir.join(part))
    }

    /// The cgroup path of a directory.
    #[must_use]
    pub fn path(&self, dir: &Path) -> String {
        let below = dir.strip_prefix(&self.root).unwrap_or(dir);
        format!("{}/{}", self.shows.trim_end_matches('/'), below.to_string_lossy())
    }

    /// In words, for people.
    #[must_use]
    pub fn words(&self) -> String {
        let kind = match (self.version, self.hybrid) {
            (1, true) => "cgroup v1 for memory, v2 beside it",
            (1, false) => "cgroup v1",
            _ => "cgroup v2",
        };
        format!("{kind} at {}", self.root.display())
    }
}

fn has_memory(root: &Path) -> bool {
    std::fs::read_to_string(root.join("cgroup.controllers"))
        .is_ok_and(|c| c.split_whitespace().any(|c| c == "memory"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lay(files: &[(&str, &str)]) -> (tempfile::TempDir, Roots) {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text.replace("ROOT", dir.path().to_str().unwrap())).unwrap();
        }
        let roots =
            Roots { proc: dir.path().join("proc"), cgroup: dir.path().join("cg"), ..Roots::default() };
        (dir, roots)
    }

    #[test]
    fn finds_v1_v2_and_hybrid() {
        let (dir, roots) = lay(&[("cg/cgroup.controllers", "cpuset cpu io memory pids\n")]);
        let h = Hierarchy::detect(&roots).unwrap();
        assert_eq!((h.version, h.hybrid, &h.root), (2, false, &dir.path().join("cg")));

        let (_dir, roots) =
            lay(&[("cg/memory/memory.oom_control", ""), ("cg/unified/cgroup.controllers", "hugetlb\n")]);
        let h = Hierarchy::detect(&roots).unwrap();
        assert_eq!((h.version, h.hybrid, &h.root), (1, true, &roots.cgroup.join("memory")));

        let (_dir, roots) = lay(&[("cg/memory/memory.usage_in_bytes", "1")]);
        assert_eq!(Hierarchy::detect(&roots).map(|h| (h.version, h.hybrid)), Some((1, false)));

        // Unified without the memory controller, and nothing else: nothing is seen.
        let (_dir, roots) = lay(&[("cg/cgroup.controllers", "cpu pids\n")]);
        assert_eq!(Hierarchy::detect(&roots), None);
    }

    #[test]
    fn finds_a_mount_elsewhere_and_its_root() {
        let (dir, roots) = lay(&[
            ("else/mem/memory.limit_in_bytes", "1"),
            (
                "proc/self/mountinfo",
                "35 31 0:32 /docker/abc ROOT/else/mem rw,relatime - cgroup cgroup rw,memory\n",
            ),
        ]);
        let h = Hierarchy::detect(&roots).unwrap();
        assert_eq!((h.version, h.shows.as_str()), (1, "/docker/abc"));
        assert_eq!(h.dir("/docker/abc/leaf"), dir.path().join("else/mem/leaf"));
        assert_eq!(h.path(&dir.path().join("else/mem/leaf")), "/docker/abc/leaf");
        assert_eq!(h.dir("/../../etc/x"), dir.path().join("else/mem/etc/x"));
    }
}
