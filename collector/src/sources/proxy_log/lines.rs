//! Log bytes to lines: whole, bounded, and free of control characters. Pure. What the lines say is [`super::recognise`]'s.

/// The longest line that is looked at, in bytes; the rest of a longer one is left out.
pub const LONGEST: usize = 8 * 1024;
/// How much of a line is kept as evidence, in characters.
const EVIDENCE: usize = 300;

/// Lines put together from pieces as they come.
#[derive(Debug, Default)]
pub struct Lines {
    begun: Vec<u8>,
}

impl Lines {
    /// The lines that `piece` completes.
    pub fn push(&mut self, piece: &[u8]) -> Vec<String> {
        let mut out = Vec::new();
        let mut parts = piece.split(|b| *b == b'\n').peekable();
        while let Some(part) = parts.next() {
            let room = LONGEST.saturating_sub(self.begun.len()).min(part.len());
            self.begun.extend_from_slice(part.get(..room).unwrap_or_default());
            if parts.peek().is_some() {
                out.push(String::from_utf8_lossy(&std::mem::take(&mut self.begun)).into_owned());
            }
        }
        out
    }

    /// What is left at the end, if it is a line.
    pub fn rest(&mut self) -> Option<String> {
        let rest = std::mem::take(&mut self.begun);
        (!rest.is_empty()).then(|| String::from_utf8_lossy(&rest).into_owned())
    }
}

/// The line without escape sequences of terminals (colours), with a blank for every other control character.
#[must_use]
pub fn plain(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            // ESC [ … letter; any other sequence loses its ESC alone.
            let mut ahead = chars.clone();
            if ahead.next() == Some('[')
                && ahead.by_ref().find(|c| !(c.is_ascii_digit() || matches!(c, ';' | '?'))).is_some()
            {
                chars = ahead;
            }
        } else if c.is_control() || is_format(c) {
            out.push(' ');
        } else {
            out.push(c);
        }
    }
    out.trim().to_string()
}

/// Characters that show as nothing and turn the direction of text, or hide in it.
fn is_format(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// As much of a plain line as is kept as evidence.
#[must_use]
pub fn evidence(line: &str) -> String {
    let cut: String = line.chars().take(EVIDENCE).collect();
    if cut.len() < line.len() { cut + "…" } else { cut }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_come_whole_whatever_the_pieces() {
        let mut lines = Lines::default();
        assert!(lines.push(b"on").is_empty());
        assert_eq!(lines.push(b"e\ntwo\n\nth"), ["one", "two", ""]);
        assert_eq!(lines.rest().as_deref(), Some("th"));
        assert_eq!(lines.rest(), None);
    }

    #[test]
    fn a_line_without_end_does_not_grow() {
        let mut lines = Lines::default();
        for _ in 0..100 {
            assert!(lines.push(&[b'x'; 1000]).is_empty());
        }
        assert_eq!(lines.push(b"\nnext\n"), ["x".repeat(LONGEST), "next".into()]);
    }

    #[test]
    fn colours_and_controls_go() {
        assert_eq!(plain("\u{1b}[31mERR\u{1b}[0m a\tb\u{7}\u{202e}c\r"), "ERR a b  c");
        assert_eq!(plain("\u{1b}]0;title\u{7}x \u{1b}["), "]0;title x [");
        assert_eq!(evidence(&"é".repeat(400)).chars().count(), EVIDENCE + 1);
        assert_eq!(evidence("short"), "short");
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(text in "[a-c\n]{0,200}", cuts: Vec<prop::sample::Index>) {
            let mut whole = Lines::default();
            let mut expected = whole.push(text.as_bytes());
            expected.extend(whole.rest());
            let mut at: Vec<usize> = cuts.iter().map(|c| c.index(text.len() + 1)).collect();
            at.extend([0, text.len()]);
            at.sort_unstable();
            let mut pieces = Lines::default();
            let mut got: Vec<String> = at.windows(2).flat_map(|w| pieces.push(&text.as_bytes()[w[0]..w[1]])).collect();
            got.extend(pieces.rest());
            prop_assert_eq!(got, expected);
        }

        #[test]
        fn plain_lines_hold_no_controls(text: String) {
            prop_assert!(!plain(&text).chars().any(char::is_control));
        }
    }
}
