//! What proxies and routers say of their backends and peers when asked over their admin interfaces: replies become one plain
//! form. Pure functions on bytes; who asks, where, and how long it waits is a source's, and what follows from a list is
//! nobody's here.

pub mod caddy;
pub mod envoy;
pub mod frr;
pub mod haproxy;
pub mod holder;

use std::fmt;

use serde_json::Value;

/// The most entries that are kept of one reply.
pub const MOST: usize = 20_000;
/// The longest name or address that is kept, in characters.
const TEXT: usize = 253;

/// How a proxy treats one backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Given new requests.
    Serving,
    /// Its checks fail.
    Failing,
    /// Finishes what it has and gets nothing new.
    Draining,
    /// Taken out because someone asked for it.
    Maintenance,
    /// Taken out because its name does not resolve.
    Unresolved,
    /// The reply does not say: never to be read as well.
    Unsaid,
}

/// One backend as a proxy lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The group it belongs to: a backend section, a cluster; empty where the proxy has none.
    pub group: String,
    /// Its name in that group; empty where it has none.
    pub name: String,
    /// The name that is looked up for it.
    pub hostname: Option<String>,
    /// The address in use, without the port.
    pub address: Option<String>,
    /// The port in use.
    pub port: Option<u16>,
    /// How it is treated.
    pub standing: Standing,
}

/// A reply, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply<T> {
    /// What it lists, at most [`MOST`].
    pub entries: Vec<T>,
    /// Entries beyond those kept, and those that could not be read.
    pub left_out: usize,
}

impl<T> Reply<T> {
    fn new() -> Self {
        Reply { entries: Vec::new(), left_out: 0 }
    }

    /// Keeps an entry, or counts it where it is unreadable or one too many.
    fn keep(&mut self, entry: Option<T>) {
        match entry {
            Some(entry) if self.entries.len() < MOST => self.entries.push(entry),
            _ => self.left_out += 1,
        }
    }
}

/// A reply that is not what was asked for: a login page, garbage, another program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// What was asked for.
    pub asked: &'static str,
    /// What came instead.
    pub found: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "asked for {}, and got {}: is this its admin interface?", self.asked, self.found)
    }
}

impl std::error::Error for Unreadable {}

fn cut(text: &str) -> String {
    text.chars().take(TEXT).collect()
}

/// The reply's first characters, for an error.
fn begin(bytes: &[u8]) -> String {
    let head: String = String::from_utf8_lossy(bytes.get(..200).unwrap_or(bytes)).chars().take(60).collect();
    if head.is_empty() { "nothing".to_string() } else { format!("{head:?}") }
}

fn json(asked: &'static str, bytes: &[u8]) -> Result<Value, Unreadable> {
    serde_json::from_slice(bytes).map_err(|_| Unreadable { asked, found: begin(bytes) })
}

/// A field under any of its spellings.
fn field<'a>(value: &'a Value, names: [&str; 2]) -> Option<&'a Value> {
    names.iter().find_map(|n| value.get(n)).filter(|v| !v.is_null())
}

fn text(value: Option<&Value>) -> Option<String> {
    value.and_then(Value::as_str).filter(|t| !t.is_empty()).map(cut)
}

/// A whole number, written as one or as text.
fn whole(value: Option<&Value>) -> Option<u64> {
    let value = value?;
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// `HOST:PORT`, `[V6]:PORT`, either without the port, or a `unix/` path, which is no address.
fn dial(text: &str) -> (Option<String>, Option<u16>) {
    let text = text.split_once("//").map_or(text, |(_, rest)| rest);
    if text.is_empty() || text.starts_with("unix") || text.contains('/') {
        return (None, None);
    }
    if let Some((v6, rest)) = text.strip_prefix('[').and_then(|t| t.split_once(']')) {
        return (Some(cut(v6)), rest.strip_prefix(':').and_then(|p| p.parse().ok()));
    }
    match text.split_once(':') {
        Some((host, port)) if !port.contains(':') => {
            (Some(cut(host)).filter(|h| !h.is_empty()), port.parse().ok())
        }
        _ => (Some(cut(text)), None),
    }
}

/// Whether a text is an address rather than a name to be looked up.
fn is_address(text: &str) -> bool {
    text.parse::<std::net::IpAddr>().is_ok()
}
