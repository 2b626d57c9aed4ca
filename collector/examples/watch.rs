//! Prints what sources see on this host, one event a line: `cargo run -p linchpin-collector --example watch -- kernel_log cgroup`
//! (all sources without arguments). For looking at a source by itself; the agent is the binary's.

use std::sync::Arc;

use linchpin_collector::{Resume, Roots, Settings, Supervisor, registry};
use linchpin_data::clock::SystemClock;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let roots = Roots::default();
    let boot = std::fs::read_to_string(roots.proc.join("sys/kernel/random/boot_id"))?;
    let sources: Vec<_> = registry()
        .into_iter()
        .filter(|s| wanted.is_empty() || wanted.iter().any(|w| w == s.name()))
        .collect();
    for source in &sources {
        eprintln!("{}: {}", source.name(), serde_json::to_string(&source.sight(&roots).await)?);
    }
    let supervisor = Supervisor::new(
        sources,
        Arc::new(SystemClock),
        roots,
        Settings::default(),
        "here",
        boot.trim(),
        Resume::default(),
    );
    let mut running = supervisor.start();
    while let Some(event) = running.events.recv().await {
        println!("{}", serde_json::to_string(&event)?);
    }
    Ok(())
}
