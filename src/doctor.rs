//! `linchpin doctor`: for each source, whether it works here, or what is missing and the one command that grants it.

use std::io::Write;

use linchpin_collector::{Roots, Sight, registry};
use serde::Serialize;

use crate::cli::{DoctorArgs, Format};
use crate::config::Config;
use crate::plain;

/// What one source would see here.
#[derive(Clone, Debug, Serialize)]
pub struct Checked {
    source: &'static str,
    sees: &'static str,
    on: bool,
    sight: Sight,
}

/// Looks, changes nothing.
pub async fn check(config: &Config, roots: &Roots) -> Vec<Checked> {
    let mut all = Vec::new();
    for source in registry() {
        let on = !config.off.iter().any(|o| o == source.name());
        all.push(Checked {
            source: source.name(),
            sees: source.sees(),
            on,
            sight: source.sight(roots).await,
        });
    }
    all
}

/// The roots that the settings name.
pub fn roots(config: &Config) -> Roots {
    Roots { docker: config.docker_socket.clone(), ..Roots::default() }
}

/// Checks and prints.
pub fn run(config: &Config, args: &DoctorArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let all = runtime.block_on(check(config, &roots(config)));
    let mut out = std::io::stdout().lock();
    if args.format == Format::Json {
        serde_json::to_writer_pretty(&mut out, &all)?;
        writeln!(out)?;
        return Ok(());
    }
    for c in &all {
        let off = if c.on { "" } else { " (turned off in the configuration)" };
        let (word, lines) = match &c.sight {
            Sight::Works { detail } => ("works", vec![detail.clone()]),
            Sight::Limited { detail, missing, grant } => (
                "limited",
                vec![detail.clone(), format!("missing: {missing}"), format!("to grant it: {grant}")],
            ),
            Sight::Blind { missing, grant } => {
                ("blind", vec![format!("missing: {missing}"), format!("to grant it: {grant}")])
            }
        };
        writeln!(out, "{:<11} {word}{off}: {}", c.source, c.sees)?;
        for line in lines {
            writeln!(out, "            {}", plain::line(&line))?;
        }
    }
    Ok(())
}
