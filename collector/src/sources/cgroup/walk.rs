//! Containers that the hierarchy itself shows, for hosts without Docker and for containers of other runtimes. Bounded in
//! depth and number.

use std::path::PathBuf;

use super::hierarchy::Hierarchy;
use crate::sources::kernel_log::attribute::{Place, place, subject_of};

/// A cgroup that looks like a container's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The container's (or allocation's) id.
    pub id: String,
    /// The subject, as far as the path tells it.
    pub subject: String,
    /// Its path in the hierarchy.
    pub path: String,
}

const DEPTH: usize = 10;
const DIRECTORIES: usize = 8192;
const CONTAINERS: usize = 2048;

/// Walks the hierarchy from its root; does not look inside a container.
#[must_use]
pub fn containers(hierarchy: &Hierarchy) -> Vec<Found> {
    let mut found = Vec::new();
    let mut open: Vec<(PathBuf, usize)> = vec![(hierarchy.root.clone(), 0)];
    let mut seen = 0;
    while let Some((dir, depth)) = open.pop() {
        // One that is gone meanwhile is normal.
        let Ok(entries) = std::fs::read_dir(&dir) else { continue };
        for entry in entries.flatten() {
            // Symbolic links are not directories here: nothing leads out.
            if !entry.file_type().is_ok_and(|t| t.is_dir()) {
                continue;
            }
            seen += 1;
            if seen > DIRECTORIES || found.len() >= CONTAINERS {
                return found;
            }
            let path = hierarchy.path(&entry.path());
            let at = place(&path);
            match &at {
                Place::Container { id, .. } => {
                    found.push(Found { id: id.clone(), subject: subject_of(&at), path })
                }
                Place::Nomad { alloc, .. } => {
                    found.push(Found { id: alloc.clone(), subject: subject_of(&at), path })
                }
                _ if depth < DEPTH => open.push((entry.path(), depth + 1)),
                _ => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_containers_and_does_not_look_inside() {
        let dir = tempfile::tempdir().unwrap();
        let id = "22c42cc6756374dca72fbe200f12a9e75b2499c10b648ef764ccb1d4a666347d";
        for path in [
            format!("docker/{id}/init.scope"),
            "system.slice/nginx.service".into(),
            format!("machine.slice/libpod-{id}.scope/container"),
        ] {
            std::fs::create_dir_all(dir.path().join(path)).unwrap();
        }
        let h = Hierarchy { version: 2, hybrid: false, root: dir.path().into(), shows: "/".into() };
        let mut all = containers(&h);
        all.sort_by(|a, b| a.path.cmp(&b.path));
        let told: Vec<_> = all.iter().map(|f| (f.subject.as_str(), f.path.clone())).collect();
        assert_eq!(
            told,
            [
                ("docker:22c42cc67563", format!("/docker/{id}")),
                ("podman:22c42cc67563", format!("/machine.slice/libpod-{id}.scope"))
            ]
        );
    }
}
