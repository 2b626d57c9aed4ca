//! Text for a terminal: what came from outside is shown without control characters or marks that turn the line around.

/// One line of text that cannot move the cursor, colour the terminal or reverse the reading.
pub fn line(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            c if c.is_control() => '\u{FFFD}',
            '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{061C}' => {
                '\u{FFFD}'
            }
            c => c,
        })
        .collect()
}

/// At most `width` characters of [`line`], with an ellipsis where it was cut.
pub fn cell(text: &str, width: usize) -> String {
    let clean = line(text);
    if clean.chars().count() <= width {
        return clean;
    }
    clean.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Seconds as people say them: 1.15 s, 7.4 min, 3.2 h, 5.9 days.
pub fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 0.9995 => format!("{:.0} ms", s * 1000.0),
        s if s < 99.95 => format!("{s:.2} s"),
        s if s < 5_940.0 => format!("{:.1} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3600.0),
        s => format!("{:.1} days", s / 86_400.0),
    }
}

/// An availability with as many digits as it deserves: 99.489 %, 99.99913 %.
pub fn percent(share: f64) -> String {
    let down = 1.0 - share;
    let digits =
        if down <= 0.0 { 0 } else { (1.0 - (down * 100.0).log10().floor()).clamp(1.0, 7.0) as usize };
    let digits = if down > 0.0 { digits.max(3) } else { 0 };
    format!("{:.digits$} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_is_text() {
        assert_eq!(line("a\x1b[31m\nb\u{202E}c"), "a\u{FFFD}[31m\u{FFFD}b\u{FFFD}c");
        assert_eq!(cell("abcdef", 4), "abc…");
    }

    #[test]
    fn figures_as_people_say_them() {
        for (s, text) in [(0.05, "50 ms"), (1.15, "1.15 s"), (441.6, "7.4 min"), (507_272.7, "5.9 days")] {
            assert_eq!(duration(s), text);
        }
        for (a, text) in
            [(0.994_888_89, "99.489 %"), (1.0, "100 %"), (0.999_999_13, "99.999913 %"), (0.5, "50.000 %")]
        {
            assert_eq!(percent(a), text);
        }
    }
}
