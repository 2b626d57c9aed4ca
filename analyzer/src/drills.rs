//! Drills: the begin and the end of each, paired by its name.

use std::collections::BTreeMap;

use linchpin_data::event::Drill;

use crate::change::{Telling, text};
use crate::host::Host;
use crate::report::diagnosis::DrillResult;
use crate::view::View;

/// One word on a drill.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Word {
    drill: Box<str>,
    ended: bool,
    restarts: Box<str>,
    verdict: Box<str>,
    text: Box<str>,
}

impl From<&Drill> for Word {
    fn from(f: &Drill) -> Word {
        Word {
            drill: text(&f.drill),
            ended: f.phase.as_deref() == Some("ended"),
            restarts: text(&f.restarts),
            verdict: text(&f.verdict),
            text: text(&f.text),
        }
    }
}

/// The drills of a host that touch the window, oldest first.
#[must_use]
pub fn drills(name: &str, host: &Host, view: &View) -> Vec<DrillResult> {
    type Pair<'a> = [Option<&'a Telling<Word>>; 2];
    let mut pairs: BTreeMap<(&str, &str), Pair<'_>> = BTreeMap::new();
    for w in host.drills.iter() {
        let pair = pairs.entry((&w.says.drill, &w.subject)).or_default();
        pair[usize::from(w.says.ended)].get_or_insert(w);
    }
    let inside = |w: &Telling<Word>| view.inside(host.timeline.axis(w.moment));
    let mut all: Vec<DrillResult> = pairs
        .into_values()
        .filter_map(|[begun, ended]| {
            let (first, last) = (begun.or(ended)?, ended.or(begun)?);
            (inside(first) || inside(last)).then(|| result(name, first, ended, last))
        })
        .collect();
    all.sort_by_key(|d| (d.at, d.id));
    all
}

fn result(
    host: &str,
    first: &Telling<Word>,
    ended: Option<&Telling<Word>>,
    last: &Telling<Word>,
) -> DrillResult {
    let said = &last.says;
    let verdict = match ended {
        Some(e) if !e.says.verdict.is_empty() => e.says.verdict.to_string(),
        Some(_) => "unsaid".into(),
        None => "unfinished".into(),
    };
    let sentence = match ended {
        Some(_) if !said.text.is_empty() => said.text.to_string(),
        Some(_) => format!("{} was restarted on purpose: {verdict}.", said.restarts),
        None => format!("{} was to be restarted on purpose; no end of the drill was told.", said.restarts),
    };
    DrillResult {
        id: last.id,
        at: first.id.at,
        host: host.into(),
        restarted: first.says.restarts.to_string(),
        expected: first.subject.to_string(),
        verdict,
        sentence,
    }
}
