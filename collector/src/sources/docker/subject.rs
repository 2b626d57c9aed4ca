//! Which subject a container is: the name that stays when it is restarted and re-created. Pure, from labels and name.
//!
//! Compose's labels give `docker:PROJECT/SERVICE/N`, Swarm's `docker:SERVICE/SLOT` (its container names end with a task
//! id that changes at every re-creation), everything else `docker:NAME`. Labels count only where they look as Compose and
//! Swarm write them (letters, digits, `.`, `_`, `-`), so that no label can pose as another subject by a slash. One-off
//! runs (`docker compose run`) carry their service's labels and are no replica of it: they go by their name.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::bounds::bounded;

/// A container's place among its likes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// `docker:…`
    pub subject: Arc<str>,
    /// What it is a replica of.
    pub service: Option<String>,
    /// Which replica, from 1.
    pub replica: Option<u64>,
}

fn plain(s: &str) -> bool {
    !s.is_empty() && s.len() <= 128 && s.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

/// The identity of a container named `name` (without slash) with these labels; `id` serves where it has no name.
#[must_use]
pub fn identity(name: &str, id: &str, labels: &BTreeMap<String, String>) -> Identity {
    let label = |key: &str| labels.get(key).map(String::as_str).filter(|v| plain(v));
    let number = |key: &str| label(key).and_then(|n| n.parse::<u64>().ok());
    let one_off = label("com.docker.compose.oneoff").is_some_and(|v| v.eq_ignore_ascii_case("true"));
    if !one_off
        && let (Some(project), Some(service), Some(n)) = (
            label("com.docker.compose.project"),
            label("com.docker.compose.service"),
            number("com.docker.compose.container-number"),
        )
    {
        return Identity {
            subject: format!("docker:{project}/{service}/{n}").into(),
            service: Some(format!("{project}/{service}")),
            replica: Some(n),
        };
    }
    if let (Some(service), Some(task)) =
        (label("com.docker.swarm.service.name"), label("com.docker.swarm.task.name"))
        && let Some(slot) =
            task.strip_prefix(service).and_then(|r| r.strip_prefix('.')).and_then(|r| r.split('.').next())
        && !slot.is_empty()
    {
        return Identity {
            subject: format!("docker:{service}/{slot}").into(),
            service: Some(service.to_string()),
            // A global service's slot is a node id, no number.
            replica: slot.parse().ok(),
        };
    }
    let name = if name.is_empty() { id.chars().take(12).collect() } else { bounded(name) };
    Identity { subject: format!("docker:{name}").into(), service: None, replica: None }
}
