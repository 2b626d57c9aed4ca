//! What all watchers of names share: the names that containers go by, and the ports from which we ask ourselves.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError, RwLock};

use crate::roster::Container;
use crate::source::NameSettings;

/// How many names are known at most.
const NAMES: usize = 16_384;
/// How long a question of our own may be under way, in nanoseconds.
const UNDER_WAY: u64 = 10_000_000_000;

/// Names that containers go by, or that people named, in lower case.
#[derive(Debug, Default)]
pub struct Known(RwLock<HashSet<String>>);

impl Known {
    /// Learns them anew.
    pub fn learn(&self, containers: &[Container], settings: &NameSettings) {
        let own = containers.iter().flat_map(|c| c.traits.names.iter().map(String::as_str).chain([&*c.name]));
        let named = settings.canary.values().flatten().map(String::as_str);
        let names =
            own.chain(named).map(|n| n.trim_end_matches('.').to_ascii_lowercase()).filter(|n| !n.is_empty());
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = names.take(NAMES).collect();
    }

    /// Whether `name` (in lower case, without the last dot) is one.
    pub fn contains(&self, name: &str) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains(name)
    }
}

/// Ports in one namespace from which our own questions leave: they are not the container's.
#[derive(Debug, Default)]
pub struct OwnPorts(Mutex<HashMap<u16, u64>>);

impl OwnPorts {
    /// A question of ours leaves from `port` at `now` (boot time).
    pub fn add(&self, port: u16, now: u64) {
        let mut ports = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ports.retain(|_, since| now < since.saturating_add(UNDER_WAY));
        ports.insert(port, now);
    }

    /// Whether a question from `port`, seen at `now`, is ours.
    pub fn contains(&self, port: u16, now: u64) -> bool {
        let ports = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ports.get(&port).is_some_and(|since| now < since.saturating_add(UNDER_WAY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roster::Traits;

    #[test]
    fn names_of_containers_and_of_people() {
        let traits =
            Traits { names: vec!["Backend".into(), "api.".into(), String::new()], ..Traits::default() };
        let c = Container { name: "shop-backend-1".into(), traits: traits.into(), ..Container::default() };
        let mut settings = NameSettings::default();
        settings.canary.insert("proxy".into(), vec!["db.example.test".into()]);
        let known = Known::default();
        known.learn(&[c], &settings);
        for name in ["backend", "api", "shop-backend-1", "db.example.test"] {
            assert!(known.contains(name), "{name}");
        }
        assert!(!known.contains("") && !known.contains("proxy") && !known.contains("backend.example.test"));
        known.learn(&[], &NameSettings::default());
        assert!(!known.contains("backend"));
    }

    #[test]
    fn a_port_of_ours_is_ours_for_a_while() {
        let ports = OwnPorts::default();
        ports.add(4000, 100);
        assert!(
            ports.contains(4000, 200) && !ports.contains(4001, 200) && !ports.contains(4000, 100 + UNDER_WAY)
        );
    }
}
