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
mod mains;
pub mod oom;
pub mod parse;
pub mod prefix;
mod text;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use linchpin_data::clock::Stamp;
use linchpin_data::event::{OomKill, Segfault};
use linchpin_data::{Event, Fact};
use nix::fcntl::OFlag;

use tokio::task::JoinSet;

use crate::readiness::readable;
use crate::source::{Roots, Sight, Source, SourceContext, SourceError};
use crate::sources::cgroup::files::cgroup_of;
use attribute::{Place, place, subject, subject_of};
use clock::LogClock;
use mains::Mains;
use parse::{Decoder, Record, left_out};
use prefix::{LogTime, kmsg_head};

/// Longest record that the kernel hands out is 8 KiB; a smaller buffer would be refused.
const RECORD: usize = 16 * 1024;
/// Kills and faults of this boot that are told at the first start, newest kept.
const HISTORY: usize = 1000;
/// A kill is held this long for the lines that say whether its group dies with it.
const QUIET: Duration = Duration::from_millis(20);
/// The runtime may enter a container later than the kernel kills in it.
const PATIENCE: Duration = Duration::from_secs(1);
/// Facts that wait for it at once; further ones are told without.
const WAITING: usize = 64;
/// The runtime's first list of containers is awaited this long.
const FILLING: Duration = Duration::from_secs(5);

/// The source over `/dev/kmsg`.
#[derive(Debug, Default)]
pub struct KernelLog {
    /// One more than the last sequence number told of by this process; 0 before the first.
    told: AtomicU64,
    /// One more than the last sequence number read by this process; 0 before the first.
    read: AtomicU64,
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
                () = cx.ended() => {
                    while reader.waiting.join_next().await.is_some() {}
                    return Ok(());
                }
                guard = file.readable() => Some(guard),
                change = reader.mains.changed() => {
                    reader.mains.take(change, &cx.roster, cx.clock.now().boot_ns);
                    continue;
                }
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
    /// Main processes of containers.
    mains: Mains,
    /// Facts whose subject the runtime may yet tell.
    waiting: JoinSet<()>,
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
            mains: Mains::new(&cx.roster),
            waiting: JoinSet::new(),
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
                    && head.seq > last.saturating_add(1)
                {
                    self.lost.push((head.seq - last - 1, head.seq));
                    self.decoder.gap(&mut self.records);
                } else if self.last_seq.is_none() {
                    self.first(head.seq, head.micros);
                }
                self.last_seq = Some(head.seq);
                self.source.read.store(head.seq.saturating_add(1), Ordering::Release);
            }
            self.decoder.line(line, &mut self.records);
        }
    }

    /// The oldest record there is: what lay between the last one read before and this one is lost.
    fn first(&mut self, seq: u64, micros: u64) {
        let (next, certain) = match (self.source.read.load(Ordering::Acquire), self.told) {
            // This process had read further, before the log had to be opened anew.
            (next, _) if next > 0 => (next, true),
            (_, Some(told)) => (told.saturating_add(1), false),
            _ => return,
        };
        // An earlier process had read on after the last kill that it told: how far, its last event's time bounds.
        let oldest = self.cx.stamp_of_boot(self.clock.boot_ns(micros)).at;
        if seq > next && (certain || self.remarks_after.is_none_or(|t| oldest > t)) {
            self.lost.push((seq - next, seq));
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
            self.one(cx, record, false).await;
        }
    }

    /// Tells what was just read.
    async fn tell(&mut self, cx: &SourceContext) {
        while self.waiting.try_join_next().is_some() {}
        self.told_lost(cx).await;
        for record in std::mem::take(&mut self.records) {
            self.one(cx, record, true).await;
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

    /// Tells one record, as soon as it is known whose it is.
    async fn one(&mut self, cx: &SourceContext, record: Record, live: bool) {
        match record {
            Record::Kill(kill) => {
                self.has_told(kill.seq);
                let fact = OomKill::from(kill.clone());
                let stamp = self.stamp(cx, kill.time);
                self.attributed(cx, kill.cgroup, kill.pid, live, stamp, move |attribution| {
                    OomKill { attribution: Some(attribution), ..fact }.into()
                })
                .await;
            }
            Record::Fault(fault) => {
                self.has_told(fault.seq);
                let cgroup = if live { cgroup_of_pid(&cx.roots.proc, fault.pid) } else { None };
                let (pid, time) = (fault.pid, fault.time);
                let fact = Segfault::from(fault);
                let stamp = self.stamp(cx, time);
                self.attributed(cx, cgroup, pid, live, stamp, move |attribution| {
                    Segfault { attribution: Some(attribution), ..fact }.into()
                })
                .await;
            }
            Record::Suppressed { time, by, count, line } => {
                let detail = left_out(&by, count);
                let issue = cx.issue("host:", "suppressed", count, detail, &line);
                cx.emit(self.dated(cx, issue, time)).await;
            }
            Record::Unreadable { time, line } => {
                let issue = cx.issue(
                    "host:",
                    "unreadable",
                    1,
                    "a line of the kernel log looks like a kill and cannot be read",
                    &line,
                );
                cx.emit(self.dated(cx, issue, time)).await;
            }
        }
    }

    /// Tells a fact about the subject that a cgroup or pid belongs to. Where the runtime may yet tell it better, that is
    /// awaited a moment beside the reading: later records may be told first.
    async fn attributed(
        &mut self,
        cx: &SourceContext,
        cgroup: Option<String>,
        pid: u64,
        live: bool,
        stamp: Stamp,
        fact: impl FnOnce(String) -> Fact + Send + 'static,
    ) {
        let wait = live && self.waiting.len() < WAITING;
        let finding: Finding = if let Some(path) = cgroup {
            let at = place(&path);
            let by = match at {
                Place::Nowhere => "the victim's cgroup is in no container and no unit",
                _ => "the victim's cgroup",
            };
            let known = match &at {
                Place::Container { id, .. } => cx.roster.by_prefix(id).map(|c| c.subject.to_string()),
                _ => Some(subject_of(&at)),
            };
            match known {
                Some(subject) => Finding::Known(subject, by),
                None => Finding::Container(at, by),
            }
        } else {
            self.mains.follow(&cx.roster, cx.clock.now().boot_ns);
            match self.mains.get(pid).filter(|_| live) {
                Some(subject) => Finding::Known(subject.to_string(), BY_PID),
                None => Finding::Pid,
            }
        };
        let waits = wait && !matches!(finding, Finding::Known(..));
        let changes = cx.roster.subscribe();
        let cx = cx.clone();
        let tell = async move {
            let patience = if wait { PATIENCE } else { Duration::ZERO };
            let (subject, by) = match finding {
                Finding::Known(subject, by) => (subject, by),
                Finding::Container(at, by) => (subject(&at, &cx.roster, patience).await, by),
                Finding::Pid if wait => match tokio::time::timeout(patience, mains::told(changes, pid)).await
                {
                    Ok(Some(subject)) => (subject.to_string(), BY_PID),
                    _ => ("host:".into(), BY_NOTHING),
                },
                Finding::Pid => ("host:".into(), BY_NOTHING),
            };
            let mut event = Event::new(stamp.at, &cx.host, &subject, fact(by.into()));
            event.boot_ns = Some(stamp.boot_ns);
            event.boot_id = Some(cx.boot_id.clone());
            cx.emit(event).await;
        };
        if waits {
            self.waiting.spawn(tell);
        } else {
            tell.await;
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
            self.source.told.fetch_max(seq.saturating_add(1), Ordering::AcqRel);
        }
    }

    fn stamp(&self, cx: &SourceContext, time: LogTime) -> Stamp {
        match time {
            LogTime::Boot(us) => cx.stamp_of_boot(self.clock.boot_ns(us)),
            LogTime::Wall(at) => cx.stamp_of_wall(at),
            LogTime::Local(_) | LogTime::Unknown => self.now,
        }
    }
}

/// What is known of a subject at first sight.
enum Finding {
    /// All.
    Known(String, &'static str),
    /// A container that the roster does not hold (yet).
    Container(Place, &'static str),
    /// Only the pid.
    Pid,
}

const BY_PID: &str = "the pid of a container's main process";
const BY_NOTHING: &str = "the log does not say which cgroup";

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
