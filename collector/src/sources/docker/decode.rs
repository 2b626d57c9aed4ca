//! One line of a container runtime's event stream becomes a [`RuntimeEvent`]. Pure. Takes Docker's shape, the one of old
//! engines (`status`, `id`, `from` alone) and Podman's three. What an event means for a subject is [`super::tracker`]'s.

use std::collections::BTreeMap;
use std::sync::Arc;

use linchpin_data::Timestamp;
use linchpin_data::time::NS;
use serde_json::Value;

use super::bounds::{bounded, bounded_map};

/// What happened to a container, as far as it interests us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// It was made; it does not run yet.
    Create,
    /// Its main process was started.
    Start,
    /// An operator's restart is complete (comes after `Start`).
    Restart,
    /// Its main process ended, with this exit code if the runtime says.
    Die(Option<i64>),
    /// A process in it was killed for want of memory.
    Oom,
    /// A signal was sent through the runtime, by an operator or a program in one's place.
    Kill(Option<i64>),
    /// An operator's stop is complete (Docker, after `Die`) or begun (Podman, before it).
    Stop,
    /// It was removed.
    Destroy,
    /// Its name changed; the event carries the new one.
    Rename,
    /// Its limits were changed.
    Update,
    /// Its health check changed its mind: true is healthy.
    Health(bool),
    /// It was frozen.
    Pause,
    /// It was thawed.
    Unpause,
}

/// One event about one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeEvent {
    /// What happened.
    pub action: Action,
    /// Full container id.
    pub id: Arc<str>,
    /// Container name without the slash; empty where the runtime does not tell.
    pub name: String,
    /// Labels and particulars, bounded.
    pub attributes: BTreeMap<String, String>,
    /// The runtime's own moment of it.
    pub at: Timestamp,
    /// Whether `at` is finer than a second.
    pub fine: bool,
}

/// What became of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// Something that interests us.
    Event(RuntimeEvent),
    /// About something else, or of a kind that changes nothing here.
    Other,
    /// Not understood, and why.
    Unreadable(&'static str),
}

/// Understands one event.
#[must_use]
pub fn decode(v: &Value) -> Decoded {
    if !v.is_object() {
        return Decoded::Unreadable("an event is a JSON object");
    }
    let kind = text(v, &["Type", "type"]).unwrap_or("container");
    if kind != "container" {
        return Decoded::Other;
    }
    let Some(word) = text(v, &["Action", "status", "Status"]) else {
        return Decoded::Unreadable("no action: neither `Action` nor `status`");
    };
    let attributes = attributes(v);
    let Some(action) = action(word, v, &attributes) else {
        return Decoded::Other;
    };
    let actor = v.get("Actor").unwrap_or(&Value::Null);
    let id = text(actor, &["ID", "Id"]).or_else(|| text(v, &["id", "ID", "Id"])).unwrap_or_default();
    if id.is_empty() || id.len() > 128 || !id.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return Decoded::Unreadable("no container id of letters and digits");
    }
    let Some((at, fine)) = moment(v) else {
        return Decoded::Unreadable("no moment: neither `timeNano` nor `time`");
    };
    let name = attributes.get("name").map(String::as_str).or_else(|| text(v, &["Name"])).unwrap_or("");
    let name = bounded(name.trim_start_matches('/'));
    Decoded::Event(RuntimeEvent { action, id: id.into(), name, attributes, at, fine })
}

/// The runtime's moment of an event, and whether it is finer than a second.
#[must_use]
pub fn moment(v: &Value) -> Option<(Timestamp, bool)> {
    if let Some(ns) = v.get("timeNano").and_then(whole).filter(|ns| *ns > 0) {
        return Some((Timestamp(ns), true));
    }
    let time = ["time", "Time"].iter().find_map(|k| v.get(*k))?;
    if let Some(secs) = whole(time) {
        return Some((Timestamp(secs.checked_mul(NS)?), false));
    }
    let at: Timestamp = time.as_str()?.parse().ok()?;
    Some((at, at.0 % NS != 0))
}

/// A whole number, also one that stands in a string.
fn whole(v: &Value) -> Option<i64> {
    v.as_i64().or_else(|| v.as_str()?.trim().parse().ok())
}

fn text<'a>(v: &'a Value, keys: &[&str]) -> Option<&'a str> {
    keys.iter().find_map(|k| v.get(*k)?.as_str()).filter(|s| !s.is_empty())
}

fn attributes(v: &Value) -> BTreeMap<String, String> {
    let map = v.get("Actor").and_then(|a| a.get("Attributes")).or_else(|| v.get("Attributes"));
    let pairs = map.and_then(Value::as_object).into_iter().flatten();
    // The particulars that we read come first, so that a flood of labels can not push them out.
    let (ours, others): (Vec<_>, Vec<_>) = pairs
        .filter_map(|(k, v)| Some((k.as_str(), v.as_str()?)))
        .partition(|(k, _)| PARTICULARS.contains(k));
    bounded_map(ours.into_iter().chain(others))
}

const PARTICULARS: [&str; 16] = [
    "name",
    "image",
    "exitCode",
    "containerExitCode",
    "signal",
    "oldName",
    "health_status",
    "com.docker.compose.project",
    "com.docker.compose.service",
    "com.docker.compose.container-number",
    "com.docker.compose.oneoff",
    "com.docker.compose.replace",
    "com.docker.swarm.service.name",
    "com.docker.swarm.task.name",
    "com.docker.swarm.task.id",
    "com.docker.swarm.node.id",
];

/// The action behind a word such as `health_status: unhealthy`; none where it changes nothing here.
fn action(word: &str, v: &Value, attributes: &BTreeMap<String, String>) -> Option<Action> {
    let (verb, payload) = word.split_once(':').map_or((word, ""), |(a, b)| (a, b.trim()));
    let number = |keys: &[&str]| {
        keys.iter().find_map(|k| attributes.get(*k)?.trim().parse::<i64>().ok().or_else(|| whole(v.get(*k)?)))
    };
    Some(match verb.trim() {
        "create" => Action::Create,
        "start" => Action::Start,
        "restart" => Action::Restart,
        "die" | "died" => {
            let code = number(&["exitCode", "containerExitCode"]);
            Action::Die(code.or_else(|| v.get("ContainerExitCode").and_then(whole)))
        }
        "oom" => Action::Oom,
        "kill" => Action::Kill(number(&["signal"]).or_else(|| signal_named(attributes.get("signal")?))),
        "stop" => Action::Stop,
        "destroy" | "remove" => Action::Destroy,
        "rename" => Action::Rename,
        "update" => Action::Update,
        "pause" => Action::Pause,
        "unpause" => Action::Unpause,
        "health_status" => {
            let said = if payload.is_empty() {
                attributes
                    .get("health_status")
                    .map(String::as_str)
                    .or_else(|| text(v, &["HealthStatus", "health_status"]))?
            } else {
                payload
            };
            match said {
                "healthy" => Action::Health(true),
                "unhealthy" => Action::Health(false),
                // `starting`, and words to come: no witness of anything.
                _ => return None,
            }
        }
        _ => return None,
    })
}

/// The number of a signal given as `SIGTERM` or `TERM`, for those that end or reload services; else its number in text.
#[must_use]
pub fn signal_named(name: &str) -> Option<i64> {
    let name = name.trim();
    if let Ok(n) = name.parse() {
        return Some(n);
    }
    let upper = name.to_ascii_uppercase();
    Some(match upper.strip_prefix("SIG").unwrap_or(&upper) {
        "HUP" => 1,
        "INT" => 2,
        "QUIT" => 3,
        "ABRT" => 6,
        "KILL" => 9,
        "USR1" => 10,
        "USR2" => 12,
        "PIPE" => 13,
        "ALRM" => 14,
        "TERM" => 15,
        "CONT" => 18,
        "STOP" => 19,
        "WINCH" => 28,
        "PWR" => 30,
        "RTMIN+3" => 37,
        _ => return None,
    })
}
