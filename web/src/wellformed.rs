//! A small checker of markup, for tests: every element closed in order, attributes quoted and told once, text escaped,
//! no inline script, style or handler (the content policy would refuse them).

/// Elements of HTML that have no end tag.
const VOID: [&str; 7] = ["br", "wbr", "hr", "input", "link", "meta", "img"];

/// Checks a page (`xml` false) or a fragment of SVG (`xml` true).
///
/// # Errors
/// What is wrong, with some of the text before it.
pub fn check(text: &str, xml: bool) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text;
    let near = |rest: &str| {
        let at = text.len() - rest.len();
        text[..at].chars().rev().take(80).collect::<Vec<_>>().into_iter().rev().collect::<String>()
    };
    while let Some(i) = rest.find(['<', '&']) {
        let (before, at) = rest.split_at(i);
        if before.contains('>') {
            return Err(format!("a bare > near …{}", near(at)));
        }
        if let Some(after) = at.strip_prefix('&') {
            let end = after.find(';').filter(|e| *e < 10).ok_or(format!("a bare & near …{}", near(at)))?;
            rest = &after[end + 1..];
            continue;
        }
        if let Some(after) = at.strip_prefix("<!DOCTYPE html>") {
            rest = after;
            continue;
        }
        if let Some(after) = at.strip_prefix("</") {
            let end = after.find('>').ok_or("an end tag without >")?;
            let name = &after[..end];
            match open.pop() {
                Some(o) if o == name => {}
                o => return Err(format!("</{name}> closes {o:?} near …{}", near(at))),
            }
            rest = &after[end + 1..];
            continue;
        }
        let (name, closed, after) = tag(&at[1..]).map_err(|e| format!("{e} near …{}", near(at)))?;
        if name == "script" && !after.starts_with("</script>") || name == "style" {
            return Err(format!("inline <{name}> near …{}", near(at)));
        }
        if !closed && (xml || !VOID.contains(&name)) {
            open.push(name);
        }
        rest = after;
    }
    if rest.contains('>') {
        return Err(format!("a bare > near …{}", near(rest)));
    }
    if open.is_empty() { Ok(()) } else { Err(format!("never closed: {open:?}")) }
}

/// Reads a start tag after its `<`: name, whether it closes itself, the rest.
fn tag(text: &str) -> Result<(&str, bool, &str), String> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(text.len());
    let (name, mut rest) = text.split_at(end);
    if name.is_empty() {
        return Err("a bare <".into());
    }
    let mut seen = Vec::new();
    loop {
        rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix("/>") {
            return Ok((name, true, after));
        }
        if let Some(after) = rest.strip_prefix('>') {
            return Ok((name, false, after));
        }
        let end = rest.find(['=', '>', ' ', '/', '\n']).ok_or("a tag without end")?;
        let (attribute, after) = rest.split_at(end);
        if attribute.is_empty() {
            return Err(format!("a stray character in <{name}>"));
        }
        if seen.contains(&attribute) {
            return Err(format!("{attribute} twice in <{name}>"));
        }
        if attribute == "style" || attribute.starts_with("on") {
            return Err(format!("inline {attribute} in <{name}>"));
        }
        seen.push(attribute);
        rest = match after.strip_prefix('=') {
            None => after,
            Some(value) => {
                let value =
                    value.strip_prefix('"').ok_or(format!("{attribute} is not quoted in <{name}>"))?;
                let end = value.find('"').ok_or("a value without end")?;
                if value[..end].contains('<') {
                    return Err(format!("a bare < in {attribute} of <{name}>"));
                }
                &value[end + 1..]
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn tells_good_from_bad() {
        assert_eq!(
            check("<!DOCTYPE html><p class=\"a\">x &amp; y<br><a href=\"/\">z</a></p>", false),
            Ok(())
        );
        assert_eq!(check("<svg><line x1=\"0\"/></svg>", true), Ok(()));
        for bad in [
            "<p>",
            "</p>",
            "<p></b>",
            "<p onclick=\"x\"></p>",
            "<p style=\"x\"></p>",
            "a & b",
            "a < b",
            "a > b",
            "<p a=x></p>",
            "<script>x</script>",
            "<p a=\"1\" a=\"2\"></p>",
        ] {
            assert!(check(bad, false).is_err(), "{bad}");
        }
    }
}
