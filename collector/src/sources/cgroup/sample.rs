//! One reading of a cgroup's memory, and when a reading is worth telling.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use linchpin_data::event::Memory;

use super::files::{Counters, bytes, memory_events, oom_control};

/// Memory of one cgroup at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// In use, in bytes.
    pub current: Option<u64>,
    /// Limit in bytes; none where unlimited.
    pub limit: Option<u64>,
    /// Swap in use, in bytes.
    pub swap: Option<u64>,
    /// Its counters.
    pub counters: Counters,
}

/// One small file of a cgroup directory. None where it is not there, which is normal as a container ends.
pub fn read(dir: &Path, name: &str) -> Option<String> {
    let mut text = String::new();
    File::open(dir.join(name)).ok()?.take(64 * 1024).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The counters alone. None once the cgroup is gone.
#[must_use]
pub fn counters(dir: &Path, version: u64) -> Option<Counters> {
    if version == 2 {
        // memory.events counts what happens below, too; only the local one tells whose limit it was.
        let own_oom = read(dir, "memory.events.local").and_then(|t| memory_events(&t).oom);
        return read(dir, "memory.events").map(|t| Counters { own_oom, ..memory_events(&t) });
    }
    let control = read(dir, "memory.oom_control")?;
    let max = read(dir, "memory.failcnt").and_then(|t| bytes(&t));
    Some(Counters { max, oom_kill: oom_control(&control), ..Counters::default() })
}

impl Sample {
    /// Reads a cgroup. None once it is gone.
    #[must_use]
    pub fn take(dir: &Path, version: u64) -> Option<Self> {
        let counters = counters(dir, version)?;
        let number = |name: &str| read(dir, name).and_then(|t| bytes(&t));
        Some(if version == 2 {
            Sample {
                current: number("memory.current"),
                limit: number("memory.max"),
                swap: number("memory.swap.current"),
                counters,
            }
        } else {
            let current = number("memory.usage_in_bytes");
            let both = number("memory.memsw.usage_in_bytes");
            Sample {
                current,
                limit: number("memory.limit_in_bytes"),
                swap: both.zip(current).map(|(both, memory)| both.saturating_sub(memory)),
                counters,
            }
        })
    }

    /// Whether this differs from what was told last by enough to be told: a counter or the limit changed, or use moved by
    /// a twentieth of the limit (without one: of what it was, and 16 MiB at least).
    #[must_use]
    pub fn differs(&self, told: &Sample) -> bool {
        let step =
            self.limit.map_or_else(|| (told.current.unwrap_or(0) / 20).max(16 << 20), |l| (l / 20).max(1));
        let moved = |a: Option<u64>, b: Option<u64>| a.unwrap_or(0).abs_diff(b.unwrap_or(0)) >= step;
        self.counters != told.counters
            || self.limit != told.limit
            || moved(self.current, told.current)
            || moved(self.swap, told.swap)
    }

    /// As an event tells it.
    #[must_use]
    pub fn fact(&self) -> Memory {
        let c = self.counters;
        Memory {
            current_bytes: self.current,
            limit_bytes: self.limit,
            swap_bytes: self.swap,
            low: c.low,
            high: c.high,
            max: c.max,
            oom: c.oom,
            oom_kill: c.oom_kill,
            oom_group_kill: c.oom_group_kill,
            ..Memory::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_and_a_directory_that_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        assert_eq!(Sample::take(dir.path(), 2), None);
        assert_eq!(Sample::take(dir.path(), 1), None);
        put("memory.events", "low 0\nhigh 0\nmax 4\noom 1\noom_kill 1\n");
        put("memory.current", "1000\n");
        put("memory.max", "max\n");
        let s = Sample::take(dir.path(), 2).unwrap();
        assert_eq!((s.current, s.limit, s.swap, s.counters.oom_kill), (Some(1000), None, None, Some(1)));
        put("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\n");
        put("memory.failcnt", "9\n");
        put("memory.usage_in_bytes", "1000\n");
        put("memory.memsw.usage_in_bytes", "1500\n");
        put("memory.limit_in_bytes", "4096\n");
        let s = Sample::take(dir.path(), 1).unwrap();
        assert_eq!((s.current, s.limit, s.swap), (Some(1000), Some(4096), Some(500)));
        assert_eq!((s.counters.max, s.counters.oom_kill), (Some(9), None));
    }

    #[test]
    fn small_moves_are_not_told() {
        let a = Sample { current: Some(1000), limit: Some(10_000), ..Sample::default() };
        assert!(!Sample { current: Some(1499), ..a }.differs(&a));
        assert!(Sample { current: Some(1500), ..a }.differs(&a));
        assert!(Sample { limit: None, ..a }.differs(&a));
        assert!(Sample { counters: Counters { oom_kill: Some(1), ..Counters::default() }, ..a }.differs(&a));
        let free = Sample { current: Some(1 << 30), limit: None, ..Sample::default() };
        assert!(!Sample { current: Some((1 << 30) + (20 << 20)), ..free }.differs(&free));
        assert!(Sample { current: Some((1 << 30) + (60 << 20)), ..free }.differs(&free));
    }
}
