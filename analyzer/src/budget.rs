//! The error budget: burn rates over the windows of the SRE workbook (chapter 5, multi-window, multi-burn-rate alerts),
//! whether its pages would fire, and how long the budget lasts.

use linchpin_data::time::NS;
use linchpin_data::{Span, Windows};

use crate::report::{Budget, BurnWindow, Objective};

/// A multi-window page: fires when the burn over both windows reaches `burn`.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Least burn rate.
    pub burn: f64,
    /// The long window, as in [`WINDOWS`].
    pub long: &'static str,
    /// The short window.
    pub short: &'static str,
}

/// The usual pages.
pub const PAGES: [Page; 2] =
    [Page { burn: 14.4, long: "1h", short: "5m" }, Page { burn: 6.0, long: "6h", short: "30m" }];

/// The windows, with their lengths in seconds.
pub const WINDOWS: [(&str, i64); 7] = [
    ("5m", 300),
    ("30m", 1_800),
    ("1h", 3_600),
    ("2h", 7_200),
    ("6h", 21_600),
    ("1d", 86_400),
    ("3d", 259_200),
];

/// Share of time down over the share allowed. Infinite where nothing is allowed and something was down.
#[must_use]
pub fn burn_rate(downtime_share: f64, target: f64) -> f64 {
    if downtime_share <= 0.0 { 0.0 } else { downtime_share / (1.0 - target).max(0.0) }
}

/// Days after which a whole budget is gone at that burn; `None` if never.
#[must_use]
pub fn lasts_days(burn: f64, window_days: f64) -> Option<f64> {
    (burn > 0.0).then(|| window_days / burn)
}

/// The budget as it stands at the end of `window`. `observed` and `down` reach back as far as anything is known; `down`
/// lies within `observed`.
#[must_use]
pub fn budget(objective: Objective, observed: &Windows, down: &Windows, window: Span) -> Budget {
    let burn_over = |span: Span| {
        let seen = observed.clip(span).seconds();
        let burn = (seen > 0.0).then(|| burn_rate(down.clip(span).seconds() / seen, objective.target));
        (seen, burn.filter(|b| b.is_finite()))
    };
    let burn_windows: Vec<BurnWindow> = WINDOWS
        .iter()
        .map(|(name, seconds)| {
            let span = Span::new(window.to.plus_ns(-seconds * NS), window.to);
            let (observed_seconds, burn_rate) = burn_over(span);
            BurnWindow { window: (*name).into(), seconds: *seconds as f64, observed_seconds, burn_rate }
        })
        .collect();
    let (_, rate) = burn_over(window);
    Budget {
        target: objective.target,
        window_days: objective.window_days,
        allowed_seconds: (1.0 - objective.target) * objective.window_days * 86_400.0,
        burn_rate: rate,
        steady_burn_unpaged: rate.is_some_and(|r| r > 1.0 && r < 6.0) && !pages(&burn_windows),
        lasts_days: rate.and_then(|r| lasts_days(r, objective.window_days)),
        burn_windows,
    }
}

/// Whether one of the usual pages fires.
fn pages(windows: &[BurnWindow]) -> bool {
    let over = |name: &str, burn: f64| {
        windows.iter().any(|w| w.window == name && w.burn_rate.is_some_and(|b| b >= burn))
    };
    PAGES.iter().any(|p| over(p.long, p.burn) && over(p.short, p.burn))
}

#[cfg(test)]
mod tests {
    use super::*;
    use linchpin_data::Timestamp;

    fn span(from: i64, to: i64) -> Span {
        Span::new(Timestamp::from_secs(from), Timestamp::from_secs(to))
    }

    #[test]
    fn a_steady_burn_hides_under_the_pages() {
        // 1 s down every 200 s: 5 times 99.9 %.
        let observed = Windows::from_spans([span(0, 86_400)]);
        let down = Windows::from_spans((0..432).map(|i| span(200 * i, 200 * i + 1)));
        let b = budget(Objective::default(), &observed, &down, span(0, 86_400));
        assert!((b.burn_rate.unwrap() - 5.0).abs() < 1e-9);
        assert!((b.lasts_days.unwrap() - 6.0).abs() < 1e-9);
        assert!(b.steady_burn_unpaged);
        let day = &b.burn_windows[5];
        assert_eq!((day.window.as_str(), day.observed_seconds), ("1d", 86_400.0));
        assert_eq!(b.burn_windows[6].observed_seconds, 86_400.0, "three days, of which one was observed");
    }

    #[test]
    fn a_burst_pages() {
        let observed = Windows::from_spans([span(0, 86_400)]);
        let down = Windows::from_spans([span(86_100, 86_200)]);
        let b = budget(Objective::default(), &observed, &down, span(0, 86_400));
        assert!(b.burn_rate.unwrap() > 1.0 && !b.steady_burn_unpaged);
    }

    #[test]
    fn nothing_observed_burns_nothing_known() {
        let b = budget(Objective::default(), &Windows::new(), &Windows::new(), span(0, 100));
        assert_eq!((b.burn_rate, b.lasts_days, b.steady_burn_unpaged), (None, None, false));
        assert!(b.burn_windows.iter().all(|w| w.burn_rate.is_none()));
    }
}
