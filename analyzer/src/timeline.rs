//! One axis of time per host. Within one boot the boot clock alone orders and measures: the axis is boot time plus one
//! offset per boot, that of the earliest known moment, so that a wall clock stepped in between changes no figure. Events
//! without a boot stand at their wall-clock time.

use std::collections::HashMap;
use std::sync::Arc;

use linchpin_data::{Event, Timestamp};

/// The moment of an event as it was told; the axis makes one number of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Wall-clock time.
    pub at: Timestamp,
    /// Nanoseconds since boot.
    pub boot_ns: u64,
    /// Which boot of the host's [`Timeline`]; [`NO_BOOT`] if unknown.
    pub boot: u32,
}

/// The boot of events that name none, or no time within it.
pub const NO_BOOT: u32 = 0;

#[derive(Clone, Debug, Default)]
struct Boot {
    /// The least boot time known, and the wall-clock time told with it.
    least: Option<(u64, i64)>,
    /// The greatest boot time known.
    last_ns: u64,
    /// The earliest wall-clock time of any event that names this boot.
    first_at: Option<i64>,
    /// The latest wall-clock time of an event that stands at its wall-clock time.
    last_at: Option<i64>,
}

/// The boots of one host.
#[derive(Clone, Debug)]
pub struct Timeline {
    boots: Vec<Boot>,
    ids: HashMap<Arc<str>, u32>,
    recent: (Arc<str>, u32),
}

impl Default for Timeline {
    fn default() -> Self {
        Timeline { boots: vec![Boot::default()], ids: HashMap::new(), recent: ("".into(), NO_BOOT) }
    }
}

impl Timeline {
    /// Takes note of an event's moment. True with it if the axis of that boot moved: what was placed must be placed anew.
    pub fn note(&mut self, event: &Event) -> (Moment, bool) {
        let at = event.at.0;
        let named = event.boot_id.as_ref().map(|id| self.index(id));
        if let Some(b) = named.and_then(|b| self.boots.get_mut(b as usize)) {
            b.first_at = Some(b.first_at.map_or(at, |t| t.min(at)));
        }
        // Boot time 0 is what a clock says that could not tell: older than the boot.
        let boot_ns = event.boot_ns.filter(|ns| *ns > 0);
        let (Some(boot), Some(boot_ns)) = (named, boot_ns) else {
            let b = &mut self.boots[NO_BOOT as usize];
            b.last_at = Some(b.last_at.map_or(at, |t| t.max(at)));
            return (Moment { at: event.at, boot_ns: 0, boot: NO_BOOT }, false);
        };
        let moment = Moment { at: event.at, boot_ns, boot };
        let b = &mut self.boots[boot as usize];
        b.last_ns = b.last_ns.max(boot_ns);
        let before = b.least;
        b.least = Some(before.map_or((boot_ns, at), |l| l.min((boot_ns, at))));
        let moved = before.is_some_and(|(ns, t)| {
            let (ns2, t2) = b.least.unwrap_or((ns, t));
            i128::from(t) - i128::from(ns) != i128::from(t2) - i128::from(ns2)
        });
        (moment, moved)
    }

    fn index(&mut self, id: &Arc<str>) -> u32 {
        if self.recent.1 != NO_BOOT && self.recent.0 == *id {
            return self.recent.1;
        }
        let next = u32::try_from(self.boots.len()).unwrap_or(NO_BOOT);
        let index = *self.ids.entry(id.clone()).or_insert(next);
        if index == next {
            self.boots.push(Boot::default());
        }
        self.recent = (id.clone(), index);
        index
    }

    /// Where a moment stands on the axis.
    #[must_use]
    pub fn axis(&self, m: Moment) -> Timestamp {
        if m.boot == NO_BOOT { m.at } else { self.of_boot(m.boot, m.boot_ns).unwrap_or(m.at) }
    }

    fn of_boot(&self, boot: u32, boot_ns: u64) -> Option<Timestamp> {
        let (ns, at) = self.boots.get(boot as usize)?.least?;
        let axis = i128::from(at) + i128::from(boot_ns) - i128::from(ns);
        Some(Timestamp(axis.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64))
    }

    /// The latest moment on the axis; `None` before any event.
    #[must_use]
    pub fn last(&self) -> Option<Timestamp> {
        let boots = (1..self.boots.len()).filter_map(|i| self.end_of(i as u32));
        boots.chain(self.boots.first().and_then(|b| b.last_at).map(Timestamp)).max()
    }

    /// The latest moment of one boot.
    #[must_use]
    pub fn end_of(&self, boot: u32) -> Option<Timestamp> {
        let b = self.boots.get(boot as usize)?;
        b.least.and_then(|_| self.of_boot(boot, b.last_ns))
    }

    /// Where each boot began, sorted: boot time 0, or the first that was heard of it.
    #[must_use]
    pub fn boots(&self) -> Vec<Timestamp> {
        let begin = |(i, b): (usize, &Boot)| self.of_boot(i as u32, 0).or(b.first_at.map(Timestamp));
        let mut all: Vec<Timestamp> = self.boots.iter().enumerate().skip(1).filter_map(begin).collect();
        all.sort_unstable();
        all
    }

    /// Now, given on the boot clock: its place on the axis if it lies in the latest boot, which is one whose last known
    /// moment is not later.
    #[must_use]
    pub fn now(&self, boot_ns: u64) -> Option<Timestamp> {
        let latest = (1..self.boots.len() as u32).filter_map(|i| Some((self.end_of(i)?, i))).max()?.1;
        let b = self.boots.get(latest as usize)?;
        // Events of the same instant are told a little after the clock was read.
        (boot_ns.saturating_add(5_000_000_000) >= b.last_ns).then(|| self.of_boot(latest, boot_ns)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linchpin_data::event::Note;

    fn event(at: i64, boot: Option<(&str, u64)>) -> Event {
        let mut e = Event::new(Timestamp(at), "h", "host:", Note::default());
        (e.boot_id, e.boot_ns) = (boot.map(|b| b.0.into()), boot.map(|b| b.1));
        e
    }

    #[test]
    fn a_stepped_wall_clock_moves_nothing() {
        let mut t = Timeline::default();
        let hour = 3_600_000_000_000i64;
        let (a, _) = t.note(&event(10 * hour, Some(("b", 1_000))));
        let (b, moved) = t.note(&event(9 * hour, Some(("b", 6_000))));
        assert!(!moved);
        assert_eq!((t.axis(a).0, t.axis(b).0), (10 * hour, 10 * hour + 5_000));
        assert_eq!(t.last(), Some(Timestamp(10 * hour + 5_000)));
        assert_eq!(t.now(9_000), Some(Timestamp(10 * hour + 8_000)));
    }

    #[test]
    fn the_earliest_moment_decides_whatever_the_order() {
        let events =
            [event(700, Some(("b", 200))), event(500, Some(("b", 100))), event(999, Some(("b", 300)))];
        let mut axes = Vec::new();
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let mut t = Timeline::default();
            let mut m: Vec<(usize, Moment)> = order.iter().map(|i| (*i, t.note(&events[*i]).0)).collect();
            m.sort_by_key(|x| x.0);
            axes.push(m.iter().map(|x| t.axis(x.1).0).collect::<Vec<_>>());
        }
        assert_eq!(axes, vec![vec![600, 500, 700]; 3]);
    }

    #[test]
    fn without_a_boot_the_wall_clock_stands() {
        let mut t = Timeline::default();
        let (m, _) = t.note(&event(5, None));
        let (zero, _) = t.note(&event(7, Some(("b", 0))));
        assert_eq!((t.axis(m), t.axis(zero)), (Timestamp(5), Timestamp(7)));
        assert_eq!(t.boots(), [Timestamp(7)]);
        assert_eq!(t.now(10), None);
    }

    #[test]
    fn a_now_of_another_boot_does_not_count() {
        let mut t = Timeline::default();
        t.note(&event(1_000_000_000_000, Some(("b", 900_000_000_000))));
        assert_eq!(t.now(5), None);
    }
}
