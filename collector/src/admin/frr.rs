//! FRR's `show bgp summary json` and its forms for all VRFs and for one address family: a summary may stand at the top, below
//! its VRF, below its address family, or below both. Peers are counted from the list: the totals beside it can disagree, and
//! call a peer that someone shut down failed.

use serde_json::{Map, Value};

use super::{Reply, Unreadable, begin, cut, json, text, whole};

const ASKED: &str = "FRR's `show bgp summary json`";
/// How deep a summary may lie: VRF, address family, and one for what comes.
const DEEP: usize = 3;

/// How a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Session {
    /// Routes are exchanged.
    Established,
    /// Shut down by someone.
    ShutDown,
    /// Anything else: it is tried, or it cannot be.
    Down,
}

/// One peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The keys on the way down to its list: VRF and address family as far as told, joined by a blank.
    pub instance: String,
    /// Its address or interface.
    pub peer: String,
    /// Its AS number.
    pub remote_as: Option<u64>,
    /// How its session stands.
    pub session: Session,
    /// Prefixes sent to it.
    pub sent: Option<u64>,
}

/// Reads a reply.
///
/// # Errors
/// Where no summary is found in it.
pub fn peers(reply: &[u8]) -> Result<Reply<Peer>, Unreadable> {
    let value = json(ASKED, reply)?;
    let mut out = Reply::new();
    let mut found = false;
    if let Some(object) = value.as_object() {
        // A daemon without BGP says so in a warning, or says nothing at all: no peers, and no error.
        found = object.is_empty() || object.contains_key("warning");
        walk(object, "", DEEP, &mut found, &mut out);
    }
    if found { Ok(out) } else { Err(Unreadable { asked: ASKED, found: begin(reply) }) }
}

fn walk(object: &Map<String, Value>, way: &str, deep: usize, found: &mut bool, out: &mut Reply<Peer>) {
    if let Some(peers) = object.get("peers").and_then(Value::as_object) {
        *found = true;
        let vrf = text(object.get("vrfName")).unwrap_or_default();
        let instance =
            if way.split(' ').any(|w| w == vrf) { way.to_string() } else { format!("{vrf} {way}") };
        for (name, peer) in peers {
            out.keep(read(instance.trim(), name, peer));
        }
        return;
    }
    if deep == 0 {
        return;
    }
    for (key, inner) in object.iter().filter_map(|(k, v)| Some((k, v.as_object()?))) {
        walk(inner, format!("{way} {}", cut(key)).trim(), deep - 1, found, out);
    }
}

fn read(instance: &str, name: &str, peer: &Value) -> Option<Peer> {
    let state = text(peer.get("state"))?;
    let shut = state.contains("(Admin)") || peer.get("peerState").and_then(Value::as_str) == Some("Admin");
    Some(Peer {
        instance: instance.to_string(),
        peer: cut(name),
        remote_as: whole(peer.get("remoteAs")),
        session: match state.as_str() {
            "Established" => Session::Established,
            _ if shut => Session::ShutDown,
            _ => Session::Down,
        },
        sent: whole(peer.get("pfxSnt")),
    })
}
