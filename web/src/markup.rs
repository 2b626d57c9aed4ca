//! Text becomes markup here and nowhere else: escaping, and what hostile names look like on a page. Templates print
//! [`Html`] as it is and escape everything else.

use std::fmt;

use askama::filters::HtmlSafe;

/// Finished markup: whoever makes one has escaped what went in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Html(pub String);

impl fmt::Display for Html {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl HtmlSafe for Html {}

/// Escapes for text and for quoted attributes, of HTML and of SVG alike.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// The longest name that is shown, in characters.
pub const NAME_MAX: usize = 64;
/// The longest sentence or value taken from an event that is shown, in characters.
pub const TEXT_MAX: usize = 600;

/// A text as a person may see it: control characters as their pictures (␀), direction marks, line separators and other
/// invisible characters as U+FFFD, cut at `max` characters with a word on how much was cut. Not escaped yet.
#[must_use]
pub fn visible(text: &str, max: usize) -> String {
    let mut out = String::with_capacity(text.len().min(max * 4) + 16);
    for (n, c) in text.chars().enumerate() {
        if n >= max {
            out.push_str(&format!("… ({} bytes in all)", crate::words::count(text.len() as u64)));
            break;
        }
        out.push(shown_char(c));
    }
    out
}

/// As [`visible`], with a plain ellipsis where it is cut: for lists whose entries lead to the whole.
#[must_use]
pub fn cut(text: &str, max: usize) -> String {
    let mut out: String = text.chars().take(max).map(shown_char).collect();
    if text.chars().nth(max).is_some() {
        out.push('…');
    }
    out
}

fn shown_char(c: char) -> char {
    match c {
        '\0'..='\u{1f}' => char::from_u32(0x2400 + c as u32).unwrap_or('\u{fffd}'),
        '\u{7f}' => '\u{2421}',
        '\u{80}'..='\u{9f}'
        | '\u{ad}'
        | '\u{61c}'
        | '\u{115f}'..='\u{1160}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}' => '\u{fffd}',
        c => c,
    }
}

/// A name from outside, isolated from the direction of the text around it.
#[must_use]
pub fn name(text: &str) -> Html {
    let shown = if text.is_empty() { "(no name)".to_string() } else { visible(text, NAME_MAX) };
    Html(format!("<bdi>{}</bdi>", escape(&shown)))
}

/// A subject: its scheme (`docker:`) in the background, its name in front, with places to break a long one.
#[must_use]
pub fn subject(text: &str) -> Html {
    match text.split_once(':') {
        Some((scheme, rest)) if !rest.is_empty() && scheme.len() <= 16 => Html(format!(
            "<bdi class=\"subject\"><span class=\"scheme\">{}:</span>{}</bdi>",
            escape(&visible(scheme, 16)),
            // A long name breaks where it is made of parts.
            escape(&visible(rest, NAME_MAX)).replace('/', "/<wbr>")
        )),
        _ => name(text),
    }
}

/// The name of a subject as it stands in a sentence: without its scheme.
#[must_use]
pub fn plain_subject(text: &str) -> String {
    match text.split_once(':') {
        Some((_, rest)) if !rest.is_empty() => visible(rest, NAME_MAX),
        _ if text.is_empty() => "(no name)".into(),
        _ => visible(text, NAME_MAX),
    }
}

/// Percent-encodes a path segment or a query value: everything but letters, digits, `-`, `_` and `~`; dots too, so that
/// no browser takes a name for a step up.
#[must_use]
pub fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for b in text.bytes() {
        match b {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'~' => out.push(char::from(b)),
            b => out.push_str(&format!("%{b:02X}")),
        }
    }
    out
}

/// The address of a process's page; `None` for names that no address can hold (empty, or beyond a few thousand bytes).
#[must_use]
pub fn process_href(host: &str, subject: &str) -> Option<String> {
    let dots = |s: &str| s.is_empty() || s == "." || s == "..";
    if dots(host) || dots(subject) || host.len() + subject.len() > 2_000 {
        return None;
    }
    Some(format!("/process/{}/{}", encode(host), encode(subject)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_invisible_becomes_visible() {
        assert_eq!(visible("a\0b\n\u{1b}[31m\u{7f}", 99), "a␀b␊␛[31m␡");
        assert_eq!(
            visible("x\u{202e}gnp\u{2066}\u{200d}\u{feff}\u{e0041}", 99),
            "x\u{fffd}gnp\u{fffd}\u{fffd}\u{fffd}\u{fffd}"
        );
        assert_eq!(visible("grün 日本 🚀", 99), "grün 日本 🚀");
    }

    #[test]
    fn a_megabyte_is_cut() {
        let long = "x".repeat(1 << 20);
        let shown = visible(&long, NAME_MAX);
        assert!(shown.len() < 150, "{}", shown.len());
        assert!(shown.ends_with("… (1,048,576 bytes in all)"), "{shown}");
    }

    #[test]
    fn markup_is_text() {
        assert_eq!(
            name("<img src=x onerror='alert(1)'>\"&").0,
            "<bdi>&lt;img src=x onerror=&#39;alert(1)&#39;&gt;&quot;&amp;</bdi>"
        );
        assert!(!subject("docker:</bdi><script>").0.contains("<script"));
    }

    #[test]
    fn names_travel_in_one_segment() {
        assert_eq!(
            process_href("host-a", "docker:shop/web/1").as_deref(),
            Some("/process/host-a/docker%3Ashop%2Fweb%2F1")
        );
        assert_eq!(
            process_href("h", "docker:a/../b?x#y%00").as_deref(),
            Some("/process/h/docker%3Aa%2F%2E%2E%2Fb%3Fx%23y%2500")
        );
        assert_eq!(process_href("", "docker:a"), None);
        assert_eq!(process_href("..", "docker:a"), None);
        assert_eq!(process_href("h", &"x".repeat(3_000)), None);
    }
}
