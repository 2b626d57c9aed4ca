//! `docker inspect` output, an array of objects, becomes descriptions and names; and, where the engine's events were not
//! given too, what its counters prove: restarts, with the moments of the last exit and start.

use std::io::{self, Read};
use std::sync::Arc;

use linchpin_data::event::{Described, RestartsMissed};
use linchpin_data::{Event, Timestamp};

use super::names::Names;
use super::{Input, Outcome, Told};
use crate::sources::docker::inspect::{Facts, facts};

/// Most bytes read of one file, and containers of it.
const MOST: u64 = 256 << 20;
const CONTAINERS: usize = 100_000;

/// One file, read and understood.
pub struct Inspected {
    facts: Vec<Facts>,
    host: Arc<str>,
    counters: bool,
    out: Outcome,
}

impl Inspected {
    /// Reads a file whole and learns its names. `counters`: tell what they prove.
    ///
    /// # Errors
    /// The reader's; or it is no JSON array of containers.
    pub fn read(input: impl Read, host: Arc<str>, names: &Names, counters: bool) -> io::Result<Self> {
        let mut text = Vec::new();
        input.take(MOST).read_to_end(&mut text)?;
        let bad = |e: serde_json::Error| io::Error::new(io::ErrorKind::InvalidData, e);
        let value: serde_json::Value = serde_json::from_slice(&text).map_err(bad)?;
        let list = match value {
            serde_json::Value::Array(list) => list,
            one => vec![one],
        };
        let mut out = Outcome { lines: list.len() as u64, ..Outcome::default() };
        let mut all = Vec::new();
        for v in list.iter().take(CONTAINERS) {
            match facts(v) {
                Some(f) => {
                    names.inspected(&f);
                    all.push(f);
                }
                None => out
                    .unplaced
                    .count("an object without `Id`", &v.to_string().chars().take(200).collect::<String>()),
            }
        }
        out.unplaced.add("containers beyond the first 100,000", list.len().saturating_sub(CONTAINERS) as u64);
        out.recognised = !all.is_empty();
        Ok(Inspected { facts: all, host, counters, out })
    }

    fn tell(&mut self, f: &Facts, out: &mut Told) {
        // The file does not say when it was written: what it proves was so at the last moment that it tells of.
        let last = [f.created_at, f.started_at, f.finished_at].into_iter().flatten().max();
        let Some(last) = last else {
            self.out.unplaced.count("a container that tells no time", &f.name);
            return;
        };
        let made = f.created_at.unwrap_or(last);
        let (first, end) = self.out.covers.unwrap_or((made, last));
        self.out.covers = Some((first.min(made), end.max(last)));
        // As of its making: what it is a replica of, its limits. What changes since is the last moment's.
        let described = Described { restart_count: None, running: None, pid: None, ..f.described() };
        self.event(made, &f.identity.subject, described, out);
        if !self.counters {
            return;
        }
        let count = f.restart_count.unwrap_or(0);
        if count > 0 {
            let fact = RestartsMissed {
                count: Some(count),
                since: Some(made),
                last_finished_at: f.finished_at,
                last_started_at: f.started_at,
            };
            let mut event = Event::new(last, &self.host, &f.identity.subject, fact);
            event.after = Some(made);
            out.push(event);
        }
    }

    fn event(&self, at: Timestamp, subject: &str, fact: Described, out: &mut Told) {
        out.push(Event::new(at, &self.host, subject, fact));
    }
}

impl Input for Inspected {
    fn step(&mut self, out: &mut Told) -> io::Result<bool> {
        for f in std::mem::take(&mut self.facts) {
            self.tell(&f, out);
        }
        Ok(false)
    }

    fn outcome(&mut self) -> Outcome {
        self.out.clone()
    }
}
