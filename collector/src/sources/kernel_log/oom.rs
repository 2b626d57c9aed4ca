//! Kernel messages about memory that ran out, joined to kills. The kernel tells one kill in several lines that have
//! changed over its versions: who asked, whose limit, a table, and last the victim. Only the `Killed process` line says
//! who died; the lines before it are joined to it by its pid, or, on kernels whose lines carry none, by being the only
//! report under way. What cannot be joined for certain is left out. Pure: who the victim belongs to is
//! [`super::attribute`]'s.

use std::collections::VecDeque;

use linchpin_data::event::OomKill;

use super::prefix::LogTime;
use super::text::{COMM, after, find, number, rfind, shown};

/// Whose memory ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A cgroup reached its limit.
    Memcg,
    /// The machine (or its cpuset or memory policy) had none left.
    Host,
}

impl Scope {
    /// As events write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Memcg => "memcg",
            Scope::Host => "host",
        }
    }
}

/// One kill by the kernel for want of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kill {
    /// When the victim line was printed.
    pub time: LogTime,
    /// Its sequence number (raw records only).
    pub seq: Option<u64>,
    /// The victim.
    pub pid: u64,
    /// Its process name.
    pub process: String,
    /// Anonymous, file and shared memory at its death, in bytes.
    pub rss_bytes: Option<u64>,
    /// The victim's cgroup, where the log tells it for certain.
    pub cgroup: Option<String>,
    /// The cgroup whose limit was reached.
    pub limit_cgroup: Option<String>,
    /// That limit in bytes, where the report tells it for certain.
    pub limit_bytes: Option<u64>,
    /// Whose memory ran out, where the log tells.
    pub scope: Option<Scope>,
    /// The whole group was killed for it (memory.oom.group).
    pub group: bool,
    /// How many processes were killed in one go; the same pid printed twice counts once.
    pub members: u32,
    /// The victim line, shortened.
    pub line: String,
}

impl From<Kill> for OomKill {
    /// As an event tells it; whose process it was is left open.
    fn from(kill: Kill) -> OomKill {
        OomKill {
            cgroup: kill.cgroup,
            process: Some(kill.process),
            pid: Some(kill.pid),
            rss_bytes: kill.rss_bytes,
            limit_bytes: kill.limit_bytes,
            scope: kill.scope.map(|s| s.as_str().into()),
            group: Some(kill.group),
            by: Some("kernel_log".into()),
            kmsg_seq: kill.seq,
            line: Some(kill.line),
            ..OomKill::default()
        }
    }
}

/// How a message was printed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Printed {
    /// When.
    pub time: LogTime,
    /// Its sequence number.
    pub seq: Option<u64>,
    /// The thread that printed it.
    pub caller: Option<u32>,
}

/// Characters kept of a line, and of a cgroup path.
const LINE: usize = 400;
const PATH: usize = 1024;
/// Reports and pending victims that are remembered.
const OPEN: usize = 32;
/// A group is killed in one go: a victim line that comes later than this after the last one belongs to no group.
const GROUP_MICROS: i64 = 100_000;
/// A report is printed within this time and this many messages of ours, or its end was lost.
const REPORT_MICROS: i64 = 5_000_000;
const REPORT_MESSAGES: u64 = 64;
/// The same pid and name within this time is the same kill, printed twice.
const TWICE_MICROS: i64 = 1_000_000;

/// A report under way: from `invoked oom-killer` to its victim line.
#[derive(Debug, Default)]
struct Report {
    caller: Option<u32>,
    began: LogTime,
    /// Messages taken in before it began.
    began_at: u64,
    /// `Task in A killed as a result of limit of B` (kernels before 5.0).
    task_in: Option<(String, String)>,
    limit_bytes: Option<u64>,
    scope: Option<Scope>,
    /// Began while another was under way: lines without a pid may be either's.
    mixed: bool,
}

/// An `oom-kill:` line that waits for its victim line.
#[derive(Debug)]
struct Pending {
    pid: u64,
    scope: Scope,
    task_memcg: String,
    oom_memcg: Option<String>,
}

/// Joins messages to kills.
#[derive(Debug, Default)]
pub struct Joiner {
    open: VecDeque<Report>,
    pending: VecDeque<Pending>,
    /// The last kill, kept until it is clear whether its whole group dies.
    held: Option<Kill>,
    /// Pids and names of the last victims.
    last: VecDeque<(u64, String, LogTime)>,
    /// When the last line of a group kill under way was printed.
    group_at: Option<LogTime>,
    /// Messages taken in.
    taken: u64,
}

impl Joiner {
    /// Takes in one message. A kill comes out when the next message shows that it is complete, or with [`Joiner::flush`].
    /// False where the message looks like one of ours and cannot be read.
    pub fn take(&mut self, m: &[u8], by: Printed, out: &mut Vec<Kill>) -> bool {
        self.taken += 1;
        let taken = self.taken;
        // A report whose end was lost must not stand beside the next one for ever.
        self.open
            .retain(|r| taken - r.began_at <= REPORT_MESSAGES && within(by.time, r.began, REPORT_MICROS));
        if let Some(rest) = after(m, b"oom-kill:constraint=") {
            return self.constraint(rest);
        }
        if let Some(i) = find(m, b"Killed process ") {
            return self.victim(m, i, by, out);
        }
        if find(m, b" invoked oom-killer").is_some() {
            self.flush(out);
            self.begin(by);
        } else if let Some(i) = rfind(m, b" are going to be killed due to memory.oom.group set") {
            self.group(m.get(..i).unwrap_or_default(), by, out);
        } else if let Some(i) = find(m, b" killed as a result of limit of ") {
            self.task_in(m, i, by);
        } else if let Some(rest) = after(m, b"memory: usage ") {
            if let Some(report) = self.report(by.caller) {
                report.limit_bytes = after(rest, b"limit ").and_then(kilobytes);
            }
        } else if find(m, b"Kill process ").is_some() {
            // Who was scored, not who died; but whose memory ran out.
            let scope =
                if find(m, b"emory cgroup out of memory").is_some() { Scope::Memcg } else { Scope::Host };
            if let Some(report) = self.report(by.caller) {
                report.scope = Some(scope);
            }
        } else if find(m, b"no killable processes").is_some() {
            // Not a kill, and the end of its report.
            if let Some(at) = self.index(by.caller) {
                self.open.remove(at);
            }
        }
        true
    }

    /// Lets a kill go that waits for its group.
    pub fn flush(&mut self, out: &mut Vec<Kill>) {
        out.extend(self.held.take());
        self.group_at = None;
    }

    /// Whether a kill waits for its group.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.held.is_some()
    }

    /// Records were lost: lines that carry no pid can not be joined across the gap.
    pub fn gap(&mut self, out: &mut Vec<Kill>) {
        self.flush(out);
        self.open.clear();
    }

    fn begin(&mut self, by: Printed) {
        let caller = by.caller;
        // The same thread begins again: its last report was cut short.
        if caller.is_some() {
            self.open.retain(|r| r.caller != caller);
        }
        let told_apart = caller.is_some() && self.open.iter().all(|r| r.caller.is_some());
        let mixed = !self.open.is_empty() && !told_apart;
        if mixed {
            self.open.iter_mut().for_each(|r| r.mixed = true);
        }
        self.open.push_back(Report {
            caller,
            mixed,
            began: by.time,
            began_at: self.taken,
            ..Report::default()
        });
        if self.open.len() > OPEN {
            self.open.pop_front();
        }
    }

    /// The report that a line without a pid belongs to: that of the thread which printed it, or the only one.
    fn index(&self, caller: Option<u32>) -> Option<usize> {
        if caller.is_some()
            && let Some(i) = self.open.iter().position(|r| r.caller == caller)
        {
            return Some(i);
        }
        (self.open.len() == 1).then_some(0)
    }

    fn report(&mut self, caller: Option<u32>) -> Option<&mut Report> {
        let i = self.index(caller)?;
        self.open.get_mut(i).filter(|r| !r.mixed)
    }

    fn task_in(&mut self, m: &[u8], at: usize, by: Printed) {
        let told = m.get(..at).and_then(|head| after(head, b"Task in "));
        let limit = m.get(at..).and_then(|tail| after(tail, b" limit of "));
        let (Some(a), Some(b)) = (told, limit) else { return };
        let paths = (shown(a, PATH), shown(b.trim_ascii_end(), PATH));
        // A second one in one report: the first report's end was lost, and which is whose is not known.
        if let Some(report) = self.report(by.caller) {
            if report.task_in.as_ref().is_some_and(|old| *old != paths) {
                report.mixed = true;
            }
            report.task_in = Some(paths);
        } else if self.open.is_empty() {
            // The head of the report was lost or came before the log began.
            self.open.push_back(Report {
                caller: by.caller,
                began: by.time,
                began_at: self.taken,
                task_in: Some(paths),
                ..Report::default()
            });
        }
    }

    /// `CONSTRAINT_MEMCG,nodemask=(null),cpuset=…,mems_allowed=0-2,4,oom_memcg=/A,task_memcg=/B,task=NAME,pid=1,uid=0`:
    /// values hold commas, so each is cut at the fixed text after it.
    fn constraint(&mut self, rest: &[u8]) -> bool {
        let read = || {
            let head = rest.get(..rfind(rest, b",uid=")?)?;
            let at = rfind(head, b",pid=")?;
            let (pid, _) = number(head.get(at + 5..)?)?;
            let head = head.get(..at)?;
            // The name is at most 15 bytes long and may itself hold `,task=`: the first mark that leaves so little.
            let from = head.len().saturating_sub(COMM + 6);
            let near = find(head.get(from..)?, b",task=").map(|i| from + i);
            let cut = near.or_else(|| rfind(head, b",task="))?;
            let head = head.get(..cut)?;
            let at = find(head, b",task_memcg=")?;
            let task_memcg = shown(head.get(at + 12..)?, PATH);
            let oom_memcg = head.get(..at).and_then(|h| after(h, b",oom_memcg=")).map(|p| shown(p, PATH));
            let scope = if rest.starts_with(b"CONSTRAINT_MEMCG") { Scope::Memcg } else { Scope::Host };
            Some(Pending { pid, scope, task_memcg, oom_memcg })
        };
        let Some(pending) = read() else { return false };
        self.pending.retain(|p| p.pid != pending.pid);
        self.pending.push_back(pending);
        if self.pending.len() > OPEN {
            self.pending.pop_front();
        }
        true
    }

    /// `Tasks in /x are going to be killed due to memory.oom.group set`, printed after the first victim's line.
    fn group(&mut self, head: &[u8], by: Printed, out: &mut Vec<Kill>) {
        let Some(path) = after(head, b"Tasks in ").map(|p| shown(p, PATH)) else { return };
        match &mut self.held {
            Some(kill)
                if within(by.time, kill.time, GROUP_MICROS)
                    && kill.cgroup.as_ref().is_none_or(|c| inside(c, &path)) =>
            {
                kill.group = true;
                kill.cgroup.get_or_insert(path);
                self.group_at = Some(by.time);
            }
            _ => {
                // The first victim's line was lost: the next one stands for the group.
                self.flush(out);
                self.pending.retain(|p| p.pid != 0);
                self.pending.push_back(Pending {
                    pid: 0,
                    scope: Scope::Memcg,
                    task_memcg: path,
                    oom_memcg: None,
                });
                self.group_at = Some(by.time);
            }
        }
    }

    fn victim(&mut self, m: &[u8], at: usize, by: Printed, out: &mut Vec<Kill>) -> bool {
        let Some((pid, process, rss_bytes)) = m.get(at + 15..).and_then(victim_line) else { return false };
        let process = shown(process, 64);
        let pending = self.pending.iter().position(|p| p.pid == pid).and_then(|i| self.pending.remove(i));
        let twice = |(p, name, time): &(u64, String, LogTime)| {
            *p == pid && *name == process && within(by.time, *time, TWICE_MICROS)
        };
        let again = pending.is_none() && self.last.iter().any(twice);
        if let (Some(group_at), None) = (self.group_at, &pending)
            && within(by.time, group_at, GROUP_MICROS)
            && let Some(kill) = &mut self.held
        {
            self.group_at = Some(by.time);
            if !again {
                kill.members += 1;
                self.remember(pid, process, by.time);
            }
            return true;
        }
        if again {
            return true;
        }
        let orphan_group =
            self.group_at.filter(|g| pending.is_none() && within(by.time, *g, GROUP_MICROS)).is_some();
        self.flush(out);
        let report = self.close(by.caller);
        let head = m.get(..at).unwrap_or_default();
        let scope = if find(head, b"emory cgroup out of memory").is_some() {
            Some(Scope::Memcg)
        } else if find(head, b"ut of memory").is_some() {
            Some(Scope::Host)
        } else {
            None
        };
        let mut kill = Kill {
            time: by.time,
            seq: by.seq,
            pid,
            process: process.clone(),
            rss_bytes,
            cgroup: None,
            limit_cgroup: None,
            limit_bytes: None,
            scope,
            group: orphan_group,
            members: 1,
            line: shown(m, LINE),
        };
        let pending = match pending {
            None if orphan_group => {
                self.pending.iter().position(|p| p.pid == 0).and_then(|i| self.pending.remove(i))
            }
            found => found,
        };
        if orphan_group {
            self.group_at = Some(by.time);
        }
        if let Some(p) = pending {
            kill.scope = Some(p.scope);
            kill.cgroup = Some(p.task_memcg);
            kill.limit_cgroup = p.oom_memcg;
        } else if let Some((a, b)) = report.task_in {
            kill.cgroup = Some(a);
            kill.limit_cgroup = Some(b);
            kill.scope = kill.scope.or(Some(Scope::Memcg));
        }
        // Bare victim lines: the report says whose memory ran out, if there was one.
        kill.scope = kill.scope.or(report.scope);
        if kill.scope != Some(Scope::Host) {
            kill.limit_bytes = report.limit_bytes;
        }
        self.remember(pid, process, by.time);
        self.held = Some(kill);
        true
    }

    /// Ends the report that a victim line ends; its facts, if they are its own for certain.
    fn close(&mut self, caller: Option<u32>) -> Report {
        let at = self.index(caller);
        // Where several are under way and none is the printer's, the oldest is taken to end; all of them are mixed.
        let report = self.open.remove(at.unwrap_or(0)).unwrap_or_default();
        if report.mixed || at.is_none() { Report::default() } else { report }
    }

    fn remember(&mut self, pid: u64, process: String, time: LogTime) {
        self.last.push_back((pid, process, time));
        if self.last.len() > 256 {
            self.last.pop_front();
        }
    }
}

/// Whether two lines were printed within `micros` of each other; lines without comparable times are taken to be. Calendar
/// times are mostly whole seconds, so a second is the least that can be asked of them.
fn within(later: LogTime, earlier: LogTime, micros: i64) -> bool {
    let micros = if matches!(later, LogTime::Boot(_)) { micros } else { micros.max(1_000_000) };
    later.micros_since(earlier).is_none_or(|d| d.unsigned_abs() <= micros.unsigned_abs())
}

/// Whether a cgroup is `parent` or lies below it.
fn inside(path: &str, parent: &str) -> bool {
    path.strip_prefix(parent.trim_end_matches('/'))
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// `16384kB` as bytes.
fn kilobytes(text: &[u8]) -> Option<u64> {
    let (n, rest) = number(text)?;
    // An unlimited cgroup shows the largest page count there is.
    if !rest.starts_with(b"kB") || n >= 1 << 52 {
        return None;
    }
    n.checked_mul(1024)
}

/// `28438 (java) total-vm:…`, `8642, UID 0, (python) total-vm:…`, `3112 (java), UID 1000, total-vm:…`, `77 (sh) vsz:…`.
fn victim_line(rest: &[u8]) -> Option<(u64, &[u8], Option<u64>)> {
    let (pid, rest) = number(rest)?;
    let open = rest.iter().take(24).position(|b| *b == b'(')?;
    let before = rest.get(..open)?;
    if !(before == b" " || before.starts_with(b", UID ")) {
        return None;
    }
    let rest = rest.get(open + 1..)?;
    // The last such mark: what comes after the name is the kernel's own text, what comes before may be anything.
    let fixed: [&[u8]; 4] = [b") total-vm:", b"), UID ", b") vsz:", b") score "];
    let cut = fixed.iter().filter_map(|mark| rfind(rest, mark)).max();
    let cut = cut.or_else(|| rest.trim_ascii_end().ends_with(b")").then(|| rfind(rest, b")"))?)?;
    let memory = rest.get(cut..)?;
    let part = |name: &[u8]| after(memory, name).and_then(kilobytes);
    let anon = part(b"anon-rss:");
    let total =
        [anon, part(b"file-rss:"), part(b"shmem-rss:")].into_iter().flatten().fold(0u64, u64::saturating_add);
    Some((pid, rest.get(..cut)?, anon.map(|_| total)))
}
