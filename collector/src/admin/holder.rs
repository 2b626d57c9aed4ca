//! Who holds the address that a proxy uses for a name: it may by now be another container than the one that the name means.
//! Nothing fails then; the wrong backend answers.

use std::sync::Arc;

use super::Listed;
use crate::roster::Container;

/// A listed backend against the containers of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The subjects that the name in use means, by name; empty where no container answers to it.
    pub meant: Vec<Arc<str>>,
    /// The subject that holds the address in use; `None` where no running container does.
    pub held_by: Option<Arc<str>>,
}

impl Holder {
    /// Whether another container answers at the address than the name means.
    #[must_use]
    pub fn is_another(&self) -> bool {
        self.held_by.as_ref().is_some_and(|h| !self.meant.is_empty() && !self.meant.contains(h))
    }
}

/// Looks a backend up among the containers that run. A name counts up to its first dot too: `backend.shop` is `backend` of the
/// network `shop`.
#[must_use]
pub fn holder(listed: &Listed, containers: &[Container]) -> Holder {
    let running = || containers.iter().filter(|c| c.running && !c.removed);
    let name = listed.hostname.as_deref().unwrap_or(&listed.name);
    let short = name.split('.').next().unwrap_or(name);
    let answers = |c: &&Container| {
        !name.is_empty() && (*c.name == *name || c.traits.names.iter().any(|n| n == name || n == short))
    };
    let mut meant: Vec<Arc<str>> = running().filter(answers).map(|c| c.subject.clone()).collect();
    meant.sort_unstable();
    meant.dedup();
    let address = listed.address.as_deref().and_then(|a| a.parse().ok());
    let held_by = running().find(|c| address.is_some() && c.address == address).map(|c| c.subject.clone());
    Holder { meant, held_by }
}
