//! Kernel log text of any form, and the system journal's JSON, become kills and faults. Most lines are noise: they are
//! counted and passed over by the parser's search for its words; times are read of the lines that matter, and of one line
//! in each piece, to know what the log covers.

use std::io::{self, Read};
use std::sync::{Arc, LazyLock};

use linchpin_data::event::{Issue, OomKill, Segfault};
use linchpin_data::{Event, Fact, Timestamp};
use memchr::memmem::Finder;

use super::names::Names;
use super::units::Units;
use super::when::{Calendar, boot_told_by};
use super::{Coverage, Input, Outcome, Told};
use crate::sources::kernel_log::parse::{Decoder, Record, left_out};
use crate::sources::kernel_log::prefix::{LogTime, strip};

/// Bytes read at once.
const PIECE: usize = 1 << 20;
/// Bytes kept of a last line without an end: an entry of the journal is one object.
const TAIL: usize = 64 * 1024;
/// Lines tried at each end of a piece for one that tells a time.
const TRIED: usize = 64;

/// The kernel's banner comes within this of the boot, in microseconds.
const FIRST_MICROS: u64 = 60_000_000;

/// One log.
pub struct KernelText<R> {
    input: R,
    host: Arc<str>,
    names: Names,
    calendar: Calendar,
    coverage: Coverage,
    decoder: Decoder,
    piece: Vec<u8>,
    records: Vec<Record>,
    /// A last line whose end has not come yet, as far as its time may stand in it.
    tail: Vec<u8>,
    out: Outcome,
    begun: bool,
    since_boot: bool,
    /// What the journal's entries of units tell, where it is a journal.
    units: Option<Units>,
}

/// Where the first line of a boot begins, in logs whose times count from boot: the kernel says its version first.
fn next_boot(piece: &[u8]) -> Option<usize> {
    static BANNER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("Linux version "));
    let mut from = 0;
    while let Some(i) = piece.get(from..).and_then(|rest| BANNER.find(rest)) {
        let at = from + i;
        let start = memchr::memrchr(b'\n', piece.get(..at).unwrap_or_default()).map_or(0, |i| i + 1);
        let end = memchr::memchr(b'\n', piece.get(at..).unwrap_or_default()).map_or(piece.len(), |i| at + i);
        let line = strip(piece.get(start..end).unwrap_or_default());
        if matches!(line.time, LogTime::Boot(..FIRST_MICROS)) && line.message.starts_with(b"Linux version ") {
            return Some(start);
        }
        from = end;
    }
    None
}

/// When the boot was that a piece begins in, by a line of it that tells both clocks.
fn anchor(piece: &[u8]) -> Option<Timestamp> {
    let first = memchr::memchr(b'\n', piece).map_or(piece.len(), |i| i + 1);
    let (line, rest) = piece.split_at(first);
    let this = next_boot(rest).map_or(rest, |i| rest.get(..i).unwrap_or_default());
    boot_told_by(line).or_else(|| this.split(|b| *b == b'\n').find_map(boot_told_by))
}

impl<R: Read> KernelText<R> {
    /// Over a reader.
    pub fn new(input: R, host: Arc<str>, names: Names, calendar: Calendar) -> Self {
        let detail =
            "a kernel log's text: kills and faults, no restarts; from its first line to its last".into();
        KernelText {
            input,
            coverage: Coverage::new(host.clone(), "kernel_log", detail),
            host,
            names,
            calendar,
            decoder: Decoder::default(),
            piece: vec![0; PIECE],
            records: Vec::new(),
            tail: Vec::new(),
            out: Outcome::default(),
            begun: false,
            since_boot: false,
            units: None,
        }
    }

    /// Over the journal's JSON: what its entries of units tell is told too.
    pub fn journal(input: R, host: Arc<str>, names: Names, calendar: Calendar) -> Self {
        let units = Some(Units::new(host.clone()));
        KernelText { units, ..KernelText::new(input, host, names, calendar) }
    }

    /// Fills the buffer, as far as the reader gives.
    fn fill(&mut self) -> io::Result<usize> {
        let mut len = 0;
        while let Some(room) = self.piece.get_mut(len..).filter(|r| !r.is_empty()) {
            match self.input.read(room) {
                Ok(0) => break,
                Ok(n) => len += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(len)
    }

    /// The first line that tells a time: where the log begins.
    fn begin(&mut self, piece: &[u8]) {
        self.begun = true;
        for line in piece.split(|b| *b == b'\n').take(TRIED * 16) {
            if self.sample(line) {
                break;
            }
        }
    }

    /// Takes a line's time into what is covered. True if it tells one.
    fn sample(&mut self, line: &[u8]) -> bool {
        let stripped = strip(line);
        self.out.recognised |= stripped.time != LogTime::Unknown;
        self.since_boot |= matches!(stripped.time, LogTime::Boot(_));
        match self.calendar.place(stripped.time) {
            Ok(at) => {
                self.coverage.at(at);
                true
            }
            Err(_) => false,
        }
    }

    fn take(&mut self, len: usize, out: &mut Told) {
        let buffer = std::mem::take(&mut self.piece);
        let mut rest = buffer.get(..len).unwrap_or_default();
        self.out.lines += memchr::memchr_iter(b'\n', rest).count() as u64;
        self.keep_tail(rest);
        if let Some(units) = &mut self.units {
            units.feed(rest, out);
        }
        if !self.begun && self.calendar.boot.is_none() {
            self.calendar.reboot(anchor(rest));
        }
        while let Some(at) = next_boot(rest) {
            let (before, after) = rest.split_at(at);
            self.segment(before, out);
            if self.since_boot {
                self.reboot(after, out);
            }
            let line = memchr::memchr(b'\n', after).map_or(after.len(), |i| i + 1);
            let (line, after) = after.split_at(line);
            self.segment(line, out);
            rest = after;
        }
        self.segment(rest, out);
        self.piece = buffer;
    }

    fn keep_tail(&mut self, piece: &[u8]) {
        let open = match memchr::memrchr(b'\n', piece) {
            Some(i) => {
                self.tail.clear();
                piece.get(i + 1..).unwrap_or_default()
            }
            None => piece,
        };
        let room = TAIL.saturating_sub(self.tail.len()).min(open.len());
        self.tail.extend_from_slice(open.get(..room).unwrap_or_default());
    }

    /// Times since boot begin anew: what was known of the last boot holds no more.
    fn reboot(&mut self, piece: &[u8], out: &mut Told) {
        self.decoder.flush(&mut self.records);
        self.tell(out);
        self.calendar.reboot(anchor(piece));
    }

    fn segment(&mut self, piece: &[u8], out: &mut Told) {
        if piece.is_empty() {
            return;
        }
        if !self.begun {
            self.begin(piece);
        }
        self.decoder.feed(piece, &mut self.records);
        // The last whole line, or one near it, tells how far the log has come.
        let whole = memchr::memrchr(b'\n', piece).map_or(piece, |i| piece.get(..i).unwrap_or_default());
        for line in whole.rsplit(|b| *b == b'\n').take(TRIED) {
            if self.sample(line) {
                break;
            }
        }
        self.tell(out);
    }

    fn tell(&mut self, out: &mut Told) {
        for record in std::mem::take(&mut self.records) {
            self.out.recognised = true;
            match record {
                Record::Kill(k) => {
                    let (subject, by) = self.names.of_cgroup(k.cgroup.as_deref());
                    let (time, line) = (k.time, k.line.clone());
                    let fact = OomKill { attribution: Some(by.into()), ..OomKill::from(k) };
                    self.place(time, &line, &subject, fact.into(), out);
                }
                Record::Fault(f) => {
                    let (time, line) = (f.time, format!("{}[{}]: {}", f.process, f.pid, f.detail));
                    let (subject, by) = self.names.of_cgroup(None);
                    let fact = Segfault { attribution: Some(by.into()), ..Segfault::from(f) };
                    self.place(time, &line, &subject, fact.into(), out);
                }
                Record::Suppressed { time, by, count, line } => {
                    let fact = Issue {
                        source: Some("kernel_log".into()),
                        what: Some("suppressed".into()),
                        detail: Some(left_out(&by, count)),
                        count: Some(count),
                        sample: Some(line.clone()),
                    };
                    self.place(time, &line, "host:", fact.into(), out);
                }
                Record::Unreadable { line, .. } => {
                    self.out.unplaced.count("looks like a kill and cannot be read", &line);
                }
            }
        }
    }

    fn place(&mut self, time: LogTime, line: &str, subject: &str, fact: Fact, out: &mut Told) {
        match self.calendar.place(time) {
            Ok(at) => {
                self.coverage.at(at);
                out.push(Event::new(at, &self.host, subject, fact));
            }
            Err(why) => self.out.unplaced.count(why, line),
        }
    }

    fn end(&mut self, out: &mut Told) {
        let tail = std::mem::take(&mut self.tail);
        if !tail.is_empty() {
            self.out.lines += 1;
            self.sample(&tail);
        }
        self.decoder.finish(&mut self.records);
        self.tell(out);
        self.out.unplaced.add("a line longer than 64 KiB", self.decoder.too_long());
        self.coverage.end(out);
        if let Some(units) = &mut self.units {
            units.finish(self.coverage.span(), out);
        }
        self.out.covers = self.coverage.span();
        self.out.assumed = self.calendar.assumed();
    }
}

impl<R: Read> Input for KernelText<R> {
    fn step(&mut self, out: &mut Told) -> io::Result<bool> {
        let len = self.fill()?;
        if len == 0 {
            self.end(out);
            return Ok(false);
        }
        self.take(len, out);
        self.coverage.begin(out);
        Ok(true)
    }

    fn outcome(&mut self) -> Outcome {
        self.out.clone()
    }
}
