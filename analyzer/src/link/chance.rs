//! How likely a kill falls shortly before a restart by luck. Deaths come in bursts and drift over the day, so each observed
//! window is cut into bins and each kill could have fallen anywhere in its own bin (interval jitter: Amarasingham,
//! Harrison, Hatsopoulos & Geman, J. Neurophysiol. 107, 2012). No random draws.

use linchpin_data::{Timestamp, Windows};

/// Kills counted in the bins of the observed windows.
#[derive(Debug)]
pub struct Bins {
    /// Begin, length in nanoseconds and kills of each bin that holds any, sorted.
    filled: Vec<(f64, f64, u32)>,
    origin: i64,
    longest: f64,
}

impl Bins {
    /// Cuts each window of length L into max(1, round(L / `bin_ns`)) equal bins and counts `kills` in them. Kills outside
    /// all windows are left out; `kills` is sorted.
    #[must_use]
    pub fn new(observed: &Windows, kills: &[Timestamp], bin_ns: i64) -> Self {
        let origin = observed.hull().map_or(0, |s| s.from.0);
        let mut filled: Vec<(f64, f64, u32)> = Vec::new();
        let mut longest = 0.0f64;
        for span in observed.spans() {
            let length = span.ns() as f64;
            let count = (length / bin_ns as f64).round().max(1.0);
            let width = length / count;
            longest = longest.max(width);
            let begin = span.from.0.saturating_sub(origin) as f64;
            let first = kills.partition_point(|k| *k < span.from);
            for kill in kills[first..].iter().take_while(|k| **k < span.to) {
                let into = kill.0.saturating_sub(span.from.0) as f64;
                let index = (into / width).floor().min(count - 1.0);
                let from = begin + index * width;
                match filled.last_mut() {
                    Some(last) if last.0 == from => last.2 += 1,
                    _ => filled.push((from, width, 1)),
                }
            }
        }
        Bins { filled, origin, longest }
    }

    /// The chance that some kill falls in [`at` − `w_ns`, `at`) if each could be anywhere in its own bin:
    /// 1 − Π over bins b of (1 − |[at − w, at) ∩ b| / |b|)^(kills in b).
    #[must_use]
    pub fn before(&self, at: Timestamp, w_ns: i64) -> f64 {
        let to = at.0.saturating_sub(self.origin) as f64;
        self.some(to - w_ns as f64, to)
    }

    /// The same chance for any span, from and to in nanoseconds of the axis.
    #[must_use]
    pub fn chance(&self, from: i64, to: i64) -> f64 {
        self.some(from.saturating_sub(self.origin) as f64, to.saturating_sub(self.origin) as f64)
    }

    /// How many kills are expected in a span, from and to in nanoseconds of the axis.
    #[must_use]
    pub fn expected(&self, from: i64, to: i64) -> f64 {
        let (from, to) = (from.saturating_sub(self.origin) as f64, to.saturating_sub(self.origin) as f64);
        self.shares(from, to).map(|(share, kills)| share * f64::from(kills)).sum()
    }

    fn some(&self, from: f64, to: f64) -> f64 {
        let mut none = 1.0;
        for (share, kills) in self.shares(from, to) {
            none *= (1.0 - share).max(0.0).powi(i32::try_from(kills).unwrap_or(i32::MAX));
        }
        1.0 - none
    }

    /// The share of each filled bin that a span covers, and the kills in it.
    fn shares(&self, from: f64, to: f64) -> impl Iterator<Item = (f64, u32)> {
        let first = self.filled.partition_point(|b| b.0 + self.longest <= from && b.0 + b.1 <= from);
        self.filled[first..].iter().take_while(move |b| b.0 < to).map(move |(begin, width, kills)| {
            let both = (to.min(begin + width) - from.max(*begin)).max(0.0);
            (both / width, *kills)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linchpin_data::Span;

    const S: i64 = 1_000_000_000;

    fn at(seconds: i64) -> Timestamp {
        Timestamp(seconds * S)
    }

    fn check(windows: &[(i64, i64)], kills: &[i64], restart: i64, want: f64) {
        let observed = Windows::from_spans(windows.iter().map(|(a, b)| Span::new(at(*a), at(*b))));
        let mut kills: Vec<Timestamp> = kills.iter().map(|k| at(*k)).collect();
        kills.sort_unstable();
        let got = Bins::new(&observed, &kills, 60 * S).before(at(restart), 5 * S);
        assert!((got - want).abs() < 1e-12, "{got} {want}");
    }

    #[test]
    fn chances_by_hand() {
        check(&[(0, 600)], &[30], 50, 5.0 / 60.0);
        check(&[(0, 600)], &[30, 31], 50, 1.0 - (55.0f64 / 60.0).powi(2));
        check(&[(0, 600)], &[30], 200, 0.0);
        // Over the edge of two bins, a kill in each: 2 s of one, 3 s of the other.
        check(&[(0, 600)], &[30, 90], 63, 1.0 - (58.0 / 60.0) * (57.0 / 60.0));
        // A window of 80 s is one bin; of 100 s, two of 50 s.
        check(&[(0, 80)], &[70], 20, 5.0 / 80.0);
        check(&[(0, 100)], &[70], 80, 5.0 / 50.0);
        // What lies before the window has no bins; kills outside do not count.
        check(&[(100, 160)], &[110, 20], 102, 2.0 / 60.0);
        check(&[(0, 60), (1000, 1060)], &[1010], 1020, 5.0 / 60.0);
        check(&[], &[10], 20, 0.0);
    }
}
