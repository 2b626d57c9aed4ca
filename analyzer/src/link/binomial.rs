//! The Poisson-binomial tail: P(Σ Bernoulli(pᵢ) ≥ c) for unequal pᵢ. Exact by convolution, with an absorbing state at c, so
//! that tiny tails are sums of positive terms and keep their relative precision down to the smallest numbers there are.
//! Beyond [`EXACT_UP_TO`] trials, a saddlepoint approximation (Lugannani & Rice 1980, with Daniels' continuity correction
//! for lattice variables, 1987; relative error well below 1 % here, see the tests).

use statrs::distribution::{Continuous, ContinuousCDF, Normal};

/// Up to so many trials of 0 < p < 1 the tail is exact.
pub const EXACT_UP_TO: usize = 2000;

/// P(Σ Bernoulli(pᵢ) ≥ `count`). Probabilities are clamped to 0..=1; `count` 0 gives 1.
#[must_use]
pub fn tail(p: &[f64], count: usize) -> f64 {
    let certain = p.iter().filter(|p| **p >= 1.0).count();
    let open: Vec<f64> = p.iter().copied().filter(|p| *p > 0.0 && *p < 1.0).collect();
    let count = count.saturating_sub(certain);
    if count == 0 {
        return 1.0;
    }
    if count > open.len() {
        return 0.0;
    }
    if open.len() <= EXACT_UP_TO { exact(&open, count) } else { saddlepoint(&open, count) }
}

/// The least c with P(Σ Bernoulli(pᵢ) ≥ c) ≤ `level`; at most the number of trials and one. `level` is not tiny (≥ 1e-6).
#[must_use]
pub fn critical(p: &[f64], level: f64) -> usize {
    let certain = p.iter().filter(|p| **p >= 1.0).count();
    let open: Vec<f64> = p.iter().copied().filter(|p| *p > 0.0 && *p < 1.0).collect();
    let mean: f64 = open.iter().sum();
    // Bernstein: t = 6√μ + 15 beyond the mean, less than exp(−t²/(2(μ + t/3))) ≤ e^-22 is left, which no level asked for can see.
    let top = ((mean + 6.0 * mean.sqrt() + 15.0).ceil() as usize).min(open.len());
    let mut pmf = vec![0.0; top + 1];
    pmf[0] = 1.0;
    for (done, p) in open.iter().enumerate() {
        for k in (1..=top.min(done + 1)).rev() {
            pmf[k] = pmf[k] * (1.0 - p) + pmf[k - 1] * p;
        }
        pmf[0] *= 1.0 - p;
    }
    let mut tail = 0.0;
    let mut c = top + 1;
    while c > 0 && tail + pmf[c - 1] <= level {
        c -= 1;
        tail += pmf[c];
    }
    // With every open trial allowed to fail, the certain ones are counted all the same.
    if c == 0 { 0 } else { c + certain }
}

/// Convolution over states 0..count with `count` absorbing.
fn exact(p: &[f64], count: usize) -> f64 {
    // state[k]: probability of k successes so far, k < count.
    let mut state = vec![0.0; count];
    state[0] = 1.0;
    let (mut absorbed, mut top) = (0.0, 0);
    for (done, p_i) in p.iter().enumerate() {
        let q = 1.0 - p_i;
        if top + 1 == count {
            absorbed += state[top] * p_i;
        } else {
            top += 1;
        }
        // States that can no longer reach `count` are dead weight.
        let left = p.len() - done - 1;
        let lowest = count.saturating_sub(left).min(top);
        for k in (lowest.max(1)..=top).rev() {
            state[k] = state[k] * q + state[k - 1] * p_i;
        }
        state[0] *= q;
    }
    absorbed
}

/// Log of the moment generating function, its first and second derivative at `s`.
fn cumulants(p: &[f64], s: f64) -> (f64, f64, f64) {
    let e = s.exp();
    p.iter().fold((0.0, 0.0, 0.0), |(k, k1, k2), p| {
        let m = 1.0 - p + p * e;
        let t = p * e / m;
        (k + m.ln(), k1 + t, k2 + t * (1.0 - t))
    })
}

/// Lugannani–Rice with the second continuity correction, evaluated at `count` − ½.
fn saddlepoint(p: &[f64], count: usize) -> f64 {
    let x = count as f64 - 0.5;
    let n = p.len() as f64;
    if x >= n - 0.5 {
        // All trials succeed: the product itself.
        return p.iter().map(|p| p.ln()).sum::<f64>().exp();
    }
    let Some(s) = solve(p, x) else { return f64::NAN };
    let (k, _, k2) = cumulants(p, s);
    let normal = Normal::standard();
    let w = s.signum() * (2.0 * (s * x - k)).max(0.0).sqrt();
    let u = 2.0 * (s / 2.0).sinh() * k2.sqrt();
    if w.abs() < 1e-4 || u.abs() < 1e-4 {
        // At the mean the formula is 0/0: its limit, a normal tail with the skewness term.
        let k3: f64 = p.iter().map(|p| p * (1.0 - p) * (1.0 - 2.0 * p)).sum();
        let z = (x - p.iter().sum::<f64>()) / k2.sqrt();
        return normal.sf(z) + normal.pdf(z) * k3 / (6.0 * k2.powf(1.5)) * (z * z - 1.0);
    }
    (normal.sf(w) + normal.pdf(w) * (1.0 / u - 1.0 / w)).clamp(0.0, 1.0)
}

/// The saddlepoint: s with K′(s) = x. Newton, kept between brackets.
fn solve(p: &[f64], x: f64) -> Option<f64> {
    let (mut low, mut high) = (-700.0, 700.0);
    let mut s = 0.0;
    for _ in 0..200 {
        let (_, k1, k2) = cumulants(p, s);
        if !k1.is_finite() {
            return None;
        }
        if k1 > x {
            high = s
        } else {
            low = s
        }
        let step = (x - k1) / k2;
        let next =
            if step.is_finite() && s + step > low && s + step < high { s + step } else { (low + high) / 2.0 };
        if (next - s).abs() < 1e-12 * (1.0 + s.abs()) {
            return Some(next);
        }
        s = next;
    }
    Some(s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All 2ⁿ outcomes, counted.
    fn brute(p: &[f64], count: usize) -> f64 {
        (0..1u32 << p.len())
            .filter(|bits| bits.count_ones() as usize >= count)
            .map(|bits| {
                p.iter()
                    .enumerate()
                    .map(|(i, p)| if bits >> i & 1 == 1 { *p } else { 1.0 - p })
                    .product::<f64>()
            })
            .sum()
    }

    proptest! {
        #[test]
        fn equals_counting_all_outcomes(p in prop::collection::vec(0.0..=1.0f64, 0..11), count in 0usize..13) {
            let (got, want) = (tail(&p, count), brute(&p, count));
            prop_assert!((got - want).abs() <= 1e-9 * want.max(1e-300), "{got} {want}");
        }

        #[test]
        fn the_critical_count_is_the_least(p in prop::collection::vec(0.0..=1.0f64, 0..40)) {
            let c = critical(&p, 0.01);
            prop_assert!(tail(&p, c) <= 0.01);
            prop_assert!(c == 0 || tail(&p, c - 1) > 0.01);
        }
    }

    #[test]
    fn tiny_tails_keep_their_precision() {
        // 100 trials of 1e-3, all succeed: 1e-300.
        let p = vec![1e-3; 100];
        assert!((tail(&p, 100) / 1e-300 - 1.0).abs() < 1e-9);
        assert_eq!(tail(&p, 101), 0.0);
    }

    #[test]
    fn the_saddlepoint_is_within_a_percent_of_the_exact_tail() {
        let p: Vec<f64> = (0..1500).map(|i| 0.002 + 0.3 * f64::from(i % 17) / 17.0).collect();
        let mean: f64 = p.iter().sum();
        for count in (1..700).step_by(7) {
            let (exact, close) = (exact(&p, count), saddlepoint(&p, count));
            if exact > 1e-250 {
                assert!((close / exact - 1.0).abs() < 0.01, "{count} (mean {mean}): {close} {exact}");
            }
        }
        let rare = vec![0.001; 1900];
        for count in 1..20 {
            let (exact, close) = (exact(&rare, count), saddlepoint(&rare, count));
            assert!((close / exact - 1.0).abs() < 0.01, "{count}: {close} {exact}");
        }
    }
}
