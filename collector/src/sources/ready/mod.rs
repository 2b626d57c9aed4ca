//! When does a process accept work again, and when did it stop while it lived? Told by the listening sockets of each
//! container's network namespace. Nothing is polled while all is well: the kernel tells of closed ports ([`diag`]), of new
//! cgroups ([`starts`]) and of ended processes; only what just started or closed is looked at again and again ([`life`]).
//! The health check's first success is the docker source's to tell.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use async_trait::async_trait;
use nix::sys::eventfd::{EfdFlags, EventFd};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::oneshot;

use crate::source::{Roots, Sight, Source, SourceContext, SourceError};
use crate::witness::{connector, priority};

pub mod diag;
pub mod holders;
pub mod http;
pub mod life;
pub mod netns;
pub mod ports;
pub mod process;
pub mod starts;
pub mod watch;

use watch::{Learned, Watch, Word};

/// How long the runtime's first list is waited for.
const FILLED: Duration = Duration::from_secs(10);

/// What a container's namespaces and news take, as bits of CapEff and names.
const CAPABILITIES: [(u32, &str); 3] = [(12, "CAP_NET_ADMIN"), (19, "CAP_SYS_PTRACE"), (21, "CAP_SYS_ADMIN")];

/// The source, for the registry.
#[must_use]
pub fn source() -> Box<dyn Source> {
    Box::new(ReadySource { learned: Learned::default() })
}

/// Watches the ports of containers.
struct ReadySource {
    learned: Learned,
}

/// The capabilities of [`CAPABILITIES`] that a /proc/PID/status text does not hold.
fn missing_capabilities(status: &str) -> Vec<&'static str> {
    let effective = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    let bits = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    CAPABILITIES.iter().filter(|(bit, _)| bits & (1 << bit) == 0).map(|(_, name)| *name).collect()
}

/// What this process lacks of them now.
fn lacking(roots: &Roots) -> Vec<&'static str> {
    missing_capabilities(&std::fs::read_to_string(roots.proc.join("self/status")).unwrap_or_default())
}

const FINE: &str = "listening sockets of every container: looked at each 2 ms after a start or a loss (5 ms from 300 ms on, \
                    20 ms from 2 s, 250 ms from 30 s, 1 s from 5 min); closed ports told by the kernel within 1 ms";
const COARSE: &str = "listening sockets of the containers that may be looked at, from /proc: each 2 ms after a start, at most \
                      once a second while well";

/// What is seen and how finely, in words.
fn detail(cx: &SourceContext) -> String {
    let lacking = lacking(&cx.roots);
    let ports = if lacking.is_empty() { FINE } else { COARSE };
    let exits = if cx.exits.active() {
        "process exits told by the kernel".to_string()
    } else {
        cx.exits.why_inactive()
    };
    if lacking.is_empty() {
        format!("{ports}; {exits}")
    } else {
        format!("{ports} (lacks {}); {exits}", lacking.join(", "))
    }
}

/// One descriptor for each network namespace: as many as this process may have.
fn raise_descriptor_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        tracing::debug!(%error, "the limit of open files stays; namespaces beyond it are read through /proc");
    }
}

#[async_trait]
impl Source for ReadySource {
    fn name(&self) -> &'static str {
        "ready"
    }

    fn sees(&self) -> &'static str {
        "when a container's ports listen again after a start, and when they close while it lives"
    }

    async fn run(&self, cx: SourceContext) -> Result<(), SourceError> {
        raise_descriptor_limit();
        let mut changes = cx.roster.subscribe();
        tokio::select! {
            _ = cx.roster.filled(FILLED) => {}
            () = cx.ended() => return Ok(()),
        }
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
            .map_err(|e| SourceError::Lost { what: "make an eventfd".into(), why: e.to_string() })?;
        let wake = Arc::new(wake);
        let (words, inbox) = mpsc::channel();
        let (opened, open) = oneshot::channel();
        let (done, mut end) = oneshot::channel();
        let (context, learned, waker) = (cx.clone(), self.learned.clone(), wake.clone());
        std::thread::Builder::new()
            .name("ready".into())
            .spawn(move || {
                if !priority::raise_thread() {
                    tracing::debug!("no higher priority: moments are seen later on a busy host");
                }
                let result = Watch::open(context, learned, waker, inbox).and_then(|mut watch| {
                    let _ = opened.send(());
                    watch.run()
                });
                // Nobody is left to tell only when the runtime is gone.
                let _ = done.send(result);
            })
            .map_err(|e| SourceError::Lost { what: "start a thread".into(), why: e.to_string() })?;
        if open.await.is_ok() {
            cx.watching("started", detail(&cx)).await;
        }
        // Ends with this run, however that ends.
        let mut probes = tokio::task::JoinSet::new();
        probes.spawn(http::run(cx.clone()));
        let say = |word: Word| {
            // A thread that ended has said why; a full counter means that it is awake.
            let _ = words.send(word);
            let _ = wake.write(1);
        };
        loop {
            tokio::select! {
                result = &mut end => {
                    return result.unwrap_or_else(|_| Err(SourceError::Lost {
                        what: "the thread that watches ports".into(),
                        why: "ended without a word".into(),
                    }));
                }
                change = changes.recv() => match change {
                    Ok(change) => say(Word::Change(change)),
                    Err(RecvError::Lagged(_)) => say(Word::Anew),
                    // The roster outlives us; were it gone, nothing would change any more.
                    Err(RecvError::Closed) => cx.ended().await,
                },
                () = cx.ended() => {
                    say(Word::Stop);
                    let _ = end.await;
                    return Ok(());
                }
            }
        }
    }

    async fn sight(&self, roots: &Roots) -> Sight {
        let lacking = lacking(roots);
        let exits = connector::probe();
        match (lacking.as_slice(), exits) {
            ([], Ok(())) => Sight::Works { detail: format!("{FINE}; process exits told by the kernel") },
            ([], Err(why)) => Sight::Limited {
                detail: FINE.into(),
                missing: "the kernel's word on process exits: a port that closes in a container's end is told from an outage by /proc"
                    .into(),
                grant: why,
            },
            (lacking, _) => Sight::Limited {
                detail: COARSE.into(),
                missing: "the sockets and the closing of ports in containers of other users".into(),
                grant: format!("run as root, or with {}", lacking.join(", ")),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_that_lack_are_named() {
        for (status, want) in [
            ("Name:\tx\nCapEff:\t000001ffffffffff\n", vec![]),
            ("CapEff:\t0000000000201000\n", vec!["CAP_SYS_PTRACE"]),
            ("CapEff:\t0000000000000000\n", vec!["CAP_NET_ADMIN", "CAP_SYS_PTRACE", "CAP_SYS_ADMIN"]),
            ("", vec!["CAP_NET_ADMIN", "CAP_SYS_PTRACE", "CAP_SYS_ADMIN"]),
            ("CapEff:\tzz\n", vec!["CAP_NET_ADMIN", "CAP_SYS_PTRACE", "CAP_SYS_ADMIN"]),
        ] {
            assert_eq!(missing_capabilities(status), want, "{status}");
        }
    }
}
