//! The containers known on this host, shared between sources: the docker source keeps it, the others read it and are told
//! of changes. Removed containers are remembered for a while, because the kernel's word on a death may come after. Holds no
//! judgement and no history.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast;

/// How a container sees the network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// A namespace of its own.
    #[default]
    Own,
    /// The host's.
    Host,
    /// That of another container, by id.
    Container(Arc<str>),
    /// None at all.
    None,
}

/// One container as its runtime states it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Container {
    /// Full id (64 hex digits for Docker).
    pub id: Arc<str>,
    /// The stable subject, `docker:PROJECT/SERVICE/N` or `docker:NAME`.
    pub subject: Arc<str>,
    /// The runtime's name, without the leading slash.
    pub name: Arc<str>,
    /// Main process id on the host, while it runs.
    pub pid: Option<u32>,
    /// Whether its main process runs.
    pub running: bool,
    /// How it sees the network.
    pub network: Network,
    /// Memory limit in bytes, if limited.
    pub memory_limit: Option<u64>,
    /// Whether a health check is declared.
    pub health_check: bool,
    /// The label `linchpin.probe`, if set: a URL path (`:8080/healthz`) or URL to probe.
    pub probe: Option<String>,
    /// Its address on the first network, if any.
    pub address: Option<std::net::IpAddr>,
    /// Removed: kept for late attribution only.
    pub removed: bool,
    /// What it is made of and known as.
    pub traits: Arc<Traits>,
}

/// What a container is made of and known as, as far as other sources choose by it. All of it is the runtime's word, cut to
/// bounded lengths, and hostile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// Image reference.
    pub image: String,
    /// Its command, entry point first, words joined by blanks.
    pub command: String,
    /// Keys of its labels.
    pub labels: Vec<String>,
    /// Ports published on the host.
    pub published: Vec<u16>,
    /// Names by which other containers can resolve it: its name, aliases, compose service.
    pub names: Vec<String>,
    /// Whether hostnames or upstreams are described for it.
    pub serves: bool,
}

/// What changed in the roster.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A container was met first, or its facts changed.
    Described(Container),
    /// Its main process was started (pid known where the runtime told it).
    Started(Container),
    /// Its main process ended.
    Exited(Container),
    /// It was removed.
    Removed(Container),
}

/// The containers of this host, by id.
#[derive(Debug)]
pub struct Roster {
    inner: Mutex<Inner>,
    changes: broadcast::Sender<Change>,
    filled: tokio::sync::watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Inner {
    by_id: HashMap<Arc<str>, Container>,
    removed: std::collections::VecDeque<Arc<str>>,
}

/// How many removed containers are remembered.
const REMEMBERED: usize = 4096;

impl Default for Roster {
    fn default() -> Self {
        Roster {
            inner: Mutex::default(),
            changes: broadcast::channel(4096).0,
            filled: tokio::sync::watch::Sender::new(false),
        }
    }
}

impl Roster {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hears of changes from now on. A receiver that lags must read [`Roster::all`] anew.
    pub fn subscribe(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    /// The runtime's first full list has been read (or there is no runtime): attribution need not wait any more.
    pub fn set_filled(&self) {
        self.filled.send_replace(true);
    }

    /// Waits for [`Roster::set_filled`], at most `limit`.
    pub async fn filled(&self, limit: std::time::Duration) -> bool {
        let mut rx = self.filled.subscribe();
        tokio::time::timeout(limit, rx.wait_for(|f| *f)).await.is_ok_and(|r| r.is_ok())
    }

    /// Enters or replaces a container and tells the others.
    pub fn put(&self, container: Container, change: fn(Container) -> Change) {
        let mut inner = self.lock();
        if container.removed {
            inner.removed.push_back(container.id.clone());
            if inner.removed.len() > REMEMBERED
                && let Some(old) = inner.removed.pop_front()
                && inner.by_id.get(&old).is_some_and(|c| c.removed)
            {
                inner.by_id.remove(&old);
            }
        }
        inner.by_id.insert(container.id.clone(), container.clone());
        drop(inner);
        // Nobody listening is fine.
        let _ = self.changes.send(change(container));
    }

    /// A container by its full id.
    pub fn get(&self, id: &str) -> Option<Container> {
        self.lock().by_id.get(id).cloned()
    }

    /// A container by a prefix of its id of at least 12 characters, if exactly one matches.
    pub fn by_prefix(&self, prefix: &str) -> Option<Container> {
        if prefix.len() < 12 {
            return None;
        }
        let inner = self.lock();
        if let Some(c) = inner.by_id.get(prefix) {
            return Some(c.clone());
        }
        let mut hits = inner.by_id.values().filter(|c| c.id.starts_with(prefix));
        let first = hits.next()?.clone();
        hits.next().is_none().then_some(first)
    }

    /// All that are not removed.
    pub fn all(&self) -> Vec<Container> {
        self.lock().by_id.values().filter(|c| !c.removed).cloned().collect()
    }

    /// How many are running.
    pub fn running(&self) -> usize {
        self.lock().by_id.values().filter(|c| c.running && !c.removed).count()
    }
}
