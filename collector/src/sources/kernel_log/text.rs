//! Finding fixed words in bytes that others wrote. Names and paths are cut at the fixed text around them, never at a
//! bracket or comma that they could hold themselves.

use memchr::memmem;

/// Longest process name that the kernel keeps (TASK_COMM_LEN less the end mark).
pub const COMM: usize = 15;

/// Where `needle` stands first.
pub fn find(text: &[u8], needle: &[u8]) -> Option<usize> {
    memmem::find(text, needle)
}

/// Where `needle` stands last.
pub fn rfind(text: &[u8], needle: &[u8]) -> Option<usize> {
    memmem::rfind(text, needle)
}

/// What comes after the first `needle`.
pub fn after<'a>(text: &'a [u8], needle: &[u8]) -> Option<&'a [u8]> {
    text.get(find(text, needle)? + needle.len()..)
}

/// The number at the very start, and what comes after it.
pub fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let len = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let value = std::str::from_utf8(text.get(..len)?).ok()?.parse().ok()?;
    Some((value, text.get(len..)?))
}

/// Text for an event: what is not UTF-8 is replaced, control characters are escaped, and it is cut at `limit` characters.
pub fn shown(bytes: &[u8], limit: usize) -> String {
    let bytes = bytes.get(..bytes.len().min(limit.saturating_mul(4))).unwrap_or_default();
    let mut out = String::new();
    for c in String::from_utf8_lossy(bytes).chars().take(limit) {
        if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}
