//! The lag histogram: how long before each restart the suspect's nearest death came, with the level that chance would give. A link is
//! a spike above a flat line, a common cause a hump about nought, a control flat.

use std::fmt::Write;

use linchpin_analyzer::report::diagnosis::LagHistogram;

use super::{figure, pct};
use crate::markup::Html;
use crate::words;

/// Height of the bars' field in pixels.
const FIELD: f64 = 90.0;

/// Draws one; time runs from deaths long before the restart, at the left, to deaths after it.
#[must_use]
pub fn lag_histogram(suspect: &str, h: &LagHistogram) -> Html {
    let n = h.counts.len().max(1) as f64;
    let most = h.counts.iter().map(|c| *c as f64).chain(h.chance.iter().copied()).fold(1.0, f64::max);
    let mut b = String::new();
    for (i, count) in h.counts.iter().enumerate().filter(|(_, c)| **c > 0) {
        let (x, tall) = (left(i, n), *count as f64 / most * FIELD);
        let _ = write!(
            b,
            "<rect class=\"lag-bar\" x=\"{}\" width=\"{}\" y=\"{:.1}\" height=\"{tall:.1}\"/>",
            pct(x),
            pct(0.86 / n),
            FIELD + 4.0 - tall
        );
    }
    for (i, chance) in h.chance.iter().enumerate() {
        let (x, y) = (left(i, n), FIELD + 4.0 - (chance / most * FIELD).clamp(0.0, FIELD));
        let _ = write!(
            b,
            "<line class=\"lag-chance\" x1=\"{}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>",
            pct(x),
            pct(x + 1.0 / n)
        );
    }
    let base = FIELD + 4.0;
    let _ = write!(b, "<line class=\"base\" x1=\"0\" x2=\"100%\" y1=\"{base}\" y2=\"{base}\"/>");
    let _ = write!(b, "<line class=\"lag-now\" x1=\"50%\" x2=\"50%\" y1=\"0\" y2=\"{}\"/>", base + 4.0);
    let reach = -h.from_seconds;
    for (x, anchor, text) in [
        ("0", "start", format!("died {reach:.0} s before")),
        ("50%", "middle", "restart".to_string()),
        ("100%", "end", format!("{reach:.0} s after")),
    ] {
        let _ = write!(b, "<text class=\"axis\" x=\"{x}\" y=\"112\" text-anchor=\"{anchor}\">{text}</text>");
    }
    let near = h.counts.iter().sum::<u64>();
    let peak = h.counts.iter().enumerate().max_by_key(|(_, c)| **c).filter(|(_, c)| **c > 0);
    let peak = peak.map_or(String::new(), |(i, c)| {
        let from = h.from_seconds + i as f64 * h.bin_seconds;
        format!(" Most, {}, lie {}.", words::count(*c), bin_words(from, h.bin_seconds))
    });
    let desc = format!(
        "{} of {} restarts have a death of it within {reach:.0} seconds; chance would give {}.{peak}",
        words::count(near),
        words::count(near + h.beyond),
        words::significant(h.chance.iter().sum(), 3),
    );
    figure("lags", 116, &format!("Deaths of {suspect} around each restart"), &desc, &b)
}

/// Where a bin begins; deaths before the restart have positive lags and lie left.
fn left(i: usize, n: f64) -> f64 {
    (n - 1.0 - i as f64) / n
}

fn bin_words(from: f64, width: f64) -> String {
    if from >= 0.0 {
        format!("{from:.0} to {:.0} s before it", from + width)
    } else {
        format!("{:.0} to {:.0} s after it", -from - width, -from)
    }
}

/// The same as a table: when, restarts, chance; bins without a restart are left out.
#[must_use]
pub fn lag_rows(h: &LagHistogram) -> Vec<(String, String, String)> {
    let bins = h.counts.iter().zip(&h.chance).enumerate().rev();
    bins.filter(|(_, (count, _))| **count > 0)
        .map(|(i, (count, chance))| {
            let from = h.from_seconds + i as f64 * h.bin_seconds;
            (bin_words(from, h.bin_seconds), words::count(*count), words::significant(*chance, 2))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use linchpin_analyzer::link::pair::Verdict;

    #[test]
    fn a_spike_is_told_where_it_is() {
        let mut h = LagHistogram {
            suspect: "docker:b".into(),
            verdict: Verdict::Linked,
            from_seconds: -30.0,
            bin_seconds: 1.0,
            counts: vec![0; 60],
            chance: vec![0.2; 60],
            beyond: 2,
        };
        h.counts[31] = 12;
        h.counts[28] = 1;
        let svg = lag_histogram("<b>", &h).0;
        crate::wellformed::check(&svg, true).unwrap();
        assert!(
            svg.contains("13 of 15 restarts") && svg.contains("Most, 12, lie 1 to 2 s before it."),
            "{svg}"
        );
        assert!(!svg.contains("<b>"));
        let rows = lag_rows(&h);
        assert_eq!(rows[0].0, "1 to 2 s before it");
        assert_eq!((rows[1].0.as_str(), rows[1].1.as_str()), ("1 to 2 s after it", "1"));
    }
}
