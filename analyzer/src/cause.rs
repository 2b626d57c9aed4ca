//! Why a subject was down: the usual suspects, tried in the order in which one excludes the next, each with the facts that
//! speak for it. A runtime's claim is evidence; only the kernel's own record proves a lack of memory.

use linchpin_data::Timestamp;

use crate::episode::{Down, Ended};
use crate::fact::{Description, Exit, Fact, What, Witness};
use crate::kills::Kills;
use crate::report::Evidence;
use crate::sentence;
use crate::subject::Subject;
use crate::view::{View, source_of};

/// A failed check and a kill this close belong together.
const CHECK_NS: i64 = 60_000_000_000;
/// A new instance this soon after an operator's stop is a deploy.
const DEPLOY_NS: i64 = 600_000_000_000;
/// A trap this close to an exit explains it.
const TRAP_NS: i64 = 2_000_000_000;
/// An exit this long before the runtime was lost belongs to that loss.
const LOSS_NS: i64 = 15_000_000_000;
/// The longest loss of a runtime that exits are looked for in.
const LONGEST_LOSS_NS: i64 = 3_600_000_000_000;
/// Who still watches this long after the runtime's watch was lost did not end with the agent.
const STILL_NS: i64 = 1_000_000_000;

/// One time down, and what is needed to judge it.
#[derive(Clone, Copy)]
pub struct Case<'a> {
    /// The host.
    pub view: &'a View,
    /// The subject's name.
    pub name: &'a str,
    /// The subject.
    pub subject: &'a Subject,
    /// Its kernel OOM kills.
    pub kills: &'a Kills,
    /// The place of the time down.
    pub index: usize,
    /// The time down.
    pub down: &'a Down,
}

/// What it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The cause, as in [`crate::report::Episode::cause`].
    pub cause: &'static str,
    /// Whether an operator asked for it.
    pub by_operator: bool,
}

/// Evidence is written only where someone reads it.
pub struct Notes(Option<Vec<Evidence>>);

impl Notes {
    /// Takes no notes.
    #[must_use]
    pub const fn none() -> Self {
        Notes(None)
    }

    /// Takes notes.
    #[must_use]
    pub const fn taken() -> Self {
        Notes(Some(Vec::new()))
    }

    fn add(&mut self, fact: &Fact, source: &str, text: impl FnOnce() -> String) {
        if let Some(all) = &mut self.0 {
            all.push(fact.evidence(source, text()));
        }
    }

    /// The notes, oldest first.
    #[must_use]
    pub fn finish(self) -> Vec<Evidence> {
        let mut all = self.0.unwrap_or_default();
        all.sort_by_key(|e| e.at);
        all
    }
}

/// Judges one time down.
pub fn judge(case: Case<'_>, notes: &mut Notes) -> Verdict {
    let began = case.subject.fact(case.down.began);
    if let Some(f) = began {
        if let What::Unready { by, .. } = &f.what {
            notes.add(f, by.name(), || sentence::unready(*by).into());
        } else if matches!(f.what, What::Described(_)) {
            notes.add(f, source_of(case.name), || "found not running; nobody saw it end".into());
        }
    }
    let exit = case.down.exit.and_then(|i| case.subject.fact(i));
    let verdict = match exit.map(|f| (f, &f.what)) {
        Some((fact, What::Exited(exit))) => of_exit(case, fact, exit, notes),
        _ => Verdict {
            cause: match began.map(|f| &f.what) {
                Some(What::Unready { by: Witness::Health | Witness::Http, .. }) => "check failed",
                Some(What::Unready { .. }) => "port closed",
                _ => "unknown",
            },
            by_operator: false,
        },
    };
    recovered(case, notes);
    verdict
}

fn of_exit(case: Case<'_>, fact: &Fact, exit: &Exit, notes: &mut Notes) -> Verdict {
    let source = source_of(case.name);
    notes.add(fact, source, || sentence::exit(exit));
    let kernel = memory(case, exit, fact, notes);
    let trap = trap(case, fact, notes);
    let not = |cause| Verdict { cause, by_operator: false };
    let signal = exit.signal.or_else(|| sentence::signal_of_code(exit.code));
    if failed_check(case, fact) && (exit.by_operator || matches!(signal, Some(9 | 15))) {
        return not("health-check kill");
    }
    if exit.by_operator {
        let deployed = deploy(case, fact, exit, notes);
        return Verdict { cause: if deployed { "deploy" } else { "operator" }, by_operator: true };
    }
    if let Some(cause) = kernel {
        return not(cause);
    }
    if let Some(boot) = reboot(case, fact) {
        notes.add(fact, "host", || format!("the host booted {} later", sentence::lag(fact.axis, boot)));
        return not("host reboot");
    }
    if exit.action.as_deref() == Some("runtime") {
        notes.add(fact, source, || format!("{source} itself ended it, when it shut down or booted"));
        return not("runtime restart");
    }
    if runtime_lost(case, fact, exit) {
        notes.add(fact, source, || {
            format!("the watch of {source} was lost around this exit: the runtime itself went away")
        });
        return not("runtime restart");
    }
    if trap == Some(Trap::Protection) && matches!(signal, Some(4 | 6 | 7 | 11)) {
        notes.add(fact, "kernel log", || {
            "a general protection fault at the end of a container's first process is how an abort ends there (the kernel \
             ignores SIGABRT for process 1): an abort, not a memory fault"
                .into()
        });
        return not("crash exit");
    }
    not(match (signal, exit.code) {
        (Some(_), _) => "signal",
        (None, Some(0)) => "clean exit",
        (None, Some(_)) => "crash exit",
        (None, None) => "unknown",
    })
}

/// What the kernel says about memory; where only the runtime claims it, that is said.
fn memory(case: Case<'_>, exit: &Exit, fact: &Fact, notes: &mut Notes) -> Option<&'static str> {
    let mut cause = None;
    for w in case.kills.of_down(case.index) {
        let Some(f) = case.subject.fact(w.fact) else { continue };
        let What::Oom(kill) = &f.what else { continue };
        notes.add(f, kill.witness(), || sentence::kill(kill));
        // The log knows the scope; a counter stands for its own cgroup unless the log says otherwise.
        cause = if kill.host { Some("host out of memory") } else { cause.or(Some("own memory ceiling")) };
    }
    if cause.is_none() && exit.oom_claim == Some(true) {
        let source = source_of(case.name);
        notes.add(fact, source, || {
            format!("{source} claims OOM; the kernel log and the cgroup's counters have no record of a kill")
        });
    }
    cause
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Trap {
    Protection,
    Other,
}

fn trap(case: Case<'_>, fact: &Fact, notes: &mut Notes) -> Option<Trap> {
    let facts = case.subject.facts();
    let first = facts.partition_point(|f| f.axis.0 < fact.axis.0.saturating_sub(TRAP_NS));
    let near = facts.get(first..)?.iter().take_while(|f| f.axis.0 <= fact.axis.0.saturating_add(TRAP_NS));
    let mut found = None;
    for f in near {
        if let What::Segfault(detail) = &f.what {
            notes.add(f, "kernel log", || detail.to_string());
            let protection = detail.contains("general protection");
            found = Some(if protection { Trap::Protection } else { Trap::Other });
        }
    }
    found
}

/// Whether a check had failed, and not passed again, shortly before.
fn failed_check(case: Case<'_>, exit: &Fact) -> bool {
    let unready = |f: &Fact| matches!(f.what, What::Unready { by: Witness::Health | Witness::Http, .. });
    let before = case.down.exit.map_or(&[][..], |i| case.subject.facts().get(..i).unwrap_or_default());
    before
        .iter()
        .rev()
        .take_while(|f| exit.axis.0.saturating_sub(f.axis.0) <= CHECK_NS)
        .take_while(|f| !matches!(f.what, What::Ready { .. } | What::Exited(_) | What::Started { .. }))
        .any(unready)
}

/// Whether an operator's stop was followed by another instance, or another image.
fn deploy(case: Case<'_>, fact: &Fact, exit: &Exit, notes: &mut Notes) -> bool {
    if exit.action.as_deref() == Some("recreate") {
        return true;
    }
    let Some(place) = case.down.exit else { return false };
    let (before, after) = case.subject.facts().split_at(place.min(case.subject.facts().len()));
    let image = |d: &Description| (d.image.clone(), d.image_id.clone());
    let old = before.iter().rev().find_map(|f| match &f.what {
        What::Described(d) => Some(image(d)),
        _ => None,
    });
    let soon = after.iter().skip(1).take_while(|f| f.axis.0.saturating_sub(fact.axis.0) <= DEPLOY_NS);
    for f in soon {
        let other = f.instance != 0 && fact.instance != 0 && f.instance != fact.instance;
        match &f.what {
            What::Exited(_) => return false,
            What::Started { .. } if other => {
                notes.add(f, source_of(case.name), || "another instance was started in its place".into());
                return true;
            }
            What::Started { .. } => return false,
            What::Described(d) if other || old.as_ref().is_some_and(|o| *o != image(d)) => {
                let named = d.image.as_deref().unwrap_or("the same image");
                notes.add(f, source_of(case.name), || {
                    format!("another instance stands in its place, of {named}")
                });
                return true;
            }
            _ => {}
        }
    }
    false
}

/// The boot that came between the exit and the recovery.
fn reboot(case: Case<'_>, exit: &Fact) -> Option<Timestamp> {
    let end = case.down.end.map_or(case.view.end, |(i, _)| case.subject.axis(i));
    case.view.boots.iter().copied().find(|b| exit.axis < *b && *b <= end)
}

/// Whether the runtime itself went away around this exit: its watch was lost while others of the same host went on, or the
/// exit code is what it writes for containers it finds ended (255). A container that was started again before the loss had
/// ended by itself.
fn runtime_lost(case: Case<'_>, exit: &Fact, told: &Exit) -> bool {
    let Some(watch) = case.view.watch(case.name) else { return false };
    let own = source_of(case.name);
    let started = case.down.started.map(|i| case.subject.axis(i));
    let first = watch.ends.partition_point(|(lost, _)| lost.plus_ns(LONGEST_LOSS_NS) < exit.axis);
    let near = watch.ends.iter().skip(first).take_while(|(lost, _)| lost.plus_ns(-LOSS_NS) <= exit.axis);
    near.map(|(lost, _)| *lost).filter(|lost| *lost < case.view.end).any(|lost| {
        let spans = watch.windows.spans();
        let back = spans.get(spans.partition_point(|s| s.from < lost)).map_or(case.view.end, |s| s.from);
        let still = lost.plus_ns(STILL_NS);
        let others = || case.view.watches.iter().any(|(s, w)| &**s != own && w.windows.contains(still));
        exit.axis <= back.plus_ns(LOSS_NS)
            && started.is_none_or(|s| s >= lost)
            && (told.code == Some(255) || others())
    })
}

/// What ended it.
fn recovered(case: Case<'_>, notes: &mut Notes) {
    let began = case.subject.axis(case.down.exit.unwrap_or(case.down.began));
    if let Some(f) = case.down.started.and_then(|i| case.subject.fact(i)) {
        notes
            .add(f, source_of(case.name), || format!("started again {} later", sentence::lag(began, f.axis)));
    }
    let Some((f, how)) = case.down.end.and_then(|(i, how)| Some((case.subject.fact(i)?, how))) else {
        return;
    };
    match (&f.what, how) {
        (What::Ready { by, .. }, Ended::Ready) => {
            notes.add(f, by.name(), || format!("accepts again, {} later", sentence::lag(began, f.axis)));
        }
        (_, Ended::Removed) => notes.add(f, source_of(case.name), || "removed".into()),
        (_, Ended::Exit) => notes.add(f, source_of(case.name), || "ended before it was ready".into()),
        _ => {}
    }
}
