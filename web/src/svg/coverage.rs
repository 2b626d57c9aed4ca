//! The coverage strip: when a source watched, and, hatched, when it did not.

use std::fmt::Write;

use linchpin_analyzer::data::{Span, Timestamp};

use super::{figure, pct};
use crate::markup::Html;
use crate::words;

/// What a strip shows.
#[derive(Clone, Debug)]
pub struct Strip {
    /// The window.
    pub window: Span,
    /// When it watched.
    pub watched: Vec<[Timestamp; 2]>,
}

/// One strip. More than some hundred spans run together into what their shares are.
#[must_use]
pub fn coverage(name: &str, s: &Strip) -> Html {
    let length = s.window.seconds();
    let at = |t: Timestamp| if length > 0.0 { t.seconds_since(s.window.from) / length } else { 0.0 };
    let mut b = String::from("<rect class=\"hatched\" x=\"0\" width=\"100%\" y=\"1\" height=\"16\"/>");
    let mut watched = 0.0;
    let mut last: Option<(f64, f64)> = None;
    let mut draw = |(from, to): (f64, f64)| {
        let _ = write!(
            b,
            "<rect class=\"watched\" x=\"{}\" width=\"{}\" y=\"1\" height=\"16\"/>",
            pct(from),
            pct(to - from)
        );
    };
    for [from, to] in &s.watched {
        let (from, to) = (at(*from).clamp(0.0, 1.0), at(*to).clamp(0.0, 1.0));
        watched += (to - from).max(0.0);
        match &mut last {
            // Neighbours closer than a thousandth of the picture are drawn as one; a gap stays a gap from there on.
            Some(l) if from - l.1 < 0.001 => l.1 = l.1.max(to),
            Some(l) => {
                draw(*l);
                *l = (from, to);
            }
            None => last = Some((from, to)),
        }
    }
    if let Some(l) = last {
        draw(l);
    }
    let desc = format!(
        "Watched for {:.1} % of the window ({} of {}).",
        watched * 100.0,
        words::duration(watched * length),
        words::duration(length)
    );
    figure("coverage", 18, &format!("{name}: when it watched"), &desc, &b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_show() {
        let t = Timestamp::from_secs;
        let strip = Strip { window: Span::new(t(0), t(100)), watched: vec![[t(0), t(40)], [t(60), t(100)]] };
        let svg = coverage("<docker>", &strip).0;
        crate::wellformed::check(&svg, true).unwrap();
        assert_eq!(svg.matches("class=\"watched\"").count(), 2);
        assert!(svg.contains("80.0 %"), "{svg}");
    }

    #[test]
    fn thousands_of_spans_stay_bounded() {
        let t = Timestamp::from_secs;
        let watched = (0..50_000).map(|i| [t(i * 10), t(i * 10 + 9)]).collect();
        let svg = coverage("x", &Strip { window: Span::new(t(0), t(500_000)), watched }).0;
        assert!(svg.len() < 200_000, "{}", svg.len());
    }

    #[test]
    fn an_empty_window_is_no_division() {
        let t = Timestamp::from_secs;
        let svg = coverage("x", &Strip { window: Span::new(t(5), t(5)), watched: vec![[t(5), t(5)]] }).0;
        crate::wellformed::check(&svg, true).unwrap();
    }
}
