//! Why a process restarts, as its page tells it: the chain, the links with their pictures, the usual suspects, names, memory, and
//! what was survived since a change. Words and rows only; the judgements are the analyzer's.

use linchpin_analyzer::ProcessDetail;
use linchpin_analyzer::link::pair::{Lag, Verdict};
use linchpin_analyzer::link::pairs::Link;
use linchpin_analyzer::report::diagnosis::{Chain, FailingName, Proof, Ruled, Ruling, StepKind};

use super::episode::{EvidenceRow, evidence};
use crate::markup::{self, Html, TEXT_MAX, plain_subject, visible};
use crate::svg;
use crate::words::{self, Shown};

/// The most rows of any list here; what is beyond stands in the JSON.
const MOST: usize = 30;

/// Everything of the why that a process's page shows.
pub struct WhyView {
    /// The strongest links as sentences, the control last; empty where nothing is linked.
    pub lead: Vec<String>,
    /// Chains, strongest first.
    pub chains: Vec<ChainView>,
    /// Links that say something.
    pub links: Vec<LinkRow>,
    /// Links of which too little was seen, folded away.
    pub weak: Vec<LinkRow>,
    /// When deaths came around its restarts.
    pub pictures: Vec<Picture>,
    /// The usual suspects, those ruled in first.
    pub rulings: Vec<RulingRow>,
    /// Names that failed for it.
    pub names: Vec<NameRow>,
    /// Its memory against its limit.
    pub pressure: Option<String>,
    /// Whose restarts follow its deaths.
    pub brings_down: Vec<LinkRow>,
    /// What was survived since the changes.
    pub proofs: Vec<ProofRow>,
    /// Changes, newest first.
    pub changes: Vec<(Html, String)>,
    /// Drills, newest first.
    pub drills: Vec<(Html, String)>,
}

/// A chain as steps that are drawn in a row.
pub struct ChainView {
    /// The whole as a sentence.
    pub sentence: String,
    /// Each step.
    pub steps: Vec<StepView>,
    /// The control beneath.
    pub control: Option<String>,
    /// The latest time it was seen.
    pub example: Vec<EvidenceRow>,
}

/// One step.
pub struct StepView {
    /// How long after the step before, in words; empty for the first.
    pub lag: String,
    /// Who.
    pub who: String,
    /// What it did.
    pub what: &'static str,
}

/// One link as a row.
pub struct LinkRow {
    /// Who died (or, where its own deaths are meant, who restarted).
    pub who: Html,
    /// Its page, where it is one process.
    pub href: Option<String>,
    /// The verdict in a word.
    pub verdict: &'static str,
    /// Class for its look.
    pub class: &'static str,
    /// Restarts that follow, of how many.
    pub hits: String,
    /// What chance would give.
    pub chance: String,
    /// The lag with its quartiles.
    pub lag: String,
    /// Deaths that a restart follows.
    pub followed: String,
    /// Suspects that die together with it, in words.
    pub rivals: String,
}

/// A lag histogram with its table.
pub struct Picture {
    /// Whose deaths.
    pub title: String,
    /// The picture.
    pub svg: Html,
    /// Bins that hold anything: seconds, restarts, chance.
    pub rows: Vec<(String, String, String)>,
}

/// One usual suspect.
pub struct RulingRow {
    /// The suspicion.
    pub suspicion: String,
    /// `ruled in`, `open`, `ruled out`.
    pub word: &'static str,
    /// Class and shape.
    pub class: &'static str,
    /// A shape that says the same without colour.
    pub shape: &'static str,
    /// The sentence.
    pub sentence: String,
    /// What it rests on.
    pub evidence: Vec<EvidenceRow>,
}

/// One failing name.
pub struct NameRow {
    /// The name.
    pub name: String,
    /// How many lookups failed.
    pub failures: String,
    /// How, in words.
    pub outcomes: String,
    /// Who saw it.
    pub witnesses: String,
    /// The last spell.
    pub last: Html,
}

/// One proof.
pub struct ProofRow {
    /// Its verdict in a word.
    pub word: String,
    /// `unknown`, `within` or `over`.
    pub class: &'static str,
    /// The sentence.
    pub sentence: String,
}

/// The why of one process.
#[must_use]
pub fn why(d: &ProcessDetail) -> WhyView {
    let control = d.links.iter().find(|l| l.verdict == Verdict::Control);
    let mut lead: Vec<String> =
        d.links.iter().filter(|l| l.verdict.is_strong()).take(3).map(|l| sentence(&l.sentence)).collect();
    if !lead.is_empty() {
        lead.extend(control.map(|l| sentence(&l.sentence)));
    }
    let weak = |l: &&Link| l.verdict == Verdict::Inconclusive;
    WhyView {
        lead,
        chains: d.chains.iter().take(3).map(chain).collect(),
        links: d.links.iter().filter(|l| !weak(l)).take(MOST).map(|l| link(l, &l.suspect)).collect(),
        weak: d.links.iter().filter(weak).take(MOST).map(|l| link(l, &l.suspect)).collect(),
        pictures: d
            .lag_histograms
            .iter()
            .take(4)
            .map(|h| Picture {
                title: plain_subject(&h.suspect),
                svg: svg::lag_histogram(&plain_subject(&h.suspect), h),
                rows: svg::lag_rows(h),
            })
            .collect(),
        rulings: d.differential.iter().flat_map(|x| &x.rulings).map(ruling).collect(),
        names: d.names.iter().take(MOST).map(name).collect(),
        pressure: d.pressure.as_ref().map(|p| sentence(&p.sentence)),
        brings_down: d.causes_others.iter().take(MOST).map(|l| link(l, &l.victim)).collect(),
        proofs: d.proofs.iter().take(MOST).map(proof).collect(),
        changes: d
            .changes
            .iter()
            .rev()
            .take(MOST)
            .map(|c| {
                let whose = if c.subject == "host:" { "the host".into() } else { plain_subject(&c.subject) };
                (words::time(c.at, Shown::Second), sentence(&format!("{} of {whose}: {}", c.what, c.text)))
            })
            .collect(),
        drills: d
            .drills
            .iter()
            .rev()
            .take(MOST)
            .map(|x| (words::time(x.at, Shown::Second), sentence(&format!("{}: {}", x.verdict, x.sentence))))
            .collect(),
    }
}

fn sentence(text: &str) -> String {
    visible(text, TEXT_MAX)
}

fn lag_words(l: Lag) -> String {
    format!("{} ({} to {})", words::duration(l.median), words::duration(l.p25), words::duration(l.p75))
}

fn chain(c: &Chain) -> ChainView {
    ChainView {
        sentence: sentence(&c.sentence),
        steps: c
            .steps
            .iter()
            .map(|s| StepView {
                lag: s.lag_seconds.map_or(String::new(), |l| format!("{} later", words::duration(l.median))),
                who: match s.what {
                    StepKind::NameFails => visible(&s.who, 120),
                    StepKind::Death | StepKind::Restart => plain_subject(&s.who),
                },
                what: match s.what {
                    StepKind::Death => "dies",
                    StepKind::NameFails => "does not resolve",
                    StepKind::Restart => "restarts",
                },
            })
            .collect(),
        control: c.control.as_ref().map(|x| {
            format!(
                "{} died {} times; {} of {} restarts followed",
                plain_subject(&x.suspect),
                words::count(x.kills),
                words::count(x.hits),
                words::count(x.restarts)
            )
        }),
        example: c.example.iter().map(evidence).collect(),
    }
}

fn link(l: &Link, who: &str) -> LinkRow {
    let (verdict, class) = match l.verdict {
        Verdict::Linked => ("linked", "over"),
        Verdict::Together => ("together: a common cause", "over"),
        Verdict::Control => ("control: no link", "within"),
        Verdict::Inconclusive => ("too little to say", "unknown"),
    };
    let rivals: Vec<String> = l
        .rivals
        .iter()
        .take(5)
        .map(|r| {
            format!(
                "with {}: {} follow only this, {} only the other",
                plain_subject(&r.suspect),
                words::count(r.only_this),
                words::count(r.only_other)
            )
        })
        .collect();
    LinkRow {
        who: markup::subject(who),
        href: if who.starts_with("service:") { None } else { markup::process_href(&l.host, who) },
        verdict,
        class,
        hits: format!("{} of {}", words::count(l.hits), words::count(l.restarts)),
        chance: words::significant(l.expected_hits, 3),
        lag: l.lag_seconds.map_or("–".into(), lag_words),
        followed: l
            .followed_share
            .map_or("–".into(), |s| format!("{:.0}\u{a0}% of {}", s * 100.0, words::count(l.kills))),
        rivals: rivals.join("; "),
    }
}

fn ruling(r: &Ruling) -> RulingRow {
    let (word, class, shape) = match r.ruled {
        Ruled::In => ("ruled in", "over", "◆"),
        Ruled::Open => ("open", "unknown", "?"),
        Ruled::Out => ("ruled out", "within", "✕"),
    };
    RulingRow {
        suspicion: visible(&r.suspicion, 60),
        word,
        class,
        shape,
        sentence: sentence(&r.sentence),
        evidence: r.evidence.iter().take(10).map(evidence).collect(),
    }
}

fn name(n: &FailingName) -> NameRow {
    let outcomes: Vec<String> =
        n.outcomes.iter().take(6).map(|(o, k)| format!("{} {}", visible(o, 30), words::count(*k))).collect();
    let last = match n.spells.last() {
        Some((from, Some(to))) => Html(format!(
            "{}, for {}",
            words::time(*from, Shown::Milli),
            words::duration(to.seconds_since(*from))
        )),
        Some((from, None)) => Html(format!("{}, no success seen since", words::time(*from, Shown::Milli))),
        None => Html("–".into()),
    };
    NameRow {
        name: if n.name.is_empty() { "a name that was not said".into() } else { visible(&n.name, 260) },
        failures: words::count(n.failures),
        outcomes: outcomes.join(", "),
        witnesses: visible(&n.witnesses.join(", "), 100),
        last,
    }
}

fn proof(p: &Proof) -> ProofRow {
    ProofRow {
        word: visible(&p.verdict, 30),
        class: match p.verdict.as_str() {
            "held" => "within",
            "failed" => "over",
            _ => "unknown",
        },
        sentence: sentence(&p.sentence),
    }
}
