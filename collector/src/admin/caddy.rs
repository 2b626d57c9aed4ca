//! Caddy's admin API: `/reverse_proxy/upstreams`. It counts requests and failures of each upstream; whether one is healthy it
//! may never say (releases from 2.5 leave the field out, others leave it unset), so that its absence is no verdict.

use serde_json::Value;

use super::{Listed, Reply, Standing, Unreadable, begin, dial, is_address, json, text};

const ASKED: &str = "Caddy's `/reverse_proxy/upstreams`";

/// Reads a reply.
///
/// # Errors
/// Where it is no list.
pub fn upstreams(reply: &[u8]) -> Result<Reply<Listed>, Unreadable> {
    let value = json(ASKED, reply)?;
    let list = match &value {
        Value::Array(list) => list.as_slice(),
        // Without any upstream the list may be null.
        Value::Null => &[],
        _ => return Err(Unreadable { asked: ASKED, found: begin(reply) }),
    };
    let mut out = Reply::new();
    for entry in list {
        out.keep(upstream(entry));
    }
    Ok(out)
}

fn upstream(entry: &Value) -> Option<Listed> {
    let written = text(entry.get("address"))?;
    let (host, port) = dial(&written);
    let by_name = host.as_deref().is_some_and(|h| !is_address(h));
    Some(Listed {
        group: String::new(),
        name: written,
        hostname: host.clone().filter(|_| by_name),
        address: host.filter(|_| !by_name),
        port,
        standing: match entry.get("healthy").and_then(Value::as_bool) {
            Some(true) => Standing::Serving,
            Some(false) => Standing::Failing,
            None => Standing::Unsaid,
        },
    })
}
