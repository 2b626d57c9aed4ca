//! The engine's recorded events (`docker events --format '{{json .}}'`, its old forms, Podman's) become starts, exits and
//! removals, by the rules of the live source. What inspect would have been asked is not known: only what the stream says.

use std::io::{self, BufRead};
use std::sync::Arc;

use linchpin_data::Event;
use linchpin_data::clock::Stamp;
use linchpin_data::lines::bounded;

use super::names::Names;
use super::{Coverage, Input, Outcome, Told};
use crate::sources::docker::decode::{Decoded, RuntimeEvent, decode};
use crate::sources::docker::tracker::{Out, Tracker};
use crate::witness::Exits;

/// Longest line that is read, in bytes, and lines read at once.
const LONGEST: u64 = 1 << 20;
const LINES: usize = 256;

/// One recorded stream.
pub struct EngineEvents<R> {
    input: R,
    host: Arc<str>,
    names: Names,
    coverage: Coverage,
    tracker: Tracker,
    exits: Exits,
    now: Stamp,
    out: Outcome,
}

/// Learns the containers' names from a stream, before anything is told of them.
///
/// # Errors
/// Those of the reader.
pub fn learn(mut input: impl BufRead, names: &Names) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        let (read, over) = bounded(&mut input, LONGEST, &mut line)?;
        if read == 0 {
            return Ok(());
        }
        if over == 0
            && let Ok(value) = serde_json::from_slice(&line)
            && let Decoded::Event(e) = decode(&value)
        {
            names.learn(&e);
        }
    }
}

impl<R: BufRead> EngineEvents<R> {
    /// Over a reader.
    pub fn new(input: R, host: Arc<str>, names: Names) -> Self {
        let detail =
            "the engine's recorded events: starts and exits, from the first event to the last".into();
        EngineEvents {
            input,
            coverage: Coverage::new(host.clone(), "docker", detail),
            host,
            names,
            tracker: Tracker::default(),
            exits: Exits::default(),
            now: Stamp { at: linchpin_data::Timestamp::MIN, boot_ns: 0 },
            out: Outcome::default(),
        }
    }

    fn line(&mut self, line: &[u8], out: &mut Told) {
        let text =
            |l: &[u8]| String::from_utf8_lossy(l.get(..l.len().min(800)).unwrap_or_default()).into_owned();
        let line = line.trim_ascii();
        if line.is_empty() {
            return;
        }
        let Ok(value) = serde_json::from_slice::<serde_json::Value>(line) else {
            self.out.unplaced.count("no JSON object", &text(line));
            return;
        };
        match decode(&value) {
            Decoded::Event(e) => {
                self.out.recognised = true;
                self.event(e, out);
            }
            Decoded::Other => {
                // About a network, a volume, an exec: it still tells how far the stream has come.
                if let Some((at, _)) = crate::sources::docker::decode::moment(&value) {
                    self.out.recognised = true;
                    self.coverage.at(at);
                }
            }
            Decoded::Unreadable(why) => self.out.unplaced.count(why, &text(line)),
        }
    }

    fn event(&mut self, mut e: RuntimeEvent, out: &mut Told) {
        self.coverage.at(e.at);
        self.names.learn(&e);
        // Old forms name nothing but the id.
        if let Some(known) = self.names.get(&e.id).filter(|_| e.name.is_empty()) {
            e.name = known.name;
            for (k, v) in &*known.labels {
                e.attributes.entry(k.clone()).or_insert_with(|| v.clone());
            }
        }
        let at = self.now.at.max(e.at);
        self.now = Stamp { at, boot_ns: at.0.unsigned_abs() };
        self.tracker.settle(self.now, &self.exits);
        self.tracker.event(&e, None, self.now, &self.exits);
        self.tell(out);
    }

    fn tell(&mut self, out: &mut Told) {
        loop {
            let wants = self.tracker.take();
            if wants.is_empty() {
                return;
            }
            for want in wants {
                match want {
                    Out::Tell(t) => {
                        let mut event = Event::new(t.stamp.at, &self.host, &t.subject, t.fact);
                        event.after = t.after;
                        out.push(event);
                    }
                    Out::Inspect(id, why) => {
                        self.tracker.inspected(&id, why, None, self.now, &self.exits);
                    }
                    Out::Roster(..) => {}
                }
            }
        }
    }
}

impl<R: BufRead> Input for EngineEvents<R> {
    fn step(&mut self, out: &mut Told) -> io::Result<bool> {
        let mut line = Vec::new();
        for _ in 0..LINES {
            let (read, over) = bounded(&mut self.input, LONGEST, &mut line)?;
            if read == 0 {
                self.tracker.flush(self.now, &self.exits);
                self.tell(out);
                self.coverage.end(out);
                self.out.covers = self.coverage.span();
                return Ok(false);
            }
            self.out.lines += 1;
            if over > 0 {
                self.out.unplaced.add("a line longer than 1 MiB", 1);
            } else {
                self.line(&line, out);
            }
        }
        self.coverage.begin(out);
        Ok(true)
    }

    fn outcome(&mut self) -> Outcome {
        self.out.clone()
    }
}
