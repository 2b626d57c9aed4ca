//! Two small reads of the kernel's own view of a container: its cgroup, and its main process before inspect tells it.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::inspect::memory_cgroup;
use crate::source::Roots;

/// The first bytes of a file of the kernel's; none where it can not be read. These files live in memory: a read does
/// not wait for anything.
fn head(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(16 * 1024).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The cgroup of a process.
pub fn cgroup_of(roots: &Roots, pid: u32) -> Option<String> {
    memory_cgroup(&head(&roots.proc.join(pid.to_string()).join("cgroup"))?)
}

/// The main process of the container whose cgroup this is: the one that is number 1 in its own namespace.
pub fn main_process(roots: &Roots, cgroup: &str) -> Option<u32> {
    let relative = cgroup.trim_start_matches('/');
    // A name with `..` comes from a cgroup namespace: it leads nowhere from here.
    if relative.is_empty() || relative.split('/').any(|p| p == "..") {
        return None;
    }
    let list = ["memory", "unified", ""]
        .iter()
        .find_map(|hierarchy| head(&roots.cgroup.join(hierarchy).join(relative).join("cgroup.procs")))?;
    list.lines().take(16).filter_map(|l| l.trim().parse().ok()).find(|pid| is_first(roots, *pid))
}

fn is_first(roots: &Roots, pid: u32) -> bool {
    let status = head(&roots.proc.join(pid.to_string()).join("status")).unwrap_or_default();
    let Some(ids) = status.lines().find_map(|l| l.strip_prefix("NSpid:")) else { return false };
    let mut ids = ids.split_whitespace();
    ids.next().is_some() && ids.next_back() == Some("1")
}
