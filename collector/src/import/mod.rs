//! What people have after the fact becomes events: kernel log text, the engine's recorded events, its inspection, the
//! system journal. Reads from any reader, in pieces, in bounded memory; reads no clock and opens no file. The parsers are
//! those of the live sources; this folder gives their records a moment ([`when`]), a subject ([`names`]) and an order
//! ([`merge`]).
//!
//! What a file covers is told as watching: from its first line that tells a time to its last, by the source that would
//! have seen it live. A kernel log sees kills and no restarts, so that a container's time is observed only where the
//! engine's events were given too: a kernel log alone never makes anything look up.

pub mod engine;
pub mod inspected;
pub mod kernel;
pub mod merge;
pub mod names;
mod units;
pub mod unplaced;
pub mod when;

use std::collections::BinaryHeap;
use std::io;
use std::sync::Arc;

use linchpin_data::event::{WatchStarted, WatchStopped};
use linchpin_data::{Event, Timestamp};

use merge::Waiting;
use unplaced::Unplaced;

/// One input that is read piece by piece.
pub trait Input {
    /// Reads a piece; what it tells goes to `out`. False at the end.
    ///
    /// # Errors
    /// Those of the reader.
    fn step(&mut self, out: &mut Told) -> io::Result<bool>;

    /// What it was, after its end.
    fn outcome(&mut self) -> Outcome;
}

/// What became of one input.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Lines read.
    pub lines: u64,
    /// The first and the last moment that it tells, if any.
    pub covers: Option<(Timestamp, Timestamp)>,
    /// Whether anything of the expected form was met.
    pub recognised: bool,
    /// What was assumed where the input does not say it, in words.
    pub assumed: Vec<String>,
    /// Lines that could not be placed.
    pub unplaced: Unplaced,
}

/// Events of one input that wait to be merged.
#[derive(Debug, Default)]
pub struct Told {
    heap: BinaryHeap<Waiting>,
    number: u64,
}

impl Told {
    /// Takes in an event.
    pub fn push(&mut self, event: Event) {
        self.number += 1;
        self.heap.push(Waiting::new(event, self.number));
    }

    /// Takes the earliest out.
    pub fn pop(&mut self) -> Option<Event> {
        self.heap.pop().map(Waiting::into_event)
    }

    fn earliest(&self) -> Option<Timestamp> {
        self.heap.peek().map(Waiting::at)
    }

    fn len(&self) -> usize {
        self.heap.len()
    }
}

/// What an input covers, told as watching from its first moment to its last.
#[derive(Clone, Debug)]
pub struct Coverage {
    host: Arc<str>,
    source: &'static str,
    detail: String,
    span: Option<(Timestamp, Timestamp)>,
    begun: bool,
}

impl Coverage {
    /// Of an input that `source` would have seen live.
    #[must_use]
    pub fn new(host: Arc<str>, source: &'static str, detail: String) -> Self {
        Coverage { host, source, detail, span: None, begun: false }
    }

    /// A moment that the input tells.
    pub fn at(&mut self, at: Timestamp) {
        let (first, last) = self.span.unwrap_or((at, at));
        self.span = Some((first.min(at), last.max(at)));
    }

    /// The first and the last of them.
    #[must_use]
    pub fn span(&self) -> Option<(Timestamp, Timestamp)> {
        self.span
    }

    /// Tells that it begins, once that is known.
    pub fn begin(&mut self, out: &mut Told) {
        let Some((first, _)) = self.span.filter(|_| !self.begun) else { return };
        self.begun = true;
        let fact = WatchStarted {
            source: Some(self.source.into()),
            reason: Some("imported".into()),
            detail: Some(self.detail.clone()),
        };
        out.push(Event::new(first, &self.host, "host:", fact));
    }

    /// Tells its end, at the end of the input.
    pub fn end(&mut self, out: &mut Told) {
        self.begin(out);
        let Some((_, last)) = self.span else { return };
        let fact =
            WatchStopped { source: Some(self.source.into()), reason: Some("the imported file ends".into()) };
        // Half-open: the last line's own moment is covered.
        out.push(Event::new(last.plus_ns(1), &self.host, "host:", fact));
    }
}
