//! The kernel log, `/dev/kmsg`: who was killed because memory ran out, and who met a memory fault.
//!
//! This file is the transport: it opens the log, reads records as the kernel wakes it, notices lost ones, gives each its
//! time and hands the text to the pure parser ([`parse`], over [`prefix`], [`oom`] and [`fault`]). Whose process it was is
//! [`attribute`]'s. The kernel keeps the log while nobody reads: after a start it is read from its beginning, and what was
//! told before (by sequence number within this boot) is not told again.

pub mod attribute;
pub mod civil;
mod clock;
pub mod fault;
pub mod oom;
pub mod parse;
pub mod prefix;
mod text;

use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use linchpin_data::Event;
use linchpin_data::clock::Stamp;
use linchpin_data::event::{OomKill, Segfault};
use nix::fcntl::OFlag;

use crate::readiness::readable;
use crate::source::{Roots, Sight, Source, SourceContext, SourceError};
use crate::sources::cgroup::files::cgroup_of;
use attribute::{Place, place, subject, subject_of};
use clock::LogClock;
use parse::{Decoder, Record};
use prefix::{LogTime, kmsg_head};

/// Longest record that the kernel hands out is 8 KiB; a smaller buffer would be refused.
const RECORD: usize = 16 * 1024;
/// Kills and faults of this boot that are told at the first start, newest kept.
const HISTORY: usize = 1000;
/// A kill is held this long for the lines that say whether its group dies with it.
const QUIET: Duration = Duration::from_millis(20);
/// The runtime may enter a container later than the kernel kills in it.
const PATIENCE: Duration = Duration::from_secs(1);
/// The runtime's first list of containers is awaited this long.
const FILLING: Duration = Duration::from_secs(5);

/// The source over `/dev/kmsg`.
#[derive(Debug, Default)]
pub struct KernelLog {
    /// One more than the last sequence number told of by this process; 0 before the first.
    told: AtomicU64,
}

/// For the registry.
pub fn source() -> Box<dyn Source> {
    Box::<KernelLog>::default()
}

fn open(path: &Path) -> Result<File, std::io::Error> {
    std::fs::OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)
}

fn grant(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "run where /dev/kmsg is (a container needs `--device /dev/kmsg`)".into(),
        _ => "grant CAP_SYSLOG, or `sysctl kernel.dmesg_restrict=0` with read access to /dev/kmsg".into(),
    }
}

#[async_trait]
impl Source for KernelLog {
    fn name(&self) -> &'static str {
        "kernel_log"
    }

    fn sees(&self) -> &'static str {
        "OOM kills, segfaults and traps as the kernel logs them, with the victim's container"
    }

    async fn run(&self, cx: SourceContext) -> Result<(), SourceError> {
        let path = cx.roots.kmsg.clone();
        let what = format!("read the kernel log {}", path.display());
        let file = open(&path).map_err(|e| SourceError::Unavailable {
            what: what.clone(),
            why: format!("{e}; {}", grant(&e)),
        })?;
        let lost = |e: std::io::Error| SourceError::Lost { what: what.clone(), why: e.to_string() };
        cx.watching("opened", "OOM kills, segfaults and traps of this boot, each with its own time").await;
        tokio::select! {
            _ = cx.roster.filled(FILLING) => {}
            () = cx.ended() => return Ok(()),
        }
        let mut reader = Reader::new(&cx, self);
        let regular = file.metadata().is_ok_and(|m| m.is_file());
        reader.drain(file.as_fd(), false).map_err(lost)?;
        reader.history(&cx).await;
        if regular {
            // A recorded log has an end.
            cx.ended().await;
            return Ok(());
        }
        let file = readable(file.into()).map_err(lost)?;
        loop {
            let woken = tokio::select! {
                () = cx.ended() => return Ok(()),
                guard = file.readable() => Some(guard),
                () = tokio::time::sleep(QUIET), if reader.decoder.holds() => None,
            };
            match woken {
                Some(guard) => {
                    let mut guard = guard.map_err(lost)?;
                    let more = reader.drain(file.as_fd(), true).map_err(lost)?;
                    if !more {
                        guard.clear_ready();
                    }
                }
                None => reader.decoder.flush(&mut reader.records),
            }
            reader.tell(&cx).await;
        }
    }

    async fn sight(&self, roots: &Roots) -> Sight {
        let readable = open(&roots.kmsg).and_then(|mut f| match f.read(&mut [0u8; RECORD]) {
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::BrokenPipe) => Ok(()),
            other => other.map(drop),
        });
        match readable {
            Ok(()) => Sight::Works { detail: format!("{} is readable", roots.kmsg.display()) },
            Err(e) => Sight::Blind { missing: format!("{}: {e}", roots.kmsg.display()), grant: grant(&e) },
        }
    }
}

/// What is known between two reads.
struct Reader<'a> {
    source: &'a KernelLog,
    decoder: Decoder,
    clock: LogClock,
    records: Vec<Record>,
    /// A line whose end has not come yet (pipes only).
    rest: Vec<u8>,
    /// Lost records: how many, and the number of the first that came after them.
    lost: Vec<(u64, u64)>,
    last_seq: Option<u64>,
    /// Records at or below this number have been told of.
    told: Option<u64>,
    /// Remarks of the log about itself at or before this moment have been told of.
    remarks_after: Option<linchpin_data::Timestamp>,
    /// Containers that the roster was asked for in vain.
    unknown: HashSet<String>,
    now: Stamp,
    cx: SourceContext,
}

impl<'a> Reader<'a> {
    fn new(cx: &SourceContext, source: &'a KernelLog) -> Self {
        let same_boot = cx.resume.boot_id.as_ref() == Some(&cx.boot_id);
        let resumed = cx.resume.kmsg_seq.filter(|_| same_boot);
        let told = source.told.load(Ordering::Acquire).checked_sub(1).max(resumed);
        Reader {
            source,
            decoder: Decoder::default(),
            clock: LogClock::default(),
            records: Vec::new(),
            rest: Vec::new(),
            lost: Vec::new(),
            last_seq: None,
            told,
            remarks_after: cx.resume.last_at.filter(|_| same_boot),
            unknown: HashSet::new(),
            now: cx.clock.now(),
            cx: cx.clone(),
        }
    }

    /// Reads what there is, a bounded number of records. True if there may be more.
    fn drain(&mut self, file: BorrowedFd<'_>, live: bool) -> std::io::Result<bool> {
        let mut buffer = vec![0u8; RECORD];
        let mut rest = std::mem::take(&mut self.rest);
        let most = if live { 4096 } else { usize::MAX };
        for _ in 0..most {
            match nix::unistd::read(file, &mut buffer).map_err(std::io::Error::from) {
                // A recorded log ends; the kernel's never does, and a pipe's end would be readable for ever.
                Ok(0) if live => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(0) => {
                    self.piece(&rest, live);
                    return Ok(false);
                }
                Ok(n) => {
                    rest.extend_from_slice(buffer.get(..n).unwrap_or_default());
                    // The kernel gives one whole record a read; a file or a pipe gives any number, cut anywhere.
                    let whole = rest.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
                    let tail = rest.split_off(whole);
                    self.piece(&rest, live);
                    rest = if tail.len() > RECORD { Vec::new() } else { tail };
                    self.shrink();
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    self.rest = rest;
                    return Ok(false);
                }
                // Overrun: the next read goes on with the oldest record there is; its number tells how many are lost.
                Err(e) if matches!(e.kind(), ErrorKind::BrokenPipe | ErrorKind::Interrupted) => {}
                Err(e) => return Err(e),
            }
        }
        self.rest = rest;
        Ok(true)
    }

    /// Whole lines. Continuation lines (` KEY=value`) begin with a blank and tell nothing of ours.
    fn piece(&mut self, lines: &[u8], live: bool) {
        self.now = self.cx.clock.now();
        for line in lines.split(|b| *b == b'\n').filter(|l| !l.is_empty() && l.first() != Some(&b' ')) {
            if let Some(head) = kmsg_head(line) {
                self.clock.observe(self.now.boot_ns, head.micros, live);
                if let Some(last) = self.last_seq
                    && head.seq > last + 1
                {
                    self.lost.push((head.seq - last - 1, head.seq));
                    self.decoder.gap(&mut self.records);
                } else if self.last_seq.is_none() {
                    self.first(head.seq, head.micros);
                }
                self.last_seq = Some(head.seq);
            }
            self.decoder.line(line, &mut self.records);
        }
    }

    /// The oldest record there is: what lay between the last one read before and this one is lost.
    fn first(&mut self, seq: u64, micros: u64) {
        let Some(told) = self.told else { return };
        let oldest = self.cx.stamp_of_boot(self.clock.boot_ns(micros)).at;
        if seq > told + 1 && self.remarks_after.is_none_or(|t| oldest > t) {
            self.lost.push((seq - told - 1, seq));
        }
    }

    /// Keeps the history bounded while it is read.
    fn shrink(&mut self) {
        if self.records.len() > 4 * HISTORY {
            let extra = self.records.len() - HISTORY;
            self.records.drain(..extra);
        }
    }

    /// Tells what the log held before now.
    async fn history(&mut self, cx: &SourceContext) {
        self.decoder.flush(&mut self.records);
        let told = self.told;
        let seen = self.remarks_after;
        let clock = &self.clock;
        let new = |r: &Record| match r {
            Record::Kill(k) => told.is_none_or(|t| k.seq.is_none_or(|s| s > t)),
            Record::Fault(f) => told.is_none_or(|t| f.seq.is_none_or(|s| s > t)),
            Record::Suppressed { time, .. } | Record::Unreadable { time, .. } => match (time, seen) {
                (LogTime::Boot(us), Some(seen)) => cx.stamp_of_boot(clock.boot_ns(*us)).at > seen,
                _ => true,
            },
        };
        let mut new: VecDeque<Record> = std::mem::take(&mut self.records).into_iter().filter(new).collect();
        let extra = new.len().saturating_sub(HISTORY);
        new.drain(..extra);
        self.told_lost(cx).await;
        for record in new {
            let event = self.event(cx, &record, false).await;
            cx.emit(event).await;
        }
    }

    /// Tells what was just read.
    async fn tell(&mut self, cx: &SourceContext) {
        self.told_lost(cx).await;
        for record in std::mem::take(&mut self.records) {
            let event = self.event(cx, &record, true).await;
            cx.emit(event).await;
        }
    }

    async fn told_lost(&mut self, cx: &SourceContext) {
        for (count, seq) in std::mem::take(&mut self.lost) {
            let detail = format!(
                "the kernel log was overwritten before it was read: {count} records before number {seq} are lost, and kills among them; \
                 a larger log (kernel parameter `log_buf_len`) keeps more"
            );
            cx.emit(cx.issue("host:", "overrun", count, detail, "")).await;
        }
    }

    async fn event(&mut self, cx: &SourceContext, record: &Record, live: bool) -> Event {
        match record {
            Record::Kill(kill) => {
                let (subject, attribution) = self.whose(cx, kill.cgroup.as_deref(), kill.pid, live).await;
                self.has_told(kill.seq);
                let fact = OomKill {
                    cgroup: kill.cgroup.clone(),
                    process: Some(kill.process.clone()),
                    pid: Some(kill.pid),
                    rss_bytes: kill.rss_bytes,
                    limit_bytes: kill.limit_bytes,
                    scope: kill.scope.map(|s| s.as_str().into()),
                    group: Some(kill.group),
                    by: Some("kernel_log".into()),
                    kmsg_seq: kill.seq,
                    line: Some(kill.line.clone()),
                    attribution: Some(attribution),
                    ..OomKill::default()
                };
                cx.event_at(self.stamp(cx, kill.time), &subject, fact)
            }
            Record::Fault(fault) => {
                let cgroup = if live { cgroup_of_pid(&cx.roots.proc, fault.pid) } else { None };
                let (subject, attribution) = self.whose(cx, cgroup.as_deref(), fault.pid, live).await;
                self.has_told(fault.seq);
                let fact = Segfault {
                    process: Some(fault.process.clone()),
                    pid: Some(fault.pid),
                    detail: Some(fault.detail.clone()),
                    kmsg_seq: fault.seq,
                    attribution: Some(attribution),
                };
                cx.event_at(self.stamp(cx, fault.time), &subject, fact)
            }
            Record::Suppressed { time, by, count, line } => {
                let detail = format!(
                    "the kernel left out {count} reports of {by}: kills or faults may be missing, or lack their cgroup"
                );
                let issue = cx.issue("host:", "suppressed", *count, detail, line);
                self.dated(cx, issue, *time)
            }
            Record::Unreadable { time, line } => {
                let issue = cx.issue(
                    "host:",
                    "unreadable",
                    1,
                    "a line of the kernel log looks like a kill and cannot be read",
                    line,
                );
                self.dated(cx, issue, *time)
            }
        }
    }

    fn dated(&self, cx: &SourceContext, mut issue: Event, time: LogTime) -> Event {
        let stamp = self.stamp(cx, time);
        issue.at = stamp.at;
        issue.boot_ns = Some(stamp.boot_ns);
        issue
    }

    fn has_told(&self, seq: Option<u64>) {
        if let Some(seq) = seq {
            self.source.told.fetch_max(seq + 1, Ordering::AcqRel);
        }
    }

    fn stamp(&self, cx: &SourceContext, time: LogTime) -> Stamp {
        match time {
            LogTime::Boot(us) => cx.stamp_of_boot(self.clock.boot_ns(us)),
            LogTime::Wall(at) => cx.stamp_of_wall(at),
            LogTime::Local(_) | LogTime::Unknown => self.now,
        }
    }

    /// The subject, and by what it was found.
    async fn whose(
        &mut self,
        cx: &SourceContext,
        cgroup: Option<&str>,
        pid: u64,
        live: bool,
    ) -> (String, String) {
        if let Some(path) = cgroup {
            let at = place(path);
            let patience = match &at {
                Place::Container { id, .. } if live && !self.unknown.contains(id) => PATIENCE,
                _ => Duration::ZERO,
            };
            let found = subject(&at, &cx.roster, patience).await;
            if let Place::Container { id, .. } = &at
                && found == subject_of(&at)
                && self.unknown.len() < HISTORY
            {
                self.unknown.insert(id.clone());
            }
            let by = if at == Place::Nowhere {
                "the victim's cgroup is in no container and no unit"
            } else {
                "the victim's cgroup"
            };
            return (found, by.into());
        }
        let main =
            || cx.roster.all().into_iter().find(|c| c.running && c.pid.is_some_and(|p| u64::from(p) == pid));
        match live.then(main).flatten() {
            Some(container) => {
                (container.subject.to_string(), "the pid of a container's main process".into())
            }
            None => ("host:".into(), "the log does not say which cgroup".into()),
        }
    }
}

/// The cgroup of a process, if it is still there.
fn cgroup_of_pid(proc: &Path, pid: u64) -> Option<String> {
    let mut text = String::new();
    File::open(proc.join(pid.to_string()).join("cgroup"))
        .ok()?
        .take(64 * 1024)
        .read_to_string(&mut text)
        .ok()?;
    cgroup_of(&text)
}
