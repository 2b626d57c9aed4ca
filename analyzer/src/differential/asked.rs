//! What somebody or something asked for: a health check, a deploy, an operator; and whether it is this version's fault.

use std::collections::BTreeMap;

use super::{Case, ruling, share};
use crate::fact::What;
use crate::report::diagnosis::{Ruled, Ruling};
use crate::view::source_of;

/// A kill after a failed check.
pub fn health_check(case: &Case<'_>) -> Ruling {
    const WHAT: &str = "health check";
    let killed = case.of("health-check kill");
    if !killed.is_empty() {
        let sentence = format!("a failed health check came before {}", share(killed.len(), case.n()));
        let quoted = case.exits(killed.iter().copied());
        return ruling(WHAT, Ruled::In, killed.len(), sentence, quoted);
    }
    let source = source_of(case.name);
    let watched = case.watched(&[source]);
    if watched < case.n() {
        return case.blind(WHAT, watched, source);
    }
    let sentence = format!("not a health check: none failed shortly before {}", case.any());
    ruling(WHAT, Ruled::Out, 0, sentence, Vec::new())
}

/// Whether other versions restart as well: a fault that several images share is not cured by the next.
pub fn version(case: &Case<'_>) -> Ruling {
    const WHAT: &str = "version";
    let mut images: BTreeMap<&str, usize> = BTreeMap::new();
    for r in &case.restarts {
        let before = case.subject.facts().partition_point(|f| f.axis <= r.at);
        let facts = case.subject.facts().get(..before).unwrap_or_default();
        let image = facts.iter().rev().find_map(|f| match &f.what {
            What::Described(d) => d.image.as_deref(),
            _ => None,
        });
        if let Some(image) = image {
            *images.entry(image).or_insert(0) += 1;
        }
    }
    let told: Vec<String> = images.iter().take(8).map(|(i, n)| format!("{i}: {n}")).collect();
    match images.len() {
        0 => ruling(WHAT, Ruled::Open, 0, "open: its image was never told".into(), Vec::new()),
        1 => {
            let sentence = format!("open: only one image was seen to restart ({})", told.join(", "));
            ruling(WHAT, Ruled::Open, 0, sentence, Vec::new())
        }
        n => {
            let sentence = format!("not one version's fault: {n} images restarted ({})", told.join(", "));
            ruling(WHAT, Ruled::Out, 0, sentence, Vec::new())
        }
    }
}

/// A re-creation. One that an operator asked for is told, and explains none of the restarts that count.
pub fn deploy(case: &Case<'_>) -> Ruling {
    const WHAT: &str = "deploy";
    by_request(
        case,
        WHAT,
        ["deploy", "deploys"],
        "not a deploy: no other container and no other image took its place at",
    )
}

/// A stop, kill or restart that someone asked for.
pub fn operator(case: &Case<'_>) -> Ruling {
    const WHAT: &str = "operator";
    by_request(case, WHAT, ["restart asked for", "restarts asked for"], "not an operator: nobody asked for")
}

/// Restarts of one cause among those asked for.
fn by_request(case: &Case<'_>, cause: &str, words: [&str; 2], out: &str) -> Ruling {
    let source = source_of(case.name);
    let counted = case.of(cause);
    if !counted.is_empty() {
        let sentence =
            format!("someone asked for {}, and the objective counts them", share(counted.len(), case.n()));
        let quoted = case.exits(counted.iter().copied());
        return ruling(cause, Ruled::In, counted.len(), sentence, quoted);
    }
    let mine: Vec<_> = case.asked.iter().filter(|r| r.cause == cause).collect();
    let watched = case.watched(&[source]);
    if watched < case.n() {
        return case.blind(cause, watched, source);
    }
    let mut sentence = format!("{out} {}", case.any());
    if !mine.is_empty() {
        let mut actions: Vec<&str> = mine.iter().filter_map(|r| r.exit.action.as_deref()).collect();
        actions.sort_unstable();
        actions.dedup();
        let by = if actions.is_empty() { String::new() } else { format!(" ({})", actions.join(", ")) };
        let [word, are] = if mine.len() == 1 { [words[0], "is"] } else { [words[1], "are"] };
        sentence += &format!("; {} {word}{by} {are} told apart from them", mine.len());
    }
    let quoted = case.exits(mine);
    ruling(cause, Ruled::Out, 0, sentence, quoted)
}
