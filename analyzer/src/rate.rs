//! Rates of rare things: Garwood's exact Poisson interval (F. Garwood, "Fiducial limits for the Poisson distribution",
//! Biometrika 28, 1936): [χ²(0.025; 2n)/2T, χ²(0.975; 2n+2)/2T].

use statrs::distribution::{ContinuousCDF, Gamma};

/// Events an hour over `observed_seconds`, and the 95 % interval; `None` where nothing was observed.
#[must_use]
pub fn per_hour(n: u64, observed_seconds: f64) -> Option<(f64, [f64; 2])> {
    if !observed_seconds.is_finite() || observed_seconds <= 0.0 {
        return None;
    }
    let hours = observed_seconds / 3600.0;
    let [lo, hi] = garwood(n);
    Some((n as f64 / hours, [lo / hours, hi / hours]))
}

/// The 95 % interval of the mean of a Poisson count of which `n` were seen.
#[must_use]
pub fn garwood(n: u64) -> [f64; 2] {
    let lo = if n == 0 { 0.0 } else { half_chi2(n as f64, 0.025) };
    [lo, half_chi2(n as f64 + 1.0, 0.975)]
}

/// χ²(p; 2·shape)/2, which is the quantile of a gamma distribution of that shape and rate 1.
fn half_chi2(shape: f64, p: f64) -> f64 {
    if shape > 1e5 {
        // Wilson and Hilferty's cube; its relative error is below 1e-8 here, where an iteration would only cost time.
        let z = if p < 0.5 { -1.959_963_984_540_054 } else { 1.959_963_984_540_054 };
        let c = 1.0 / (9.0 * shape);
        return shape * (1.0 - c + z * c.sqrt()).powi(3);
    }
    // Shape is finite and positive here, so that this is always a distribution.
    Gamma::new(shape, 1.0).map_or(f64::NAN, |g| g.inverse_cdf(p))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_tables() {
        // Garwood 1936, table of fiducial limits, central 95 %.
        for (n, lo, hi) in [
            (0, 0.0, 3.688_879_454),
            (1, 0.025_317_808, 5.571_643_391),
            (5, 1.623_486_390, 11.668_332_080),
            (16, 9.145_381, 25.982_996),
            (48, 35.391_391_083, 63.641_036_182),
        ] {
            let [a, b] = garwood(n);
            assert!((a - lo).abs() < 1e-4 && (b - hi).abs() < 1e-4, "{n}: {a} {b}");
        }
    }

    #[test]
    fn the_far_end_joins_the_near() {
        let exact = Gamma::new(1e5, 1.0).unwrap();
        for p in [0.025, 0.975] {
            let (near, far) = (exact.inverse_cdf(p), half_chi2(1e5 + 1e-3, p));
            assert!((near / far - 1.0).abs() < 1e-6, "{near} {far}");
        }
    }

    #[test]
    fn nothing_observed_is_no_rate() {
        for t in [0.0, -1.0, f64::NAN] {
            assert!(per_hour(3, t).is_none());
        }
        let (rate, [lo, hi]) = per_hour(16, 3600.0).unwrap();
        assert!(lo < rate && rate < hi && rate == 16.0);
    }
}
