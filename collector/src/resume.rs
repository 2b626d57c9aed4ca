//! What the journal already knows when the agent starts: where each source left off. Folded from the journal's events, so
//! that nothing is told twice and what happened in between can be found or shown as unobserved.

use std::collections::HashMap;
use std::sync::Arc;

use linchpin_data::{Event, Fact, Timestamp};

/// What was last known of one subject.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Container id.
    pub instance: Option<Arc<str>>,
    /// The runtime's restart counter.
    pub restart_count: Option<u64>,
    /// Whether its main process ran.
    pub running: Option<bool>,
    /// The runtime's own time of the last exit that was told.
    pub exited_runtime_at: Option<Timestamp>,
    /// The runtime's own time of the last start that was told.
    pub started_runtime_at: Option<Timestamp>,
    /// Whether it accepted work: false from a start, an exit or a closed port on until it was ready again; `None` if no
    /// source ever said.
    pub ready: Option<bool>,
    /// The last event about it.
    pub last_at: Option<Timestamp>,
}

/// Where the sources left off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resume {
    /// By subject.
    pub subjects: HashMap<Arc<str>, Known>,
    /// Boot id of the last events.
    pub boot_id: Option<Arc<str>>,
    /// The last event of all.
    pub last_at: Option<Timestamp>,
    /// The newest moment that the runtime itself put on an event which was told.
    pub runtime_at: Option<Timestamp>,
    /// The last kernel log sequence number told of in that boot.
    pub kmsg_seq: Option<u64>,
}

impl Resume {
    /// Takes in one event of this host's journal; the order is the journal's.
    pub fn fold(&mut self, event: &Event) {
        self.last_at = self.last_at.max(Some(event.at));
        if let Some(boot) = &event.boot_id
            && self.boot_id.as_ref() != Some(boot)
        {
            self.boot_id = Some(boot.clone());
            self.kmsg_seq = None;
        }
        match &event.fact {
            Fact::OomKill(f) => self.kmsg_seq = self.kmsg_seq.max(f.kmsg_seq),
            Fact::Segfault(f) => self.kmsg_seq = self.kmsg_seq.max(f.kmsg_seq),
            _ => {}
        }
        if event.subject.as_ref() == "host:" {
            return;
        }
        let known = self.subjects.entry(event.subject.clone()).or_default();
        known.last_at = known.last_at.max(Some(event.at));
        if let Some(instance) = event.instance() {
            known.instance = Some(instance.into());
        }
        match &event.fact {
            Fact::Ready(_) => known.ready = Some(true),
            Fact::Unready(_) => known.ready = Some(false),
            // A subject that was never seen ready is not waited for.
            Fact::Started(_) | Fact::Exited(_) => known.ready = known.ready.map(|_| false),
            _ => {}
        }
        match &event.fact {
            Fact::Described(f) => {
                known.restart_count = f.restart_count.or(known.restart_count);
                known.running = f.running.or(known.running);
            }
            Fact::Started(f) => {
                known.restart_count = f.restart_count.or(known.restart_count);
                known.started_runtime_at = known.started_runtime_at.max(f.runtime_at);
                // An exit that an operator asked for is told late, perhaps after the start that followed it.
                if f.runtime_at.is_none() || known.exited_runtime_at <= f.runtime_at {
                    known.running = Some(true);
                }
                self.runtime_at = self.runtime_at.max(f.runtime_at);
            }
            Fact::Exited(f) => {
                known.exited_runtime_at = known.exited_runtime_at.max(f.runtime_at);
                if f.runtime_at.is_none() || known.started_runtime_at <= f.runtime_at {
                    known.running = Some(false);
                }
                self.runtime_at = self.runtime_at.max(f.runtime_at);
            }
            Fact::RestartsMissed(f) => {
                known.exited_runtime_at =
                    known.exited_runtime_at.max(f.last_finished_at.filter(|x| f.last_started_at > Some(*x)));
                known.started_runtime_at = known.started_runtime_at.max(f.last_started_at);
                self.runtime_at = self.runtime_at.max(f.last_started_at);
            }
            Fact::Removed(_) => {
                self.subjects.remove(&event.subject);
            }
            _ => {}
        }
    }
}
