//! What lies outside the subject: names that fail for it, and other subjects' deaths.

use super::{Case, latest, ruling, share};
use crate::link::pair::{Verdict, WINDOW_NS};
use crate::link::pairs;
use crate::names::Failure;
use crate::report::diagnosis::{Ruled, Ruling};

/// A lookup of it that failed in the window before a restart.
pub fn dns(case: &Case<'_>) -> Ruling {
    const WHAT: &str = "dns";
    if let Some(chain) = case.chains.first() {
        let quoted = chain.example.clone();
        return ruling(WHAT, Ruled::In, chain.seen as usize, chain.sentence.clone(), quoted);
    }
    let Some(failures) = &case.failures else {
        let sentence = "open: nobody is known to hear its lookups (they are heard for containers that look like proxies, or that the \
                        configuration names)";
        return ruling(WHAT, Ruled::Open, 0, sentence.into(), Vec::new());
    };
    let (mut before, mut quoted) = (0, Vec::new());
    for r in &case.restarts {
        let from = failures.partition_point(|f| f.axis.0 < r.at.0.saturating_sub(WINDOW_NS));
        let near = failures.get(from..).unwrap_or_default().iter().take_while(|f| f.axis <= r.at);
        if let Some(f) = near.last() {
            before += 1;
            quoted.push(f.evidence());
        }
    }
    if before > 0 {
        let sentence = format!(
            "open: a lookup failed in the 5 s before {}, after no kill that is linked",
            share(before, case.n())
        );
        return ruling(WHAT, Ruled::Open, before, sentence, latest(quoted));
    }
    let watched = case.watched(&["dns", "proxy_log"]);
    if watched < case.n() {
        return case.blind(WHAT, watched, "what it looks up (its packets, its log)");
    }
    let sentence =
        format!("not a name: of its lookups that failed none did in the 5 s before {}", case.any());
    ruling(WHAT, Ruled::Out, 0, sentence, latest(failures.iter().map(Failure::evidence).collect()))
}

/// Another subject's deaths: the links, with the control beside them.
pub fn another(case: &Case<'_>) -> Ruling {
    const WHAT: &str = "another subject";
    let of = |v: Verdict| case.links.iter().filter(move |l| l.verdict == v);
    let control = pairs::control(case.links.iter().copied()).map(|l| format!(" {}", l.sentence));
    let control = control.unwrap_or_default();
    if let Some(link) = of(Verdict::Linked).next() {
        let sentence = format!("{}{control}", link.sentence);
        return ruling(WHAT, Ruled::In, link.hits as usize, sentence, Vec::new());
    }
    if let Some(link) = of(Verdict::Together).next() {
        return ruling(WHAT, Ruled::Open, 0, format!("open: {}{control}", link.sentence), Vec::new());
    }
    let (controls, rest) = (of(Verdict::Control).count(), of(Verdict::Inconclusive).count());
    let (ruled, sentence) = match (controls, rest) {
        (0, 0) => (Ruled::Open, "open: nothing else died while it was watched".to_string()),
        (0, n) => (Ruled::Open, format!("open: {n} other suspects died, too seldom to say")),
        (n, 0) => (Ruled::Out, format!("not another's death: no link with any of {n} that died.{control}")),
        (n, m) => (
            Ruled::Open,
            format!(
                "open: no link with {n} that died often enough to show one, and {m} died too seldom to say.{control}"
            ),
        ),
    };
    ruling(WHAT, ruled, 0, sentence, Vec::new())
}
