//! The small files of a cgroup, as bytes. Pure; finding and watching them is the other files' of this folder.

/// The cgroup of a process from its `/proc/PID/cgroup`: that of the v1 memory controller where there is one, else the
/// unified one. A hybrid host has both lines, and the memory line counts.
#[must_use]
pub fn cgroup_of(text: &str) -> Option<String> {
    let mut unified = None;
    for line in text.lines().take(64) {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        // A process that has left its cgroup behind is shown with this mark.
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        if !path.starts_with('/') {
            continue;
        }
        if controllers.split(',').any(|c| c == "memory") {
            return Some(path.into());
        }
        if controllers.is_empty() {
            unified = Some(path.into());
        }
    }
    unified
}
