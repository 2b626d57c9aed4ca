//! The cgroups that are looked at: entering, looking, telling what changed, leaving. A kill is a rise of `oom_kill` over
//! what was last read in the same directory.

use std::collections::HashMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use linchpin_data::clock::Stamp;
use linchpin_data::event::OomKill;
use tokio::time::Instant;

use super::files::{Counters, cgroup_of, own_level};
use super::hierarchy::Hierarchy;
use super::sample::{Sample, counters};
use super::walk;
use super::watch::{Key, Watch};
use crate::roster::Container;
use crate::source::SourceContext;

/// v1 wakes us before the victim is counted: looked again after these waits, in milliseconds, until it is.
const AGAIN_MS: [u64; 8] = [1, 3, 6, 15, 40, 100, 300, 1000];
/// A reading that has not changed is told again after this long.
const STALE_NS: u64 = 600_000_000_000;
/// Readings told after kills are at least this far apart.
const BETWEEN_NS: u64 = 1_000_000_000;
/// Most cgroups that are looked at.
const MOST: usize = 4096;

/// One container's cgroup.
#[derive(Debug)]
struct Tracked {
    id: Arc<str>,
    subject: Arc<str>,
    path: String,
    dir: PathBuf,
    /// The directory's inode: a restarted container has a new directory of the same name.
    inode: u64,
    /// As last read, and when.
    counters: Counters,
    read: Stamp,
    /// As last told, and when.
    told: Option<(Sample, u64)>,
    /// The next look without a wake, and how many have been.
    again: Option<(Instant, usize)>,
}

/// All of them.
pub struct Tracker {
    cx: SourceContext,
    hierarchy: Hierarchy,
    by_key: HashMap<Key, Tracked>,
    by_id: HashMap<Arc<str>, Key>,
    next: Key,
    refused: bool,
    full: bool,
}

impl Tracker {
    /// None yet.
    pub fn new(cx: SourceContext, hierarchy: Hierarchy) -> Self {
        Tracker {
            cx,
            hierarchy,
            by_key: HashMap::new(),
            by_id: HashMap::new(),
            next: 1,
            refused: false,
            full: false,
        }
    }

    /// Looks at everything: what the roster and the hierarchy hold, and each one's memory.
    pub async fn look(&mut self, watch: &mut Watch) {
        let roster = self.cx.roster.all();
        for c in roster.iter().filter(|c| c.running) {
            self.enter(watch, c, false).await;
        }
        for found in walk::containers(&self.hierarchy) {
            // What the runtime knows is entered by the runtime's word.
            if !self.by_id.contains_key(found.id.as_str()) && self.cx.roster.by_prefix(&found.id).is_none() {
                self.add(watch, found.id.into(), found.subject.into(), found.path, false).await;
            }
        }
        for key in self.by_key.keys().copied().collect::<Vec<_>>() {
            if self.by_key.get(&key).is_some_and(|t| inode(&t.dir) != Some(t.inode)) {
                self.drop_key(watch, key);
                continue;
            }
            self.check(key, false).await;
            self.sample(key, None).await;
        }
    }

    /// A container was met; `started` where its main process has just been started.
    pub async fn enter(&mut self, watch: &mut Watch, c: &Container, started: bool) {
        if !c.running {
            return;
        }
        let Some(path) = self.path_of(c) else { return };
        let now_inode = inode(&self.hierarchy.dir(&path));
        let mut fresh = started;
        if let Some(key) = self.by_id.get(&c.id).copied() {
            let same = self.by_key.get(&key).is_some_and(|t| t.path == path && now_inode == Some(t.inode));
            if same {
                if let Some(t) = self.by_key.get_mut(&key) {
                    t.subject = c.subject.clone();
                }
                return;
            }
            // Re-created meanwhile: its counters began at 0.
            self.drop_key(watch, key);
            fresh = true;
        }
        self.add(watch, c.id.clone(), c.subject.clone(), path, fresh).await;
    }

    /// A container ended: one last look, if its directory is still there.
    pub async fn leave(&mut self, watch: &mut Watch, id: &str) {
        if let Some(key) = self.by_id.get(id).copied() {
            self.check(key, false).await;
            self.drop_key(watch, key);
        }
    }

    /// The kernel says that something happened in these.
    pub async fn woken(&mut self, keys: &[Key]) {
        for key in keys {
            self.check(*key, true).await;
        }
    }

    /// When the next look without a wake is due.
    pub fn next_look(&self) -> Option<Instant> {
        self.by_key.values().filter_map(|t| t.again.map(|(at, _)| at)).min()
    }

    /// Looks at those for which it is due.
    pub async fn look_again(&mut self) {
        let now = Instant::now();
        let due = |t: &Tracked| t.again.is_some_and(|(at, _)| at <= now);
        let keys: Vec<Key> = self.by_key.iter().filter(|(_, t)| due(t)).map(|(k, _)| *k).collect();
        for key in keys {
            self.check(key, true).await;
        }
    }

    /// The container's own cgroup: by its main process; where that is gone already, by the names that Docker gives.
    fn path_of(&self, c: &Container) -> Option<String> {
        let of = |pid: u32| {
            let mut text = String::new();
            let file = File::open(self.cx.roots.proc.join(pid.to_string()).join("cgroup")).ok()?;
            file.take(64 * 1024).read_to_string(&mut text).ok()?;
            let path = cgroup_of(&text)?;
            // A pid that was used again lives elsewhere.
            path.contains(&*c.id).then(|| own_level(&path, &c.id).to_string())
        };
        let guess = || {
            let paths = [format!("/docker/{}", c.id), format!("/system.slice/docker-{}.scope", c.id)];
            paths.into_iter().find(|p| self.hierarchy.dir(p).is_dir())
        };
        c.pid.filter(|p| *p > 0).and_then(of).or_else(guess)
    }

    async fn add(&mut self, watch: &mut Watch, id: Arc<str>, subject: Arc<str>, path: String, fresh: bool) {
        if self.by_key.len() >= MOST {
            if !std::mem::replace(&mut self.full, true) {
                let detail = format!("{MOST} cgroups are looked at; {path} and further ones are not");
                self.cx.emit(self.cx.issue("host:", "dropped", 1, detail, &path)).await;
            }
            return;
        }
        let dir = self.hierarchy.dir(&path);
        let Some(inode) = inode(&dir) else { return };
        let key = self.next;
        self.next += 1;
        match watch.add(key, &dir) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::NotFound => return,
            Err(e) => self.refuse(&path, &e).await,
        }
        // Watched first, read second: what happens between the two wakes us.
        let Some(now) = counters(&dir, self.hierarchy.version) else {
            watch.remove(key);
            return;
        };
        let baseline = if fresh {
            Counters {
                own_oom: now.own_oom.map(|_| 0),
                oom: now.oom.map(|_| 0),
                oom_kill: now.oom_kill.map(|_| 0),
                max: now.max.map(|_| 0),
                ..now
            }
        } else {
            now
        };
        let read = self.cx.clock.now();
        let t = Tracked {
            id: id.clone(),
            subject,
            path,
            dir,
            inode,
            counters: baseline,
            read,
            told: None,
            again: None,
        };
        self.by_key.insert(key, t);
        self.by_id.insert(id, key);
        self.check(key, false).await;
        self.sample(key, None).await;
    }

    /// A watch that the kernel refuses is said once; the counters are then read each minute.
    async fn refuse(&mut self, path: &str, e: &std::io::Error) {
        if !std::mem::replace(&mut self.refused, true) {
            let detail = format!(
                "be woken by cgroup {path}: {e}; its counters are read each minute instead (v1 needs root, v2 `sysctl fs.inotify.max_user_watches`)"
            );
            self.cx.emit(self.cx.issue("host:", "unreadable", 1, detail, path)).await;
        }
    }

    fn drop_key(&mut self, watch: &mut Watch, key: Key) {
        watch.remove(key);
        if let Some(t) = self.by_key.remove(&key)
            && self.by_id.get(&t.id) == Some(&key)
        {
            self.by_id.remove(&t.id);
        }
    }

    /// Reads the counters and tells a kill that they show. `woken` where the kernel said that something happened just now.
    async fn check(&mut self, key: Key, woken: bool) {
        let Some(t) = self.by_key.get_mut(&key) else { return };
        let here = inode(&t.dir) == Some(t.inode);
        let Some(now) = counters(&t.dir, self.hierarchy.version).filter(|_| here) else {
            // The directory is gone, or another of its name: what it counted since the last look is lost.
            t.again = None;
            return;
        };
        if now.oom_kill.is_none() && t.counters.oom_kill.is_some() {
            // Read as it went away: says nothing.
            t.again = None;
            return;
        }
        let rose = |new: Option<u64>, old: Option<u64>| new.unwrap_or(0).saturating_sub(old.unwrap_or(0));
        let kills = if t.counters.oom_kill.is_some() { rose(now.oom_kill, t.counters.oom_kill) } else { 0 };
        let limit_reached = rose(now.oom, t.counters.oom) > 0 || rose(now.max, t.counters.max) > 0;
        // The limit of a cgroup inside the container is a limit too, but not the container's.
        let own_limit = limit_reached && now.own_oom.is_none_or(|own| own > t.counters.own_oom.unwrap_or(0));
        let before = t.read;
        t.read = self.cx.clock.now();
        if kills == 0 {
            // v1 wakes us before the kernel has counted: looked again, ever more slowly, a bounded number of times.
            if woken && self.hierarchy.version == 1 && now.oom_kill.is_some() {
                let step = t.again.map_or(0, |(_, step)| step + 1);
                t.again = AGAIN_MS.get(step).map(|ms| (Instant::now() + Duration::from_millis(*ms), step));
            }
            // The counters of the limit are kept from before, until the kill that they belong to is counted.
            if t.again.is_none() {
                t.counters = now;
            }
            return;
        }
        t.counters = now;
        t.again = None;
        let sample = Sample::take(&t.dir, self.hierarchy.version);
        let fact = OomKill {
            cgroup: Some(t.path.clone()),
            limit_bytes: sample.and_then(|s| s.limit).filter(|_| own_limit),
            // A rise of kills alone does not tell whose memory ran out: the host's, or a parent's.
            scope: limit_reached.then(|| "memcg".into()),
            by: Some("cgroup".into()),
            count: Some(kills),
            attribution: Some("the container's own counter".into()),
            ..OomKill::default()
        };
        let mut event = self.cx.event_at(t.read, &t.subject, fact);
        if !woken {
            event.after = Some(before.at);
        }
        self.cx.emit(event).await;
        self.sample(key, sample).await;
    }

    /// Tells a reading, if it differs enough from the last one told.
    async fn sample(&mut self, key: Key, taken: Option<Sample>) {
        let Some(t) = self.by_key.get_mut(&key) else { return };
        let Some(sample) = taken.or_else(|| Sample::take(&t.dir, self.hierarchy.version)) else { return };
        let now = self.cx.clock.now();
        let tell = t.told.is_none_or(|(told, at)| {
            let age = now.boot_ns.saturating_sub(at);
            age >= STALE_NS || (age >= BETWEEN_NS && sample.differs(&told))
        });
        if tell {
            t.told = Some((sample, now.boot_ns));
            let event = self.cx.event_at(now, &t.subject, sample.fact());
            self.cx.emit(event).await;
        }
    }
}

fn inode(dir: &std::path::Path) -> Option<u64> {
    std::fs::metadata(dir).ok().filter(std::fs::Metadata::is_dir).map(|m| m.ino())
}
