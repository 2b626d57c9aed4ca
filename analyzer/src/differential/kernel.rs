//! What only the kernel can say: a memory fault, a kill at the subject's own limit, a host that ran out.

use super::{Case, latest, ruling, share};
use crate::fact::{Fact, What};
use crate::report::diagnosis::{Ruled, Ruling};
use crate::sentence::{bytes, signal_of_code};

/// A trap this close to an exit explains it, in nanoseconds.
const TRAP_NS: u64 = 2_000_000_000;

/// A memory fault. An abort of a container's first process ends like one (the kernel ignores SIGABRT for it, and the C library falls
/// through to a general protection fault), and is none.
pub fn segfault(case: &Case<'_>) -> Ruling {
    const WHAT: &str = "segfault";
    let traps: Vec<(&Fact, bool)> = traps(case);
    let near = |protection: bool| {
        let explained = case
            .restarts
            .iter()
            .filter(|r| traps.iter().any(|(f, p)| *p == protection && f.axis.0.abs_diff(r.at.0) <= TRAP_NS));
        explained.count()
    };
    let quoted = |protection: bool| {
        let of = traps.iter().filter(|(_, p)| *p == protection);
        latest(of.filter_map(|(f, _)| Some(f.evidence("kernel log", detail(f)?.to_string()))).collect())
    };
    let (faults, aborts) = (near(false), near(true));
    if faults > 0 {
        let sentence = format!("a segfault: the kernel log has a record at {}", share(faults, case.n()));
        return ruling(WHAT, Ruled::In, faults, sentence, quoted(false));
    }
    let watched = case.watched(&["kernel_log"]);
    if watched < case.n() {
        return case.blind(WHAT, watched, "the kernel log");
    }
    let codes = case.codes();
    let told = if codes.is_empty() { "no exit code told".to_string() } else { codes };
    // Each exit that looks like a memory fault needs a record of its own.
    let bare = case.restarts.iter().filter(|r| {
        r.exit.signal.or(signal_of_code(r.exit.code)) == Some(11)
            && !traps.iter().any(|(f, _)| f.axis.0.abs_diff(r.at.0) <= TRAP_NS)
    });
    let bare = bare.count();
    if bare > 0 {
        let rest = if aborts > 0 {
            format!("; {} were aborts by its record", share(aborts, case.n()))
        } else {
            String::new()
        };
        let sentence = format!(
            "open: {told} says SIGSEGV at {}, and the kernel log, which was watched, has no record of that{rest}",
            share(bare, case.n())
        );
        return ruling(WHAT, Ruled::Open, 0, sentence, case.exits(&case.restarts));
    }
    if aborts > 0 {
        let sentence = format!(
            "not a segfault: at {} the kernel's record is a general protection fault, which is how an abort (a panic, an \
             assertion) ends a container's first process; {told}",
            share(aborts, case.n())
        );
        return ruling(WHAT, Ruled::Out, 0, sentence, quoted(true));
    }
    let sentence = format!("not a segfault: no kernel record, {told}");
    ruling(WHAT, Ruled::Out, 0, sentence, case.exits(&case.restarts))
}

/// The traps in the window, and whether each is a general protection fault.
fn traps<'a>(case: &'a Case<'_>) -> Vec<(&'a Fact, bool)> {
    let w = case.view.window;
    let facts = case.subject.facts().iter().filter(|f| w.contains(f.axis) || f.axis == w.to);
    facts.filter_map(|f| Some((f, detail(f)?.contains("general protection")))).collect()
}

fn detail(fact: &Fact) -> Option<&str> {
    match &fact.what {
        What::Segfault(detail) => Some(detail),
        _ => None,
    }
}

/// Its own memory limit, with what it used of it.
pub fn own_ceiling(case: &Case<'_>) -> Ruling {
    const WHAT: &str = "own memory ceiling";
    let used = case.pressure.and_then(|p| Some((p.peak_bytes?, p.limit_bytes?)));
    let used = used.map(|(peak, limit)| format!("{} used of {}", bytes(peak), bytes(limit)));
    let killed = case.of(WHAT);
    if !killed.is_empty() {
        let limit = case.pressure.and_then(|p| p.limit_bytes).map(bytes);
        let limit = limit.map(|l| format!(" of {l}")).unwrap_or_default();
        let sentence = format!(
            "killed at its own limit{limit}: {} have the kernel's record",
            share(killed.len(), case.n())
        );
        let quoted = case.kills(killed.iter().copied(), false);
        return ruling(WHAT, Ruled::In, killed.len(), sentence, quoted);
    }
    let watched = case.watched(&["kernel_log", "cgroup"]);
    if watched < case.n() {
        return case.blind(WHAT, watched, "the kernel's word on memory (its log, the cgroup's counters)");
    }
    let children = case.pressure.map_or(0, |p| p.kills);
    let children = if children > 0 {
        let plural = if children == 1 { "kill of a process" } else { "kills of processes" };
        format!("; {children} OOM {plural} in it ended no life of it")
    } else {
        String::new()
    };
    let claims = case.restarts.iter().filter(|r| r.exit.oom_claim == Some(true)).count();
    let claims = if claims > 0 {
        format!("; the runtime's claim of OOM at {} has no kernel record", share(claims, case.n()))
    } else {
        String::new()
    };
    let used = used.map(|u| format!(", {u}")).unwrap_or_default();
    // The counter's own word only where it was read and nothing at all was killed.
    let record = if case.watched(&["cgroup"]) == case.n() && !case.any_kill() {
        format!("oom_kill 0 at {}", case.all())
    } else {
        format!("the kernel has no record of one at {}", case.all())
    };
    let sentence = format!("not an OOM kill of its own: {record}{used}{claims}{children}");
    ruling(WHAT, Ruled::Out, 0, sentence, case.exits(&case.restarts))
}

/// The whole machine ran out.
pub fn host_memory(case: &Case<'_>) -> Ruling {
    const WHAT: &str = "host out of memory";
    let killed = case.of(WHAT);
    if !killed.is_empty() {
        let sentence = format!("the host ran out of memory and this paid: {}", share(killed.len(), case.n()));
        let quoted = case.kills(killed.iter().copied(), true);
        return ruling(WHAT, Ruled::In, killed.len(), sentence, quoted);
    }
    let watched = case.watched(&["kernel_log"]);
    if watched < case.n() {
        return case.blind(WHAT, watched, "the kernel log");
    }
    let sentence = format!("not the host's memory: the kernel log has no such kill at {}", case.all());
    ruling(WHAT, Ruled::Out, 0, sentence, Vec::new())
}
