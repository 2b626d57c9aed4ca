//! A process whose first thread has ended while others still run: on a busy host they take tens of milliseconds to be
//! ended, and until the last is gone its sockets stay open. Its end is the last one's; which one was the last is known only
//! by looking, so those few are looked at until they are gone.

use std::path::Path;

use nix::poll::PollTimeout;

use super::Exit;

const MS: u64 = 1_000_000;
/// Most processes looked at; beyond, the first thread's end is taken for the process's.
const MOST: usize = 256;

/// Processes that are ending, or whose first thread alone has ended.
#[derive(Debug, Default)]
pub struct Dying(Vec<One>);

#[derive(Debug)]
struct One {
    exit: Exit,
    next: u64,
}

/// Whether any thread but the first is left of a process.
fn has_threads(proc: &Path, pid: u32) -> bool {
    std::fs::read_dir(proc.join(format!("{pid}/task"))).is_ok_and(|tasks| tasks.flatten().nth(1).is_some())
}

/// How long to wait before the next look at a process whose first thread ended `since` nanoseconds ago.
fn pace(since: u64) -> u64 {
    match since / MS {
        0..100 => MS,
        100..2_000 => 20 * MS,
        _ => 1_000 * MS,
    }
}

impl Dying {
    /// Takes the end of a first thread: gives it back where it was the last one too.
    pub fn meet(&mut self, proc: &Path, exit: Exit) -> Option<Exit> {
        if self.0.len() >= MOST || !has_threads(proc, exit.pid) {
            return Some(exit);
        }
        self.0.push(One { exit, next: exit.boot_ns.saturating_add(MS) });
        None
    }

    /// A thread of `group` ended at `at`: so far the last one, if its process is ending.
    pub fn thread(&mut self, group: u32, at: u64) {
        if let Some(one) = self.0.iter_mut().find(|one| one.exit.pid == group) {
            one.exit.boot_ns = one.exit.boot_ns.max(at);
        }
    }

    /// Looks at those that are due, and tells of those that are gone by `now` (CLOCK_BOOTTIME, nanoseconds).
    pub fn look(&mut self, proc: &Path, now: u64, mut gone: impl FnMut(Exit)) {
        self.0.retain_mut(|one| {
            if now < one.next {
                return true;
            }
            if has_threads(proc, one.exit.pid) {
                one.next = now.saturating_add(pace(now.saturating_sub(one.exit.boot_ns)));
                return true;
            }
            gone(one.exit);
            false
        });
    }

    /// How long nothing is due.
    #[must_use]
    pub fn pause(&self, now: u64) -> PollTimeout {
        let next = self.0.iter().map(|one| one.next).min();
        next.map_or(PollTimeout::NONE, |next| {
            let ms = next.saturating_sub(now).div_ceil(MS).min(1_000);
            PollTimeout::from(u16::try_from(ms).unwrap_or(1_000))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_ends_with_its_last_thread() {
        let root = tempfile::tempdir().unwrap();
        let task = root.path().join("7/task");
        for thread in ["7", "8", "9"] {
            std::fs::create_dir_all(task.join(thread)).unwrap();
        }
        let exit = Exit { pid: 7, boot_ns: 1_000 * MS, code: Some(3), signal: None };
        let mut dying = Dying::default();
        assert_eq!(dying.meet(root.path(), Exit { pid: 12, ..exit }), Some(Exit { pid: 12, ..exit }), "gone");
        assert_eq!(dying.meet(root.path(), exit), None);
        let mut told = Vec::new();
        std::fs::remove_dir(task.join("8")).unwrap();
        dying.look(root.path(), 1_001 * MS, |e| told.push(e));
        assert_eq!(dying.pause(1_001 * MS), PollTimeout::from(1u16));
        assert!(told.is_empty());
        std::fs::remove_dir(task.join("9")).unwrap();
        for (group, at) in [(7, 1_002), (7, 1_027), (8, 1_028)] {
            dying.thread(group, at * MS);
        }
        dying.look(root.path(), 1_030 * MS, |e| told.push(e));
        assert_eq!(told, [Exit { boot_ns: 1_027 * MS, ..exit }]);
        assert_eq!(dying.pause(0), PollTimeout::NONE, "nothing is left to wake for");
    }

    #[test]
    fn a_first_thread_that_ends_early_is_looked_at_less_and_less() {
        for (since, pause) in [(0, 1), (99, 1), (100, 20), (1_999, 20), (2_000, 1_000), (99_999_999, 1_000)] {
            assert_eq!(pace(since * MS), pause * MS, "{since}");
        }
    }
}
