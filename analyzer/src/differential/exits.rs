//! What the exit codes say, and what they cannot.

use std::collections::BTreeMap;

use super::{Case, ruling, share};
use crate::report::diagnosis::{Ruled, Ruling};
use crate::sentence::{signal_name, signal_of_code};

/// A code is a hint: nothing but 0 in all restarts rules a failure of the program out, and only the program's own codes rule it in.
pub fn exit_code(case: &Case<'_>) -> Ruling {
    const WHAT: &str = "exit code";
    let mut codes: BTreeMap<Option<i64>, usize> = BTreeMap::new();
    for r in &case.restarts {
        *codes.entry(r.exit.code).or_insert(0) += 1;
    }
    let told: Vec<String> = codes
        .iter()
        .take(6)
        .map(|(code, k)| match code {
            Some(code) => format!("{code} at {} ({})", share(*k, case.n()), meaning(*code)),
            None => format!("none told at {}", share(*k, case.n())),
        })
        .collect();
    let own = case.restarts.iter().filter(|r| r.exit.code.is_some_and(is_own)).count();
    let clean = codes.keys().all(|c| *c == Some(0));
    let (ruled, explains) = match (own, clean) {
        (_, true) => (Ruled::Out, 0),
        (0, false) => (Ruled::Open, 0),
        (own, false) => (Ruled::In, own),
    };
    let begin = match ruled {
        Ruled::Out => "no failure by its exit code",
        Ruled::In => "the program reported a failure",
        Ruled::Open => "open: the exit code does not say who ended it",
    };
    ruling(WHAT, ruled, explains, format!("{begin}: {}", told.join("; ")), case.exits(&case.restarts))
}

/// Whether the program itself chose this code.
fn is_own(code: i64) -> bool {
    (1..=124).contains(&code)
}

/// What a code means where a runtime tells it.
fn meaning(code: i64) -> String {
    match code {
        0 => "it ended by itself and reported no error".into(),
        125 => "the runtime could not start it".into(),
        126 => "its command could not be run".into(),
        127 => "its command was not found".into(),
        134 => "SIGABRT: it aborted".into(),
        137 => "SIGKILL, from anyone: only the kernel's record tells an OOM kill".into(),
        139 => "SIGSEGV, or an abort of a container's first process".into(),
        143 => "SIGTERM: someone asked it to end".into(),
        255 => "its own, or what a restarted daemon writes for want of a better".into(),
        _ => match signal_of_code(Some(code)) {
            Some(signal) => signal_name(signal).map_or_else(|| format!("signal {signal}"), str::to_string),
            None => "the program's own".into(),
        },
    }
}
