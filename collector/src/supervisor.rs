//! Starts every source, starts it again when it fails (with backoff), and records its blindness in between: a source that
//! had said it watches and ended gets its `watch_stopped`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use linchpin_data::Event;
use linchpin_data::clock::SharedClock;
use linchpin_data::event::WatchStopped;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::resume::Resume;
use crate::roster::Roster;
use crate::source::{Roots, Settings, Source, SourceContext, SourceError};
use crate::sources::REGISTRY;
use crate::witness::{Exits, connector};

/// First wait after a failure; doubles up to [`LAST_WAIT`], and starts anew after a run that lasted as long.
const FIRST_WAIT: Duration = Duration::from_millis(250);
/// Longest wait between two tries.
const LAST_WAIT: Duration = Duration::from_secs(30);

/// Every source there is.
#[must_use]
pub fn registry() -> Vec<Box<dyn Source>> {
    REGISTRY.iter().map(|make| make()).collect()
}

/// All that sources share, from which each is given its context.
pub struct Supervisor {
    base: SourceContext,
    sources: Vec<Box<dyn Source>>,
    events: mpsc::Receiver<Event>,
    stop: watch::Sender<bool>,
}

/// Handles of a running supervisor.
pub struct Running {
    /// What the sources saw, in the order in which they said it.
    pub events: mpsc::Receiver<Event>,
    /// Set to true to end all sources.
    pub stop: watch::Sender<bool>,
    /// Ends when all sources have ended.
    pub tasks: JoinSet<()>,
    /// The containers known.
    pub roster: Arc<Roster>,
}

impl Supervisor {
    /// A supervisor over `sources`, less those that the settings turn off.
    #[must_use]
    pub fn new(
        sources: Vec<Box<dyn Source>>,
        clock: SharedClock,
        roots: Roots,
        settings: Settings,
        host: &str,
        boot_id: &str,
        resume: Resume,
    ) -> Self {
        let (out, events) = mpsc::channel(8192);
        let (stop, shutdown) = watch::channel(false);
        let sources = sources.into_iter().filter(|s| !settings.off.iter().any(|o| o == s.name())).collect();
        let base = SourceContext {
            clock,
            roots: Arc::new(roots),
            settings: Arc::new(settings),
            host: host.into(),
            boot_id: boot_id.into(),
            resume: Arc::new(resume),
            roster: Arc::new(Roster::default()),
            exits: Arc::new(Exits::default()),
            shutdown,
            name: "",
            out,
            announced: Arc::new(AtomicBool::new(false)),
        };
        Supervisor { base, sources, events, stop }
    }

    /// Starts them all.
    #[must_use]
    pub fn start(self) -> Running {
        let mut tasks = JoinSet::new();
        let roster = self.base.roster.clone();
        if !self.sources.iter().any(|s| s.name() == "docker") {
            roster.set_filled();
        }
        let base = &self.base;
        tasks.spawn(connector::fill(
            base.exits.clone(),
            base.roots.proc.clone(),
            base.clock.clone(),
            base.shutdown.clone(),
        ));
        for source in self.sources {
            let mut cx = self.base.clone();
            cx.name = source.name();
            cx.announced = Arc::new(AtomicBool::new(false));
            tasks.spawn(keep(source, cx));
        }
        Running { events: self.events, stop: self.stop, tasks, roster }
    }
}

/// Runs one source until the shutdown, again and again.
async fn keep(source: Box<dyn Source>, cx: SourceContext) {
    let mut wait = FIRST_WAIT;
    let mut told = String::new();
    loop {
        let begun = tokio::time::Instant::now();
        let ended = source.run(cx.clone()).await;
        let (reason, unavailable) = match &ended {
            Ok(()) if cx.is_ending() => ("agent stopped".to_string(), false),
            Ok(()) => ("ended by itself".to_string(), false),
            Err(e) => (e.to_string(), matches!(e, SourceError::Unavailable { .. })),
        };
        if cx.announced.swap(false, Ordering::AcqRel) {
            let fact = WatchStopped { source: Some(source.name().into()), reason: Some(reason.clone()) };
            cx.emit(cx.event("host:", fact)).await;
            told.clear();
        }
        if cx.is_ending() {
            return;
        }
        if reason != told {
            tracing::warn!(source = source.name(), %reason, "a source does not watch");
            // Blindness from the start is part of the record too: said once, not at every try.
            if unavailable {
                let fact = WatchStopped { source: Some(source.name().into()), reason: Some(reason.clone()) };
                cx.emit(cx.event("host:", fact)).await;
            }
            told = reason;
        }
        if begun.elapsed() > LAST_WAIT {
            wait = FIRST_WAIT;
        }
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = cx.ended() => return,
        }
        wait = (wait * 2).min(LAST_WAIT);
    }
}
