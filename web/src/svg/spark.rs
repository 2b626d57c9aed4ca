//! The sparkline: deaths over the window in equal parts, hatched where nobody watched.

use std::fmt::Write;

use super::{figure, pct};
use crate::markup::Html;
use crate::words;

/// Deaths in equal parts of the window; `None` is a part in which nobody watched.
#[must_use]
pub fn sparkline(name: &str, parts: &[Option<u32>]) -> Html {
    let n = parts.len().max(1) as f64;
    let most = parts.iter().flatten().copied().max().unwrap_or(0);
    let total: u64 = parts.iter().flatten().map(|d| u64::from(*d)).sum();
    let blind = parts.iter().filter(|p| p.is_none()).count();
    let mut b = String::from("<line class=\"base\" x1=\"0\" x2=\"100%\" y1=\"27.5\" y2=\"27.5\"/>");
    let mut i = 0;
    while i < parts.len() {
        let x = pct(i as f64 / n);
        if let Some(d) = parts[i] {
            if d > 0 {
                let h = (f64::from(d) / f64::from(most) * 24.0).max(3.0);
                let w = pct(0.72 / n);
                let _ = write!(
                    b,
                    "<rect class=\"deaths\" x=\"{x}\" width=\"{w}\" y=\"{:.1}\" height=\"{h:.1}\"/>",
                    27.0 - h
                );
            }
            i += 1;
        } else {
            let run = parts[i..].iter().take_while(|p| p.is_none()).count();
            let w = pct(run as f64 / n);
            let _ = write!(b, "<rect class=\"hatched\" x=\"{x}\" width=\"{w}\" y=\"2\" height=\"25\"/>");
            i += run;
        }
    }
    let unseen = match blind {
        0 => String::new(),
        _ => format!(" Nobody watched for {:.0} % of the window.", blind as f64 / n * 100.0),
    };
    let desc = format!(
        "{} over the window, at most {most} in one of {} equal parts.{unseen}",
        words::plural(total, "death", "deaths"),
        parts.len()
    );
    figure("spark", 30, &format!("{name}: deaths over time"), &desc, &b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_is_not_zero() {
        let svg = sparkline("a&b", &[Some(0), Some(2), None, None, Some(1)]).0;
        crate::wellformed::check(&svg, true).unwrap();
        assert_eq!(svg.matches("class=\"deaths\"").count(), 2);
        assert_eq!(svg.matches("class=\"hatched\"").count(), 1);
        assert!(svg.contains("40 % of the window"));
    }

    #[test]
    fn nothing_at_all() {
        crate::wellformed::check(&sparkline("x", &[]).0, true).unwrap();
    }
}
