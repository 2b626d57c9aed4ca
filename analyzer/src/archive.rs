//! Raw events for those who show evidence. The binary implements it over the journal; pages see the journal only through
//! here.

use std::ops::ControlFlow;

use linchpin_data::{Event, EventId, Timestamp};

/// Where the events of a time, or one by its id, can be read again.
pub trait Archive: Send + Sync {
    /// Hands over the events of `[from, to)` in order, until all are told or `each` breaks.
    ///
    /// # Errors
    /// What could not be read, in words.
    fn events(
        &self,
        from: Timestamp,
        to: Timestamp,
        each: &mut dyn FnMut(&Event) -> ControlFlow<()>,
    ) -> Result<(), String>;

    /// One event by its id; `None` if there is none such.
    ///
    /// # Errors
    /// What could not be read, in words.
    fn event(&self, id: EventId) -> Result<Option<Event>, String>;
}
