//! Reading the archive: the newest events that fit, one event, or all of them as a stream of bounded memory. Scans run on
//! threads that may block, a few at a time.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use linchpin_analyzer::data::{Event, EventId, Timestamp, jsonl};
use tokio::sync::mpsc;

use crate::desk::{Desk, blocking};
use crate::markup::visible;
use crate::problem::Problem;
use crate::range::{Params, Range};

/// The most events on a page.
const LIMIT_MAX: usize = 1_000;
const LIMIT_DEFAULT: usize = 100;
/// Events that a page looks at before it gives up: a page is not an export.
const LOOK_MAX: u64 = 5_000_000;

/// Which events are asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// From here.
    pub from: Timestamp,
    /// Before this.
    pub to: Timestamp,
    /// Only of this subject.
    pub subject: Option<String>,
    /// Only of this kind.
    pub kind: Option<String>,
    /// At most so many on a page.
    pub limit: usize,
    /// Whether a limit was asked for.
    pub limited: bool,
}

impl Asked {
    /// From an address.
    ///
    /// # Errors
    /// A sentence on what cannot be read.
    pub fn of(params: &Params, now: Timestamp) -> Result<Self, String> {
        let (from, to) = Range::of(params)?.ends(now);
        let limit = match params.get("limit") {
            None => LIMIT_DEFAULT,
            Some(text) => text.parse::<usize>().ok().filter(|n| *n > 0).ok_or_else(|| {
                format!("limit={} is no number of events, 1 to {LIMIT_MAX}", visible(text, 40))
            })?,
        };
        Ok(Asked {
            from: from.unwrap_or(Timestamp::MIN),
            to: to.unwrap_or(Timestamp::MAX),
            subject: params.get("subject").map(str::to_string),
            kind: params.get("kind").map(str::to_string),
            limit,
            limited: params.get("limit").is_some(),
        })
    }

    fn fits(&self, e: &Event) -> bool {
        self.subject.as_deref().is_none_or(|s| s == &*e.subject)
            && self.kind.as_deref().is_none_or(|k| k == e.fact.kind())
    }
}

/// A page of events.
pub struct Found {
    /// Newest first.
    pub events: Vec<Event>,
    /// Where older ones end: the `to` of the next page.
    pub older: Option<Timestamp>,
}

/// The newest events that fit.
pub async fn newest(desk: &Desk, asked: Asked) -> Result<Found, Problem> {
    let _permit = desk.scans.acquire().await.map_err(|_| Problem::ending())?;
    let archive = desk.app.archive.clone();
    blocking(move || {
        let limit = asked.limit.min(LIMIT_MAX);
        let mut ring: VecDeque<Event> = VecDeque::with_capacity(limit + 1);
        let (mut dropped, mut looked) = (None, 0_u64);
        archive
            .events(asked.from, asked.to, &mut |e| {
                looked += 1;
                if asked.fits(e) {
                    ring.push_back(e.clone());
                    if ring.len() > limit {
                        dropped = ring.pop_front().map(|d| d.at);
                    }
                }
                if looked > LOOK_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
            .map_err(|e| unreadable(&e))?;
        if looked > LOOK_MAX {
            return Err(Problem::question("This range holds too many events for a page: narrow it with from= and to=, or take the JSON Lines."));
        }
        let mut events: Vec<Event> = ring.into();
        events.reverse();
        let mut older = None;
        if let (Some(dropped), Some(oldest)) = (dropped, events.last().map(|e| e.at)) {
            // Where the page would cut between events of one moment, that moment goes whole to the next page.
            let whole = events.iter().filter(|e| e.at > oldest).count();
            if dropped >= oldest && whole > 0 {
                events.truncate(whole);
                older = Some(oldest.plus_ns(1));
            } else {
                older = Some(oldest);
            }
        }
        Ok(Found { events, older })
    })
    .await?
}

/// One event.
pub async fn one(desk: &Desk, id: EventId) -> Result<Event, Problem> {
    let _permit = desk.scans.acquire().await.map_err(|_| Problem::ending())?;
    let archive = desk.app.archive.clone();
    let found = blocking(move || archive.event(id)).await?.map_err(|e| unreadable(&e))?;
    found.ok_or_else(|| {
        Problem::missing("No such event is kept.", format!("{id} is not in the journal: it may be older than what is retained. The events that are kept stand on /events."))
    })
}

fn unreadable(why: &str) -> Problem {
    Problem::broken(&format!("reading the journal: {why}"))
}

/// All events that fit, oldest first, as JSON Lines. A reader that stops reading stops the scan; an error in the middle
/// breaks the stream off, so that nobody takes a part for the whole.
pub async fn stream(desk: &Desk, asked: Asked) -> Result<Body, Problem> {
    let permit = Arc::clone(&desk.scans)
        .try_acquire_owned()
        .map_err(|_| Problem::busy("Other exports are running."))?;
    let archive = desk.app.archive.clone();
    let (out, lines) = mpsc::channel::<Result<Bytes, std::io::Error>>(8);
    tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let mut chunk: Vec<u8> = Vec::with_capacity(CHUNK + 4096);
        let mut left = if asked.limited { asked.limit } else { usize::MAX };
        let result = archive.events(asked.from, asked.to, &mut |e| {
            if !asked.fits(e) {
                return ControlFlow::Continue(());
            }
            if jsonl::write(&mut chunk, e).is_err() {
                return ControlFlow::Break(());
            }
            left -= 1;
            if chunk.len() >= CHUNK && out.blocking_send(Ok(Bytes::from(std::mem::take(&mut chunk)))).is_err()
                || left == 0
            {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        let last = match result {
            Ok(()) if chunk.is_empty() => return,
            Ok(()) => Ok(Bytes::from(chunk)),
            Err(e) => Err(std::io::Error::other(e)),
        };
        // A reader that is gone needs no last word.
        let _ = out.blocking_send(last);
    });
    Ok(Body::from_stream(futures_util::stream::unfold(lines, |mut lines| async move {
        lines.recv().await.map(|l| (l, lines))
    })))
}

const CHUNK: usize = 32 << 10;
