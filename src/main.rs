//! The one binary: reads the command line, and hands over to one file a subcommand. No logic of its own.
//!
//! Exit codes: 0 fine, 1 findings at or above `--fail-on`, 2 usage or input errors.

mod agent;
mod ceiling;
mod cli;
mod config;
mod doctor;
mod export;
mod history;
mod import;
mod plain;
mod replay;
mod report;
mod why;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of our output went away (`linchpin export | head`): not our error.
        Err(e) if is_broken_pipe(&e) => ExitCode::SUCCESS,
        Err(e) => {
            let mut text = format!("linchpin: {}", plain::line(&e.to_string()));
            for cause in e.chain().skip(1).map(ToString::to_string) {
                if !text.contains(&cause) {
                    text.push_str(&format!(": {}", plain::line(&cause)));
                }
            }
            eprintln!("{text}");
            ExitCode::from(2)
        }
    }
}

fn run(cli: &Cli) -> anyhow::Result<()> {
    let config = config::load(cli)?;
    match &cli.command {
        Command::Agent(args) => agent::run(&config, args),
        Command::Report(args) => report::run(&config, args),
        Command::Replay(args) => replay::run(&config, args),
        Command::Export(args) => export::run(&config, args),
        Command::Import(args) => import::run(args),
        Command::Ceiling(args) => ceiling::run(args),
        Command::Doctor(args) => doctor::run(&config, args),
    }
}

fn is_broken_pipe(e: &anyhow::Error) -> bool {
    e.chain()
        .filter_map(|c| c.downcast_ref::<std::io::Error>())
        .any(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
}
