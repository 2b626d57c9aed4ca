//! The host itself: that it is up, its RAM and swap, and what its running containers may take together. One small file
//! read a minute.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use linchpin_data::event::{HostUp, Memory};
use procfs::{FromRead, Meminfo};
use tokio::time::MissedTickBehavior;

use crate::roster::Roster;
use crate::source::{Roots, Sight, Source, SourceContext, SourceError};
use crate::sources::cgroup::hierarchy::Hierarchy;

/// How often memory is read.
const LOOK: Duration = Duration::from_secs(60);
/// A reading that has not changed is told again after this long.
const STALE_NS: u64 = 600_000_000_000;
/// The runtime's first list of containers is awaited this long, for the sum of their limits.
const FILLING: Duration = Duration::from_secs(5);

/// The source over `/proc/meminfo`.
#[derive(Debug, Default)]
pub struct Host;

/// For the registry.
pub fn source() -> Box<dyn Source> {
    Box::new(Host)
}

#[async_trait]
impl Source for Host {
    fn name(&self) -> &'static str {
        "host"
    }

    fn sees(&self) -> &'static str {
        "the host's RAM and swap, its boots, and the sum of its containers' memory limits"
    }

    async fn run(&self, cx: SourceContext) -> Result<(), SourceError> {
        let read = || {
            meminfo(&cx.roots.proc).map_err(|why| SourceError::Unavailable {
                what: format!("read {}", cx.roots.proc.join("meminfo").display()),
                why: format!("{why}; {GRANT}"),
            })
        };
        let first = read()?;
        let up = HostUp {
            memory_total_bytes: Some(first.mem_total),
            swap_total_bytes: Some(first.swap_total),
            cgroup_version: Hierarchy::detect(&cx.roots).map(|h| h.version),
            kernel: std::fs::read_to_string(cx.roots.proc.join("sys/kernel/osrelease"))
                .ok()
                .map(|k| k.trim().chars().take(128).collect()),
        };
        cx.emit(cx.event("host:", up)).await;
        cx.watching("started", "RAM, swap and the containers' limits, each minute").await;
        tokio::select! {
            _ = cx.roster.filled(FILLING) => {}
            () = cx.ended() => return Ok(()),
        }
        let mut tick = tokio::time::interval(LOOK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told: Option<(Memory, u64)> = None;
        loop {
            tokio::select! {
                () = cx.ended() => return Ok(()),
                _ = tick.tick() => {}
            }
            let sample = sample(&read()?, &cx.roster);
            let now = cx.clock.now();
            if told
                .as_ref()
                .is_none_or(|(old, at)| now.boot_ns.saturating_sub(*at) >= STALE_NS || differs(&sample, old))
            {
                told = Some((sample.clone(), now.boot_ns));
                cx.emit(cx.event_at(now, "host:", sample)).await;
            }
        }
    }

    async fn sight(&self, roots: &Roots) -> Sight {
        match meminfo(&roots.proc) {
            Ok(m) => Sight::Works {
                detail: format!("{} MiB of RAM, {} MiB of swap", m.mem_total >> 20, m.swap_total >> 20),
            },
            Err(why) => Sight::Blind {
                missing: format!("{}: {why}", roots.proc.join("meminfo").display()),
                grant: GRANT.into(),
            },
        }
    }
}

const GRANT: &str = "mount the host's /proc (`mount -t proc proc /proc`)";

fn meminfo(proc: &Path) -> Result<Meminfo, String> {
    Meminfo::from_file(proc.join("meminfo")).map_err(|e| e.to_string())
}

/// What is in use, and what the running containers may take.
fn sample(m: &Meminfo, roster: &Roster) -> Memory {
    // Kernels before 3.14 do not say what is available: then what is neither free nor cache is in use.
    let available =
        m.mem_available.unwrap_or_else(|| m.mem_free.saturating_add(m.buffers).saturating_add(m.cached));
    let running: Vec<_> = roster.all().into_iter().filter(|c| c.running).collect();
    let limits = running.iter().filter_map(|c| c.memory_limit).fold(0u64, u64::saturating_add);
    let unlimited = running.iter().filter(|c| c.memory_limit.is_none()).count();
    Memory {
        current_bytes: Some(m.mem_total.saturating_sub(available)),
        limit_bytes: Some(m.mem_total),
        swap_bytes: Some(m.swap_total.saturating_sub(m.swap_free)),
        swap_total_bytes: Some(m.swap_total),
        container_limits_bytes: Some(limits),
        containers_unlimited: u64::try_from(unlimited).ok(),
        ..Memory::default()
    }
}

/// Whether a reading differs from the last one told by enough: what is fixed changed, or use moved by a twentieth of RAM.
fn differs(new: &Memory, old: &Memory) -> bool {
    let step = new.limit_bytes.unwrap_or(0) / 20;
    let moved = |a: Option<u64>, b: Option<u64>| a.unwrap_or(0).abs_diff(b.unwrap_or(0)) > step;
    moved(new.current_bytes, old.current_bytes)
        || moved(new.swap_bytes, old.swap_bytes)
        || (new.limit_bytes, new.swap_total_bytes) != (old.limit_bytes, old.swap_total_bytes)
        || (new.container_limits_bytes, new.containers_unlimited)
            != (old.container_limits_bytes, old.containers_unlimited)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roster::{Change, Container};

    const MEMINFO: &str = include_str!("../../tests/fixtures/host/meminfo-6.18");

    #[test]
    fn use_is_what_is_not_available() {
        let m = Meminfo::from_read(MEMINFO.as_bytes()).unwrap();
        let roster = Roster::default();
        let put = |id: &str, limit, running| {
            roster.put(
                Container { id: id.into(), memory_limit: limit, running, ..Container::default() },
                Change::Described,
            );
        };
        put("a", Some(100), true);
        put("b", Some(200), true);
        put("c", None, true);
        put("d", Some(400), false);
        let s = sample(&m, &roster);
        assert_eq!((s.container_limits_bytes, s.containers_unlimited), (Some(300), Some(1)));
        assert_eq!(s.current_bytes.unwrap(), m.mem_total - m.mem_available.unwrap());
        assert_eq!(s.limit_bytes, Some(m.mem_total));
        assert!(!differs(&s, &s.clone()));
        put("e", Some(1), true);
        assert!(differs(&sample(&m, &roster), &s));
    }

    #[test]
    fn no_reading_is_made_up() {
        assert!(meminfo(Path::new("/nonexistent")).unwrap_err().contains("/nonexistent"));
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("meminfo"), "MemTotal: x kB\n").unwrap();
        assert!(meminfo(dir.path()).is_err());
    }
}
