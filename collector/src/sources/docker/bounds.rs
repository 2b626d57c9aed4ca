//! How much of what a container says of itself is kept. Names and labels are whatever their author chose: they are kept
//! as they are, control characters and markup too (whoever shows them escapes them), but never more of them than this.

use std::collections::BTreeMap;

/// Most characters kept of a name, label or value.
pub const CHARS: usize = 256;
/// Most labels kept of a container.
pub const LABELS: usize = 64;
/// Most ports, networks or hostnames kept of a container.
pub const ITEMS: usize = 64;

/// A text cut to [`CHARS`] characters.
#[must_use]
pub fn bounded(s: &str) -> String {
    s.chars().take(CHARS).collect()
}

/// The first [`LABELS`] pairs, each cut.
pub fn bounded_map<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> BTreeMap<String, String> {
    pairs.take(LABELS).map(|(k, v)| (bounded(k), bounded(v))).collect()
}
