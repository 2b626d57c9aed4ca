//! `linchpin replay FILE`: folds a recording with the same code that folds live events, and prints its report.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

use anyhow::Context;
use linchpin_analyzer::ledger::Ledger;
use linchpin_analyzer::{Objective, Query};
use linchpin_data::jsonl::{LineError, Reader};

use crate::cli::ReplayArgs;
use crate::config::Config;
use crate::{history, plain, report};

/// Folds and prints.
pub fn run(config: &Config, args: &ReplayArgs) -> anyhow::Result<()> {
    let (input, bytes): (Box<dyn BufRead>, Option<u64>) = if args.file.as_os_str() == "-" {
        (Box::new(io::stdin().lock()), None)
    } else {
        let file = File::open(&args.file)
            .with_context(|| format!("opening the recording {}", args.file.display()))?;
        let bytes = file.metadata().ok().filter(std::fs::Metadata::is_file).map(|m| m.len());
        (Box::new(BufReader::with_capacity(1 << 18, file)), bytes)
    };
    let ledger = fold(input, bytes, config.objective, args.lenient)
        .with_context(|| format!("recording {}", args.file.display()))?;
    let query = Query { from: args.span.from, to: args.span.to, ..Query::default() };
    report::print(&ledger.report(query), args.format)
}

fn fold(
    input: impl BufRead,
    bytes: Option<u64>,
    objective: Objective,
    lenient: bool,
) -> anyhow::Result<Ledger> {
    let mut ledger = Ledger::new(objective);
    let mut reader = Reader::new(input);
    let bar = history::progress(bytes, "replay");
    let (mut skipped, mut first) = (0u64, None);
    while let Some(item) = reader.next() {
        match item {
            Ok(event) => ledger.fold(&event),
            Err(e @ (LineError::Malformed { .. } | LineError::TooLong { .. })) if lenient => {
                skipped += 1;
                first.get_or_insert(e);
            }
            Err(e) => {
                bar.finish_and_clear();
                return Err(e.into());
            }
        }
        if reader.line().is_multiple_of(4096) {
            bar.set_position(if bytes.is_some() { reader.bytes_read() } else { reader.line() });
        }
    }
    bar.finish_and_clear();
    if let Some(e) = first {
        eprintln!("linchpin: skipped {skipped} malformed lines, the first: {}", plain::line(&e.to_string()));
    }
    for (kind, n) in ledger.unknown_kinds() {
        eprintln!("linchpin: {n} events of the unknown kind {:?} were passed over", plain::cell(&kind, 60));
    }
    Ok(ledger)
}
