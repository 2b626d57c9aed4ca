//! What the watch tells: facts as events, held back while the runtime has not named their container.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use linchpin_data::Event;
use linchpin_data::event::{Ready, Unready};

use super::super::life::Told;
use super::{MS, Watch};
use crate::roster::Container;

/// How long a fact waits for its container's name, and how many may.
const UNTOLD_NS: u64 = 30_000 * MS;
const UNTOLD: usize = 1024;
/// Most subjects whose ports are kept in mind.
const LEARNED: usize = 4096;

impl Watch {
    /// At the end nothing that is held is lost.
    pub(super) fn finish(&mut self) {
        let ids: Vec<_> = self.lives.keys().cloned().collect();
        for id in ids {
            self.end_if_over(&id);
            let facts = self.lives.get_mut(&id).map(|e| e.life.tell(u64::MAX, true)).unwrap_or_default();
            self.tell(&id, facts);
        }
    }

    /// Tells facts of a container; they wait while the runtime has not yet told its name.
    pub(super) fn tell(&mut self, id: &Arc<str>, facts: Vec<Told>) {
        for told in facts {
            match self.cx.roster.get(id) {
                Some(c) => {
                    self.cx.emit_blocking(self.event(&c, told));
                }
                None if self.untold.len() < UNTOLD => {
                    self.untold.push((id.clone(), told, self.cx.clock.now().boot_ns))
                }
                None => tracing::warn!(%id, "too many unknown containers: a readiness is not recorded"),
            }
        }
    }

    /// Tells what waited for a name, and forgets what waited too long; keeps what is learned bounded.
    pub(super) fn tell_named(&mut self) {
        let now = self.cx.clock.now().boot_ns;
        for (id, told, since) in std::mem::take(&mut self.untold) {
            if let Some(c) = self.cx.roster.get(&id) {
                self.cx.emit_blocking(self.event(&c, told));
            } else if now.saturating_sub(since) < UNTOLD_NS {
                self.untold.push((id, told, since));
            }
        }
        let mut learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        if learned.len() > LEARNED {
            let known: BTreeSet<_> = self.cx.roster.all().into_iter().map(|c| c.subject).collect();
            learned.retain(|subject, _| known.contains(subject));
        }
    }

    fn event(&self, c: &Container, told: Told) -> Event {
        let (instance, by) = (Some(c.id.to_string()), Some("listen".to_string()));
        let (Told::Ready(port, seen) | Told::Unready(port, seen)) = told;
        let (resolution_ms, port) = (Some(seen.resolution_ms()), Some(port.into()));
        let mut event = match told {
            Told::Ready(..) => {
                self.cx.event_at(seen.at, &c.subject, Ready { instance, by, resolution_ms, port })
            }
            Told::Unready(..) => {
                self.cx.event_at(seen.at, &c.subject, Unready { instance, by, resolution_ms, port })
            }
        };
        event.after = seen.polled.then_some(seen.after.at);
        event
    }
}
