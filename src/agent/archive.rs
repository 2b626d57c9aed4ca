//! The journal as the pages may see it: raw events, read only.

use std::ops::ControlFlow;

use linchpin_analyzer::archive::Archive;
use linchpin_data::journal::Journal;
use linchpin_data::{Event, EventId, Timestamp};

/// Raw events out of the journal.
pub struct JournalArchive(pub Journal);

impl Archive for JournalArchive {
    fn events(
        &self,
        from: Timestamp,
        to: Timestamp,
        each: &mut dyn FnMut(&Event) -> ControlFlow<()>,
    ) -> Result<(), String> {
        for event in self.0.scan(from, to) {
            if each(&event.map_err(|e| e.to_string())?).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn event(&self, id: EventId) -> Result<Option<Event>, String> {
        self.0.get(id).map_err(|e| e.to_string())
    }
}
