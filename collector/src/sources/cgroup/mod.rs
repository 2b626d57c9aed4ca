//! Memory of each container, as its cgroup tells it: use against limit, and a counter that rises when the kernel kills.
//!
//! This file is the transport: which containers there are (the roster, and what the hierarchy itself shows), when to look,
//! what to tell. Where the hierarchy is, is [`hierarchy`]'s; waking is [`watch`]'s; reading is [`sample`]'s over the pure
//! [`files`]. A directory that dies with its container is normal: its counters begin at 0 in the next one, and what was not
//! read before the end is lost to this witness (the kernel log is the second).

pub mod files;
pub mod hierarchy;
mod sample;
mod tracked;
mod walk;
mod watch;

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::MissedTickBehavior;

use crate::roster::Change;
use crate::source::{Roots, Sight, Source, SourceContext, SourceError};
use hierarchy::Hierarchy;
use tracked::Tracker;
use watch::Watch;

/// The runtime's first list of containers is awaited this long.
const FILLING: Duration = Duration::from_secs(5);
/// How often every container is looked at without a wake.
const LOOK: Duration = Duration::from_secs(60);

/// The source over the memory controller.
#[derive(Debug, Default)]
pub struct Cgroup;

/// For the registry.
pub fn source() -> Box<dyn Source> {
    Box::new(Cgroup)
}

#[async_trait]
impl Source for Cgroup {
    fn name(&self) -> &'static str {
        "cgroup"
    }

    fn sees(&self) -> &'static str {
        "each container's memory against its limit, and its OOM counters, on cgroup v1 and v2"
    }

    async fn run(&self, cx: SourceContext) -> Result<(), SourceError> {
        let Some(hierarchy) = Hierarchy::detect(&cx.roots) else {
            return Err(SourceError::Unavailable {
                what: format!("find the memory controller below {}", cx.roots.cgroup.display()),
                why: format!("neither cgroup v1 nor v2 shows one; {GRANT}"),
            });
        };
        let lost = |e: std::io::Error| SourceError::Lost {
            what: "wait for cgroup notifications".into(),
            why: e.to_string(),
        };
        tokio::select! {
            _ = cx.roster.filled(FILLING) => {}
            () = cx.ended() => return Ok(()),
        }
        let mut changes = cx.roster.subscribe();
        let mut watch = Watch::new(hierarchy.version).map_err(lost)?;
        let detail = format!("{}; {}", hierarchy.words(), finely(&hierarchy));
        let mut tracker = Tracker::new(cx.clone(), hierarchy);
        tracker.look(&mut watch).await;
        cx.watching("started", detail).await;
        let mut tick = tokio::time::interval(LOOK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        tick.reset();
        loop {
            let again = tracker.next_look();
            tokio::select! {
                () = cx.ended() => return Ok(()),
                keys = watch.woken() => tracker.woken(&keys.map_err(lost)?).await,
                change = changes.recv() => match change {
                    Ok(Change::Started(c)) => tracker.enter(&mut watch, &c, true).await,
                    Ok(Change::Described(c)) => tracker.enter(&mut watch, &c, false).await,
                    Ok(Change::Exited(c) | Change::Removed(c)) => tracker.leave(&mut watch, &c.id).await,
                    Err(RecvError::Lagged(_)) => tracker.look(&mut watch).await,
                    Err(RecvError::Closed) => return Ok(()),
                },
                () = tokio::time::sleep_until(again.unwrap_or_else(tokio::time::Instant::now)), if again.is_some() => tracker.look_again().await,
                _ = tick.tick() => tracker.look(&mut watch).await,
            }
        }
    }

    async fn sight(&self, roots: &Roots) -> Sight {
        let Some(h) = Hierarchy::detect(roots) else {
            let missing = format!("no memory controller is seen below {}", roots.cgroup.display());
            return Sight::Blind { missing, grant: GRANT.into() };
        };
        let limited = |missing: &str, grant: &str| Sight::Limited {
            detail: h.words(),
            missing: missing.into(),
            grant: grant.into(),
        };
        if h.version == 1 && !counts_kills(&h) {
            let missing =
                "this kernel's memory.oom_control does not count kills: a counter can not prove one";
            return limited(
                missing,
                "boot with cgroup v2 (`systemd.unified_cgroup_hierarchy=1`), or let the kernel log tell",
            );
        }
        if h.version == 1
            && nix::unistd::access(&h.root.join("cgroup.event_control"), nix::unistd::AccessFlags::W_OK)
                .is_err()
        {
            return limited(
                "notifications of cgroup v1 need write access to cgroup.event_control; counters are read each minute",
                "run as root",
            );
        }
        Sight::Works { detail: format!("{}; {}", h.words(), finely(&h)) }
    }
}

const GRANT: &str = "mount the host's /sys/fs/cgroup (in a container: `-v /sys/fs/cgroup:/sys/fs/cgroup:ro`)";

fn counts_kills(h: &Hierarchy) -> bool {
    sample::counters(&h.root, 1).is_some_and(|c| c.oom_kill.is_some())
}

/// How finely it is seen, in words.
fn finely(h: &Hierarchy) -> &'static str {
    match h.version {
        2 => "a kill wakes us through memory.events",
        _ if counts_kills(h) => "a limit reached wakes us through memory.oom_control",
        _ => "a limit reached wakes us, but this kernel does not count kills: a counter can not prove one",
    }
}
