//! `linchpin export`: the journal's events as JSON Lines on standard output, from the agent that holds it or the journal.

use std::io::{self, BufWriter, Write};

use linchpin_data::{Timestamp, jsonl};

use crate::cli::ExportArgs;
use crate::config::Config;
use crate::history::{self, History};

/// Writes them all, oldest first.
pub fn run(config: &Config, args: &ExportArgs) -> anyhow::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    match history::open(&config.journal)? {
        History::Agent(url) => {
            io::copy(&mut history::ask(&url, "/api/v1/events?format=jsonl", &args.span)?, &mut out)?;
        }
        History::Journal(journal) => {
            let from = args.span.from.unwrap_or(Timestamp::MIN);
            let to = args.span.to.unwrap_or(Timestamp::MAX);
            for event in journal.scan(from, to) {
                jsonl::write(&mut out, &event?)?;
            }
        }
    }
    out.flush()?;
    Ok(())
}
