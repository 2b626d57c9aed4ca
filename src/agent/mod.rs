//! `linchpin agent`: wires sources, journal, ledger and pages together, and ends them in order. What each does is its
//! own crate's; here is only who is handed what.

mod alive;
mod archive;
mod pump;

use std::net::SocketAddr;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use anyhow::{Context, bail};
use linchpin_analyzer::ledger::Ledger;
use linchpin_collector::{Resume, Settings, Supervisor, registry};
use linchpin_data::Timestamp;
use linchpin_data::clock::{SharedClock, SystemClock};
use linchpin_data::journal::{Journal, Options, Writer};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::cli::AgentArgs;
use crate::config::Config;
use crate::{doctor, history};

/// How long the sources are given to end.
const FAREWELL: Duration = Duration::from_secs(5);
/// How often `doctor`'s look is taken again.
const CHECK_UP: Duration = Duration::from_secs(300);

/// Watches this host until it is told to end.
pub fn run(config: &Config, args: &AgentArgs) -> anyhow::Result<()> {
    start_log();
    if !config.listen.ip().is_loopback() {
        bail!(
            "will not listen on {}: the report has no log-in yet; listen on loopback (127.0.0.1:7420) and put a reverse \
             proxy with one in front, or tunnel: ssh -L 7420:127.0.0.1:7420 HOST",
            config.listen
        );
    }
    for name in args.without.iter().chain(&config.off) {
        let known: Vec<_> = registry().iter().map(|s| s.name()).collect();
        if !known.contains(&name.as_str()) {
            bail!("there is no source {name:?}; the sources are {}", known.join(", "));
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let result = runtime.block_on(watch_host(config, args));
    runtime.shutdown_timeout(Duration::from_secs(2));
    result
}

fn start_log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("LINCHPIN_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info,sled=warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
}

async fn watch_host(config: &Config, args: &AgentArgs) -> anyhow::Result<()> {
    let clock: SharedClock = Arc::new(SystemClock);
    // Both are taken before anything is written, so that a second agent ends without a trace.
    let listener = listen(config.listen).await?;
    let address = listener.local_addr()?;
    let url = format!("http://{address}");
    let options = Options { note: Some(url.clone()), ..Options::default() };
    let journal = Journal::open(&config.journal, options)?;
    let (ledger, resume, open) = tokio::task::block_in_place(|| read_back(config, &journal))?;
    let ledger = Arc::new(RwLock::new(ledger));

    let roots = doctor::roots(config);
    let host = crate::config::this_host();
    let boot_id = boot_id(&roots);
    let (changed, changes) = watch::channel(0u64);
    let writer = Writer::spawn(journal.clone());
    let mut pump = pump::Pump::new(ledger.clone(), writer, journal.begin_run()?, changed);
    let alive = alive::Alive::new(&config.journal, &boot_id);
    for event in alive.cut_off(&host, &open) {
        pump.take(event);
    }
    for event in pump::damage(&journal, &host, &clock) {
        pump.take(event);
    }

    let mut off = config.off.clone();
    off.extend(args.without.iter().cloned());
    let settings = Settings { off, probes: config.probes.clone(), names: config.names.clone() };
    let running =
        Supervisor::new(registry(), clock.clone(), roots.clone(), settings, &host, &boot_id, resume).start();

    let status = pump.status();
    let events = running.events;
    let pumping = std::thread::Builder::new().name("journal-pump".into()).spawn(move || pump.run(events))?;
    let looked = Arc::new(RwLock::new(serde_json::Value::Null));
    let app = linchpin_web::App {
        ledger,
        changes,
        now: {
            let clock = clock.clone();
            Arc::new(move || {
                let now = clock.now();
                (now.at, now.boot_ns)
            })
        },
        archive: Arc::new(archive::JournalArchive(journal.clone())),
        doctor: {
            let looked = looked.clone();
            Arc::new(move || looked.read().map(|v| v.clone()).unwrap_or_default())
        },
        host,
        version: env!("CARGO_PKG_VERSION"),
        self_status: Arc::new(status),
    };
    let (ending, mut ended) = watch::channel(false);
    let serving = tokio::spawn(linchpin_web::serve(listener, app, async move {
        // The sender gone is an end too.
        let _ = ended.wait_for(|e| *e).await;
    }));
    tracing::info!(report = %url, journal = %config.journal.display(), "watching this host");

    let chores = tokio::spawn(chores(config.retention_weeks, journal, clock, alive));
    let check_up = check_up(config, &roots, &looked);
    tokio::select! {
        signal = told_to_end() => tracing::info!(signal, "ending"),
        () = check_up => {}
    }
    chores.abort();
    running.stop.send_replace(true);
    let mut tasks = running.tasks;
    if tokio::time::timeout(FAREWELL, async { while tasks.join_next().await.is_some() {} }).await.is_err() {
        tracing::warn!("a source did not end in time; it is cut off");
        tasks.abort_all();
    }
    drop(tasks);
    ending.send_replace(true);
    let closed = tokio::time::timeout(FAREWELL, tokio::task::spawn_blocking(move || pumping.join())).await;
    if !matches!(closed, Ok(Ok(Ok(())))) {
        tracing::error!("the journal could not be closed in time; its last second may be lost");
    }
    // Open streams are cut: a browser reconnects by itself.
    let _ = tokio::time::timeout(Duration::from_secs(1), serving).await;
    Ok(())
}

async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| {
        format!("cannot listen on {address} (is another agent or program using the port? choose one with --listen)")
    })
}

/// What the journal holds: folded into the ledger, and into what the sources go on from.
fn read_back(config: &Config, journal: &Journal) -> anyhow::Result<(Ledger, Resume, alive::OpenWatches)> {
    let bar = history::progress(None, "reading the journal");
    let mut ledger = Ledger::new(config.objective);
    let (mut resume, mut open) = (Resume::default(), alive::OpenWatches::default());
    for event in journal.scan(Timestamp::MIN, Timestamp::MAX) {
        match event {
            Ok(event) => {
                ledger.fold(&event);
                resume.fold(&event);
                open.fold(&event);
            }
            Err(e) => tracing::error!(error = %e, "part of the journal cannot be read; it is shown as a gap"),
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok((ledger, resume, open))
}

fn boot_id(roots: &linchpin_collector::Roots) -> String {
    std::fs::read_to_string(roots.proc.join("sys/kernel/random/boot_id"))
        .map(|s| s.trim().to_string())
        .unwrap_or_else(|_| "unknown".into())
}

/// Looks at what the sources can see, now and again. Never returns.
async fn check_up(
    config: &Config,
    roots: &linchpin_collector::Roots,
    looked: &Arc<RwLock<serde_json::Value>>,
) {
    loop {
        let found = serde_json::to_value(doctor::check(config, roots).await).unwrap_or_default();
        if let Ok(mut place) = looked.write() {
            *place = found;
        }
        tokio::time::sleep(CHECK_UP).await;
    }
}

/// The sign of life every few seconds; old segments dropped once a day.
async fn chores(retention_weeks: u32, journal: Journal, clock: SharedClock, alive: alive::Alive) {
    let mut rounds = 0u64;
    loop {
        alive.touch(clock.now());
        if rounds.is_multiple_of(24 * 3600 / alive::PERIOD.as_secs()) {
            let keep = Timestamp(clock.now().at.0 - i64::from(retention_weeks) * 7 * 86_400 * 1_000_000_000);
            let journal = journal.clone();
            match tokio::task::spawn_blocking(move || journal.retain(keep)).await {
                Ok(Ok(dropped)) if !dropped.is_empty() => {
                    tracing::info!(?dropped, "dropped segments past retention")
                }
                Ok(Err(e)) => tracing::error!(error = %e, "old segments could not be dropped"),
                _ => {}
            }
        }
        rounds += 1;
        tokio::time::sleep(alive::PERIOD).await;
    }
}

async fn told_to_end() -> &'static str {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = term.recv() => "SIGTERM",
        _ = int.recv() => "SIGINT",
    }
}
