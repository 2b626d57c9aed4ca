//! When each source of a host watched. A subject is observed only while the source that sees its restarts watches; time
//! in which it did not is neither up nor down.

use std::collections::BTreeMap;
use std::sync::Arc;

use linchpin_data::event::{Event, Fact};
use linchpin_data::{Span, Timestamp, Windows};

use crate::timeline::{Moment, NO_BOOT, Timeline};

/// The source whose gaps hold for every other: what the journal lost, nobody watched.
const JOURNAL: &str = "journal";

/// A source began or ceased to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    axis: Timestamp,
    run: u64,
    seq: u64,
    on: bool,
    moment: Moment,
    source: Arc<str>,
    reason: Box<str>,
    detail: Box<str>,
}

impl Turn {
    /// What an event says about watching; `None` if nothing.
    #[must_use]
    pub fn read(event: &Event, moment: Moment, timeline: &Timeline) -> Option<Turn> {
        let (source, on, reason, detail) = match &event.fact {
            Fact::WatchStarted(f) => (&f.source, true, &f.reason, &f.detail),
            Fact::WatchStopped(f) => (&f.source, false, &f.reason, &None),
            _ => return None,
        };
        let text =
            |t: &Option<String>| t.as_deref().unwrap_or("").chars().take(400).collect::<String>().into();
        Some(Turn {
            axis: timeline.axis(moment),
            run: event.run.unwrap_or(0),
            seq: event.seq.unwrap_or(0),
            on,
            moment,
            source: source.as_deref()?.chars().take(64).collect::<String>().into(),
            reason: text(reason),
            detail: text(detail),
        })
    }

    /// Sorted by axis; of one instant by number, and an end before a begin.
    fn key(&self) -> (Timestamp, u64, u64, bool, &str, &str, &str) {
        (self.axis, self.run, self.seq, self.on, &self.source, &self.reason, &self.detail)
    }
}

/// Every turn of one host, sorted and without repeats.
#[derive(Clone, Debug, Default)]
pub struct Turns(Vec<Turn>);

/// When one source watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    /// When it did.
    pub windows: Windows,
    /// Each end of a window with the reason told; empty where it was cut off.
    pub ends: Vec<(Timestamp, Box<str>)>,
    /// What it said it sees when it began last.
    pub detail: Box<str>,
    /// Whether it still watches.
    pub open: bool,
}

/// What is known of a host's runs, to find where one that was cut off ended.
pub trait Lasts {
    /// The last moment of any run before `run`.
    fn before_run(&self, run: u64) -> Option<Timestamp>;
    /// The last moment of a boot.
    fn end_of_boot(&self, boot: u32) -> Option<Timestamp>;
}

impl Turns {
    /// Takes a turn in, unless it is known.
    pub fn insert(&mut self, turn: Turn) {
        let place = self.0.partition_point(|t| t.key() < turn.key());
        if self.0.get(place).is_none_or(|t| t.key() != turn.key()) {
            self.0.insert(place, turn);
        }
    }

    /// Places all anew after the axis has moved.
    pub fn replace(&mut self, timeline: &Timeline) {
        for t in &mut self.0 {
            t.axis = timeline.axis(t.moment);
        }
        self.0.sort_by(|a, b| a.key().cmp(&b.key()));
    }

    /// When each source watched, up to `end`: what is open then is taken to watch until then.
    #[must_use]
    pub fn watches(&self, lasts: &impl Lasts, end: Timestamp) -> BTreeMap<Arc<str>, Watch> {
        let mut out: BTreeMap<Arc<str>, Watch> = BTreeMap::new();
        let mut lost = Vec::new();
        let mut by_source: BTreeMap<&Arc<str>, Vec<&Turn>> = BTreeMap::new();
        for t in &self.0 {
            by_source.entry(&t.source).or_default().push(t);
        }
        for (source, turns) in by_source {
            if &**source == JOURNAL {
                lost = gaps(&turns, end);
            } else {
                out.insert(source.clone(), watch(&turns, lasts, end));
            }
        }
        for w in out.values_mut() {
            for (gap, reason) in &lost {
                let whole = w.windows.hull().unwrap_or(*gap);
                let kept = Windows::from_spans([*gap]).gaps(whole);
                if !w.windows.clip(*gap).is_empty() {
                    w.ends.push((gap.from, reason.clone()));
                }
                w.windows = w.windows.and(&kept);
            }
            w.ends.sort();
        }
        out
    }
}

/// From each stop to the next start: a source that is taken to be whole but for these.
fn gaps(turns: &[&Turn], end: Timestamp) -> Vec<(Span, Box<str>)> {
    let mut out = Vec::new();
    let mut since: Option<&Turn> = None;
    for t in turns {
        match (t.on, since) {
            (false, None) => since = Some(t),
            (true, Some(stop)) => {
                out.push((Span::new(stop.axis, t.axis), stop.reason.clone()));
                since = None;
            }
            _ => {}
        }
    }
    out.extend(since.map(|stop| (Span::new(stop.axis, end), stop.reason.clone())));
    out.retain(|(s, _)| !s.is_empty());
    out
}

fn watch(turns: &[&Turn], lasts: &impl Lasts, end: Timestamp) -> Watch {
    let mut spans = Vec::new();
    let mut w = Watch::default();
    let mut open: Option<&Turn> = None;
    for t in turns {
        if !t.on {
            if let Some(start) = open.take() {
                spans.push(Span::new(start.axis, t.axis));
                w.ends.push((t.axis, t.reason.clone()));
            }
            continue;
        }
        if !t.detail.is_empty() {
            w.detail.clone_from(&t.detail);
        }
        let Some(start) = open else {
            open = Some(t);
            continue;
        };
        // Told again by the same run: it watched all along. By another: that one was cut off, at its last word.
        let cut = if start.run != 0 && t.run > start.run {
            lasts.before_run(t.run)
        } else if start.moment.boot != NO_BOOT
            && t.moment.boot != NO_BOOT
            && start.moment.boot != t.moment.boot
        {
            lasts.end_of_boot(start.moment.boot)
        } else {
            continue;
        };
        let cut = cut.unwrap_or(start.axis).clamp(start.axis, t.axis);
        spans.push(Span::new(start.axis, cut));
        w.ends.push((cut, "".into()));
        open = Some(t);
    }
    w.open = open.is_some_and(|t| t.axis <= end);
    spans.extend(open.map(|t| Span::new(t.axis, end)));
    w.windows = Windows::from_spans(spans);
    w
}
