//! Kernel messages about processes that were ended for a memory fault or a trap. Pure; whose process it was is
//! [`super::attribute`]'s.

use linchpin_data::event::Segfault;

use super::oom::Printed;
use super::prefix::LogTime;
use super::text::{COMM, find, shown};

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// When the line was printed.
    pub time: LogTime,
    /// Its sequence number (raw records only).
    pub seq: Option<u64>,
    /// The process (the host's view).
    pub pid: u64,
    /// Its name.
    pub process: String,
    /// `segfault at …`, `general protection fault ip:…`, `trap invalid opcode …`, shortened.
    pub detail: String,
}

impl From<Fault> for Segfault {
    /// As an event tells it; whose process it was is left open.
    fn from(fault: Fault) -> Segfault {
        Segfault {
            process: Some(fault.process),
            pid: Some(fault.pid),
            detail: Some(fault.detail),
            kmsg_seq: fault.seq,
            attribution: None,
        }
    }
}

/// What stands right after `NAME[pid]` in such lines.
const MARKS: [&[u8]; 5] =
    [b"]: segfault at ", b"] general protection", b"] trap ", b"]: unhandled ", b"]: bad frame in "];

/// Reads `NAME[pid]: segfault at …`, `traps: NAME[pid] general protection fault ip:…`, `traps: NAME[pid] trap divide
/// error ip:…`. None for every other message.
#[must_use]
pub fn fault(m: &[u8], by: Printed) -> Option<Fault> {
    let (name, pid, detail) = MARKS.iter().find_map(|mark| split(m, mark))?;
    let detail = shown(detail.strip_prefix(b": ").or(detail.strip_prefix(b" ")).unwrap_or(detail), 300);
    Some(Fault { time: by.time, seq: by.seq, pid, process: shown(name, 64), detail })
}

/// Name, pid and what follows the pid. A name may hold such a mark itself: of several the last whose name is short enough
/// to be one counts, else the first.
fn split<'a>(m: &'a [u8], mark: &[u8]) -> Option<(&'a [u8], u64, &'a [u8])> {
    let mut found = None;
    let mut from = 0;
    while let Some(i) = m.get(from..).and_then(|rest| find(rest, mark)).map(|i| i + from) {
        from = i + 1;
        let head = m.get(..i)?;
        let open = head.iter().rposition(|b| *b == b'[');
        let parsed = open.and_then(|open| {
            let digits = std::str::from_utf8(head.get(open + 1..)?)
                .ok()
                .filter(|d| d.bytes().all(|b| b.is_ascii_digit()))?;
            let name = head.get(..open)?;
            Some((name.strip_prefix(b"traps: ").unwrap_or(name), digits.parse().ok()?, m.get(i + 1..)?))
        });
        if let Some(p) = parsed
            && (found.is_none() || p.0.len() <= COMM)
        {
            found = Some(p);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_many_kernels() {
        type Told<'a> = Option<(&'a str, u64, &'a str)>;
        let table: &[(&str, Told<'_>)] = &[
            (
                "tick[4711]: segfault at 0 ip 0000000000401136 sp 00007ffd error 6 in tick[401000+1000] likely on CPU 1 (core 1, socket 0)",
                Some((
                    "tick",
                    4711,
                    "segfault at 0 ip 0000000000401136 sp 00007ffd error 6 in tick[401000+1000] likely on CPU 1 (core 1, socket 0)",
                )),
            ),
            (
                "traps: edge[120] general protection fault ip:7f31c1d2b33d sp:7ffc0bd0 error:0 in libc.so.6[7f31c1cae000+195000]",
                Some((
                    "edge",
                    120,
                    "general protection fault ip:7f31c1d2b33d sp:7ffc0bd0 error:0 in libc.so.6[7f31c1cae000+195000]",
                )),
            ),
            (
                "traps: edge[120] general protection ip:7f31c1d2b33d sp:7ffc0bd0 error:0 in libc.so.6[7f31c1cae000+195000]",
                Some((
                    "edge",
                    120,
                    "general protection ip:7f31c1d2b33d sp:7ffc0bd0 error:0 in libc.so.6[7f31c1cae000+195000]",
                )),
            ),
            (
                "traps: my app[9] trap invalid opcode ip:55aa sp:7ffc error:0 in my app[55aa+1000]",
                Some(("my app", 9, "trap invalid opcode ip:55aa sp:7ffc error:0 in my app[55aa+1000]")),
            ),
            (
                "traps: a[7] trap divide error ip:1 sp:2 error:0",
                Some(("a", 7, "trap divide error ip:1 sp:2 error:0")),
            ),
            (
                "runc:[2:INIT][88]: segfault at 10 ip 1 sp 2 error 4",
                Some(("runc:[2:INIT]", 88, "segfault at 10 ip 1 sp 2 error 4")),
            ),
            ("traps: a[1] trap b[77] trap int3 ip:1", Some(("a[1] trap b", 77, "trap int3 ip:1"))),
            (
                "worker[55]: unhandled level 2 translation fault (11) at 0x00000000, esr 0x92000006",
                Some((
                    "worker",
                    55,
                    "unhandled level 2 translation fault (11) at 0x00000000, esr 0x92000006",
                )),
            ),
            ("show_signal_msg: 12 callbacks suppressed", None),
            ("x[notanumber]: segfault at 0", None),
            ("]: segfault at ", None),
        ];
        for (line, want) in table {
            let got = fault(line.as_bytes(), Printed::default());
            assert_eq!(got.as_ref().map(|f| (&*f.process, f.pid, &*f.detail)), *want, "{line}");
        }
    }
}
