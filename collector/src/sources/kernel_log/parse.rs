//! A kernel log as bytes becomes records: kills, faults, and what the log itself says it left out. Pure, and quick enough
//! for whole files: a line that holds none of our fixed words is passed over without being looked at. The live source and
//! the import of files share it.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};

use super::fault::{Fault, fault};
use super::oom::{Joiner, Kill, Printed};
use super::prefix::{LogTime, strip};
use super::text::{find, number, rfind, shown};

/// What a kernel log tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A process was killed because memory ran out.
    Kill(Kill),
    /// A process met a memory fault or a trap.
    Fault(Fault),
    /// The kernel left lines out: reports happened that were not printed.
    Suppressed {
        /// When it said so.
        time: LogTime,
        /// The kernel function whose lines were left out.
        by: String,
        /// How many times.
        count: u64,
        /// The line, shortened.
        line: String,
    },
    /// A line that looks like one of ours and cannot be read.
    Unreadable {
        /// When it was printed.
        time: LogTime,
        /// The line, shortened.
        line: String,
    },
}

/// Without one of these a line is none of ours.
static WORDS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let words: [&[u8]; 14] = [
        b"oom-kill",
        b"Killed process ",
        b"Kill process ",
        b"killed as a result of limit of ",
        b"memory.oom.group",
        b"callbacks suppressed",
        b"memory: usage ",
        b"]: segfault at ",
        b"] general protection",
        b"] trap ",
        b"]: unhandled ",
        b"]: bad frame in ",
        b"no killable processes",
        // journald writes a message that is not UTF-8 as numbers: such lines are all looked at.
        b"\"MESSAGE\":[",
    ];
    // Leftmost matching is what the vectorised searcher can do.
    AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(words).ok()
});

/// Longest line that is kept together, in bytes.
const LONGEST: usize = 64 * 1024;

/// Bytes in, records out. Feed it any pieces of a log, in order.
#[derive(Debug, Default)]
pub struct Decoder {
    joiner: Joiner,
    /// The beginning of a line whose end has not come yet.
    partial: Vec<u8>,
    /// Inside a line that is too long: its rest is passed over.
    skipping: bool,
    /// Lines that were passed over for their length.
    too_long: u64,
    kills: Vec<Kill>,
}

/// What is said of reports that the kernel left out.
#[must_use]
pub fn left_out(by: &str, count: u64) -> String {
    format!(
        "the kernel left out {count} reports of {by}: kills or faults may be missing, or lack their cgroup"
    )
}

impl Decoder {
    /// Takes in a piece of a log; it may end within a line.
    pub fn feed(&mut self, mut bytes: &[u8], out: &mut Vec<Record>) {
        if self.skipping || !self.partial.is_empty() {
            let Some(end) = bytes.iter().position(|b| *b == b'\n') else {
                self.keep(bytes);
                return;
            };
            let (head, rest) = bytes.split_at(end);
            self.keep(head);
            let line = std::mem::take(&mut self.partial);
            if !self.skipping {
                self.line(&line, out);
            }
            self.skipping = false;
            bytes = rest.get(1..).unwrap_or_default();
        }
        let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
        self.lines(bytes.get(..whole).unwrap_or_default(), out);
        self.keep(bytes.get(whole..).unwrap_or_default());
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.skipping || bytes.is_empty() {
            return;
        }
        if self.partial.len() + bytes.len() > LONGEST {
            self.partial.clear();
            self.skipping = true;
            self.too_long += 1;
        } else {
            self.partial.extend_from_slice(bytes);
        }
    }

    /// Whole lines: jumps from one of our words to the next.
    fn lines(&mut self, text: &[u8], out: &mut Vec<Record>) {
        let Some(words) = &*WORDS else { return };
        let mut from = 0;
        while let Some(hit) = text.get(from..).and_then(|rest| words.find(rest)) {
            let at = from + hit.start();
            let head = text.get(from..at).unwrap_or_default();
            let start = head.iter().rposition(|b| *b == b'\n').map_or(from, |i| from + i + 1);
            let tail = text.get(at..).unwrap_or_default();
            let end = tail.iter().position(|b| *b == b'\n').map_or(text.len(), |i| at + i);
            if end - start <= LONGEST {
                self.read(text.get(start..end).unwrap_or_default(), out);
            } else {
                self.too_long += 1;
            }
            from = end + 1;
        }
    }

    /// Takes in one line, without its newline.
    pub fn line(&mut self, line: &[u8], out: &mut Vec<Record>) {
        if line.len() <= LONGEST && WORDS.as_ref().is_some_and(|w| w.is_match(line)) {
            self.read(line, out);
        }
    }

    fn read(&mut self, line: &[u8], out: &mut Vec<Record>) {
        let stripped = strip(line);
        if stripped.foreign {
            return;
        }
        let m: &[u8] = &stripped.message;
        let by = Printed { time: stripped.time, seq: stripped.seq, caller: stripped.caller };
        if let Some(f) = fault(m, by) {
            out.push(Record::Fault(f));
        } else if let Some((function, count)) = suppressed(m) {
            out.push(Record::Suppressed { time: by.time, by: function, count, line: shown(m, 200) });
        } else if !self.joiner.take(m, by, &mut self.kills) {
            out.push(Record::Unreadable { time: by.time, line: shown(m, 200) });
        }
        self.hand_over(out);
    }

    /// How many lines were passed over for their length, as far as they were looked at.
    #[must_use]
    pub fn too_long(&self) -> u64 {
        self.too_long
    }

    /// A kill is held until the line after it: this lets it go, when the log is quiet.
    pub fn flush(&mut self, out: &mut Vec<Record>) {
        self.joiner.flush(&mut self.kills);
        self.hand_over(out);
    }

    /// Whether a kill is held.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.joiner.holds()
    }

    /// Records are missing from here on: nothing is joined across.
    pub fn gap(&mut self, out: &mut Vec<Record>) {
        self.joiner.gap(&mut self.kills);
        self.hand_over(out);
    }

    /// The log ends here; a last line without a newline counts.
    pub fn finish(&mut self, out: &mut Vec<Record>) {
        let line = std::mem::take(&mut self.partial);
        self.line(&line, out);
        self.skipping = false;
        self.flush(out);
    }

    fn hand_over(&mut self, out: &mut Vec<Record>) {
        out.extend(self.kills.drain(..).map(Record::Kill));
    }
}

/// `oom_kill_process: 70 callbacks suppressed`, for the functions that print our lines.
fn suppressed(m: &[u8]) -> Option<(String, u64)> {
    let end = find(m, b" callbacks suppressed")?;
    let head = m.get(..end)?;
    let colon = rfind(head, b": ")?;
    let (count, rest) = number(head.get(colon + 2..)?)?;
    let name = head.get(..colon)?.rsplit(|b| *b == b' ').next()?;
    const OURS: [&str; 12] = [
        "oom_kill_process",
        "__oom_kill_process",
        "out_of_memory",
        "dump_header",
        "mem_cgroup_out_of_memory",
        "pagefault_out_of_memory",
        "show_signal_msg",
        "show_signal",
        "do_trap",
        "do_general_protection",
        "exc_general_protection",
        "arm64_show_signal",
    ];
    let name = std::str::from_utf8(name).ok().filter(|n| OURS.contains(n))?;
    rest.is_empty().then(|| (name.to_string(), count))
}
