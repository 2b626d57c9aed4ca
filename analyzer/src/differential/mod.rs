//! The differential: each usual suspect of a subject's restarts against the evidence, ruled in, out or left open. A suspicion is ruled
//! out only where a source that would have seen it watched; what a restart's cause was, [`crate::cause`] has judged.

mod asked;
mod exits;
mod kernel;
mod others;

use linchpin_data::Timestamp;

use crate::fact::{Fact, What};
use crate::link::pairs::Link;
use crate::names::Failure;
use crate::process::{Restart, Subjected};
use crate::report::Evidence;
use crate::report::diagnosis::{Chain, Differential, Ruled, Ruling, SubjectPressure};
use crate::sentence;
use crate::subject::Subject;
use crate::view::{View, source_of};

/// The most pieces of evidence quoted for one ruling: the latest.
const MOST_QUOTED: usize = 5;
/// A kill this close to an exit is that exit's, in nanoseconds.
const KILL_NS: u64 = 2_000_000_000;

/// One subject that restarts, and what is known around it.
pub struct Case<'a> {
    /// Its name.
    pub name: &'a str,
    /// The host in this query.
    pub view: &'a View,
    /// Its facts.
    pub subject: &'a Subject,
    /// Its restarts that count, in order.
    restarts: Vec<Restart<'a>>,
    /// Restarts that an operator asked for and that do not count.
    asked: Vec<Restart<'a>>,
    /// Links in which it is the victim.
    pub links: Vec<&'a Link>,
    /// Chains into it.
    pub chains: Vec<&'a Chain>,
    /// Lookups of it that failed, in order; `None` where nobody is known to hear them.
    pub failures: Option<Vec<Failure<'a>>>,
    /// Its memory against its limit.
    pub pressure: Option<&'a SubjectPressure>,
}

/// What rests on other parts of the report.
pub struct Around<'a> {
    /// Links of the host.
    pub links: &'a [Link],
    /// Chains of the host.
    pub chains: &'a [Chain],
    /// Failing lookups of this client; `None` where nobody is known to hear them.
    pub failures: Option<Vec<Failure<'a>>>,
    /// Subjects' memory against their limits.
    pub pressure: &'a [SubjectPressure],
}

/// The differential of one subject; `None` if it did not restart.
#[must_use]
pub fn differential<'a>(
    (host, name): (&str, &'a str),
    view: &'a View,
    subject: &'a Subject,
    judged: &'a Subjected<'a>,
    around: Around<'a>,
) -> Option<Differential> {
    let (asked, restarts): (Vec<_>, Vec<_>) = judged.restarts().partition(|r| r.by_operator && !r.counted);
    if restarts.is_empty() {
        return None;
    }
    let case = Case {
        name,
        view,
        subject,
        restarts,
        asked,
        links: around.links.iter().filter(|l| l.victim == name).collect(),
        chains: around.chains.iter().filter(|c| c.victim == name).collect(),
        failures: around.failures,
        pressure: around.pressure.iter().find(|p| p.subject == name),
    };
    let mut rulings = vec![
        others::another(&case),
        others::dns(&case),
        kernel::own_ceiling(&case),
        kernel::host_memory(&case),
        kernel::segfault(&case),
        exits::exit_code(&case),
        asked::health_check(&case),
        asked::version(&case),
        asked::deploy(&case),
        asked::operator(&case),
    ];
    rulings.sort_by_key(|r| r.ruled);
    Some(Differential {
        subject: name.into(),
        host: host.into(),
        restarts: case.restarts.len() as u64,
        rulings,
    })
}

impl Case<'_> {
    /// How many restarts it is about.
    fn n(&self) -> usize {
        self.restarts.len()
    }

    /// "all 16 restarts", "the restart".
    fn all(&self) -> String {
        match self.n() {
            1 => "the restart".into(),
            n => format!("all {n} restarts"),
        }
    }

    /// "any of 16 restarts", "the restart".
    fn any(&self) -> String {
        if self.n() == 1 { "the restart".into() } else { format!("any of {} restarts", self.n()) }
    }

    /// How many restarts began while one of these sources watched.
    fn watched(&self, sources: &[&str]) -> usize {
        let seen = |t: Timestamp| {
            let watches = sources.iter().filter_map(|s| self.view.watches.get(*s));
            watches.into_iter().any(|w| self.view.seen(&w.windows, t))
        };
        self.restarts.iter().filter(|r| seen(r.at)).count()
    }

    /// Restarts of a cause.
    fn of(&self, cause: &str) -> Vec<&Restart<'_>> {
        self.restarts.iter().filter(|r| r.cause == cause).collect()
    }

    /// "exit code 0", "exit codes 0 and 137": each that was told, least first; empty where none was.
    fn codes(&self) -> String {
        let mut codes: Vec<i64> = self.restarts.iter().filter_map(|r| r.exit.code).collect();
        codes.sort_unstable();
        codes.dedup();
        let words: Vec<String> = codes.iter().take(6).map(ToString::to_string).collect();
        match words.split_last() {
            None => String::new(),
            Some((one, [])) => format!("exit code {one}"),
            Some((last, rest)) => format!("exit codes {} and {last}", rest.join(", ")),
        }
    }

    /// The exits of some restarts as evidence.
    fn exits<'r>(&self, of: impl IntoIterator<Item = &'r Restart<'r>>) -> Vec<Evidence> {
        let source = source_of(self.name);
        latest(of.into_iter().map(|r| r.fact.evidence(source, sentence::exit(r.exit))).collect())
    }

    /// The kernel's records of OOM kills near some restarts: of the host's running out, or of its own limit.
    fn kills<'r>(&self, near: impl IntoIterator<Item = &'r Restart<'r>>, host: bool) -> Vec<Evidence> {
        let near: Vec<Timestamp> = near.into_iter().map(|r| r.at).collect();
        let facts = self.subject.facts().iter();
        let quoted = facts.filter_map(|f| match &f.what {
            What::Oom(k) if k.host == host && near.iter().any(|t| t.0.abs_diff(f.axis.0) <= KILL_NS) => {
                Some(f.evidence(k.witness(), sentence::kill(k)))
            }
            _ => None,
        });
        latest(quoted.collect())
    }

    /// Whether the kernel killed anything in it within the window.
    fn any_kill(&self) -> bool {
        let w = self.view.window;
        let inside = |f: &Fact| w.contains(f.axis) || f.axis == w.to;
        self.subject.facts().iter().any(|f| matches!(f.what, What::Oom(_)) && inside(f))
    }

    /// Open, because nobody would have seen it: says which source, and for how many restarts.
    fn blind(&self, suspicion: &str, watched: usize, source: &str) -> Ruling {
        let (n, missing) = (self.n(), self.n() - watched);
        let during = if missing == n { self.all() } else { format!("{missing} of {n} restarts") };
        let sentence = format!("open: {source} was not watched during {during}");
        ruling(suspicion, Ruled::Open, 0, sentence, Vec::new())
    }
}

fn latest(mut all: Vec<Evidence>) -> Vec<Evidence> {
    all.drain(..all.len().saturating_sub(MOST_QUOTED));
    all
}

fn ruling(
    suspicion: &str,
    ruled: Ruled,
    explains: usize,
    sentence: String,
    evidence: Vec<Evidence>,
) -> Ruling {
    Ruling { suspicion: suspicion.into(), ruled, explains: explains as u64, sentence, evidence }
}

/// "all 16 restarts" or "3 of 16 restarts".
fn share(k: usize, n: usize) -> String {
    match (k, n) {
        (1, 1) => "the restart".into(),
        _ if k == n => format!("all {n} restarts"),
        _ => format!("{k} of {n} restarts"),
    }
}
