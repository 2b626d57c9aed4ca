//! The cgroup source on a laid-out v2 hierarchy: kills as rises of a counter, directories that die with their container,
//! and containers that no runtime told of.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use linchpin_collector::roster::{Change, Container};
use linchpin_collector::sources::{cgroup, host};
use linchpin_collector::{Resume, Roots, Settings, Sight, Supervisor};
use linchpin_data::clock::ManualClock;
use linchpin_data::event::{Memory, OomKill};
use linchpin_data::{Event, Fact, Timestamp};

const ID: &str = "22c42cc6756374dca72fbe200f12a9e75b2499c10b648ef764ccb1d4a666347d";

struct Scene {
    dir: tempfile::TempDir,
    running: linchpin_collector::supervisor::Running,
}

impl Scene {
    fn start(lay: impl FnOnce(&Path)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        put(&dir.path().join("cg/cgroup.controllers"), "cpu memory pids\n");
        lay(dir.path());
        let roots = roots(dir.path());
        let clock = Arc::new(ManualClock::new(Timestamp::from_secs(1_700_000_000), 1_000_000_000));
        let supervisor = Supervisor::new(
            vec![cgroup::source()],
            clock,
            roots,
            Settings::default(),
            "h",
            "boot",
            Resume::default(),
        );
        Scene { running: supervisor.start(), dir }
    }

    async fn next(&mut self) -> Event {
        tokio::time::timeout(Duration::from_secs(20), self.running.events.recv())
            .await
            .expect("an event in time")
            .expect("an event")
    }

    async fn watching(&mut self) {
        let e = self.next().await;
        assert_eq!(e.fact.kind(), "watch_started", "{e:?}");
    }

    async fn kill(&mut self) -> (String, Box<OomKill>) {
        match self.next().await {
            Event { subject, fact: Fact::OomKill(k), .. } => (subject.to_string(), k),
            other => panic!("no kill: {other:?}"),
        }
    }

    async fn memory(&mut self) -> (String, Box<Memory>) {
        match self.next().await {
            Event { subject, fact: Fact::Memory(m), .. } => (subject.to_string(), m),
            other => panic!("no reading: {other:?}"),
        }
    }

    fn scope(&self) -> PathBuf {
        scope(self.dir.path())
    }

    fn tell(&self, running: bool, change: fn(Container) -> Change) {
        let c = Container {
            id: ID.into(),
            subject: "docker:web".into(),
            running,
            pid: running.then_some(77),
            ..Container::default()
        };
        self.running.roster.put(c, change);
    }
}

fn roots(dir: &Path) -> Roots {
    Roots { proc: dir.join("proc"), cgroup: dir.join("cg"), ..Roots::default() }
}

fn scope(dir: &Path) -> PathBuf {
    dir.join(format!("cg/system.slice/docker-{ID}.scope"))
}

fn put(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    // In one step, as the kernel does.
    let aside = path.with_extension("aside");
    std::fs::write(&aside, text).unwrap();
    std::fs::rename(aside, path).unwrap();
}

/// Lays out the container's cgroup; its processes live below it.
fn lay(dir: &Path, oom: u64, oom_kill: u64) {
    let scope = scope(dir);
    put(&scope.join("memory.events"), &events(oom, oom_kill));
    put(&scope.join("memory.current"), "1000000\n");
    put(&scope.join("memory.max"), "16777216\n");
    put(&dir.join("proc/77/cgroup"), &format!("0::/system.slice/docker-{ID}.scope/init.scope\n"));
}

fn events(oom: u64, oom_kill: u64) -> String {
    format!("low 0\nhigh 0\nmax {oom}\noom {oom}\noom_kill {oom_kill}\n")
}

/// The kernel changes the file in place: the watch is on the inode.
fn count(scope: &Path, oom: u64, oom_kill: u64) {
    std::fs::write(scope.join("memory.events"), events(oom, oom_kill)).unwrap();
}

#[tokio::test]
async fn a_rise_is_a_kill_and_tells_whose_limit_it_was() {
    let mut scene = Scene::start(|dir| lay(dir, 4, 4));
    // What was counted before anybody watched is no new kill; the roster is entered before the source first looks.
    scene.tell(true, Change::Described);
    let (subject, m) = scene.memory().await;
    assert_eq!(
        (subject.as_str(), m.current_bytes, m.limit_bytes, m.oom_kill),
        ("docker:web", Some(1_000_000), Some(16 << 20), Some(4))
    );
    scene.watching().await;
    count(&scene.scope(), 5, 5);
    let (subject, k) = scene.kill().await;
    assert_eq!(
        (subject.as_str(), k.by.as_deref(), k.count, k.limit_bytes),
        ("docker:web", Some("cgroup"), Some(1), Some(16 << 20))
    );
    assert_eq!(
        (k.scope.as_deref(), k.cgroup),
        (Some("memcg"), Some(format!("/system.slice/docker-{ID}.scope")))
    );
    // Killed for want of a parent's or the host's memory: its own limit was not reached, and nothing is said of it.
    count(&scene.scope(), 5, 7);
    let (_, k) = scene.kill().await;
    assert_eq!((k.count, k.scope, k.limit_bytes), (Some(2), None, None));
}

#[tokio::test]
async fn a_limit_inside_the_container_is_not_the_containers() {
    let local = |dir: &Path, oom: u64| put(&scope(dir).join("memory.events.local"), &events(oom, 0));
    let mut scene = Scene::start(|dir| {
        lay(dir, 0, 0);
        local(dir, 0);
    });
    scene.tell(true, Change::Described);
    scene.memory().await;
    scene.watching().await;
    // Counted below, and so here; the container's own limit was not reached.
    count(&scene.scope(), 1, 1);
    let (_, k) = scene.kill().await;
    assert_eq!((k.count, k.scope.as_deref(), k.limit_bytes), (Some(1), Some("memcg"), None));
    local(scene.dir.path(), 1);
    count(&scene.scope(), 2, 2);
    let (_, k) = scene.kill().await;
    assert_eq!((k.count, k.scope.as_deref(), k.limit_bytes), (Some(1), Some("memcg"), Some(16 << 20)));
}

#[tokio::test]
async fn counters_of_a_new_life_begin_at_nought() {
    let mut scene = Scene::start(|dir| lay(dir, 9, 9));
    scene.tell(true, Change::Described);
    scene.memory().await;
    scene.watching().await;
    // It ends, its directory goes, and it is back with a kill already counted before anybody looked.
    std::fs::remove_dir_all(scene.scope()).unwrap();
    scene.tell(false, Change::Exited);
    lay(scene.dir.path(), 1, 1);
    scene.tell(true, Change::Started);
    let (subject, k) = scene.kill().await;
    assert_eq!((subject.as_str(), k.count), ("docker:web", Some(1)));
    // The watch stands on the new directory.
    scene.memory().await;
    count(&scene.scope(), 2, 2);
    assert_eq!(scene.kill().await.1.count, Some(1));
    // Re-created without a word: another directory of the same name.
    let old = scene.scope();
    std::fs::rename(&old, old.with_extension("old")).unwrap();
    lay(scene.dir.path(), 3, 3);
    scene.tell(true, Change::Described);
    assert_eq!(scene.kill().await.1.count, Some(3));
}

#[tokio::test]
async fn without_a_runtime_containers_are_found_in_the_hierarchy() {
    let mut scene = Scene::start(|dir| lay(dir, 0, 0));
    let (subject, _) = scene.memory().await;
    assert_eq!(subject, "docker:22c42cc67563");
    scene.watching().await;
    count(&scene.scope(), 1, 1);
    assert_eq!(scene.kill().await.0, "docker:22c42cc67563");
}

#[tokio::test]
async fn a_host_without_the_controller_is_said() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(cgroup::source().sight(&roots(dir.path())).await, Sight::Blind { .. }));
    assert!(matches!(host::source().sight(&roots(dir.path())).await, Sight::Blind { .. }));
    put(&dir.path().join("cg/memory/memory.oom_control"), "oom_kill_disable 0\nunder_oom 0\n");
    let Sight::Limited { missing, .. } = cgroup::source().sight(&roots(dir.path())).await else { panic!() };
    assert!(missing.contains("does not count kills"), "{missing}");
    put(&dir.path().join("cg/memory/memory.oom_control"), "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n");
    put(&dir.path().join("cg/memory/cgroup.event_control"), "");
    assert!(matches!(cgroup::source().sight(&roots(dir.path())).await, Sight::Works { .. }));
}

#[tokio::test]
async fn the_host_is_told_of() {
    let dir = tempfile::tempdir().unwrap();
    put(&dir.path().join("cg/cgroup.controllers"), "memory\n");
    put(&dir.path().join("proc/meminfo"), include_str!("fixtures/host/meminfo-6.18"));
    put(&dir.path().join("proc/sys/kernel/osrelease"), "6.18.44\n");
    let clock = Arc::new(ManualClock::new(Timestamp::from_secs(1_700_000_000), 1_000_000_000));
    let supervisor = Supervisor::new(
        vec![host::source()],
        clock,
        roots(dir.path()),
        Settings::default(),
        "h",
        "boot",
        Resume::default(),
    );
    let mut running = supervisor.start();
    let events = &mut running.events;
    let up = events.recv().await.unwrap();
    let Fact::HostUp(f) = &up.fact else { panic!("{up:?}") };
    assert_eq!(
        (f.cgroup_version, f.kernel.as_deref(), up.boot_id.as_deref()),
        (Some(2), Some("6.18.44"), Some("boot"))
    );
    assert_eq!(events.recv().await.unwrap().fact.kind(), "watch_started");
    let Fact::Memory(m) = events.recv().await.unwrap().fact else { panic!() };
    assert_eq!(m.limit_bytes, f.memory_total_bytes);
    assert_eq!((m.container_limits_bytes, m.containers_unlimited), (Some(0), Some(0)));
}
