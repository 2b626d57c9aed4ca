//! Whose container an id is: learned from what the engine's recorded events and its inspection say, bounded.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use crate::sources::docker::decode::RuntimeEvent;
use crate::sources::docker::inspect::Facts;
use crate::sources::docker::subject::identity;
use crate::sources::kernel_log::attribute::{Place, place, subject_of};

/// Containers remembered.
const MOST: usize = 200_000;

/// What is known of a container.
#[derive(Clone, Debug)]
pub struct Known {
    /// Its stable subject.
    pub subject: Arc<str>,
    /// Its name.
    pub name: String,
    /// Labels that its subject is made of.
    pub labels: Arc<BTreeMap<String, String>>,
}

/// Containers by full id. Shared between the inputs of one import.
#[derive(Clone, Debug, Default)]
pub struct Names(Arc<Mutex<HashMap<Arc<str>, Known>>>);

impl Names {
    fn put(&self, id: &Arc<str>, known: Known, over: bool) {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if map.len() < MOST && (over || !map.contains_key(id)) {
            map.insert(id.clone(), known);
        }
    }

    /// Learns from an event, which names its container in newer forms.
    pub fn learn(&self, e: &RuntimeEvent) {
        if e.name.is_empty() {
            return;
        }
        let subject = identity(&e.name, &e.id, &e.attributes).subject;
        let labels: BTreeMap<_, _> = e
            .attributes
            .iter()
            .filter(|(k, _)| k.starts_with("com.docker."))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        self.put(&e.id, Known { subject, name: e.name.clone(), labels: labels.into() }, false);
    }

    /// Learns from an inspection, which knows best.
    pub fn inspected(&self, f: &Facts) {
        let labels = Arc::new(f.labels.clone());
        self.put(&f.id, Known { subject: f.identity.subject.clone(), name: f.name.clone(), labels }, true);
    }

    /// What is known of an id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    /// The subject of a victim's cgroup, and by what it was found.
    #[must_use]
    pub fn of_cgroup(&self, path: Option<&str>) -> (String, &'static str) {
        let Some(path) = path else { return ("host:".into(), "the log does not say which cgroup") };
        let at = place(path);
        match at {
            Place::Nowhere => ("host:".into(), "the victim's cgroup is in no container and no unit"),
            Place::Container { ref id, .. } => match self.get(id) {
                Some(known) => {
                    (known.subject.to_string(), "the victim's cgroup, named by the engine's own records")
                }
                None => (
                    subject_of(&at),
                    "the victim's cgroup; the container's name is in none of the imported files",
                ),
            },
            _ => (subject_of(&at), "the victim's cgroup"),
        }
    }
}
