//! The kernel log as a source: a recorded log from its start, a live one through a pipe, lost records, and going on after a
//! restart.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use linchpin_collector::roster::{Change, Container};
use linchpin_collector::sources::kernel_log;
use linchpin_collector::{Resume, Roots, Settings, Sight, Supervisor};
use linchpin_data::clock::ManualClock;
use linchpin_data::{Event, Fact, Timestamp};
use tokio::sync::mpsc::Receiver;

const CHILD: &str = "22c42cc6756374dca72fbe200f12a9e75b2499c10b648ef764ccb1d4a666347d";
const FIXTURE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/kernel_log/oom-6.18-cgroup1-container.kmsg");

struct Scene {
    running: linchpin_collector::supervisor::Running,
    clock: Arc<ManualClock>,
}

fn start(kmsg: &Path, resume: Resume) -> Scene {
    let clock = Arc::new(ManualClock::new(Timestamp::from_secs(1_700_000_000), 3_000_000_000_000));
    let roots = Roots { kmsg: kmsg.into(), proc: "/nonexistent".into(), ..Roots::default() };
    let supervisor = Supervisor::new(
        vec![kernel_log::source()],
        clock.clone(),
        roots,
        Settings::default(),
        "h",
        "boot",
        resume,
    );
    let running = supervisor.start();
    let known = Container {
        id: CHILD.into(),
        subject: "docker:known".into(),
        running: true,
        pid: Some(16915),
        ..Container::default()
    };
    running.roster.put(known, Change::Described);
    Scene { running, clock }
}

async fn next(events: &mut Receiver<Event>) -> Event {
    tokio::time::timeout(Duration::from_secs(20), events.recv())
        .await
        .expect("an event in time")
        .expect("an event")
}

#[tokio::test]
async fn a_recorded_log_is_told_with_its_own_times() {
    let mut scene = start(Path::new(FIXTURE), Resume::default());
    let watching = next(&mut scene.running.events).await;
    assert_eq!(watching.fact.kind(), "watch_started");
    let main = next(&mut scene.running.events).await;
    let child = next(&mut scene.running.events).await;
    assert!(main.subject.starts_with("docker:e7c15ea8c7d8"), "unknown to the roster: {}", main.subject);
    assert_eq!(child.subject.as_ref(), "docker:known");
    assert_eq!(child.boot_ns, Some(2_398_561_498_000));
    assert_eq!(child.at, Timestamp::from_secs(1_700_000_000).plus_ns(2_398_561_498_000 - 3_000_000_000_000));
    let Fact::OomKill(kill) = child.fact else { panic!("{child:?}") };
    assert_eq!((kill.pid, kill.kmsg_seq, kill.by.as_deref()), (Some(16943), Some(1143), Some("kernel_log")));
    assert_eq!(
        (kill.scope.as_deref(), kill.limit_bytes, kill.group),
        (Some("memcg"), Some(16 << 20), Some(false))
    );
    assert!(kill.line.unwrap().starts_with("Memory cgroup out of memory: Killed process 16943 (tail)"));
}

#[tokio::test]
async fn what_was_told_before_is_not_told_again() {
    let resume = Resume { boot_id: Some("boot".into()), kmsg_seq: Some(1026), ..Resume::default() };
    let mut scene = start(Path::new(FIXTURE), resume);
    next(&mut scene.running.events).await;
    let Fact::OomKill(kill) = next(&mut scene.running.events).await.fact else { panic!() };
    assert_eq!(kill.kmsg_seq, Some(1143));
    // Of another boot, the numbers mean nothing.
    let resume = Resume { boot_id: Some("before".into()), kmsg_seq: Some(1026), ..Resume::default() };
    let mut scene = start(Path::new(FIXTURE), resume);
    next(&mut scene.running.events).await;
    let Fact::OomKill(kill) = next(&mut scene.running.events).await.fact else { panic!() };
    assert_eq!(kill.kmsg_seq, Some(1026));
}

#[tokio::test]
async fn a_live_log_tells_kills_faults_and_lost_records() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("kmsg");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    // Held open for both, so that neither side waits for the other.
    let mut log = std::fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    let mut scene = start(&pipe, Resume::default());
    next(&mut scene.running.events).await;
    scene.clock.advance(1_000_000_000);
    let mut say = |text: String| log.write_all(text.as_bytes()).unwrap();
    say(format!(
        "6,10,3000900000,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,oom_memcg=/docker/{CHILD},task_memcg=/docker/{CHILD}/leaf,task=w,pid=7,uid=0\n\
         3,11,3000900001,-;Memory cgroup out of memory: Killed process 7 (w) total-vm:1kB, anon-rss:2kB, file-rss:3kB\n SUBSYSTEM=x\n"
    ));
    let kill = next(&mut scene.running.events).await;
    assert_eq!((kill.subject.as_ref(), kill.fact.kind()), ("docker:known", "oom_kill"));
    // Nine records are lost; then the main process of the known container meets a trap.
    say(
        "6,21,3000900002,-;traps: edge[16915] general protection fault ip:1 sp:2 error:0 in libc.so.6[3+4]\n"
            .into(),
    );
    let lost = next(&mut scene.running.events).await;
    let Fact::Issue(issue) = lost.fact else { panic!("{lost:?}") };
    assert_eq!((issue.what.as_deref(), issue.count), (Some("overrun"), Some(9)));
    let fault = next(&mut scene.running.events).await;
    assert_eq!((fault.subject.as_ref(), fault.fact.kind()), ("docker:known", "segfault"));
    // A victim of which the log says no cgroup is the host's, and says so.
    say("3,22,3000900003,-;Memory cgroup out of memory: Killed process 8 (w) total-vm:1kB, anon-rss:2kB, file-rss:3kB\n".into());
    let kill = next(&mut scene.running.events).await;
    assert_eq!(kill.subject.as_ref(), "host:");
    let Fact::OomKill(kill) = kill.fact else { panic!() };
    assert_eq!(kill.attribution.as_deref(), Some("the log does not say which cgroup"));
    // The runtime tells of a container only after the kernel has told of its main process: still one subject.
    say("6,23,3000900004,-;worker[555]: segfault at 0 ip 1 sp 2 error 6\n".into());
    tokio::time::sleep(Duration::from_millis(50)).await;
    let late = Container {
        id: "late".into(),
        subject: "docker:late".into(),
        running: true,
        pid: Some(555),
        ..Container::default()
    };
    scene.running.roster.put(late, Change::Started);
    assert_eq!(next(&mut scene.running.events).await.subject.as_ref(), "docker:late");
    scene.running.stop.send_replace(true);
    assert_eq!(next(&mut scene.running.events).await.fact.kind(), "watch_stopped");
}

#[tokio::test]
async fn a_log_that_is_not_there_is_said() {
    let missing = Path::new("/nonexistent/kmsg");
    let mut scene = start(missing, Resume::default());
    let said = next(&mut scene.running.events).await;
    let Fact::WatchStopped(stopped) = &said.fact else { panic!("{said:?}") };
    assert!(stopped.reason.as_deref().unwrap().contains("/nonexistent/kmsg"), "{stopped:?}");
    let roots = Roots { kmsg: missing.into(), ..Roots::default() };
    assert!(matches!(kernel_log::source().sight(&roots).await, Sight::Blind { .. }));
    let roots = Roots { kmsg: FIXTURE.into(), ..Roots::default() };
    assert!(matches!(kernel_log::source().sight(&roots).await, Sight::Works { .. }));
}

#[tokio::test]
async fn what_was_overwritten_while_nobody_read_is_said() {
    // The log begins with number 880; the last kill told was number 500, and nothing was told since.
    let before = Timestamp::from_secs(1_699_990_000);
    let resume = Resume {
        boot_id: Some("boot".into()),
        kmsg_seq: Some(500),
        last_at: Some(before),
        ..Resume::default()
    };
    let mut scene = start(Path::new(FIXTURE), resume.clone());
    next(&mut scene.running.events).await;
    let lost = next(&mut scene.running.events).await;
    let Fact::Issue(issue) = &lost.fact else { panic!("{lost:?}") };
    assert_eq!((issue.what.as_deref(), issue.count), (Some("overrun"), Some(379)));
    // An event told after the oldest record was written shows that the log was read that far.
    let resume = Resume { last_at: Some(Timestamp::from_secs(1_700_000_000)), ..resume };
    let mut scene = start(Path::new(FIXTURE), resume);
    next(&mut scene.running.events).await;
    assert_eq!(next(&mut scene.running.events).await.fact.kind(), "oom_kill");
}
