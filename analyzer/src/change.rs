//! Changes on the timeline: what successive descriptions of a subject say otherwise than before (image, limit, configuration,
//! upstreams), and what people marked. What a change proved is [`crate::proof`]'s.

use std::collections::BTreeSet;

use linchpin_data::event::Event;
use linchpin_data::{EventId, Timestamp};

use crate::fact::{Description, What};
use crate::host::Host;
use crate::report::diagnosis::Change;
use crate::sentence::bytes;
use crate::timeline::Moment;
use crate::view::View;

/// The most changes told of one host, and the most marks and drills kept: the latest.
pub const MOST: usize = 200;
/// The longest text kept, in characters.
const TEXT: usize = 400;

/// A mark or a word on a drill, as told; sorted by what was told.
#[derive(Clone, Debug)]
pub struct Telling<T> {
    /// Its moment.
    pub moment: Moment,
    /// The event.
    pub id: EventId,
    /// Whom it is about.
    pub subject: Box<str>,
    /// What it says.
    pub says: T,
}

impl<T: Ord> Telling<T> {
    fn key(&self) -> (&EventId, u64, &str, &T) {
        (&self.id, self.moment.boot_ns, &self.subject, &self.says)
    }
}

impl<T: Ord> PartialEq for Telling<T> {
    fn eq(&self, o: &Self) -> bool {
        self.key() == o.key()
    }
}

impl<T: Ord> Eq for Telling<T> {}

impl<T: Ord> PartialOrd for Telling<T> {
    fn partial_cmp(&self, o: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(o))
    }
}

impl<T: Ord> Ord for Telling<T> {
    fn cmp(&self, o: &Self) -> std::cmp::Ordering {
        self.key().cmp(&o.key())
    }
}

/// The latest tellings of one sort.
#[derive(Debug)]
pub struct Tellings<T>(BTreeSet<Telling<T>>);

impl<T> Default for Tellings<T> {
    fn default() -> Self {
        Tellings(BTreeSet::new())
    }
}

impl<T: Ord> Tellings<T> {
    /// Keeps one.
    pub fn note(&mut self, event: &Event, moment: Moment, says: T) {
        let id = EventId { at: event.at, run: event.run.unwrap_or(0), seq: event.seq.unwrap_or(0) };
        self.0.insert(Telling { moment, id, subject: cut(&event.subject), says });
        if self.0.len() > MOST {
            self.0.pop_first();
        }
    }

    /// All that are kept, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Telling<T>> {
        self.0.iter()
    }
}

/// Bounded.
fn cut(text: &str) -> Box<str> {
    text.chars().take(TEXT).collect::<String>().into()
}

/// An optional text, bounded; empty where it is not told.
pub fn text(told: &Option<String>) -> Box<str> {
    cut(told.as_deref().unwrap_or(""))
}

/// Every change of a host within the window with its place on the axis, oldest first, the latest [`MOST`].
#[must_use]
pub fn changes(name: &str, host: &Host, view: &View) -> Vec<(Timestamp, Change)> {
    let mut all: Vec<(Timestamp, Change)> = Vec::new();
    for (subject, s) in host.subjects.iter().filter(|(_, s)| s.is_process()) {
        let mut known = Description::default();
        for fact in s.facts() {
            let What::Described(d) = &fact.what else { continue };
            for (what, text) in differ(&known, d) {
                if view.inside(fact.axis) {
                    all.push((fact.axis, told(fact.id(), name, subject, what, text)));
                }
            }
            learn(&mut known, d);
        }
    }
    for m in host.marks.iter() {
        let axis = host.timeline.axis(m.moment);
        if view.inside(axis) {
            all.push((axis, told(m.id, name, &m.subject, "mark", m.says.to_string())));
        }
    }
    all.sort_by(|a, b| (a.0, &a.1.subject, &a.1.what, a.1.id).cmp(&(b.0, &b.1.subject, &b.1.what, b.1.id)));
    all.drain(..all.len().saturating_sub(MOST));
    all
}

fn told(id: EventId, host: &str, subject: &str, what: &str, text: String) -> Change {
    Change { id, at: id.at, host: host.into(), subject: subject.into(), what: what.into(), text }
}

/// What a description says otherwise than all before it; what it leaves out it does not say.
fn differ(old: &Description, new: &Description) -> Vec<(&'static str, String)> {
    let mut out = Vec::new();
    if let (Some(a), Some(b)) = (&old.image, &new.image) {
        if a != b {
            out.push(("image", format!("{a} → {b}")));
        } else if let (Some(x), Some(y)) = (&old.image_id, &new.image_id)
            && x != y
        {
            out.push(("image", format!("{b}, of other content than before")));
        }
    }
    if let (Some(a), Some(b)) = (old.memory_limit, new.memory_limit)
        && a != b
    {
        let limit = |n: u64| if n == 0 { "no limit".to_string() } else { bytes(n) };
        out.push(("limit", format!("{} → {}", limit(a), limit(b))));
    }
    if let (Some(a), Some(b)) = (&old.upstreams, &new.upstreams)
        && a.0 != b.0
    {
        out.push(("upstreams", format!("{} → {}", a.1, b.1)));
    }
    if let (Some(a), Some(b)) = (old.config_at, new.config_at)
        && a != b
    {
        out.push(("config", format!("changed at {}", b.to_millis_text())));
    }
    out
}

fn learn(known: &mut Description, d: &Description) {
    known.image = d.image.clone().or(known.image.take());
    known.image_id = d.image_id.clone().or(known.image_id.take());
    known.memory_limit = d.memory_limit.or(known.memory_limit);
    known.upstreams = d.upstreams.clone().or(known.upstreams.take());
    known.config_at = d.config_at.or(known.config_at);
}
