//! The why in a terminal: links and chains with their controls, the usual suspects, names, pressure, and what was survived since a
//! change. Only words of the report; one screenful, the worst first.

use std::fmt::Write as _;

use linchpin_analyzer::Report;
use linchpin_analyzer::link::pair::Verdict;
use linchpin_analyzer::report::diagnosis::{Differential, Ruled};

use crate::plain;

/// The most subjects whose restarts are explained; the report's JSON and its pages have all.
const MOST: usize = 8;
/// The longest line, in characters.
const WIDE: usize = 400;

/// What follows the table of processes; empty where there is nothing to explain.
pub fn text(report: &Report) -> String {
    let mut s = String::new();
    let explained = report
        .processes
        .iter()
        .filter_map(|p| report.differentials.iter().find(|d| d.subject == p.subject && d.host == p.host));
    for d in explained.clone().take(MOST) {
        subject(&mut s, report, d);
    }
    let more = explained.count().saturating_sub(MOST);
    if more > 0 {
        let _ = writeln!(s, "\n{more} more restart; `--format json` and the pages explain them too.");
    }
    for p in &report.host_pressure {
        block(&mut s, &format!("memory of {}", plain::cell(&p.host, 40)), p.sentences.iter().cloned());
    }
    block(
        &mut s,
        "at their memory ceiling",
        report.subject_pressure.iter().take(MOST).map(|p| p.sentence.clone()),
    );
    let since = report.proofs.iter().map(|p| p.sentence.clone());
    block(&mut s, "since the changes", since.chain(report.drills.iter().map(|d| d.sentence.clone())));
    s
}

/// Why one subject restarts.
fn subject(s: &mut String, report: &Report, d: &Differential) {
    let mine = |l: &&linchpin_analyzer::link::pairs::Link| l.victim == d.subject && l.host == d.host;
    let strong =
        report.links.iter().filter(mine).filter(|l| l.verdict.is_strong()).map(|l| l.sentence.clone());
    let chains = report.chains.iter().filter(|c| c.victim == d.subject && c.host == d.host);
    let control = report.links.iter().filter(mine).find(|l| l.verdict == Verdict::Control);
    let ruled =
        d.rulings.iter().filter(|r| r.suspicion != "another subject" && r.suspicion != "dns").map(|r| {
            let word = match r.ruled {
                Ruled::In => "yes: ",
                Ruled::Open | Ruled::Out => "",
            };
            format!("{word}{}", r.sentence)
        });
    let lines = strong
        .take(3)
        .chain(chains.take(2).map(|c| c.sentence.clone()))
        .chain(control.map(|l| l.sentence.clone()))
        .chain(ruled);
    block(s, &format!("why {} restarts", plain::cell(&d.subject, 60)), lines);
}

fn block(s: &mut String, title: &str, lines: impl Iterator<Item = String>) {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        let _ = writeln!(s, "\n{title}");
    }
    for line in lines {
        let _ = writeln!(s, "  {}", plain::cell(&line, WIDE));
    }
}
