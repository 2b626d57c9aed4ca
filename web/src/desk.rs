//! What every handler works at: the ledger behind its lock, asked off the runtime's threads, equal questions within a
//! quarter of a second answered once; and the bounds on how much is done at a time.

use std::collections::VecDeque;
use std::future::Future;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use linchpin_analyzer::archive::Archive;
use linchpin_analyzer::data::Timestamp;
use linchpin_analyzer::ledger::Ledger;
use linchpin_analyzer::{Query, Report};
use tokio::sync::{Mutex, Semaphore, watch};
use tokio::time::Instant;

use crate::problem::Problem;
use crate::range::Range;

/// A moment: the wall clock, and nanoseconds since this host booted.
pub type Now = dyn Fn() -> (Timestamp, u64) + Send + Sync;
/// Answers with a JSON value.
pub type Tell = dyn Fn() -> serde_json::Value + Send + Sync;

/// Everything that the pages are made from. Cheap to clone.
#[derive(Clone)]
pub struct App {
    /// The findings so far.
    pub ledger: Arc<RwLock<Ledger>>,
    /// Changes whenever something was folded: the number of events folded.
    pub changes: watch::Receiver<u64>,
    /// The clocks.
    pub now: Arc<Now>,
    /// The raw events.
    pub archive: Arc<dyn Archive>,
    /// What each source sees: a list of `{source, sees, sight: {status, detail, missing, grant}}`.
    pub doctor: Arc<Tell>,
    /// This host's name.
    pub host: String,
    /// The version served.
    pub version: &'static str,
    /// How the agent itself does: journal, sources.
    pub self_status: Arc<Tell>,
}

/// How long an answer serves equal questions. The stream tells of a change no sooner than this, so that whoever then
/// asks gets an answer that knows it.
pub const FRESH: Duration = Duration::from_millis(250);
/// Answers kept.
const KEPT: usize = 8;

/// A report with what it knows.
#[derive(Clone)]
pub struct Kept {
    range: Range,
    asked: Instant,
    /// The count of events folded before it was made.
    pub at: u64,
    /// The report.
    pub report: Arc<Report>,
}

/// The app with its bounds.
pub struct Desk {
    /// What the pages are made from.
    pub app: App,
    /// Scans of the archive at a time.
    pub scans: Arc<Semaphore>,
    /// Live streams at a time.
    pub streams: Arc<Semaphore>,
    /// Becomes true when the server shall end.
    pub closing: watch::Receiver<bool>,
    /// The address it listens on; `None` when only loopback names are answered.
    pub bound: Option<IpAddr>,
    reports: Mutex<VecDeque<Kept>>,
    asks: Semaphore,
    /// Keeps `closing` open where nobody will close it.
    _open: Option<watch::Sender<bool>>,
}

impl Desk {
    /// A desk for `app`.
    #[must_use]
    pub fn new(
        app: App,
        bound: Option<IpAddr>,
        closing: watch::Receiver<bool>,
        open: Option<watch::Sender<bool>>,
    ) -> Self {
        Desk {
            app,
            scans: Arc::new(Semaphore::new(3)),
            streams: Arc::new(Semaphore::new(64)),
            closing,
            bound,
            reports: Mutex::new(VecDeque::new()),
            asks: Semaphore::new(2),
            _open: open,
        }
    }

    /// Now.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        (self.app.now)().0
    }

    /// A range as the ledger is asked.
    #[must_use]
    pub fn query(&self, range: &Range) -> Query {
        let (now, boot_ns) = (self.app.now)();
        let (from, to) = range.ends(now);
        Query { from, to, as_of: Some(now), as_of_boot_ns: Some(boot_ns) }
    }

    /// How many events were folded so far.
    #[must_use]
    pub fn folded(&self) -> u64 {
        *self.app.changes.borrow()
    }

    /// The report over a range, at most [`FRESH`] old. One is made at a time.
    pub async fn report(&self, range: &Range) -> Result<Kept, Problem> {
        let mut kept = self.reports.lock().await;
        let asked = Instant::now();
        kept.retain(|k| asked.duration_since(k.asked) < FRESH);
        if let Some(k) = kept.iter().find(|k| k.range == *range) {
            return Ok(k.clone());
        }
        let (at, query) = (self.folded(), self.query(range));
        let report = Arc::new(self.ask(move |ledger| ledger.report(query)).await?);
        let made = Kept { range: *range, asked, at, report };
        kept.push_back(made.clone());
        while kept.len() > KEPT {
            kept.pop_front();
        }
        Ok(made)
    }

    /// Asks the ledger on a thread that may take its time; the lock is held for reading while `f` runs.
    pub async fn ask<T: Send + 'static>(
        &self,
        f: impl FnOnce(&Ledger) -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let _permit = self.asks.acquire().await.map_err(|_| Problem::ending())?;
        let ledger = self.app.ledger.clone();
        blocking(move || f(&ledger.read().unwrap_or_else(PoisonError::into_inner))).await
    }
}

/// Runs `f` on a thread that may block; a panic within becomes a problem told.
pub fn blocking<T: Send + 'static>(
    f: impl FnOnce() -> T + Send + 'static,
) -> impl Future<Output = Result<T, Problem>> {
    let task = tokio::task::spawn_blocking(f);
    async move { task.await.map_err(|e| Problem::broken(&e.to_string())) }
}
