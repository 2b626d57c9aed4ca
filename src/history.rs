//! Where the subcommands that look back get their events: from the agent that holds the journal, through its API, or
//! from the journal itself when nobody holds it.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use linchpin_data::journal::{self, Journal, Options};

use crate::cli::SpanArgs;

/// A journal to look into.
pub enum History {
    /// Nobody holds it: read here.
    Journal(Journal),
    /// An agent holds it and serves it at this address.
    Agent(String),
}

/// Opens the journal, or finds the agent that holds it.
pub fn open(dir: &Path) -> anyhow::Result<History> {
    if let Some(holder) = journal::holder(dir) {
        match holder.note.filter(|n| n.starts_with("http://")) {
            Some(url) => return Ok(History::Agent(url)),
            None => bail!(
                "the journal {} is held by {} (pid {}), which serves no report; end it or wait for it",
                dir.display(),
                holder.process,
                holder.pid
            ),
        }
    }
    if !dir.is_dir() {
        bail!("there is no journal at {}; start `linchpin agent`, or name one with --journal", dir.display());
    }
    Ok(History::Journal(Journal::open(dir, Options::default())?))
}

/// Asks the agent. The reply is returned as it comes, to be read or copied.
pub fn ask(base: &str, path: &str, span: &SpanArgs) -> anyhow::Result<reqwest::blocking::Response> {
    let mut url = reqwest::Url::parse(base)
        .and_then(|b| b.join(path))
        .with_context(|| format!("the journal's lock names {base:?} as the agent's address"))?;
    for (name, time) in [("from", span.from), ("to", span.to)] {
        if let Some(t) = time {
            url.query_pairs_mut().append_pair(name, &t.to_string());
        }
    }
    let client = reqwest::blocking::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(Duration::from_secs(5))
        .timeout(None)
        .build()?;
    let reply = client.get(url.clone()).send().with_context(|| format!("asking the agent at {base}"))?;
    if !reply.status().is_success() {
        bail!("the agent at {base} answered {} to {}", reply.status(), url.path());
    }
    Ok(reply)
}

/// A progress bar over `bytes` on standard error; hidden where that is no terminal.
pub fn progress(bytes: Option<u64>, what: &'static str) -> ProgressBar {
    let bar = match bytes {
        Some(n) => ProgressBar::new(n),
        None => ProgressBar::new_spinner(),
    };
    let template = if bytes.is_some() {
        "{msg} {wide_bar} {binary_bytes} of {binary_total_bytes}, {eta} left"
    } else {
        "{msg} {spinner} {human_pos} events"
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(what);
    bar
}
