//! Lanes: time runs right, one lane a subject. Few deaths are drawn each by its own mark (shape and colour by cause)
//! with a bar while down; many are binned into columns, never overplotted. Hatching where nobody watched.

use std::collections::BTreeMap;
use std::fmt::Write;

use linchpin_analyzer::data::{Span, Timestamp};

use super::{Cause, figure, pct};
use crate::markup::Html;
use crate::words;

/// What a lane shows.
#[derive(Clone, Debug)]
pub struct LanePicture {
    /// The window.
    pub window: Span,
    /// Times down: begin, end, cause.
    pub episodes: Vec<(Timestamp, Timestamp, Cause)>,
    /// Spans in which nobody watched.
    pub gaps: Vec<Span>,
}

/// Columns when binned; marks nearer than one of these parts would lie on each other.
const BINS: usize = 72;
const HEIGHT: u32 = 40;
const MIDDLE: u32 = 20;

impl LanePicture {
    fn share(&self, t: Timestamp) -> f64 {
        let length = self.window.seconds();
        if length > 0.0 { (t.seconds_since(self.window.from) / length).clamp(0.0, 1.0) } else { 0.0 }
    }

    fn crowded(&self) -> bool {
        let mut xs: Vec<f64> = self.episodes.iter().map(|e| self.share(e.0)).collect();
        xs.sort_by(f64::total_cmp);
        let near = xs.windows(2).filter(|w| w[1] - w[0] < 1.0 / BINS as f64).count();
        // A few pairs may touch; more than that is a blur.
        near > 2 && near * 10 > xs.len()
    }
}

/// One lane.
#[must_use]
pub fn lane(name: &str, l: &LanePicture) -> Html {
    let binned = l.crowded();
    let y = if binned { "37.5".to_string() } else { MIDDLE.to_string() };
    let mut b = format!("<line class=\"base\" x1=\"0\" x2=\"100%\" y1=\"{y}\" y2=\"{y}\"/>");
    for gap in merged(l) {
        let _ = write!(
            b,
            "<rect class=\"hatched\" x=\"{}\" width=\"{}\" y=\"4\" height=\"32\"/>",
            pct(gap.0),
            pct(gap.1 - gap.0)
        );
    }
    if binned {
        columns(&mut b, l)
    } else {
        marks(&mut b, l)
    }
    let mut by_cause: BTreeMap<Cause, u64> = BTreeMap::new();
    for e in &l.episodes {
        *by_cause.entry(e.2).or_default() += 1;
    }
    let causes: Vec<String> =
        by_cause.iter().map(|(c, n)| format!("{} {}", words::count(*n), c.label())).collect();
    let desc = format!(
        "{} between {} and {}{}{}{}.",
        words::plural(l.episodes.len() as u64, "time down", "times down"),
        words::utc_seconds(l.window.from),
        words::utc_seconds(l.window.to),
        if causes.is_empty() { "" } else { ": " },
        causes.join(", "),
        if binned { format!("; drawn as counts in {BINS} equal parts") } else { String::new() }
    );
    figure("lane", HEIGHT, &format!("{name}: when it was down"), &desc, &b)
}

fn merged(l: &LanePicture) -> Vec<(f64, f64)> {
    let mut out: Vec<(f64, f64)> = Vec::new();
    for g in &l.gaps {
        let (from, to) = (l.share(g.from), l.share(g.to));
        match out.last_mut() {
            Some(last) if from - last.1 < 0.001 => last.1 = last.1.max(to),
            _ => out.push((from, to)),
        }
    }
    out
}

fn marks(b: &mut String, l: &LanePicture) {
    for (from, to, cause) in &l.episodes {
        let (x1, x2) = (l.share(*from), l.share(*to));
        let _ = write!(
            b,
            "<rect class=\"down {}\" x=\"{}\" width=\"{}\" y=\"{}\" height=\"6\"/>",
            cause.class(),
            pct(x1),
            pct(x2 - x1),
            MIDDLE - 3
        );
    }
    for (from, to, cause) in &l.episodes {
        let _ = write!(
            b,
            "<svg x=\"{}\" y=\"{MIDDLE}\" overflow=\"visible\"><g class=\"{}\"><title>{}, {}, down {}</title>{}</g></svg>",
            pct(l.share(*from)),
            cause.class(),
            words::utc_seconds(*from),
            cause.label(),
            words::duration(to.seconds_since(*from)),
            cause.shape()
        );
    }
}

fn columns(b: &mut String, l: &LanePicture) {
    let mut bins: Vec<BTreeMap<Cause, u32>> = vec![BTreeMap::new(); BINS];
    for (from, _, cause) in &l.episodes {
        let i = ((l.share(*from) * BINS as f64) as usize).min(BINS - 1);
        *bins[i].entry(*cause).or_default() += 1;
    }
    let most = bins.iter().map(|m| m.values().sum::<u32>()).max().unwrap_or(1).max(1);
    for (i, bin) in bins.iter().enumerate() {
        let mut y = 37.0;
        for (cause, n) in bin {
            let h = (f64::from(*n) / f64::from(most) * 33.0).max(2.0);
            y -= h;
            let _ = write!(
                b,
                "<rect class=\"column {}\" x=\"{}\" width=\"{}\" y=\"{y:.1}\" height=\"{h:.1}\"><title>{} × {}</title></rect>",
                cause.class(),
                pct((i as f64 + 0.1) / BINS as f64),
                pct(0.8 / BINS as f64),
                words::count(u64::from(*n)),
                cause.label()
            );
        }
    }
}

/// Steps of a time axis in seconds: what clocks and calendars are read by.
const STEPS: [i64; 22] = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400,
    172_800, 604_800, 1_209_600, 2_592_000,
];

/// The time axis below lanes: ticks at round times of UTC.
#[must_use]
pub fn axis(window: Span) -> Html {
    let length = window.seconds();
    let with_day = length > 86_400.0;
    let most = if with_day { 5.0 } else { 6.0 };
    let step = STEPS.into_iter().find(|s| length / *s as f64 <= most).unwrap_or((length / most) as i64 + 1);
    let step_ns = step.saturating_mul(1_000_000_000);
    let mut b = String::new();
    let first = window.from.0.div_euclid(step_ns).saturating_add(1).saturating_mul(step_ns);
    let ticks = (0..8_i64).map(|i| Timestamp(first.saturating_add(step_ns.saturating_mul(i))));
    let mut zone = " UTC";
    for (i, t) in ticks.take_while(|t| *t < window.to).enumerate() {
        let share = t.seconds_since(window.from) / length;
        let x = pct(share);
        let _ = write!(b, "<line class=\"tick\" x1=\"{x}\" x2=\"{x}\" y1=\"0\" y2=\"5\"/>");
        if !(0.04..=0.96).contains(&share) {
            continue;
        }
        // On a narrow page labels with a day would run into each other: the style sheet hides every second one.
        let class = if with_day && i % 2 == 1 { "axis spare" } else { "axis" };
        let form = match step {
            s if s < 60 => "%H:%M:%S",
            s if s >= 86_400 => "%-d %b",
            _ if with_day => "%-d %b %H:%M",
            _ => "%H:%M",
        };
        let label = t.to_utc().format(form);
        let _ = write!(
            b,
            "<text class=\"{class}\" x=\"{x}\" y=\"18\" text-anchor=\"middle\">{label}{zone}</text>"
        );
        zone = "";
    }
    let desc = format!("From {} to {}.", words::utc_seconds(window.from), words::utc_seconds(window.to));
    figure("time-axis", 22, "Time axis, UTC", &desc, &b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn t(s: i64) -> Timestamp {
        Timestamp::from_secs(s)
    }

    #[test]
    fn few_are_marks_many_are_columns() {
        let mut l = LanePicture {
            window: Span::new(t(0), t(10_000)),
            episodes: vec![(t(100), t(160), Cause::Memory), (t(5_000), t(5_001), Cause::Clean)],
            gaps: vec![Span::new(t(7_000), t(8_000))],
        };
        let few = lane("a\"b", &l).0;
        crate::wellformed::check(&few, true).unwrap();
        assert_eq!(few.matches("class=\"down ").count(), 2);
        assert!(few.contains("hatched") && !few.contains("class=\"column"));
        l.episodes = (0..900).map(|i| (t(i * 10), t(i * 10 + 1), Cause::ALL[i as usize % 3])).collect();
        let many = lane("x", &l).0;
        crate::wellformed::check(&many, true).unwrap();
        assert!(many.contains("class=\"column") && !many.contains("class=\"down "));
        assert!(many.len() < 60_000, "{}", many.len());
    }

    #[test]
    fn axes() {
        for span in [Span::new(t(0), t(60)), Span::new(t(0), t(864_000)), Span::new(t(9), t(9))] {
            let svg = axis(span).0;
            crate::wellformed::check(&svg, true).unwrap();
            assert!(svg.matches("<text").count() <= 7, "{svg}");
        }
        assert!(axis(Span::new(t(7), t(10_807))).0.contains(">00:30 UTC<"));
        crate::wellformed::check(&axis(Span::new(Timestamp::MIN, Timestamp::MAX)).0, true).unwrap();
        crate::wellformed::check(&axis(Span::new(Timestamp(i64::MAX - 5), Timestamp::MAX)).0, true).unwrap();
    }
}
