//! The budget line: what is left of the error budget over its window, as it was spent and as it goes on at this rate,
//! against even spending, with the day on which it ends.

use std::fmt::Write;

use super::{figure, pct};
use crate::markup::Html;
use crate::words;

/// What a budget line shows.
#[derive(Clone, Debug, PartialEq)]
pub struct BudgetLine {
    /// Allowed downtime over the whole window, seconds.
    pub allowed_seconds: f64,
    /// The budget's window, days.
    pub window_days: f64,
    /// How long was observed, seconds.
    pub observed_seconds: f64,
    /// Spending as it happened: seconds since the begin, and downtime until then; in order.
    pub spent: Vec<(f64, f64)>,
    /// Burn rate; `None` where nothing was observed.
    pub burn_rate: Option<f64>,
}

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 140.0;

/// The line. Beneath zero nothing is drawn: a budget is gone or it is not.
#[must_use]
pub fn budget_line(name: &str, l: &BudgetLine) -> Html {
    let whole = (l.window_days * 86_400.0).max(1.0);
    let x = |seconds: f64| (seconds / whole).clamp(0.0, 1.0) * WIDTH;
    let y = |spent: f64| (spent / l.allowed_seconds.max(1e-9)).clamp(0.0, 1.0) * HEIGHT;
    let mut inner =
        format!("<path class=\"even\" d=\"M0 0L{WIDTH} {HEIGHT}\" vector-effect=\"non-scaling-stroke\"/>");
    let step = (l.spent.len() / 400).max(1);
    let mut d = String::from("M0 0");
    for (at, down) in l.spent.iter().step_by(step).chain(l.spent.last()) {
        let _ = write!(d, "L{:.2} {:.2}", x(*at), y(*down));
    }
    let end = l.spent.last().map_or(0.0, |s| s.1);
    let _ = write!(d, "L{:.2} {:.2}", x(l.observed_seconds), y(end));
    let mut marker = String::new();
    let mut story = String::from("Nothing was observed: what is left is unknown.");
    if let Some(burn) = l.burn_rate {
        let ends = if burn > 0.0 { whole / burn } else { f64::INFINITY };
        let to = ends.min(whole);
        // The projection runs from the begin at the mean rate, so that it meets zero where the sentence says.
        let _ = write!(
            inner,
            "<path class=\"projection {}\" d=\"M0 0L{:.2} {:.2}\" vector-effect=\"non-scaling-stroke\"/>",
            if burn > 1.0 { "over" } else { "within" },
            x(to),
            if burn > 0.0 { (to / ends) * HEIGHT } else { 0.0 }
        );
        story = if ends < whole {
            let share = ends / whole;
            let (anchor, dx) = if share > 0.7 { ("end", -8) } else { ("start", 10) };
            let _ = write!(
                marker,
                "<svg x=\"{0}\" y=\"168\" overflow=\"visible\"><g class=\"dot over\"><path d=\"M0-6 6 0 0 6-6 0Z\"/></g><text class=\"callout\" x=\"{dx}\" y=\"-10\" text-anchor=\"{anchor}\">gone after {1}</text></svg>",
                pct(share),
                words::duration(ends)
            );
            format!(
                "At the present rate the whole budget is gone after {} of {}.",
                words::duration(ends),
                words::days(l.window_days)
            )
        } else {
            format!(
                "At the present rate {:.0} % of the budget is spent at the end of the window.",
                burn * 100.0
            )
        };
    }
    let _ = write!(inner, "<path class=\"spent\" d=\"{d}\" vector-effect=\"non-scaling-stroke\"/>");
    let days = words::plain(l.window_days);
    let body = format!(
        "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"28\" y2=\"28\"/><line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"98\" y2=\"98\"/><line class=\"base\" x1=\"0\" x2=\"100%\" y1=\"168\" y2=\"168\"/>\
         <svg x=\"0\" y=\"28\" width=\"100%\" height=\"140\" viewBox=\"0 0 1000 140\" preserveAspectRatio=\"none\" overflow=\"visible\">{inner}</svg>{marker}\
         <text class=\"axis\" x=\"0\" y=\"20\">whole budget: {}</text><text class=\"axis even-label\" x=\"100%\" y=\"92\" text-anchor=\"end\">dotted: even spending</text>\
         <text class=\"axis\" x=\"0\" y=\"188\">day 0</text><text class=\"axis\" x=\"100%\" y=\"188\" text-anchor=\"end\">day {days}</text>",
        words::duration(l.allowed_seconds)
    );
    let desc = format!(
        "{} of {} spent in {} observed. {story}",
        words::duration(end),
        words::duration(l.allowed_seconds),
        words::duration(l.observed_seconds)
    );
    figure("budget", 196, &format!("{name}: what is left of the error budget"), &desc, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(burn: Option<f64>) -> BudgetLine {
        BudgetLine {
            allowed_seconds: 2592.0,
            window_days: 30.0,
            observed_seconds: 10_800.0,
            spent: (0..5_000).map(|i| (f64::from(i), f64::from(i) * 0.005)).collect(),
            burn_rate: burn,
        }
    }

    #[test]
    fn says_when_it_ends() {
        let svg = budget_line("<x>", &line(Some(5.11))).0;
        crate::wellformed::check(&svg, true).unwrap();
        assert!(svg.contains("gone after 5.9\u{a0}days"), "{svg}");
        assert!(svg.len() < 30_000, "{}", svg.len());
    }

    #[test]
    fn slow_none_and_empty() {
        for burn in [Some(0.4), Some(0.0), None] {
            let mut l = line(burn);
            let svg = budget_line("x", &l).0;
            crate::wellformed::check(&svg, true).unwrap();
            assert!(!svg.contains("gone after"));
            l.spent.clear();
            crate::wellformed::check(&budget_line("x", &l).0, true).unwrap();
        }
    }
}
