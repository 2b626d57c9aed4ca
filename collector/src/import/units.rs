//! What the system journal's entries tell of units: a service's main process ended, a service started. systemd marks
//! such entries with fixed message ids, so that they are known in every language. An engine's own unit is among them: when
//! it ended, its events are missing.

use std::sync::{Arc, LazyLock};

use aho_corasick::{AhoCorasick, MatchKind};
use linchpin_data::event::{Exited, Started};
use linchpin_data::{Event, Timestamp};
use serde_json::{Map, Value};

use super::{Coverage, Told};

/// A unit's start job is done; a unit's process ended (systemd's catalogue of messages).
const STARTED: &str = "39f53479d3a045ac8e11786248231fbf";
const EXITED: &str = "98e322203f7a4ed290d09fe03c09fe15";
/// Longest entry that is read, in bytes.
const LONGEST: usize = 64 * 1024;
/// An entry is written within this of what it tells, in milliseconds.
const RESOLUTION_MS: f64 = 100.0;

static IDS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build([STARTED, EXITED]).ok()
});

/// Entries in, events of units out.
pub(super) struct Units {
    host: Arc<str>,
    coverage: Coverage,
    /// The beginning of an entry whose end has not come yet.
    partial: Vec<u8>,
    skipping: bool,
    any: bool,
}

impl Units {
    pub(super) fn new(host: Arc<str>) -> Self {
        let detail = "the system journal: services started and ended, from its first entry to its last";
        let coverage = Coverage::new(host.clone(), "systemd", detail.into());
        Units { host, coverage, partial: Vec::new(), skipping: false, any: false }
    }

    /// Takes in a piece; it may end within a line.
    pub(super) fn feed(&mut self, piece: &[u8], out: &mut Told) {
        let mut rest = piece;
        if let Some(i) = memchr::memchr(b'\n', rest).filter(|_| self.skipping || !self.partial.is_empty()) {
            let (head, tail) = rest.split_at(i + 1);
            self.keep(head);
            let line = std::mem::take(&mut self.partial);
            if !std::mem::take(&mut self.skipping) {
                self.lines(&line, out);
            }
            rest = tail;
        }
        let whole = memchr::memrchr(b'\n', rest).map_or(0, |i| i + 1);
        let (whole, tail) = rest.split_at(whole);
        self.lines(whole, out);
        self.keep(tail);
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.skipping || self.partial.len() + bytes.len() > LONGEST {
            self.partial.clear();
            self.skipping = !bytes.is_empty() || self.skipping;
        } else {
            self.partial.extend_from_slice(bytes);
        }
    }

    fn lines(&mut self, text: &[u8], out: &mut Told) {
        let Some(ids) = &*IDS else { return };
        let mut from = 0;
        while let Some(hit) = text.get(from..).and_then(|rest| ids.find(rest)) {
            let at = from + hit.start();
            let start =
                memchr::memrchr(b'\n', text.get(from..at).unwrap_or_default()).map_or(from, |i| from + i + 1);
            let end =
                memchr::memchr(b'\n', text.get(at..).unwrap_or_default()).map_or(text.len(), |i| at + i);
            if let Some(line) = text.get(start..end).filter(|l| l.len() <= LONGEST)
                && let Some(event) = self.entry(line)
            {
                self.any = true;
                out.push(event);
            }
            from = end + 1;
        }
    }

    fn entry(&self, line: &[u8]) -> Option<Event> {
        let entry: Map<String, Value> = serde_json::from_slice(line).ok()?;
        let text = |key: &str| entry.get(key).and_then(Value::as_str);
        // Any program can write such an entry: systemd's own come from process 1 alone.
        if text("_PID") != Some("1") {
            return None;
        }
        let micros: i64 =
            text("_SOURCE_REALTIME_TIMESTAMP").or(text("__REALTIME_TIMESTAMP"))?.parse().ok()?;
        let at = Timestamp(micros.checked_mul(1_000)?);
        let unit = text("UNIT").filter(|u| u.ends_with(".service") && u.len() <= 256)?;
        let instance = text("INVOCATION_ID").map(|i| i.chars().take(64).collect::<String>());
        let subject = format!("systemd:{unit}");
        if text("MESSAGE_ID") == Some(STARTED) {
            let done = text("JOB_RESULT").is_none_or(|r| r == "done");
            let fact = Started { instance, runtime_at: Some(at), ..Started::default() };
            return done.then(|| Event::new(at, &self.host, &subject, fact));
        }
        // Helper processes (ExecStartPre, ExecReload, …) end too.
        if text("COMMAND").is_some_and(|c| c != "ExecStart") {
            return None;
        }
        let status: i64 = text("EXIT_STATUS")?.parse().ok()?;
        let signalled = matches!(text("EXIT_CODE")?, "killed" | "dumped");
        let fact = Exited {
            instance,
            exit_code: Some(if signalled { status.checked_add(128)? } else { status }),
            signal: signalled.then_some(status),
            resolution_ms: Some(RESOLUTION_MS),
            runtime_at: Some(at),
            ..Exited::default()
        };
        Some(Event::new(at, &self.host, &subject, fact))
    }

    /// Tells what was covered, if any unit was told of: without one, nothing shows that the entries are there.
    pub(super) fn finish(&mut self, span: Option<(Timestamp, Timestamp)>, out: &mut Told) {
        let rest = std::mem::take(&mut self.partial);
        self.lines(&rest, out);
        if let Some((first, last)) = span.filter(|_| self.any) {
            self.coverage.at(first);
            self.coverage.at(last);
            self.coverage.end(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_dies_and_comes_back() {
        let entry = |pid: &str, id: &str, more: &str| {
            format!(
                "{{\"__REALTIME_TIMESTAMP\":\"1512605115000000\",\"_PID\":\"{pid}\",\"MESSAGE_ID\":\"{id}\",\"UNIT\":\"nginx.service\"{more}}}\n"
            )
        };
        let killed = ",\"COMMAND\":\"ExecStart\",\"EXIT_CODE\":\"killed\",\"EXIT_STATUS\":\"9\"";
        let text = [
            entry("1", EXITED, killed),
            entry("1", EXITED, ",\"COMMAND\":\"ExecReload\",\"EXIT_CODE\":\"exited\",\"EXIT_STATUS\":\"1\""),
            // Another program writes the same words.
            entry("77", EXITED, killed),
            entry("1", STARTED, ",\"JOB_RESULT\":\"failed\""),
            entry("1", STARTED, ",\"JOB_RESULT\":\"done\""),
        ]
        .concat();
        for cut in [1, 7, 64, 10_000] {
            let (mut units, mut told) = (Units::new("web-1".into()), Told::default());
            for piece in text.as_bytes().chunks(cut) {
                units.feed(piece, &mut told);
            }
            units.finish(None, &mut told);
            let mut kinds = Vec::new();
            while let Some(w) = told.pop() {
                if let linchpin_data::Fact::Exited(x) = &w.fact {
                    assert_eq!((x.exit_code, x.signal), (Some(137), Some(9)));
                }
                kinds.push((w.fact.kind().to_string(), w.subject.to_string()));
            }
            let of = |kind: &str| (kind.to_string(), "systemd:nginx.service".to_string());
            assert_eq!(kinds, [of("exited"), of("started")], "pieces of {cut}");
        }
    }
}
