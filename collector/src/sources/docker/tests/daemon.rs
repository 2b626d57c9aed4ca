//! The transport against a daemon of our own: it speaks just enough HTTP over a unix socket, and breaks off, lies and
//! talks garbage when told to.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use linchpin_data::clock::SystemClock;
use linchpin_data::{Event, Fact};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};

use super::super::source;
use crate::resume::Resume;
use crate::source::{Roots, Settings, Sight};
use crate::supervisor::{Running, Supervisor};

/// What one subscription to the events hears: these lines, and then silence or the end.
#[derive(Clone, Default)]
struct Stream {
    lines: Vec<String>,
    ends: bool,
}

/// What the daemon is to say, and what it was asked.
#[derive(Default)]
struct Script {
    containers: Vec<Value>,
    streams: VecDeque<Stream>,
    asked: Vec<String>,
}

struct Daemon {
    script: Arc<Mutex<Script>>,
    socket: PathBuf,
    _folder: tempfile::TempDir,
    listening: tokio::task::JoinHandle<()>,
}

impl Daemon {
    fn start(containers: Vec<Value>, streams: Vec<Stream>) -> Daemon {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("docker.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let script = Arc::new(Mutex::new(Script { containers, streams: streams.into(), asked: Vec::new() }));
        let shared = script.clone();
        let listening = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, shared.clone()));
            }
        });
        Daemon { script, socket, _folder: folder, listening }
    }

    fn watch(&self, resume: Resume) -> Watch {
        let roots = Roots { docker: self.socket.clone(), ..Roots::default() };
        let supervisor = Supervisor::new(
            vec![source()],
            Arc::new(SystemClock),
            roots,
            Settings::default(),
            "h",
            "b",
            resume,
        );
        Watch { running: supervisor.start(), heard: Vec::new() }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, script: Arc<Mutex<Script>>) {
    let mut request = Vec::new();
    while !request.windows(4).any(|w| w == b"\r\n\r\n") {
        let mut chunk = [0; 1024];
        match stream.read(&mut chunk).await {
            Ok(n) if n > 0 => request.extend_from_slice(&chunk[..n]),
            _ => return,
        }
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    let line = request.lines().next().unwrap_or_default().to_string();
    let path = line.split(' ').nth(1).unwrap_or_default().to_string();
    let (body, events) = {
        let mut s = script.lock().unwrap();
        s.asked.push(line);
        if path.contains("/events") {
            (String::new(), Some(s.streams.pop_front().unwrap_or_default()))
        } else if path.contains("/version") {
            (json!({"Version": "20.10.24", "ApiVersion": "1.41", "MinAPIVersion": "1.12"}).to_string(), None)
        } else if path.contains("/containers/json") {
            let list: Vec<Value> = s.containers.iter().map(|c| json!({"Id": c["Id"]})).collect();
            (Value::from(list).to_string(), None)
        } else {
            let found = s.containers.iter().find(|c| c["Id"].as_str().is_some_and(|id| path.contains(id)));
            (found.map_or_else(String::new, Value::to_string), None)
        }
    };
    let Some(events) = events else {
        let status = if body.is_empty() { "404 Not Found" } else { "200 OK" };
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let _ = stream.write_all((head + &body).as_bytes()).await;
        return;
    };
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    let _ = stream.write_all(head.as_bytes()).await;
    // All in one piece, as a daemon that was busy sends them: what follows a bad line is in the same read.
    let text: String = events.lines.iter().map(|l| format!("{l}\n")).collect();
    if !text.is_empty() {
        let _ = stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).await;
    }
    if !events.ends {
        // Until the client goes.
        let _ = stream.read(&mut [0; 1]).await;
    }
}

struct Watch {
    running: Running,
    heard: Vec<Event>,
}

impl Watch {
    /// Listens until `enough`, for ten seconds at most.
    async fn until(&mut self, enough: impl Fn(&[Event]) -> bool) {
        let listen = async {
            while !enough(&self.heard) {
                let Some(e) = self.running.events.recv().await else { break };
                self.heard.push(e);
            }
        };
        let done = tokio::time::timeout(Duration::from_secs(10), listen).await;
        assert!(done.is_ok(), "not heard; only {:#?}", self.words());
    }

    async fn end(mut self) -> Vec<Event> {
        self.running.stop.send_replace(true);
        while let Some(result) = self.running.tasks.join_next().await {
            result.unwrap();
        }
        while let Ok(e) = self.running.events.try_recv() {
            self.heard.push(e);
        }
        self.heard
    }

    fn words(&self) -> Vec<String> {
        self.heard.iter().map(|e| format!("{} {}", e.subject, e.fact.kind())).collect()
    }
}

fn count(events: &[Event], kind: &str) -> usize {
    events.iter().filter(|e| e.fact.kind() == kind).count()
}

const ID: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

fn container(count: u64, started: &str, pid: u32) -> Value {
    json!({"Id": ID, "Name": "/web", "RestartCount": count, "Created": "2026-01-01T00:00:00Z",
        "State": {"Status": "running", "Running": true, "Pid": pid, "StartedAt": started, "FinishedAt": "0001-01-01T00:00:00Z"},
        "HostConfig": {"RestartPolicy": {"Name": "always"}}, "Config": {"Image": "i", "Labels": {}}})
}

/// An event some milliseconds from now.
fn event(action: &str, ms: i64) -> String {
    use linchpin_data::clock::Clock;
    let at = SystemClock.now().at.plus_ns(ms * 1_000_000).0;
    json!({"status": action, "id": ID, "Type": "container", "Action": action,
        "Actor": {"ID": ID, "Attributes": {"name": "web", "exitCode": "3"}}, "scope": "local", "time": at / 1_000_000_000, "timeNano": at})
    .to_string()
}

#[tokio::test]
async fn lists_hears_and_only_asks() {
    let lines = vec![event("die", 50), event("start", 60)];
    let daemon =
        Daemon::start(vec![container(0, "2026-01-01T00:00:00Z", 1)], vec![Stream { lines, ends: false }]);
    let mut watch = daemon.watch(Resume::default());
    watch.until(|e| count(e, "started") == 1 && count(e, "watch_started") == 1).await;
    assert!(watch.running.roster.filled(Duration::from_secs(1)).await);
    assert_eq!(watch.running.roster.all().len(), 1);
    let events = watch.end().await;
    assert_eq!((count(&events, "described"), count(&events, "exited"), count(&events, "started")), (1, 1, 1));
    let asked = daemon.script.lock().unwrap().asked.clone();
    assert!(asked.iter().all(|a| a.starts_with("GET ")), "{asked:?}");
    let place = |what: &str| asked.iter().position(|a| a.contains(what)).unwrap();
    assert!(place("/events") > place("/version") && asked[place("/events")].contains("since="));
}

#[tokio::test]
async fn a_lost_connection_is_taken_up_where_it_broke() {
    let die = event("die", 50);
    let first = Stream { lines: vec![die.clone()], ends: true };
    // The replay tells the death again, and the start after it.
    let second = Stream { lines: vec![die, event("start", 70)], ends: false };
    let daemon = Daemon::start(vec![container(0, "2026-01-01T00:00:00Z", 1)], vec![first, second]);
    let mut watch = daemon.watch(Resume::default());
    watch.until(|e| count(e, "watch_started") == 2).await;
    let events = watch.end().await;
    assert_eq!(
        (count(&events, "exited"), count(&events, "started"), count(&events, "restarts_missed")),
        (1, 1, 0)
    );
    assert_eq!(count(&events, "described"), 1);
    let reasons: Vec<_> = events
        .iter()
        .filter_map(|e| match &e.fact {
            Fact::WatchStarted(f) => f.reason.clone(),
            _ => None,
        })
        .collect();
    assert_eq!(reasons, ["agent started", "reconnected"]);
}

#[tokio::test]
async fn what_inspect_proves_after_a_lost_connection() {
    let daemon = Daemon::start(
        vec![container(0, "2026-01-01T00:00:00Z", 1)],
        vec![Stream { lines: vec![], ends: true }],
    );
    let mut watch = daemon.watch(Resume::default());
    watch.until(|e| count(e, "watch_started") == 1).await;
    daemon.script.lock().unwrap().containers = vec![container(5, "2026-01-02T00:00:00Z", 2)];
    watch.until(|e| count(e, "watch_started") == 2).await;
    let events = watch.end().await;
    let missed: Vec<_> = events
        .iter()
        .filter_map(|e| match &e.fact {
            Fact::RestartsMissed(f) => f.count,
            _ => None,
        })
        .collect();
    assert_eq!(missed, [5]);
}

#[tokio::test]
async fn garbage_does_not_end_the_watching() {
    for garbage in [
        r#"{"Type":"of_tomorrow","Action":"die","time":1796023151,"timeNano":1796023151883864647}"#
            .to_string(),
        r#"{"Type":"container","Action":7,"time":1796023151}"#.to_string(),
        "\u{0}\u{1}nonsense".to_string(),
    ] {
        let start = event("start", 120);
        let first = Stream { lines: vec![event("die", 50), garbage.clone(), start.clone()], ends: false };
        // What followed the garbage in the same read is lost to the client, and is replayed.
        let second = Stream { lines: vec![start], ends: false };
        let daemon = Daemon::start(vec![container(0, "2026-01-01T00:00:00Z", 1)], vec![first, second]);
        let mut watch = daemon.watch(Resume::default());
        watch.until(|e| count(e, "started") == 1 && count(e, "issue") == 1 && count(e, "exited") == 1).await;
        let events = watch.end().await;
        assert_eq!(
            (count(&events, "issue"), count(&events, "exited"), count(&events, "started")),
            (1, 1, 1),
            "{garbage}"
        );
    }
}

#[tokio::test]
async fn no_engine_is_said_once_and_keeps_nobody_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let roots = Roots { docker: folder.path().join("none.sock"), ..Roots::default() };
    let Sight::Blind { missing, grant } = source().sight(&roots).await else {
        panic!("it sees an engine where there is none")
    };
    assert!(missing.contains("none.sock") && grant.contains("systemctl start docker"), "{missing}: {grant}");
    let supervisor = Supervisor::new(
        vec![source()],
        Arc::new(SystemClock),
        roots,
        Settings::default(),
        "h",
        "b",
        Resume::default(),
    );
    let mut watch = Watch { running: supervisor.start(), heard: Vec::new() };
    watch.until(|e| count(e, "watch_stopped") == 1).await;
    assert!(watch.running.roster.filled(Duration::from_secs(1)).await);
    assert_eq!(count(&watch.end().await, "watch_stopped"), 1);
}

#[tokio::test]
async fn sight_of_a_working_engine() {
    let daemon = Daemon::start(vec![container(0, "2026-01-01T00:00:00Z", 1)], vec![]);
    let roots = Roots { docker: daemon.socket.clone(), ..Roots::default() };
    let sight = source().sight(&roots).await;
    assert!(matches!(&sight, Sight::Works { detail } if detail.starts_with("1 containers")), "{sight:?}");
}

#[tokio::test]
async fn an_engine_behind_tcp_and_a_socket_given_as_address() {
    let daemon = Daemon::start(vec![container(0, "2026-01-01T00:00:00Z", 1)], vec![]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = daemon.script.clone();
    let listening = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, script.clone()));
        }
    });
    for address in [format!("http://127.0.0.1:{port}"), format!("unix://{}", daemon.socket.display())] {
        let roots = Roots { docker: address.clone().into(), ..Roots::default() };
        let sight = source().sight(&roots).await;
        assert!(matches!(&sight, Sight::Works { .. }), "{address}: {sight:?}");
    }
    listening.abort();
}
