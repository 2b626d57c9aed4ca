//! Wakes a flush that waits for ever.
//!
//! When a write fails on one of sled's threads (a full disk), sled notes the error but may forget to wake who waits in
//! `flush`. A second flush from elsewhere meets the error, returns it, and wakes all others. One thread stands by to do
//! that; it sleeps unless a flush is under way.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// How long a flush may take before it is looked after.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Rescue(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    flights: Mutex<Flights>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Flights {
    last: u64,
    under_way: Vec<(u64, sled::Db)>,
}

/// A flush under way, until dropped.
pub(super) struct Watched<'a>(&'a Shared, u64);

impl Rescue {
    pub(super) fn new() -> Self {
        let shared = Arc::new(Shared::default());
        let weak = Arc::downgrade(&shared);
        // Without the thread a flush on a full disk may hang; with so few threads left that is the lesser trouble.
        let _ = std::thread::Builder::new().name("journal-rescue".into()).spawn(move || stand_by(&weak));
        Rescue(shared)
    }

    pub(super) fn watch(&self, db: &sled::Db) -> Watched<'_> {
        let mut flights = self.0.lock();
        flights.last += 1;
        let id = flights.last;
        flights.under_way.push((id, db.clone()));
        self.0.changed.notify_all();
        Watched(&self.0, id)
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.0.lock().under_way.retain(|(id, _)| *id != self.1);
    }
}

impl Drop for Rescue {
    fn drop(&mut self) {
        self.0.lock().last = u64::MAX;
        self.0.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Flights> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stand_by(weak: &Weak<Shared>) {
    let Some(shared) = weak.upgrade() else { return };
    let mut flights = shared.lock();
    while flights.last < u64::MAX {
        let Some(first) = flights.under_way.first().map(|f| f.0) else {
            flights = shared.changed.wait(flights).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        flights = shared.changed.wait_timeout(flights, PATIENCE).unwrap_or_else(PoisonError::into_inner).0;
        if let Some((id, db)) = flights.under_way.first().cloned()
            && id == first
        {
            drop(flights);
            // Dropping it may be the database's end, which may panic too.
            let _ = catch_unwind(AssertUnwindSafe(move || db.flush().map(drop)));
            flights = shared.lock();
        }
    }
}
