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
    /// Exits that were told since that counter was read: each may have raised it by one.
    pub exits_since_count: u64,
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

impl Known {
    /// The runtime's counter was read.
    fn counted(&mut self, count: Option<u64>) {
        if count.is_some() {
            self.restart_count = count;
            self.exits_since_count = 0;
        }
    }
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
                known.counted(f.restart_count);
                known.running = f.running.or(known.running);
            }
            Fact::Started(f) => {
                known.counted(f.restart_count);
                known.started_runtime_at = known.started_runtime_at.max(f.runtime_at);
                // An exit that an operator asked for is told late, perhaps after the start that followed it.
                if f.runtime_at.is_none() || known.exited_runtime_at <= f.runtime_at {
                    known.running = Some(true);
                }
                self.runtime_at = self.runtime_at.max(f.runtime_at);
            }
            Fact::Exited(f) => {
                known.exits_since_count += 1;
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

#[cfg(test)]
mod tests {
    use linchpin_data::event::{Described, Exited, Removed, RestartsMissed, Started};

    use super::*;

    fn fold(resume: &mut Resume, at: i64, fact: impl Into<Fact>) {
        resume.fold(&Event::new(Timestamp(at), "h", "docker:a", fact));
    }

    fn started(at: i64) -> Started {
        Started { runtime_at: Some(Timestamp(at)), ..Started::default() }
    }

    fn exited(at: i64) -> Exited {
        Exited { runtime_at: Some(Timestamp(at)), ..Exited::default() }
    }

    #[test]
    fn an_exit_that_is_told_after_the_start_that_followed_it_is_still_before_it() {
        let mut resume = Resume::default();
        fold(&mut resume, 10, started(10));
        fold(&mut resume, 30, started(30));
        fold(&mut resume, 20, exited(20));
        let known = &resume.subjects["docker:a"];
        assert_eq!((known.running, known.exited_runtime_at), (Some(true), Some(Timestamp(20))));
        fold(&mut resume, 40, exited(40));
        assert_eq!(resume.subjects["docker:a"].running, Some(false));
        assert_eq!(resume.runtime_at, Some(Timestamp(40)));
    }

    #[test]
    fn exits_since_the_counter_was_read_are_counted() {
        let mut resume = Resume::default();
        fold(
            &mut resume,
            1,
            Described { restart_count: Some(3), running: Some(true), ..Described::default() },
        );
        fold(&mut resume, 2, exited(2));
        fold(&mut resume, 3, started(3));
        fold(&mut resume, 4, exited(4));
        let known = &resume.subjects["docker:a"];
        assert_eq!((known.restart_count, known.exits_since_count), (Some(3), 2));
        fold(&mut resume, 5, Started { restart_count: Some(5), ..started(5) });
        assert_eq!(resume.subjects["docker:a"].exits_since_count, 0);
    }

    #[test]
    fn restarts_that_were_missed_are_known_from_then_on() {
        let mut resume = Resume::default();
        fold(&mut resume, 1, started(1));
        let missed = RestartsMissed {
            last_started_at: Some(Timestamp(9)),
            last_finished_at: Some(Timestamp(8)),
            ..Default::default()
        };
        fold(&mut resume, 10, missed);
        let known = &resume.subjects["docker:a"];
        assert_eq!(
            (known.exited_runtime_at, known.started_runtime_at),
            (Some(Timestamp(8)), Some(Timestamp(9)))
        );
        fold(&mut resume, 11, Removed::default());
        assert!(resume.subjects.is_empty());
    }
}
