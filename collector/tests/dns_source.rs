//! The dns source on a real kernel: a network namespace of our own with a resolver on its loopback, a client that asks it, and
//! the source that hears both. It takes root (or the capabilities that the source itself names), `unshare` and `ip`.

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use linchpin_collector::roster::{Change, Container, Traits};
use linchpin_collector::sources::dns;
use linchpin_collector::sources::dns::canary::question;
use linchpin_collector::sources::dns::decode::{Kind, message};
use linchpin_collector::sources::dns::netns::{key_of, within};
use linchpin_collector::{Resume, Roots, Settings, Supervisor};
use linchpin_data::clock::SystemClock;
use linchpin_data::{Event, Fact};

/// A process in a network namespace of its own, with its loopback up.
struct Namespace(Child);

impl Namespace {
    fn new() -> Self {
        let mut child = Command::new("unshare")
            .args(["--net", "sh", "-c", "ip link set lo up && echo up && exec sleep 600"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare runs");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "up\n", "a network namespace with its loopback up: this test takes root");
        Namespace(child)
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    /// A socket in there.
    async fn socket(&self, address: &'static str) -> UdpSocket {
        let proc = Path::new("/proc");
        let make = move || UdpSocket::bind(address);
        let socket = within(proc, self.pid(), key_of(proc, self.pid()).unwrap(), make).await.unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Answers all questions: `backend` has an address while `there` is true, no other name has one.
fn serve(socket: UdpSocket, there: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((len, client)) = socket.recv_from(&mut buffer) {
            let asked = message(&buffer[..len]).unwrap();
            let mut answer = buffer[..len].to_vec();
            if asked.name == "backend" && there.load(Ordering::SeqCst) {
                (answer[2], answer[3], answer[7]) = (0x81, 0x80, 1);
                answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 0, 2, 7]);
            } else {
                (answer[2], answer[3]) = (0x81, 0x83);
            }
            socket.send_to(&answer, client).unwrap();
        }
    });
}

fn ask(client: &UdpSocket, id: u16, name: &str) {
    client.send_to(&question(id, name, Kind::A).unwrap(), "127.0.0.11:53").unwrap();
    let mut buffer = [0; 512];
    let len = client.recv(&mut buffer).unwrap();
    assert!(message(&buffer[..len]).is_some_and(|m| m.id == id && m.reply.is_some()));
}

/// The next event that `fits`; all before it are kept.
async fn until(
    running: &mut linchpin_collector::supervisor::Running,
    seen: &mut Vec<Event>,
    fits: impl Fn(&Event) -> bool,
) {
    loop {
        let event = tokio::time::timeout(Duration::from_secs(60), running.events.recv());
        let event =
            event.await.unwrap_or_else(|_| panic!("the event in time; seen {seen:#?}")).expect("an event");
        seen.push(event);
        if seen.last().is_some_and(&fits) {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hears_a_name_fail_and_come_back() {
    let namespace = Namespace::new();
    let pid = namespace.pid();
    // The kernel's own namespace, and a root of ours with a resolv.conf in it.
    let proc = tempfile::tempdir().unwrap();
    let home = proc.path().join(pid.to_string());
    std::fs::create_dir_all(home.join("root/etc")).unwrap();
    std::fs::write(home.join("root/etc/resolv.conf"), "search example.test\nnameserver 127.0.0.11\n")
        .unwrap();
    std::os::unix::fs::symlink(format!("/proc/{pid}/ns"), home.join("ns")).unwrap();

    let there = Arc::new(AtomicBool::new(true));
    serve(namespace.socket("127.0.0.11:53").await, there.clone());
    let client = namespace.socket("127.0.0.1:0").await;

    let mut settings = Settings::default();
    settings.names.canary.insert("proxy".into(), vec!["standby".into()]);
    let roots = Roots { proc: proc.path().into(), ..Roots::default() };
    let supervisor = Supervisor::new(
        vec![dns::source()],
        Arc::new(SystemClock),
        roots,
        settings,
        "h",
        "boot",
        Resume::default(),
    );
    let mut running = supervisor.start();
    let mut seen = Vec::new();
    until(&mut running, &mut seen, |e| matches!(e.fact, Fact::WatchStarted(_))).await;
    let traits = Traits { image: "nginx:1.27".into(), names: vec!["proxy".into()], ..Traits::default() };
    let container = Container {
        id: "22c42cc67563".into(),
        subject: "docker:proxy".into(),
        name: "proxy".into(),
        pid: Some(pid),
        running: true,
        traits: traits.into(),
        ..Container::default()
    };
    running.roster.put(container.clone(), Change::Started);
    // The canary's first word comes after the capture is open.
    let by = |e: &Event, who: &str| matches!(&e.fact, Fact::DnsFailure(f) if f.by.as_deref() == Some(who));
    until(&mut running, &mut seen, |e| by(e, "canary")).await;

    ask(&client, 1, "backend");
    ask(&client, 2, "backend.example.test");
    there.store(false, Ordering::SeqCst);
    ask(&client, 3, "backend");
    ask(&client, 4, "nowhere");
    until(&mut running, &mut seen, |e| by(e, "capture")).await;
    there.store(true, Ordering::SeqCst);
    ask(&client, 5, "backend");
    until(&mut running, &mut seen, |e| matches!(e.fact, Fact::DnsOk(_))).await;
    let Some(Event { subject, fact: Fact::DnsOk(ok), .. }) = seen.last() else { panic!() };
    assert_eq!((&**subject, ok.name.as_deref(), ok.failures), ("docker:proxy", Some("backend"), Some(1)));

    // It ends: what is left is told.
    running.roster.put(Container { running: false, pid: None, ..container }, Change::Exited);
    until(&mut running, &mut seen, |e| matches!(&e.fact, Fact::Tally(t) if t.of.as_deref() == Some("dns")))
        .await;
    let Some(Event { fact: Fact::Tally(tally), .. }) = seen.last() else { panic!() };
    // The canary's questions are not the client's.
    assert_eq!((tally.asked, tally.answered, tally.failed), (Some(5), Some(5), Some(1)));

    running.stop.send(true).unwrap();
    while let Some(event) = running.events.recv().await {
        seen.push(event);
    }
    let failures: Vec<_> = seen
        .iter()
        .filter_map(|e| match &e.fact {
            Fact::DnsFailure(f) if f.by.as_deref() == Some("capture") => Some(f),
            _ => None,
        })
        .collect();
    let [one] = &failures[..] else { panic!("{failures:#?}") };
    assert_eq!((one.name.as_deref(), one.outcome.as_deref()), (Some("backend"), Some("nxdomain")));
    assert_eq!(
        (one.resolver.as_deref(), one.record.as_deref(), one.count),
        (Some("127.0.0.11"), Some("A"), None)
    );
    for event in &seen {
        if let Fact::DnsFailure(f) = &event.fact
            && f.by.as_deref() == Some("canary")
        {
            assert_eq!(
                (&*event.subject, f.name.as_deref(), f.outcome.as_deref()),
                ("docker:proxy", Some("standby"), Some("nxdomain"))
            );
        }
        let name = serde_json::to_string(event).unwrap();
        assert!(!name.contains("nowhere") && !name.contains("backend.example.test"), "{name}");
    }
    assert_eq!(seen.last().map(|e| e.fact.kind()), Some("watch_stopped"));
}
