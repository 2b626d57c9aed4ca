//! The interval of a ceiling 1 − D/T, by bootstrap over episodes: 2,000 draws with a fixed seed, so that one history always
//! gives one interval.
//!
//! Each draw takes each episode Poisson(1) times (the Poisson bootstrap), so that both the number of episodes and their
//! lengths vary: with lengths alone, a process that is always down for equally long would show no doubt at all.

/// How many draws.
pub const DRAWS: usize = 2_000;
const SEED: u64 = 0x4c69_6e63_6870_696e;
/// Beyond this many episodes the sum is as good as normal, and is drawn as such: an agent must not stall on a long history.
const MANY: usize = 5_000;

/// SplitMix64 (Steele, Lea and Flood, 2014): tiny, fixed for ever, good enough to draw episodes with.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In (0, 1).
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Below `n`, by multiplication (Lemire), without a modulo's bias worth naming.
    fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// A Poisson count: by inversion where the mean is small, else by the normal's nearest integer.
    fn poisson(&mut self, mean: f64) -> usize {
        if mean > 200.0 {
            return (mean + mean.sqrt() * self.normal()).round().max(0.0) as usize;
        }
        let (mut k, mut p) = (0usize, (-mean).exp());
        let (u, mut sum) = (self.unit(), p);
        while u > sum && k < 2_000 {
            k += 1;
            p *= mean / k as f64;
            sum += p;
        }
        k
    }
}

/// The 2.5 % and 97.5 % quantiles of the sum of `durations` (seconds) under the bootstrap.
#[must_use]
pub fn downtime_quantiles(durations: &[f64]) -> [f64; 2] {
    let n = durations.len();
    if n == 0 {
        return [0.0, 0.0];
    }
    let mut rng = SplitMix(SEED);
    let mut sums: Vec<f64> = if n > MANY {
        let mean: f64 = durations.iter().sum();
        let sd = durations.iter().map(|d| d * d).sum::<f64>().sqrt();
        (0..DRAWS).map(|_| (mean + sd * rng.normal()).max(0.0)).collect()
    } else {
        (0..DRAWS)
            .map(|_| {
                let k = rng.poisson(n as f64);
                (0..k).map(|_| durations[rng.below(n)]).sum()
            })
            .collect()
    };
    sums.sort_unstable_by(f64::total_cmp);
    [quantile(&sums, 0.025), quantile(&sums, 0.975)]
}

/// The interval of 1 − D/T from the quantiles of D; always covers the point, never leaves 0 to 1.
#[must_use]
pub fn interval(point: f64, quantiles: [f64; 2], observed_seconds: f64) -> [f64; 2] {
    let at = |d: f64| (1.0 - d / observed_seconds).clamp(0.0, 1.0);
    [at(quantiles[1]).min(point), at(quantiles[0]).max(point)]
}

/// The quantile `p` of sorted values by linear interpolation (type 7 of Hyndman and Fan). 0 of nothing.
#[must_use]
pub fn quantile(sorted: &[f64], p: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let h = last as f64 * p;
    let i = (h.floor() as usize).min(last);
    let (a, b) = (sorted[i], sorted[(i + 1).min(last)]);
    a + (b - a) * (h - i as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles_by_interpolation() {
        let v = [1.0, 2.0, 4.0, 8.0];
        for (p, want) in [(0.0, 1.0), (0.5, 3.0), (0.95, 7.4), (1.0, 8.0)] {
            assert!((quantile(&v, p) - want).abs() < 1e-12);
        }
        assert_eq!(quantile(&[], 0.5), 0.0);
    }

    #[test]
    fn equal_lengths_still_leave_doubt() {
        // 48 episodes of 1.15 s: a compound Poisson sum, so 48 ± 1.96·√48 of them.
        let [lo, hi] = downtime_quantiles(&[1.15; 48]);
        assert!((34.0 * 1.15 - lo).abs() < 2.4 && (62.0 * 1.15 - hi).abs() < 2.4, "{lo} {hi}");
    }

    #[test]
    fn near_and_far_ways_agree() {
        let near: Vec<f64> = (0..MANY).map(|i| 1.0 + (i % 7) as f64).collect();
        let far: Vec<f64> = (0..=MANY).map(|i| 1.0 + (i % 7) as f64).collect();
        let ([a, b], [c, d]) = (downtime_quantiles(&near), downtime_quantiles(&far));
        assert!((a / c - 1.0).abs() < 0.01 && (b / d - 1.0).abs() < 0.01, "{a} {b} {c} {d}");
    }

    proptest! {
        #[test]
        fn covers_the_point_and_never_changes(d in prop::collection::vec(0.0f64..1e4, 0..40), more in 1.0f64..1e6) {
            let total: f64 = d.iter().sum();
            let observed = total + more;
            let point = 1.0 - total / observed;
            let q = downtime_quantiles(&d);
            prop_assert_eq!(q, downtime_quantiles(&d));
            let [lo, hi] = interval(point, q, observed);
            prop_assert!((0.0..=1.0).contains(&lo) && hi <= 1.0);
            prop_assert!(lo <= point && point <= hi);
        }
    }
}
