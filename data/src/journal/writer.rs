//! A thread that appends: what is submitted is batched, written, and made durable in time: what the statistics hang on
//! within 100 ms, the rest within a second. While the disk refuses, what is not durable is kept, up to a bound, and tried
//! again; what had to be dropped is counted.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::clock::{Clock, SystemClock};
use crate::event::{Event, EventId, Fact};
use crate::journal::{Journal, JournalError};

/// Events that wait to be taken by the thread; a submit beyond that blocks.
const QUEUE: usize = 8_192;
/// Events that are kept while they are not durable.
const BACKLOG: usize = 16_384;
/// Events appended at once.
const BATCH: usize = 1_024;
/// Nanoseconds until a flush: for events that must be durable within 100 ms, and for the others.
const SOON: u64 = 20_000_000;
const LATER: u64 = 500_000_000;
/// Nanoseconds between tries while the journal refuses: the first, and the longest.
const RETRY: (u64, u64) = (100_000_000, 5_000_000_000);

/// How the writing stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriterStatus {
    /// Events that are not durable yet.
    pub queued: u64,
    /// Events made durable.
    pub written: u64,
    /// The greatest event made durable.
    pub durable_upto: Option<EventId>,
    /// Events given up: the journal refused for too long, or they could not be kept.
    pub dropped: u64,
    /// Why the journal refuses now; `None` once it takes events again.
    pub last_error: Option<String>,
}

/// Appends on a thread of its own. Dropping it drains and flushes, as [`Writer::close`] does.
#[derive(Debug)]
pub struct Writer {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Something was submitted, or it is to end.
    work: Condvar,
    /// The queue was taken.
    room: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Event>,
    backlog: u64,
    closing: bool,
    ended: bool,
    status: WriterStatus,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writer {
    /// Starts the thread. If the system gives none, every event counts as dropped and the status says why.
    #[must_use]
    pub fn spawn(journal: Journal) -> Writer {
        let shared = Arc::new(Shared::default());
        let inner = shared.clone();
        let work = move || {
            Work {
                shared: inner,
                journal,
                backlog: VecDeque::new(),
                appended: 0,
                flush_at: None,
                retry_at: None,
                wait: RETRY.0,
            }
            .run();
        };
        let thread = match std::thread::Builder::new().name("journal-writer".into()).spawn(work) {
            Ok(thread) => Some(thread),
            Err(e) => {
                let mut state = shared.lock();
                state.ended = true;
                state.status.last_error = Some(format!("starting the journal's thread: {e}"));
                drop(state);
                None
            }
        };
        Writer { shared, thread: Mutex::new(thread) }
    }

    /// Hands over an event with its `run` and `seq`. Blocks while the queue is full.
    pub fn submit(&self, event: Event) {
        let mut state = self.shared.lock();
        while state.queue.len() >= QUEUE && !state.ended {
            state = self.shared.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.ended || state.closing {
            state.status.dropped += 1;
            return;
        }
        state.queue.push_back(event);
        self.shared.work.notify_one();
    }

    /// How the writing stands.
    #[must_use]
    pub fn status(&self) -> WriterStatus {
        let state = self.shared.lock();
        let queued = state.queue.len() as u64 + state.backlog;
        WriterStatus { queued, ..state.status.clone() }
    }

    /// Writes and flushes what was submitted, and ends the thread; if the journal refuses, what is left is given up
    /// after one more try and counted. Events submitted later are dropped.
    pub fn close(&self) {
        self.shared.lock().closing = true;
        self.shared.work.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.close();
    }
}

/// Whether an event must be durable within 100 ms.
fn is_urgent(event: &Event) -> bool {
    matches!(
        event.fact,
        Fact::Exited(_)
            | Fact::OomKill(_)
            | Fact::Started(_)
            | Fact::Ready(_)
            | Fact::Unready(_)
            | Fact::RestartsMissed(_)
            | Fact::Removed(_)
            | Fact::WatchStarted(_)
            | Fact::WatchStopped(_)
            | Fact::HostUp(_)
    )
}

fn now() -> u64 {
    SystemClock.now().boot_ns
}

/// The thread's own state. Times are nanoseconds since boot, which never step.
struct Work {
    shared: Arc<Shared>,
    journal: Journal,
    /// Not durable; the first `appended` of them are with the database.
    backlog: VecDeque<Event>,
    appended: usize,
    flush_at: Option<u64>,
    retry_at: Option<u64>,
    wait: u64,
}

/// Marks the end however the thread ends, so that nobody waits for it.
struct End(Arc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.ended = true;
        state.status.dropped += state.queue.len() as u64 + state.backlog;
        state.queue.clear();
        state.backlog = 0;
        if std::thread::panicking() {
            state.status.last_error = Some("the journal's thread panicked".into());
        }
        self.0.room.notify_all();
    }
}

impl Work {
    fn run(mut self) {
        let _end = End(self.shared.clone());
        loop {
            let closing = self.take();
            let due = |t: Option<u64>| t.is_some_and(|t| t <= now());
            if self.retry_at.is_some() && !due(self.retry_at) && !closing {
                continue;
            }
            let flush = due(self.flush_at) || self.retry_at.is_some() || closing;
            let done = self.append().and_then(|()| if flush { self.journal.flush() } else { Ok(()) });
            match done {
                Ok(()) if flush => self.durable(),
                Ok(()) => {}
                Err(e) => self.refused(&e),
            }
            if closing && self.shared.lock().queue.is_empty() {
                return;
            }
        }
    }

    /// Waits until there is something to do and takes what was submitted; whether it is to end.
    fn take(&mut self) -> bool {
        let shared = self.shared.clone();
        let mut state = shared.lock();
        // While the journal refuses, nothing but the next try is waited for, so that submitting does not block.
        while !state.closing && (state.queue.is_empty() || self.backlog.len() >= self.room()) {
            let next = self.retry_at.or(self.flush_at);
            let Some(next) = next else {
                state = shared.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = next.saturating_sub(now());
            if left == 0 {
                break;
            }
            let wait = Duration::from_nanos(left);
            state = shared.work.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
        let take = state.queue.len().min(if self.retry_at.is_some() { QUEUE } else { BATCH });
        let due = now();
        for event in state.queue.drain(..take) {
            let by = due + if is_urgent(&event) { SOON } else { LATER };
            self.flush_at = Some(self.flush_at.map_or(by, |t| t.min(by)));
            self.backlog.push_back(event);
        }
        state.status.dropped += self.shed();
        state.backlog = self.backlog.len() as u64;
        shared.room.notify_all();
        state.closing
    }

    /// How long the backlog may get before submitting blocks; while the journal refuses, it sheds instead.
    fn room(&self) -> usize {
        if self.retry_at.is_some() { usize::MAX } else { BACKLOG }
    }

    /// Drops what is too much: first the oldest of what can be spared, then the oldest.
    fn shed(&mut self) -> u64 {
        let surplus = self.backlog.len().saturating_sub(BACKLOG);
        if surplus == 0 || self.retry_at.is_none() {
            return 0;
        }
        let mut left = surplus;
        self.backlog.retain(|event| {
            let spare = left > 0 && !is_urgent(event);
            left -= usize::from(spare);
            !spare
        });
        self.backlog.drain(..left);
        surplus as u64
    }

    fn append(&mut self) -> Result<(), JournalError> {
        while self.appended < self.backlog.len() {
            let batch: Vec<Event> = self.backlog.iter().skip(self.appended).take(BATCH).cloned().collect();
            match self.journal.append(&batch) {
                Ok(()) => self.appended += batch.len(),
                // One that cannot be kept must not hold up the others.
                Err(JournalError::Event { id, .. }) => self.give_up(id),
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn give_up(&mut self, id: EventId) {
        let before = self.backlog.len();
        let mut index = 0;
        self.backlog.retain(|event| {
            index += 1;
            index <= self.appended || event.id() != id
        });
        let mut state = self.shared.lock();
        state.status.dropped += (before - self.backlog.len()) as u64;
        state.backlog = self.backlog.len() as u64;
    }

    fn durable(&mut self) {
        let last = self.backlog.iter().map(Event::id).max();
        let count = self.backlog.len() as u64;
        self.backlog.clear();
        (self.appended, self.flush_at, self.retry_at, self.wait) = (0, None, None, RETRY.0);
        let mut state = self.shared.lock();
        state.backlog = 0;
        state.status.written += count;
        state.status.durable_upto = state.status.durable_upto.max(last);
        state.status.last_error = None;
    }

    fn refused(&mut self, e: &JournalError) {
        self.appended = 0;
        self.retry_at = Some(now().saturating_add(self.wait));
        self.wait = (self.wait * 2).min(RETRY.1);
        self.shared.lock().status.last_error = Some(e.to_string());
    }
}
