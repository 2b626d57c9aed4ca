//! Rising or falling: a Poisson log-linear model of counts over time with exposure, log μᵢ = log eᵢ + a + b·xᵢ, fitted by
//! iteratively reweighted least squares (McCullagh and Nelder, "Generalized Linear Models", 1989, 2.5).

use linchpin_data::time::NS;
use linchpin_data::{Span, Timestamp, Windows};

use crate::report::Trend;

/// Fewest hours, and fewest events, from which a trend is told.
const LEAST_HOURS: usize = 3;
const LEAST_EVENTS: u64 = 6;

/// The most hours that a trend is fitted over.
const MOST_HOURS: usize = 24 * 62;

/// Counts of one hour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hour {
    /// Its middle, in hours since the window's begin.
    pub at: f64,
    /// How much of it was observed, in hours.
    pub exposure: f64,
    /// Events seen in it.
    pub count: u64,
}

/// The trend of events within a window, hour by hour of what was observed of it. An event is a moment and how many happened
/// then. `None` where [`fit`] has none, and over more than two months.
#[must_use]
pub fn hourly(
    window: Span,
    observed: &Windows,
    events: impl Iterator<Item = (Timestamp, u64)>,
) -> Option<Trend> {
    let hours = window.seconds() / 3600.0;
    let bins = hours.ceil() as usize;
    if bins == 0 || bins > MOST_HOURS {
        return None;
    }
    let hour = |i: usize| {
        let from = window.from.plus_ns(i as i64 * 3600 * NS);
        let span = Span::new(from, from.plus_ns(3600 * NS)).and(window);
        let middle = (span.from.seconds_since(window.from) + span.to.seconds_since(window.from)) / 7200.0;
        Hour { at: middle, exposure: observed.clip(span).seconds() / 3600.0, count: 0 }
    };
    let mut data: Vec<Hour> = (0..bins).map(hour).collect();
    for (at, n) in events {
        let into = at.seconds_since(window.from) / 3600.0;
        if let Some(h) = data.get_mut((into as usize).min(bins - 1)) {
            h.count += n;
        }
    }
    fit(&data, hours)
}

/// Fits; `None` where there is too little to say, or nothing converges. `hours` is the window's length.
#[must_use]
pub fn fit(data: &[Hour], hours: f64) -> Option<Trend> {
    let data: Vec<Hour> = data.iter().copied().filter(|h| h.exposure > 0.0).collect();
    let events: u64 = data.iter().map(|h| h.count).sum();
    if data.len() < LEAST_HOURS || events < LEAST_EVENTS {
        return None;
    }
    let exposure: f64 = data.iter().map(|h| h.exposure).sum();
    let centre = data.iter().map(|h| h.at * h.exposure).sum::<f64>() / exposure;
    let (mut a, mut b) = ((events as f64 / exposure).ln(), 0.0);
    for _ in 0..60 {
        let (step_a, step_b, _) = step(&data, centre, a, b)?;
        a += step_a;
        b += step_b;
        if step_a.abs() + step_b.abs() < 1e-12 {
            break;
        }
    }
    let (last_a, last_b, variance) = step(&data, centre, a, b)?;
    let rest = last_a.abs() + last_b.abs();
    if rest.is_nan() || rest > 1e-6 {
        return None;
    }
    let half = 1.959_963_984_540_054 * variance.sqrt();
    let trend = Trend {
        factor_per_hour: b.exp(),
        factor_per_hour_ci: [(b - half).exp(), (b + half).exp()],
        from_per_hour: (a - b * centre).exp(),
        to_per_hour: (a + b * (hours - centre)).exp(),
    };
    let finite = [trend.factor_per_hour, trend.factor_per_hour_ci[1], trend.from_per_hour, trend.to_per_hour];
    finite.iter().all(|x| x.is_finite()).then_some(trend)
}

/// One Newton step (equal to one of the reweighted least squares for the canonical link), and the variance of b. A step is
/// cut where the exponential would run away.
fn step(data: &[Hour], centre: f64, a: f64, b: f64) -> Option<(f64, f64, f64)> {
    let (mut ga, mut gb, mut haa, mut hab, mut hbb) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for h in data {
        let x = h.at - centre;
        let mean = h.exposure * (a + b * x).exp();
        let rest = h.count as f64 - mean;
        ga += rest;
        gb += rest * x;
        haa += mean;
        hab += mean * x;
        hbb += mean * x * x;
    }
    let det = haa * hbb - hab * hab;
    if !det.is_finite() || det <= 0.0 {
        return None;
    }
    let reach = data.iter().map(|h| (h.at - centre).abs()).fold(1.0, f64::max);
    let (da, db) = ((hbb * ga - hab * gb) / det, (haa * gb - hab * ga) / det);
    let cut = (1.0 / (da.abs() + db.abs() * reach)).min(1.0);
    Some((da * cut, db * cut, haa / det))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hours(counts: &[u64]) -> Vec<Hour> {
        counts
            .iter()
            .enumerate()
            .map(|(i, c)| Hour { at: i as f64 + 0.5, exposure: 1.0, count: *c })
            .collect()
    }

    #[test]
    fn nine_to_twenty_five_an_hour() {
        // Exact exponential growth, rounded: from 9 to 25 over 24 hours.
        let g = (25.0f64 / 9.0).ln() / 24.0;
        let counts: Vec<u64> =
            (0..24).map(|i| (9.0 * (g * (f64::from(i) + 0.5)).exp()).round() as u64).collect();
        let t = fit(&hours(&counts), 24.0).unwrap();
        assert!((t.from_per_hour - 9.0).abs() < 0.3 && (t.to_per_hour - 25.0).abs() < 0.5, "{t:?}");
        assert!(t.factor_per_hour_ci[0] > 1.0 && (t.factor_per_hour - g.exp()).abs() < 2e-3);
    }

    #[test]
    fn agrees_with_the_likelihood_equations() {
        // At the maximum the fitted counts sum to the seen ones, and so do their moments.
        let data = [
            Hour { at: 0.5, exposure: 1.0, count: 4 },
            Hour { at: 1.5, exposure: 0.25, count: 3 },
            Hour { at: 3.5, exposure: 1.0, count: 11 },
            Hour { at: 4.2, exposure: 0.4, count: 2 },
        ];
        let t = fit(&data, 4.4).unwrap();
        let b = t.factor_per_hour.ln();
        let mean = |h: &Hour| h.exposure * t.from_per_hour * (b * h.at).exp();
        let (zero, one) = data.iter().fold((0.0, 0.0), |(z, o), h| {
            let r = h.count as f64 - mean(h);
            (z + r, o + r * h.at)
        });
        assert!(zero.abs() < 1e-8 && one.abs() < 1e-8, "{zero} {one}");
    }

    #[test]
    fn steady_has_one_inside() {
        let t = fit(&hours(&[10, 12, 9, 11, 10, 10]), 6.0).unwrap();
        assert!(t.factor_per_hour_ci[0] < 1.0 && t.factor_per_hour_ci[1] > 1.0);
    }

    #[test]
    fn too_little_says_nothing() {
        assert!(fit(&hours(&[5, 9]), 2.0).is_none());
        assert!(fit(&hours(&[1, 0, 2, 1]), 4.0).is_none());
        assert!(fit(&[], 0.0).is_none());
        // All in the last hour: no finite slope fits.
        let t = fit(&hours(&[0, 0, 0, 0, 0, 900]), 6.0);
        assert!(t.is_none_or(|t| t.factor_per_hour.is_finite()));
    }
}
