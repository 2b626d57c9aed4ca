//! A process told from a later one of the same id, and whether it has ended: by the kernel's word on exits where it is to
//! be had, else by /proc.

use std::path::Path;

use procfs::FromRead;
use procfs::process::Stat;

use crate::witness::Exits;

/// A process of this boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its id on the host.
    pub pid: u32,
    /// When it was started: CLOCK_BOOTTIME in nanoseconds, to the kernel's clock tick (10 ms), never late.
    pub started: u64,
}

/// A tick of /proc/PID/stat in nanoseconds.
fn tick_ns() -> u64 {
    1_000_000_000 / procfs::ticks_per_second().max(1)
}

fn stat(proc: &Path, pid: u32) -> Option<Stat> {
    Stat::from_file(proc.join(format!("{pid}/stat"))).ok()
}

/// Whether a state letter of /proc/PID/stat is that of a process that ended.
fn is_over(state: char) -> bool {
    matches!(state, 'Z' | 'X' | 'x')
}

impl Process {
    /// The process that has this id now; `None` if none that lives has.
    #[must_use]
    pub fn read(proc: &Path, pid: u32) -> Option<Process> {
        let stat = stat(proc, pid).filter(|s| !is_over(s.state))?;
        Some(Process { pid, started: stat.starttime.saturating_mul(tick_ns()) })
    }
}

/// When `process` ended, if it has by `now` (all CLOCK_BOOTTIME in nanoseconds); `now` where only the fact is known.
#[must_use]
pub fn ended_at(proc: &Path, exits: &Exits, process: Process, now: u64) -> Option<u64> {
    if let Some(exit) = exits.get(process.pid, process.started) {
        return Some(exit.boot_ns);
    }
    if exits.active_since().is_some_and(|since| since <= process.started) && exits.overruns() == 0 {
        return None;
    }
    (Process::read(proc, process.pid) != Some(process)).then_some(now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::witness::Exit;

    fn lay(root: &Path, pid: u32, state: char, started: u64) {
        std::fs::create_dir_all(root.join(pid.to_string())).unwrap();
        let rest = "0 0 0 0 0 0 0 0 0 0 0";
        let text = format!(
            "{pid} (a ) b) {state} 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {started} 0 0 0 {rest} 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
        );
        std::fs::write(root.join(format!("{pid}/stat")), text).unwrap();
    }

    #[test]
    fn a_process_ends_by_the_kernels_word_or_by_going() {
        let root = tempfile::tempdir().unwrap();
        lay(root.path(), 7, 'S', 500);
        let process = Process::read(root.path(), 7).unwrap();
        assert_eq!(process, Process { pid: 7, started: 500 * tick_ns() });
        let exits = Exits::default();
        assert_eq!(ended_at(root.path(), &exits, process, 99), None);
        for (state, started) in [('Z', 500), ('S', 501)] {
            lay(root.path(), 7, state, started);
            assert_eq!(ended_at(root.path(), &exits, process, 99), Some(99), "{state} {started}");
        }
        std::fs::remove_dir_all(root.path().join("7")).unwrap();
        assert_eq!(ended_at(root.path(), &exits, process, 99), Some(99));
        exits.record(Exit { pid: 7, boot_ns: process.started - 1, code: Some(0), signal: None });
        assert_eq!(ended_at(root.path(), &exits, process, 99), Some(99), "an earlier process of that id");
        exits.record(Exit { pid: 7, boot_ns: process.started + 1, code: Some(0), signal: None });
        assert_eq!(ended_at(root.path(), &exits, process, 99), Some(process.started + 1));
    }
}
