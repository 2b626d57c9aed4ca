//! `/api/v1/stream`: server-sent events, a small one on each change, at most four a second, with a heartbeat.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::desk::{Desk, FRESH};
use crate::problem::Problem;

const HEARTBEAT: Duration = Duration::from_secs(15);

struct Listener {
    changes: watch::Receiver<u64>,
    closing: watch::Receiver<bool>,
    /// Open as long as anybody listens.
    _desk: Arc<Desk>,
    greeted: bool,
    _permit: OwnedSemaphorePermit,
}

/// The handler. The first event says where things stand; `change` events follow, each with the count of events folded.
pub async fn stream(State(desk): State<Arc<Desk>>) -> Response {
    let Ok(permit) = Arc::clone(&desk.streams).try_acquire_owned() else {
        return Problem::busy("64 pages follow already.").for_program().into_response();
    };
    let mut changes = desk.app.changes.clone();
    changes.mark_unchanged();
    let listener =
        Listener { changes, closing: desk.closing.clone(), _desk: desk, greeted: false, _permit: permit };
    let events = futures_util::stream::unfold(listener, |mut l| async move {
        next(&mut l).await.map(|e| (Ok::<_, Infallible>(e), l))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT).text("heartbeat")).into_response()
}

/// The next event; `None` at the end of the server or of the ledger's writer.
async fn next(l: &mut Listener) -> Option<Event> {
    if !l.greeted {
        l.greeted = true;
        let at = *l.changes.borrow();
        return Some(Event::default().event("hello").retry(Duration::from_secs(2)).data(at.to_string()));
    }
    tokio::select! {
        _ = l.closing.wait_for(|end| *end) => return None,
        changed = l.changes.changed() => changed.ok()?,
    }
    // What changes within this time is told as one; and a page fetched on hearing of it is never an older, kept one.
    tokio::select! {
        _ = l.closing.wait_for(|end| *end) => return None,
        () = tokio::time::sleep(FRESH) => {}
    }
    let at = *l.changes.borrow_and_update();
    Some(Event::default().event("change").data(at.to_string()))
}
