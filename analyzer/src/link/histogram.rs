//! When the suspect's nearest death came around each restart, beside what chance alone would give. A link is a spike at its lag
//! above a flat line, a common cause a hump about nought, a control flat.

use linchpin_data::Timestamp;
use linchpin_data::time::NS;

use super::chance::Bins;
use super::pair::{BIN_NS, Verdict};
use super::pairs::{self, Link, Party};
use crate::report::diagnosis::LagHistogram;

/// How far it looks either way, in seconds; a bin is one second wide.
const REACH: i64 = 30;

/// One picture for each suspect that is linked or falls together with the victim, strongest first, and one for the control that
/// died most. `links` are the victim's.
#[must_use]
pub fn histograms(victim: &Party, parties: &[Party], links: &[Link]) -> Vec<LagHistogram> {
    let strong = links.iter().filter(|l| l.verdict.is_strong());
    strong
        .chain(pairs::control(links.iter()))
        .map(|l| {
            let kills = pairs::deaths(parties, &l.suspect);
            let kills: Vec<Timestamp> = kills.into_iter().filter(|t| victim.observed.contains(*t)).collect();
            let bins = Bins::new(&victim.observed, &kills, BIN_NS);
            histogram(&l.suspect, l.verdict, &victim.onsets, &kills, &bins)
        })
        .collect()
}

/// Counts `onsets` against `kills`, both sorted; `bins` hold those kills.
#[must_use]
pub fn histogram(
    suspect: &str,
    verdict: Verdict,
    onsets: &[Timestamp],
    kills: &[Timestamp],
    bins: &Bins,
) -> LagHistogram {
    let width = 2 * REACH as usize;
    let mut out = LagHistogram {
        suspect: suspect.to_string(),
        verdict,
        from_seconds: -(REACH as f64),
        bin_seconds: 1.0,
        counts: vec![0; width],
        chance: vec![0.0; width],
        beyond: 0,
    };
    for r in onsets {
        let place = nearest(*r, kills).map(|ns| ns.div_euclid(NS) + REACH);
        match place.and_then(|i| usize::try_from(i).ok()).and_then(|i| out.counts.get_mut(i)) {
            Some(count) => *count += 1,
            None => out.beyond += 1,
        }
        expect(*r, bins, &mut out.chance);
    }
    out
}

/// From the nearest kill to the restart, in nanoseconds: positive where the kill came first, and of two equally near the one
/// before.
fn nearest(r: Timestamp, kills: &[Timestamp]) -> Option<i64> {
    let after = kills.partition_point(|k| *k <= r);
    let before = after.checked_sub(1).and_then(|i| kills.get(i)).map(|k| r.0.saturating_sub(k.0));
    let next = kills.get(after).map(|k| r.0.saturating_sub(k.0));
    match (before, next) {
        (Some(b), Some(n)) => Some(if b <= n.saturating_neg() { b } else { n }),
        (one, other) => one.or(other),
    }
}

/// Adds where chance would put one restart's nearest kill: each ring of a second about it holds the chance that none lies within
/// and one lies in it, shared between its two sides as the kills expected there are.
fn expect(r: Timestamp, bins: &Bins, chance: &mut [f64]) {
    let mut free = 1.0;
    for i in 0..REACH {
        let (near, far) = (i * NS, (i + 1) * NS);
        let none = 1.0 - bins.chance(r.0.saturating_sub(far), r.0.saturating_add(far));
        let ring = (free - none).max(0.0);
        free = none;
        let before = bins.expected(r.0.saturating_sub(far), r.0.saturating_sub(near));
        let after = bins.expected(r.0.saturating_add(near), r.0.saturating_add(far));
        if ring > 0.0 && before + after > 0.0 {
            let share = before / (before + after);
            let middle = REACH as usize;
            let i = i as usize;
            chance[middle + i] += ring * share;
            chance[middle - 1 - i] += ring * (1.0 - share);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linchpin_data::{Span, Windows};
    use proptest::prelude::*;

    fn at(s: f64) -> Timestamp {
        Timestamp((s * 1e9) as i64)
    }

    fn made(kills: &[f64], onsets: &[f64]) -> LagHistogram {
        let observed = Windows::from_spans([Span::new(at(0.0), at(36_000.0))]);
        let sorted = |x: &[f64]| {
            let mut v: Vec<Timestamp> = x.iter().map(|s| at(*s)).collect();
            v.sort_unstable();
            v
        };
        let (kills, onsets) = (sorted(kills), sorted(onsets));
        histogram("s", Verdict::Linked, &onsets, &kills, &Bins::new(&observed, &kills, BIN_NS))
    }

    /// Kills five minutes apart, not on the edges of bins.
    fn kills() -> Vec<f64> {
        (0..100).map(|i| 60.5 + f64::from(i) * 300.0 + f64::from(i * 7 % 41)).collect()
    }

    #[test]
    fn a_link_is_a_spike_at_its_lag() {
        let k = kills();
        let h = made(&k, &k.iter().map(|t| t + 1.2).collect::<Vec<_>>());
        assert_eq!((h.counts[31], h.beyond), (100, 0));
        assert!(h.chance[31] < 3.0, "{}", h.chance[31]);
    }

    #[test]
    fn a_common_cause_is_a_hump_about_nought() {
        let k = kills();
        let each = |(i, t): (usize, &f64)| t + [-1.4, -0.6, 0.3, 1.7][i % 4];
        let h = made(&k, &k.iter().enumerate().map(each).collect::<Vec<_>>());
        assert_eq!(&h.counts[28..32], [25, 25, 25, 25]);
    }

    #[test]
    fn a_control_is_as_flat_as_chance() {
        let k = kills();
        // Onsets anywhere within half a minute of a kill, each second as often as any other.
        let onsets: Vec<f64> =
            k.iter().enumerate().map(|(i, t)| (t / 60.0).floor() * 60.0 + (i as f64 * 0.6) % 60.0).collect();
        let h = made(&k, &onsets);
        let (most, level) = (h.counts.iter().max().unwrap(), h.chance.iter().copied().fold(0.0, f64::max));
        assert!(*most <= 6, "{most}");
        assert!((0.5..3.0).contains(&level), "{level}");
    }

    proptest! {
        #[test]
        fn every_restart_is_somewhere(
            kills in prop::collection::vec(0f64..3_000.0, 0..40),
            onsets in prop::collection::vec(0f64..3_000.0, 0..40),
        ) {
            let h = made(&kills, &onsets);
            prop_assert_eq!(h.counts.iter().sum::<u64>() + h.beyond, onsets.len() as u64);
            prop_assert!(h.chance.iter().all(|c| *c >= 0.0));
            prop_assert!(h.chance.iter().sum::<f64>() <= onsets.len() as f64 + 1e-9);
        }
    }
}
