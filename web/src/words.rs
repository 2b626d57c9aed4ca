//! Figures as people say them: percentages, durations, rates, counts, times. Pure; "unknown" is a word of its own here
//! and never a zero.

use linchpin_analyzer::data::Timestamp;

use crate::markup::Html;

/// A thin space that does not break, between a figure and its unit.
const NB: char = '\u{a0}';

/// A figure with as many decimals as give `digits` significant ones, at most six, without trailing zeros beyond them.
#[must_use]
pub fn significant(x: f64, digits: i32) -> String {
    if !x.is_finite() {
        return "unknown".into();
    }
    if x == 0.0 {
        return "0".into();
    }
    let magnitude = x.abs().log10().floor() as i32;
    let decimals = (digits - 1 - magnitude).clamp(0, 6) as usize;
    let text = format!("{x:.decimals$}");
    if decimals == 0 && x.abs() >= 1000.0 { group(&text) } else { text }
}

/// 1,048,576.
#[must_use]
pub fn count(n: u64) -> String {
    group(&n.to_string())
}

fn group(digits: &str) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |d| ("-", d));
    let mut out = String::from(sign);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// An availability, 0 to 1, with three significant digits of what is missing from 100 %: 0.994889 is `99.489 %`. What
/// is not whole never rounds up to 100 %.
#[must_use]
pub fn availability(a: f64) -> String {
    if !a.is_finite() {
        return "unknown".into();
    }
    let missing = (1.0 - a.clamp(0.0, 1.0)) * 100.0;
    if missing < 1e-9 {
        return format!("100{NB}%");
    }
    let decimals = (2 - missing.log10().floor() as i32).clamp(1, 7) as usize;
    format!("{}{NB}%", down(100.0 - missing, decimals))
}

/// A target as it was set: `99.9 %`, `99.95 %`.
#[must_use]
pub fn target(t: f64) -> String {
    let text = format!("{:.5}", t * 100.0);
    format!("{}{NB}%", text.trim_end_matches('0').trim_end_matches('.'))
}

fn down(x: f64, decimals: usize) -> String {
    let text = format!("{x:.decimals$}");
    if text.starts_with("100") {
        let scale = 10_f64.powi(decimals as i32);
        return format!("{:.decimals$}", (x * scale).floor() / scale);
    }
    text
}

/// A length of time: `0.4 ms`, `350 ms`, `1.15 s`, `12.4 s`, `7.4 min`, `3.2 h`, `5.9 days`.
#[must_use]
pub fn duration(seconds: f64) -> String {
    if !seconds.is_finite() {
        return "unknown".into();
    }
    let s = seconds.max(0.0);
    let (value, unit) = if s == 0.0 {
        return format!("0{NB}s");
    } else if s < 0.9995 {
        (s * 1e3, "ms")
    } else if s < 99.95 {
        (s, "s")
    } else if s < 99.95 * 60.0 {
        (s / 60.0, "min")
    } else if s < 36.0 * 3600.0 {
        (s / 3600.0, "h")
    } else {
        (s / 86_400.0, "days")
    };
    let text = match unit {
        "s" if value < 9.995 => format!("{value:.2}"),
        "ms" if value < 1.0 => significant(value, 1),
        "ms" => format!("{value:.0}"),
        _ if value < 99.95 => trim_zeros(format!("{value:.1}")),
        _ => group(&format!("{value:.0}")),
    };
    let unit = if unit == "days" && text == "1" { "day" } else { unit };
    format!("{text}{NB}{unit}")
}

fn trim_zeros(text: String) -> String {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// A rate an hour: `15.7`, `9.0`, `0.42`.
#[must_use]
pub fn per_hour(x: f64) -> String {
    if x >= 10.0 { significant(x, 3) } else { significant(x, 2) }
}

/// A figure as somebody would have typed it: `30`, `0.5`, `16`.
#[must_use]
pub fn plain(x: f64) -> String {
    if x.is_finite() && x.abs() >= 1e-6 || x == 0.0 {
        trim_zeros(format!("{x:.6}"))
    } else {
        significant(x, 3)
    }
}

/// `1 day`, `30 days`, `0.5 days`.
#[must_use]
pub fn days(x: f64) -> String {
    format!("{}{NB}{}", plain(x), if x == 1.0 { "day" } else { "days" })
}

/// A burn rate: `5.1`, `0.32`, `14.4`, `120`.
#[must_use]
pub fn burn(x: f64) -> String {
    if x == 0.0 {
        "0".into()
    } else if x < 0.01 {
        "< 0.01".into()
    } else if x < 1.0 {
        trim_zeros(format!("{x:.2}"))
    } else if x < 99.95 {
        format!("{x:.1}")
    } else {
        significant(x, 3)
    }
}

/// Memory: `512 MiB`, `15.6 GiB`.
#[must_use]
pub fn bytes(n: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1023.5 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    let text = if value < 10.0 { trim_zeros(format!("{value:.1}")) } else { format!("{value:.0}") };
    format!("{text}{NB}{}", units[unit])
}

/// `1 restart`, `47 restarts`.
#[must_use]
pub fn plural(n: u64, one: &str, many: &str) -> String {
    format!("{}{NB}{}", count(n), if n == 1 { one } else { many })
}

/// How long ago, in one unit: `just now`, `12 s ago`, `5 min ago`, `3 h ago`, `4 days ago`.
#[must_use]
pub fn ago(seconds: f64) -> String {
    let s = seconds.max(0.0);
    if s < 2.0 {
        "just now".into()
    } else if s < 100.0 {
        format!("{s:.0}{NB}s ago")
    } else if s < 100.0 * 60.0 {
        format!("{:.0}{NB}min ago", s / 60.0)
    } else if s < 48.0 * 3600.0 {
        format!("{:.0}{NB}h ago", s / 3600.0)
    } else {
        format!("{:.0}{NB}days ago", s / 86_400.0)
    }
}

/// `2026-08-09 06:05:03 UTC`, in text that cannot carry markup.
#[must_use]
pub fn utc_seconds(t: Timestamp) -> String {
    t.to_utc().format("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// How much of a moment is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Day and minute.
    Minute,
    /// Day, hour, minute and second.
    Second,
    /// Down to the millisecond.
    Milli,
}

/// A moment as a `<time>` element: UTC as text; the script puts it into the viewer's zone and keeps UTC as the title.
#[must_use]
pub fn time(t: Timestamp, shown: Shown) -> Html {
    let (form, name) = match shown {
        Shown::Minute => ("%-d %b %Y, %H:%M UTC", "minute"),
        Shown::Second => ("%-d %b %Y, %H:%M:%S UTC", "second"),
        Shown::Milli => ("%-d %b %Y, %H:%M:%S%.3f UTC", "milli"),
    };
    let utc = t.to_utc();
    Html(format!(
        "<time datetime=\"{}\" title=\"{}\" data-shown=\"{name}\">{}</time>",
        t.to_millis_text(),
        utc.format("%Y-%m-%d %H:%M:%S%.3f UTC"),
        utc.format(form)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blanks(s: String) -> String {
        s.replace(NB, " ")
    }

    #[test]
    fn availabilities() {
        for (a, text) in [
            (0.994_888_89, "99.489 %"),
            (0.999, "99.900 %"),
            (1.0, "100 %"),
            (0.999_999_999, "99.9999999 %"),
            (0.5, "50.0 %"),
            (0.0, "0.0 %"),
            (0.949, "94.90 %"),
            (f64::NAN, "unknown"),
        ] {
            assert_eq!(blanks(availability(a)), text, "{a}");
        }
        assert_eq!(blanks(target(0.999)), "99.9 %");
        assert_eq!(blanks(target(0.9995)), "99.95 %");
    }

    #[test]
    fn durations() {
        for (s, text) in [
            (0.0, "0 s"),
            (0.0004, "0.4 ms"),
            (0.35, "350 ms"),
            (1.15, "1.15 s"),
            (1.0, "1.00 s"),
            (12.44, "12.4 s"),
            (441.6, "7.4 min"),
            (2592.0, "43.2 min"),
            (11_520.0, "3.2 h"),
            (86_400.0, "24 h"),
            (166_680.0, "1.9 days"),
            (509_760.0, "5.9 days"),
            (f64::INFINITY, "unknown"),
        ] {
            assert_eq!(blanks(duration(s)), text, "{s}");
        }
    }

    #[test]
    fn the_rest() {
        assert_eq!(burn(5.111), "5.1");
        assert_eq!(burn(0.001), "< 0.01");
        assert_eq!(per_hour(15.666), "15.7");
        assert_eq!(per_hour(0.333), "0.33");
        assert_eq!(per_hour(9.0), "9.0");
        assert_eq!(blanks(days(30.0)), "30 days");
        assert_eq!(blanks(bytes(536_870_912)), "512 MiB");
        assert_eq!(blanks(plural(1, "restart", "restarts")), "1 restart");
        assert_eq!(blanks(ago(130.0)), "2 min ago");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(significant(12_345.6, 3), "12,346");
    }
}
