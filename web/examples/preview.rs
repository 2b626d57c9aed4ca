//! Serves a recording's pages, to look at: `cargo run -p linchpin-web --example preview -- FILE [ADDRESS [PLAY_MS]]`. Time
//! stands at the recording's end. With PLAY_MS the second half is folded live, an event each so many milliseconds. Without
//! FILE the pages are those of a host on which nothing was seen yet.

use std::io::BufReader;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use linchpin_analyzer::Objective;
use linchpin_analyzer::archive::Archive;
use linchpin_analyzer::data::{Event, EventId, Timestamp, jsonl};
use linchpin_analyzer::ledger::Ledger;
use linchpin_web::App;

#[derive(Clone)]
struct Recording(Arc<RwLock<Vec<Event>>>);

impl Recording {
    fn read(&self) -> RwLockReadGuard<'_, Vec<Event>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Archive for Recording {
    fn events(
        &self,
        from: Timestamp,
        to: Timestamp,
        each: &mut dyn FnMut(&Event) -> ControlFlow<()>,
    ) -> Result<(), String> {
        for e in self.read().iter().filter(|e| from <= e.at && e.at < to) {
            if each(e).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn event(&self, id: EventId) -> Result<Option<Event>, String> {
        Ok(self.read().iter().find(|e| e.id() == id).cloned())
    }
}

/// Folds `live` one by one, and tells of each.
async fn follow(
    archive: Recording,
    live: Vec<Event>,
    pause: Duration,
    now: Arc<AtomicI64>,
    ledger: Arc<RwLock<Ledger>>,
    folded: tokio::sync::watch::Sender<u64>,
) {
    for e in live {
        tokio::time::sleep(pause).await;
        now.store(e.at.0, Ordering::Relaxed);
        if let Ok(mut l) = ledger.write() {
            l.fold(&e);
            archive.0.write().unwrap_or_else(PoisonError::into_inner).push(e);
            folded.send_replace(l.events_folded());
        }
    }
    // The sender stays, or the pages would take the server for ended.
    std::future::pending::<()>().await;
    drop(folded);
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let mut events: Vec<Event> = match args.next() {
        Some(file) => {
            jsonl::Reader::new(BufReader::new(std::fs::File::open(file)?)).collect::<Result<_, _>>()?
        }
        None => Vec::new(),
    };
    let address = args.next().unwrap_or_else(|| "127.0.0.1:7421".into());
    let play: Option<u64> = args.next().map(|ms| ms.parse()).transpose()?;
    events.sort_by_key(Event::id);
    let mut ledger = Ledger::new(Objective::default());
    let live = if play.is_some() { events.split_off(events.len() / 2) } else { Vec::new() };
    for e in &events {
        ledger.fold(e);
    }
    let now = Arc::new(AtomicI64::new(events.last().map_or(0, |e| e.at.0)));
    let (folded, changes) = tokio::sync::watch::channel(ledger.events_folded());
    let ledger = Arc::new(RwLock::new(ledger));
    let archive = Recording(Arc::new(RwLock::new(events)));
    tokio::spawn(follow(
        archive.clone(),
        live,
        Duration::from_millis(play.unwrap_or(0)),
        now.clone(),
        ledger.clone(),
        folded,
    ));
    let app = App {
        ledger,
        changes,
        now: Arc::new(move || (Timestamp(now.load(Ordering::Relaxed)), 0)),
        archive: Arc::new(archive),
        doctor: Arc::new(|| {
            serde_json::json!([
                {"source": "docker", "sees": "containers: starts, exits, what an operator asked for", "sight": {"status": "works", "detail": "Docker 28.5 at /var/run/docker.sock, API 1.51"}},
                {"source": "cgroup", "sees": "memory, limits and OOM counters of each container", "sight": {"status": "limited", "detail": "usage and limits of 4 containers", "missing": "OOM counters: the kernel has no oom_kill line in memory.oom_control", "grant": "boot with systemd.unified_cgroup_hierarchy=1"}},
                {"source": "kernel_log", "sees": "OOM kills and segfaults", "sight": {"status": "blind", "missing": "/dev/kmsg: permission denied", "grant": "setcap cap_syslog+ep /usr/bin/linchpin"}},
            ])
        }),
        host: "host-a".into(),
        version: env!("CARGO_PKG_VERSION"),
        self_status: Arc::new(
            || serde_json::json!({"journal": {"state": "a recording is shown; nothing is written"}}),
        ),
    };
    let listener = tokio::net::TcpListener::bind(&address).await?;
    println!("http://{}/", listener.local_addr()?);
    linchpin_web::serve(listener, app, async move {
        // Ctrl-C ends it; a runtime that cannot listen for it serves on.
        let _ = tokio::signal::ctrl_c().await;
    })
    .await?;
    Ok(())
}
