//! Reading in key order over segments, a piece at a time: nothing of the database is held between two calls of `next`,
//! so a reader neither stops the writer nor keeps a segment open, and sees what is appended ahead of it.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use crate::event::{Event, EventId};
use crate::journal::Shared;
use crate::journal::codec::{self, Key};
use crate::journal::error::JournalError;
use crate::journal::week::Week;
use crate::time::Timestamp;

/// Events that are read at once, and the bytes of their values.
const PIECE: (usize, usize) = (256, 256 << 10);

/// Events in the order of (`at`, `run`, `seq`). A segment that cannot be read is told once, as an error, and passed
/// over; one that is damaged gives what could be salvaged and stands in [`crate::journal::Journal::damage`].
#[derive(Debug)]
pub struct Scan {
    shared: Arc<Shared>,
    week: Option<Week>,
    low: Bound<Key>,
    high: Bound<Key>,
    last_week: Week,
    ready: VecDeque<Event>,
}

impl Scan {
    pub(super) fn between(shared: Arc<Shared>, from: Timestamp, to: Timestamp) -> Scan {
        let key = |at| codec::key(EventId { at, run: 0, seq: 0 });
        Scan {
            shared,
            week: (from < to).then(|| Week::of(from)),
            low: Bound::Included(key(from)),
            high: Bound::Excluded(key(to)),
            last_week: Week::of(to),
            ready: VecDeque::new(),
        }
    }

    pub(super) fn after(shared: Arc<Shared>, cursor: EventId) -> Scan {
        Scan {
            shared,
            week: Some(Week::of(cursor.at)),
            low: Bound::Excluded(codec::key(cursor)),
            high: Bound::Unbounded,
            last_week: Week::of(Timestamp::MAX),
            ready: VecDeque::new(),
        }
    }

    /// Reads the next piece; `None` after the last.
    fn refill(&mut self) -> Option<Result<(), JournalError>> {
        while let Some(week) = self.week {
            let Some(slot) = self.shared.slots.from(week).filter(|s| s.week <= self.last_week) else {
                self.week = None;
                break;
            };
            self.week = Some(slot.week);
            let piece =
                self.shared.slots.with(&slot, |segment| segment.chunk(self.low, self.high, PIECE.0, PIECE.1));
            match piece {
                Ok(events) => match events.last() {
                    Some(last) => {
                        self.low = Bound::Excluded(codec::key(last.id()));
                        self.ready = events.into();
                        return Some(Ok(()));
                    }
                    None => self.week = slot.week.next(),
                },
                Err(e) => {
                    self.week = slot.week.next();
                    return Some(Err(e));
                }
            }
        }
        None
    }
}

impl Iterator for Scan {
    type Item = Result<Event, JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if let Err(e) = self.refill()? {
                return Some(Err(e));
            }
        }
    }
}
