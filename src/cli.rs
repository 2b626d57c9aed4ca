//! The command line as clap reads it. Every setting is optional here: flags go over the environment, the environment
//! over the file, and the defaults stand in `config.rs`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Finds the process your redundancy hangs on.
#[derive(Debug, Parser)]
#[command(name = "linchpin", version, about, long_about = None, propagate_version = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,

    /// Configuration file (TOML; every key is optional).
    #[arg(long, global = true, env = "LINCHPIN_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Where the journal is kept [default: /var/lib/linchpin, or the user's state folder].
    #[arg(long, global = true, env = "LINCHPIN_JOURNAL", value_name = "DIR")]
    pub journal: Option<PathBuf>,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Watch this host and serve the report.
    Agent(AgentArgs),
    /// Print the report of the journal, or of the agent that holds it.
    Report(ReportArgs),
    /// Fold a recording and print its report.
    Replay(ReplayArgs),
    /// Write the journal's events as JSON Lines.
    Export(ExportArgs),
    /// Make a recording of what there is after an incident: logs, recorded events, inspections.
    Import(ImportArgs),
    /// Calculate what availability a shared process can reach at best.
    Ceiling(CeilingArgs),
    /// Say what this host lets us see, and what to grant.
    Doctor(DoctorArgs),
}

/// Text for people or JSON for programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people on a terminal.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// `linchpin agent`.
#[derive(Debug, Default, Args)]
pub struct AgentArgs {
    /// Address of the report [default: 127.0.0.1:7420].
    #[arg(long, env = "LINCHPIN_LISTEN", value_name = "ADDR")]
    pub listen: Option<SocketAddr>,
    /// Docker's socket [default: /var/run/docker.sock].
    #[arg(long, env = "LINCHPIN_DOCKER_SOCKET", value_name = "PATH")]
    pub docker_socket: Option<PathBuf>,
    /// Do not run this source (may be given more than once).
    #[arg(long = "without", value_name = "SOURCE")]
    pub without: Vec<String>,
}

/// A span of time.
#[derive(Clone, Debug, Default, Args)]
pub struct SpanArgs {
    /// Begin, RFC 3339 (2026-08-09T06:00:00Z).
    #[arg(long, value_name = "TIME")]
    pub from: Option<linchpin_data::Timestamp>,
    /// End, RFC 3339.
    #[arg(long, value_name = "TIME")]
    pub to: Option<linchpin_data::Timestamp>,
}

/// `linchpin report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The window to report on.
    #[command(flatten)]
    pub span: SpanArgs,
    /// How to print it.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// `linchpin replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The recording (JSON Lines), or - for standard input.
    pub file: PathBuf,
    /// Skip and count malformed lines instead of ending at the first.
    #[arg(long)]
    pub lenient: bool,
    /// The window to report on.
    #[command(flatten)]
    pub span: SpanArgs,
    /// How to print it.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// `linchpin export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The window to export.
    #[command(flatten)]
    pub span: SpanArgs,
}

/// `linchpin import`. Every file may be - for standard input, once.
#[derive(Debug, Default, Args)]
pub struct ImportArgs {
    /// Kernel log text: dmesg in any form, /dev/kmsg, syslog, journalctl (may be given more than once).
    #[arg(long, value_name = "FILE")]
    pub kernel_log: Vec<PathBuf>,
    /// What `docker events --format '{{json .}}'` printed.
    #[arg(long, value_name = "FILE")]
    pub docker_events: Vec<PathBuf>,
    /// What `docker inspect CONTAINER...` printed.
    #[arg(long, value_name = "FILE")]
    pub docker_inspect: Vec<PathBuf>,
    /// What `journalctl -o json` printed: its kernel messages, and services that started and ended.
    #[arg(long, value_name = "FILE")]
    pub journalctl: Vec<PathBuf>,
    /// The host that they are from [default: this one].
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Year of each file's first line, where it writes none [default: by the file's own time].
    #[arg(long, value_name = "YEAR")]
    pub year: Option<i32>,
    /// Distance from UTC of times without a zone, as +02:00.
    #[arg(long, value_name = "+HH:MM", default_value = "+00:00", allow_hyphen_values = true, value_parser = utc_offset)]
    pub utc_offset: i32,
    /// When the machine booted, for times that count from there.
    #[arg(long, value_name = "TIME")]
    pub boot_time: Option<linchpin_data::Timestamp>,
    /// Append to the journal in this folder instead of writing JSON Lines.
    #[arg(long, value_name = "DIR")]
    pub into_journal: Option<PathBuf>,
}

/// Seconds from `+02:00`, `-0330`, `Z`.
fn utc_offset(text: &str) -> Result<i32, String> {
    let bad = || format!("{text:?} is no distance from UTC such as +02:00");
    if matches!(text, "Z" | "z") {
        return Ok(0);
    }
    let (sign, rest) = match text.as_bytes().first() {
        Some(b'+') => (1, text.get(1..)),
        Some(b'-') => (-1, text.get(1..)),
        _ => return Err(bad()),
    };
    let digits = rest.unwrap_or_default().replacen(':', "", 1);
    if digits.len() != 4 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(bad());
    }
    let number: i32 = digits.parse().map_err(|_| bad())?;
    let (hours, minutes) = (number / 100, number % 100);
    if hours > 14 || minutes > 59 { Err(bad()) } else { Ok(sign * (hours * 3600 + minutes * 60)) }
}

/// `linchpin ceiling`.
#[derive(Debug, Args)]
pub struct CeilingArgs {
    /// Restarts an hour of the shared process.
    #[arg(long, value_name = "N")]
    pub restarts_per_hour: f64,
    /// Mean recovery from exit to ready, as 1.15s or 800ms.
    #[arg(long, value_name = "DURATION", value_parser = plain_seconds)]
    pub recovery: f64,
    /// Hostnames served through it.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub hostnames: u32,
    /// Replicas behind it.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub replicas: u32,
    /// Availability aimed at, in percent.
    #[arg(long, default_value_t = 99.9, value_name = "PERCENT")]
    pub target: f64,
    /// Budget window in days.
    #[arg(long, default_value_t = 30.0, value_name = "DAYS")]
    pub window_days: f64,
    /// How to print it.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// `linchpin doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Docker's socket [default: /var/run/docker.sock].
    #[arg(long, env = "LINCHPIN_DOCKER_SOCKET", value_name = "PATH")]
    pub docker_socket: Option<PathBuf>,
    /// How to print it.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Seconds from `1.15s`, `800ms`, `2m`, `1m 30s`, or a bare number of seconds.
fn plain_seconds(text: &str) -> Result<f64, String> {
    let bad = || format!("{text:?} is no duration such as 1.15s, 800ms or 1m30s");
    let mut total = 0.0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(bad());
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
        let number: f64 = rest[..end].parse().map_err(|_| bad())?;
        rest = rest[end..].trim_start();
        let unit_end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        total += number
            * match &rest[..unit_end] {
                "ms" => 0.001,
                "" | "s" | "sec" => 1.0,
                "m" | "min" => 60.0,
                "h" => 3600.0,
                _ => return Err(bad()),
            };
        rest = rest[unit_end..].trim_start();
    }
    if total.is_finite() { Ok(total) } else { Err(bad()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations() {
        for (text, seconds) in
            [("1.15s", 1.15), ("800ms", 0.8), ("1m30s", 90.0), ("1m 30s", 90.0), ("2", 2.0), ("0", 0.0)]
        {
            assert!((plain_seconds(text).unwrap() - seconds).abs() < 1e-12, "{text}");
        }
        for bad in ["", "s", "1.1.1s", "-1s", "1 fortnight", "1e400", "..", "1\u{665}s"] {
            assert!(plain_seconds(bad).is_err(), "{bad}");
        }
    }
}
