//! One thread takes what the sources saw, numbers it, hands it to the journal and folds it into the ledger. Live and
//! replayed events go through the same [`Ledger::fold`].

use std::sync::{Arc, PoisonError, RwLock};

use linchpin_analyzer::ledger::Ledger;
use linchpin_data::Event;
use linchpin_data::clock::SharedClock;
use linchpin_data::event::{Issue, WatchStarted, WatchStopped};
use linchpin_data::journal::{Journal, Writer};
use tokio::sync::{mpsc, watch};

/// How many events are taken from the sources at once.
const BATCH: usize = 512;

/// Numbers, journals and folds.
pub struct Pump {
    ledger: Arc<RwLock<Ledger>>,
    writer: Arc<Writer>,
    run: u64,
    seq: u64,
    changed: watch::Sender<u64>,
}

impl Pump {
    /// A pump for one run of the agent.
    pub fn new(ledger: Arc<RwLock<Ledger>>, writer: Writer, run: u64, changed: watch::Sender<u64>) -> Self {
        Pump { ledger, writer: Arc::new(writer), run, seq: 0, changed }
    }

    /// Takes one event.
    pub fn take(&mut self, event: Event) {
        self.take_all(std::iter::once(event));
    }

    fn take_all(&mut self, events: impl IntoIterator<Item = Event>) {
        for mut event in events {
            self.seq += 1;
            event.run = Some(self.run);
            event.seq = Some(self.seq);
            // A lock poisoned by a panicking page still guards a ledger that only this thread changes.
            self.ledger.write().unwrap_or_else(PoisonError::into_inner).fold(&event);
            self.writer.submit(event);
        }
        self.changed.send_modify(|n| *n += 1);
    }

    /// Pumps until all sources have ended, then closes the journal.
    pub fn run(mut self, mut events: mpsc::Receiver<Event>) {
        let mut batch = Vec::with_capacity(BATCH);
        while let Some(first) = events.blocking_recv() {
            batch.push(first);
            while batch.len() < BATCH
                && let Ok(event) = events.try_recv()
            {
                batch.push(event);
            }
            self.take_all(batch.drain(..));
        }
        self.writer.close();
    }

    /// How journaling stands, for pages and `/healthz`.
    pub fn status(&self) -> impl Fn() -> serde_json::Value + Send + Sync + use<> {
        let (writer, run) = (self.writer.clone(), self.run);
        move || {
            let s = writer.status();
            serde_json::json!({
                "run": run,
                "journal": {
                    "ok": s.last_error.is_none(),
                    "queued": s.queued,
                    "written": s.written,
                    "durable_upto": s.durable_upto,
                    "dropped": s.dropped,
                    "last_error": s.last_error,
                }
            })
        }
    }
}

/// Segments that were set aside since the journal was opened, as events: what they held and could not give back is a gap.
pub fn damage(journal: &Journal, host: &str, clock: &SharedClock) -> Vec<Event> {
    let now = clock.now();
    let mut out = Vec::new();
    for d in journal.damage() {
        let detail = format!(
            "segment {} was damaged ({}); {} events of it could be read, {} are gone; it was set aside as {}",
            d.segment,
            d.reason,
            d.salvaged,
            d.lost,
            d.set_aside.display()
        );
        let issue = Issue {
            source: Some("journal".into()),
            what: Some("segment_damaged".into()),
            detail: Some(detail.clone()),
            count: Some(1),
            sample: None,
        };
        out.push(Event::new(now.at, host, "host:", issue));
        if d.lost == 0 {
            continue;
        }
        out.push(Event::new(
            d.span.from,
            host,
            "host:",
            WatchStopped { source: Some("journal".into()), reason: Some(detail) },
        ));
        out.push(Event::new(
            d.span.to.min(now.at),
            host,
            "host:",
            WatchStarted {
                source: Some("journal".into()),
                reason: Some("after damage".into()),
                detail: None,
            },
        ));
    }
    out
}
