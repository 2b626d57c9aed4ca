//! The nines ruler: unavailability on a log scale from 90 % to 99.999 %. The target is a mark, the ceiling a dot with
//! its interval; a dot left of the mark cannot be talked away.

use std::fmt::Write;

use super::{figure, pct};
use crate::markup::Html;
use crate::words;

/// What a ruler shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ruler {
    /// The target, 0 to 1.
    pub target: f64,
    /// The ceiling, 0 to 1; `None` where nothing was observed.
    pub ceiling: Option<f64>,
    /// Its 95 % interval.
    pub interval: Option<[f64; 2]>,
}

/// The nines at which the ruler has ticks.
const NINES: [(f64, &str); 5] =
    [(0.9, "90"), (0.99, "99"), (0.999, "99.9"), (0.9999, "99.99"), (0.99999, "99.999")];
/// Room at both ends for what lies beyond the scale.
const MARGIN: f64 = 0.06;

/// Where an availability lies on the ruler, 0 (90 % and worse) to 1 (99.999 % and better).
#[must_use]
pub fn position(availability: f64) -> f64 {
    let missing = (1.0 - availability).clamp(0.0, 1.0);
    let nines = if missing <= 0.0 { 9.0 } else { -missing.log10() };
    let inner = (nines - 1.0) / 4.0;
    if inner < -1e-9 {
        MARGIN * 0.4
    } else if inner > 1.0 + 1e-9 {
        1.0 - MARGIN * 0.4
    } else {
        MARGIN + inner.clamp(0.0, 1.0) * (1.0 - 2.0 * MARGIN)
    }
}

/// The scale's labels, above a column of rulers.
#[must_use]
pub fn ruler_axis() -> Html {
    let mut body = String::new();
    for (a, label) in NINES {
        let x = pct(position(a));
        let _ = write!(body, "<text class=\"axis\" x=\"{x}\" y=\"13\" text-anchor=\"middle\">{label}</text>");
        let _ = write!(body, "<line class=\"tick\" x1=\"{x}\" x2=\"{x}\" y1=\"17\" y2=\"21\"/>");
    }
    figure(
        "ruler-axis",
        22,
        "Scale",
        "Availability in per cent, from 90 to 99.999, each step ten times less downtime.",
        &body,
    )
}

/// One ruler, `name` said in its title.
#[must_use]
pub fn ruler(name: &str, r: &Ruler) -> Html {
    let mut b = String::new();
    let target = position(r.target);
    let _ = write!(b, "<rect class=\"short\" x=\"0\" width=\"{}\" y=\"3\" height=\"22\"/>", pct(target));
    let _ = write!(b, "<line class=\"base\" x1=\"0\" x2=\"100%\" y1=\"14\" y2=\"14\"/>");
    for (a, _) in NINES {
        let x = pct(position(a));
        let _ = write!(b, "<line class=\"tick\" x1=\"{x}\" x2=\"{x}\" y1=\"10\" y2=\"18\"/>");
    }
    let t = pct(target);
    let _ = write!(b, "<line class=\"target\" x1=\"{t}\" x2=\"{t}\" y1=\"2\" y2=\"26\"/>");
    let desc = match r.ceiling {
        None => {
            let _ = write!(b, "<rect class=\"hatched\" x=\"0\" width=\"100%\" y=\"8\" height=\"12\"/>");
            format!("Target {}. The ceiling is unknown: nothing was observed.", words::target(r.target))
        }
        Some(c) => {
            let over = c < r.target;
            let class = if over { "over" } else { "within" };
            if let Some([lo, hi]) = r.interval {
                let (x1, x2) = (pct(position(lo)), pct(position(hi)));
                let _ = write!(
                    b,
                    "<line class=\"interval {class}\" x1=\"{x1}\" x2=\"{x2}\" y1=\"14\" y2=\"14\"/>"
                );
            }
            let x = pct(position(c));
            // Left of the mark a filled diamond, right of it a ring: told apart without colour.
            let shape = if over { "<path d=\"M0-7 7 0 0 7-7 0Z\"/>" } else { "<circle r=\"5.5\"/>" };
            let _ = write!(
                b,
                "<svg x=\"{x}\" y=\"14\" overflow=\"visible\"><g class=\"dot {class}\">{shape}</g></svg>"
            );
            let within = r.interval.map_or(String::new(), |[lo, hi]| {
                format!(" (95 % interval {} to {})", words::availability(lo), words::availability(hi))
            });
            format!(
                "Ceiling {}{within}, target {}: {}.",
                words::availability(c),
                words::target(r.target),
                if over { "the target cannot be reached" } else { "the target can be reached" }
            )
        }
    };
    figure("ruler", 28, &format!("{name}: ceiling against target"), &desc, &b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_scale_with_room_for_the_rest() {
        let xs: Vec<f64> = [0.2, 0.9, 0.99, 0.999, 0.9999, 0.99999, 1.0].map(position).to_vec();
        assert!(xs.windows(2).all(|w| w[0] < w[1]), "{xs:?}");
        assert!((xs[2] - xs[1] - (xs[3] - xs[2])).abs() < 1e-9);
        assert!(position(f64::NAN) >= 0.0 || position(f64::NAN).is_nan());
    }

    #[test]
    fn left_of_the_mark_looks_different() {
        let r = |c| Ruler { target: 0.999, ceiling: c, interval: Some([0.993, 0.996]) };
        let over = ruler("<b>", &r(Some(0.994_889))).0;
        let within = ruler("x", &r(Some(0.9995))).0;
        let unknown = ruler("x", &r(None)).0;
        for svg in [&over, &within, &unknown, &ruler_axis().0] {
            crate::wellformed::check(svg, true).unwrap();
        }
        assert!(over.contains("dot over") && over.contains("cannot be reached") && !over.contains("<b>"));
        assert!(within.contains("dot within") && within.contains("<circle"));
        assert!(unknown.contains("hatched") && unknown.contains("unknown") && !unknown.contains("dot "));
    }
}
