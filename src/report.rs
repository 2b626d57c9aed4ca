//! `linchpin report`: the report of the journal, or of the agent that holds it, for people or for programs.

use std::fmt::Write as _;
use std::io::{self, Write};

use linchpin_analyzer::ledger::Ledger;
use linchpin_analyzer::report::Process;
use linchpin_analyzer::{Query, Report};
use linchpin_data::Timestamp;

use crate::cli::{Format, ReportArgs};
use crate::config::Config;
use crate::history::{self, History};
use crate::{plain, why};

/// Folds or asks, and prints.
pub fn run(config: &Config, args: &ReportArgs) -> anyhow::Result<()> {
    let report: Report = match history::open(&config.journal)? {
        History::Agent(url) => history::ask(&url, "/api/v1/report", &args.span)?.json()?,
        History::Journal(journal) => {
            let bar = history::progress(None, "reading the journal");
            let mut ledger = Ledger::new(config.objective);
            for event in journal.scan(Timestamp::MIN, Timestamp::MAX) {
                ledger.fold(&event?);
                bar.inc(1);
            }
            bar.finish_and_clear();
            ledger.report(Query { from: args.span.from, to: args.span.to, ..Query::default() })
        }
    };
    print(&report, args.format)
}

/// Prints a report on standard output.
pub fn print(report: &Report, format: Format) -> anyhow::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    match format {
        Format::Json => {
            serde_json::to_writer_pretty(&mut out, report)?;
            writeln!(out)?;
        }
        Format::Text => out.write_all(text(report).as_bytes())?,
    }
    out.flush()?;
    Ok(())
}

fn text(report: &Report) -> String {
    let mut s = String::new();
    let window = match (report.window.from, report.window.to) {
        (Some(from), Some(to)) => format!("{} to {}", from.to_millis_text(), to.to_millis_text()),
        _ => "nothing observed yet".into(),
    };
    // Writing into a String cannot fail.
    let _ = writeln!(s, "{}\n", verdict(report));
    let _ = writeln!(s, "window {window}, observed {}", plain::duration(report.window.observed_seconds));
    for gap in &report.window.gaps {
        let _ = writeln!(
            s,
            "  not observed {} to {} ({})",
            gap.from.to_millis_text(),
            gap.to.to_millis_text(),
            plain::cell(&gap.reason, 80)
        );
    }
    if report.processes.is_empty() {
        let _ = writeln!(s, "\nNo process has been seen. `linchpin doctor` says what this host lets us see.");
        return s;
    }
    let _ = writeln!(
        s,
        "\n{:<34} {:>8} {:>22} {:>18} {:>11} {:>7}  causes",
        "process", "restarts", "an hour (95 %)", "recovery med/max", "ceiling", "burn"
    );
    for p in &report.processes {
        let _ = writeln!(s, "{}", row(p));
    }
    s += &why::text(report);
    for issue in &report.issues {
        let _ = writeln!(
            s,
            "\n{} {}: {} times, last {}: {}",
            plain::cell(&issue.source, 20),
            plain::cell(&issue.what, 20),
            issue.count,
            issue.last_at.to_millis_text(),
            plain::cell(&issue.detail, 160)
        );
    }
    s
}

/// What needs attention, as a sentence.
fn verdict(report: &Report) -> String {
    let burning = |p: &&Process| p.budget.burn_rate.is_some_and(|b| b > 1.0);
    let count = report.processes.iter().filter(burning).count();
    match report.processes.iter().find(burning) {
        Some(p) => {
            let others =
                if count > 1 { format!(" ({} more burn theirs too)", count - 1) } else { String::new() };
            format!(
                "{} can reach {} at best and burns its error budget {:.1} times too fast{others}.",
                plain::cell(&p.subject, 60),
                p.ceiling.map_or("unknown".into(), plain::percent),
                p.budget.burn_rate.unwrap_or_default(),
            )
        }
        None if report.window.observed_seconds > 0.0 => {
            "Nothing seen burns its error budget faster than it is given.".into()
        }
        None => "Nothing was observed, so nothing can be said.".into(),
    }
}

fn row(p: &Process) -> String {
    let unknown = || "unknown".to_string();
    let rate = match (p.restarts_per_hour, p.restarts_per_hour_ci) {
        (Some(r), Some([lo, hi])) => format!("{r:.2} [{lo:.2}, {hi:.2}]"),
        _ => unknown(),
    };
    let recovery = p.recovery_seconds.map_or("-".into(), |r| {
        let at_least = if r.lower_bounds > 0 { "≥ " } else { "" };
        format!("{at_least}{} / {}", plain::duration(r.median), plain::duration(r.max))
    });
    let causes: Vec<String> = p.causes.iter().map(|(cause, n)| format!("{cause} {n}")).collect();
    format!(
        "{:<34} {:>8} {:>22} {:>18} {:>11} {:>7}  {}",
        plain::cell(&p.subject, 34),
        p.restarts,
        rate,
        recovery,
        p.ceiling.map_or_else(unknown, plain::percent),
        p.budget.burn_rate.map_or_else(unknown, |b| format!("{b:.2}")),
        plain::cell(&causes.join(", "), 80)
    )
}
