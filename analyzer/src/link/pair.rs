//! One suspect against one victim: what is counted, how likely that is by luck, which way it points, and the verdict. The
//! figures and thresholds are DESIGN's; q needs all pairs of a report and so is given from outside.

use std::cell::OnceCell;

use linchpin_data::Timestamp;
use serde::{Deserialize, Serialize};
use statrs::distribution::{Binomial, DiscreteCDF};

use super::binomial;
use super::chance::Bins;
use crate::ceiling::quantile;

/// Window in which a restart may follow a kill, in nanoseconds (5 s).
pub const WINDOW_NS: i64 = 5_000_000_000;
/// Length of a jitter bin in nanoseconds: twelve windows.
pub const BIN_NS: i64 = 12 * WINDOW_NS;

/// What was counted of a pair, before other pairs are known.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// Restart onsets of the victim.
    pub restarts: usize,
    /// Deaths of the suspect.
    pub kills: usize,
    /// Onsets with a kill in the window before them.
    pub hits: usize,
    /// Kills with an onset in the window after them.
    pub followed: usize,
    /// Hits that chance would give.
    pub expected_hits: f64,
    /// P(as many hits or more by chance).
    pub p_value: f64,
    /// Onsets with a kill in the window after them.
    pub reverse_hits: usize,
    /// P(Bin(hits + reverse, ½) ≥ hits).
    pub p_direction: f64,
    /// Seconds from the last kill in the window to each onset hit, sorted.
    pub lags: Vec<f64>,
    /// The chance of each onset.
    chances: Vec<f64>,
    /// The power, once it was asked for.
    power: OnceCell<f64>,
}

/// Quartiles of the lag in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lag {
    /// Half of the hits come sooner.
    pub median: f64,
    /// A quarter does.
    pub p25: f64,
    /// Three quarters do.
    pub p75: f64,
}

/// What can be said of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The suspect's deaths come before the victim's restarts, far more often than chance gives.
    Linked,
    /// They fall together with no direction: a common cause.
    Together,
    /// A link of strength one half would have shown, and none did.
    Control,
    /// Too little to say.
    Inconclusive,
}

impl Verdict {
    /// Whether far more fell together than chance gives, with or without a direction.
    #[must_use]
    pub fn is_strong(self) -> bool {
        matches!(self, Verdict::Linked | Verdict::Together)
    }
}

/// Whether an onset (sorted) lies within `w_ns` nanoseconds after a kill.
#[must_use]
pub fn follows(kill: Timestamp, onsets: &[Timestamp], w_ns: i64) -> bool {
    let next = onsets.partition_point(|r| *r <= kill);
    onsets.get(next).is_some_and(|r| r.0 <= kill.0.saturating_add(w_ns))
}

impl Counted {
    /// Counts `onsets` of the victim against `kills` of the suspect, both sorted; `bins` hold those kills.
    #[must_use]
    pub fn new(onsets: &[Timestamp], kills: &[Timestamp], bins: &Bins, w_ns: i64) -> Self {
        let mut lags = Vec::new();
        let mut reverse_hits = 0;
        for r in onsets {
            let before = kills.partition_point(|k| k < r);
            if let Some(k) = before.checked_sub(1).and_then(|i| kills.get(i))
                && k.0 >= r.0.saturating_sub(w_ns)
            {
                lags.push(r.seconds_since(*k));
            }
            let after = kills.partition_point(|k| k <= r);
            reverse_hits += usize::from(kills.get(after).is_some_and(|k| k.0 <= r.0.saturating_add(w_ns)));
        }
        let followed = kills.iter().filter(|k| follows(**k, onsets, w_ns)).count();
        let chances: Vec<f64> = onsets.iter().map(|r| bins.before(*r, w_ns)).collect();
        let hits = lags.len();
        lags.sort_unstable_by(f64::total_cmp);
        Counted {
            restarts: onsets.len(),
            kills: kills.len(),
            hits,
            followed,
            expected_hits: chances.iter().sum(),
            p_value: binomial::tail(&chances, hits),
            reverse_hits,
            p_direction: at_least_half(hits, reverse_hits),
            lags,
            chances,
            power: OnceCell::new(),
        }
    }

    /// (hits − expected) / restarts; 0 without restarts.
    #[must_use]
    pub fn attributable_share(&self) -> f64 {
        if self.restarts == 0 { 0.0 } else { (self.hits as f64 - self.expected_hits) / self.restarts as f64 }
    }

    /// The chance to have shown a link of strength one half: with c the least count for which P(Σ Bernoulli(pᵢ) ≥ c) ≤ 0.01,
    /// P(Σ Bernoulli(½ + ½pᵢ) ≥ c).
    #[must_use]
    pub fn power(&self) -> f64 {
        *self.power.get_or_init(|| {
            let c = binomial::critical(&self.chances, 0.01);
            let half: Vec<f64> = self.chances.iter().map(|p| 0.5 + 0.5 * p).collect();
            binomial::tail(&half, c)
        })
    }

    /// The verdict, given q (Benjamini–Hochberg over all pairs of the report).
    #[must_use]
    pub fn verdict(&self, q_value: f64) -> Verdict {
        if q_value <= 0.01 && self.hits >= 3 && self.attributable_share() >= 0.2 {
            return if self.p_direction <= 0.12 { Verdict::Linked } else { Verdict::Together };
        }
        if self.kills >= 3 && self.p_value > 0.05 && self.power() >= 0.8 {
            return Verdict::Control;
        }
        Verdict::Inconclusive
    }

    /// Quartiles of the lag; `None` without hits.
    #[must_use]
    pub fn lag(&self) -> Option<Lag> {
        let at = |q| quantile(&self.lags, q);
        (!self.lags.is_empty()).then(|| Lag { median: at(0.5), p25: at(0.25), p75: at(0.75) })
    }
}

/// P(Bin(a + b, ½) ≥ a).
fn at_least_half(a: usize, b: usize) -> f64 {
    let Some(below) = (a as u64).checked_sub(1) else { return 1.0 };
    Binomial::new(0.5, (a + b) as u64).map_or(1.0, |d| d.sf(below))
}

/// Benjamini–Hochberg: for each p the least false-discovery rate at which it would be taken (Benjamini & Hochberg 1995).
#[must_use]
pub fn benjamini_hochberg(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut q = vec![1.0f64; p.len()];
    let mut least = 1.0f64;
    for (rank, i) in order.iter().enumerate().rev() {
        least = least.min(p[*i] * p.len() as f64 / (rank + 1) as f64);
        q[*i] = least;
    }
    q
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn false_discovery_rates_by_hand() {
        let q = benjamini_hochberg(&[0.01, 0.04, 0.03, 0.5]);
        for (got, want) in q.iter().zip([0.04, 0.16 / 3.0, 0.16 / 3.0, 0.5]) {
            assert!((got - want).abs() < 1e-12, "{q:?}");
        }
        assert!(benjamini_hochberg(&[]).is_empty());
    }

    #[test]
    fn direction_by_hand() {
        assert_eq!(at_least_half(0, 5), 1.0);
        assert!((at_least_half(7, 0) - 0.0078125).abs() < 1e-15);
        assert!((at_least_half(1, 1) - 0.75).abs() < 1e-15);
    }
}
