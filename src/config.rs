//! Settings: flags over environment over one TOML file over defaults. A key that nobody knows is an error that names it
//! and the nearest one that is known.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use linchpin_analyzer::Objective;
use linchpin_collector::source::NameSettings;
use serde::Deserialize;

use crate::cli::Cli;

/// What the file may hold. Every key is optional.
#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct File {
    journal: Option<PathBuf>,
    listen: Option<SocketAddr>,
    retention_weeks: Option<u32>,
    objective: ObjectiveKeys,
    docker: DockerKeys,
    sources: SourceKeys,
    probes: std::collections::BTreeMap<String, String>,
    names: NameKeys,
    canary: std::collections::BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
struct NameKeys {
    watch: Vec<String>,
    skip: Vec<String>,
    canary_period_seconds: Option<f64>,
}

#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
struct ObjectiveKeys {
    target: Option<f64>,
    window_days: Option<f64>,
    operator_counts: Option<bool>,
}

#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
struct DockerKeys {
    socket: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
struct SourceKeys {
    off: Vec<String>,
}

/// Every table with its keys; the empty name is the top level. A table without keys takes any.
const KNOWN: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "journal",
            "listen",
            "retention_weeks",
            "objective",
            "docker",
            "sources",
            "probes",
            "names",
            "canary",
        ],
    ),
    ("objective", &["target", "window_days", "operator_counts"]),
    ("docker", &["socket"]),
    ("sources", &["off"]),
    ("probes", &[]),
    ("names", &["watch", "skip", "canary_period_seconds"]),
    ("canary", &[]),
];

/// The settings in force.
#[derive(Debug, PartialEq)]
pub struct Config {
    /// The journal's directory.
    pub journal: PathBuf,
    /// Where the report is served.
    pub listen: SocketAddr,
    /// Weeks of journal that are kept.
    pub retention_weeks: u32,
    /// The objective.
    pub objective: Objective,
    /// Docker's socket.
    pub docker_socket: PathBuf,
    /// Sources not to run.
    pub off: Vec<String>,
    /// Container name to what is probed over HTTP.
    pub probes: std::collections::BTreeMap<String, String>,
    /// Whose failing lookups are watched.
    pub names: NameSettings,
}

/// Reads the file, if one is named, and lays the flags over it.
pub fn load(cli: &Cli) -> anyhow::Result<Config> {
    let file = match &cli.config {
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("reading the configuration {}", path.display()))?;
            parse(&text).with_context(|| format!("configuration {}", path.display()))?
        }
        None => File::default(),
    };
    settle(file, cli)
}

fn settle(file: File, cli: &Cli) -> anyhow::Result<Config> {
    let standard = Objective::default();
    let objective = Objective {
        target: share(file.objective.target.unwrap_or(standard.target), "objective.target")?,
        window_days: file.objective.window_days.unwrap_or(standard.window_days),
        operator_counts: file.objective.operator_counts.unwrap_or(standard.operator_counts),
    };
    if !(objective.window_days > 0.0 && objective.window_days <= 3660.0) {
        bail!("objective.window_days: {} is not a number of days between 0 and 3660", objective.window_days);
    }
    let (listen, socket) = match &cli.command {
        crate::cli::Command::Agent(a) => (a.listen, a.docker_socket.clone()),
        crate::cli::Command::Doctor(a) => (None, a.docker_socket.clone()),
        _ => (None, None),
    };
    Ok(Config {
        journal: cli.journal.clone().or(file.journal).unwrap_or_else(default_journal),
        listen: listen.or(file.listen).unwrap_or(SocketAddr::from(([127, 0, 0, 1], 7420))),
        retention_weeks: file.retention_weeks.unwrap_or(58).max(1),
        objective,
        docker_socket: socket.or(file.docker.socket).unwrap_or_else(|| "/var/run/docker.sock".into()),
        off: file.sources.off,
        probes: file.probes,
        names: names(file.names, file.canary)?,
    })
}

/// Whose lookups are watched, and which names are asked for, every ten seconds unless told otherwise.
fn names(
    keys: NameKeys,
    canary: std::collections::BTreeMap<String, Vec<String>>,
) -> anyhow::Result<NameSettings> {
    let standard = NameSettings::default();
    let period = match keys.canary_period_seconds {
        None => standard.canary_period,
        Some(s) if (1.0..=86_400.0).contains(&s) => std::time::Duration::from_secs_f64(s),
        Some(s) => bail!("names.canary_period_seconds: {s} is not between 1 and 86400"),
    };
    Ok(NameSettings { watch: keys.watch, skip: keys.skip, canary, canary_period: period })
}

/// A target given as a share (0.999) or in percent (99.9), as a share.
pub fn share(target: f64, what: &str) -> anyhow::Result<f64> {
    // Rounded to what a person can have meant, so that 99.9 % is 0.999 and not its neighbour.
    let share = if target > 1.0 { (target * 1e10).round() / 1e12 } else { target };
    if share > 0.0 && share < 1.0 {
        return Ok(share);
    }
    bail!("{what}: {target} is no availability to aim at; give a percentage such as 99.9, below 100")
}

fn parse(text: &str) -> anyhow::Result<File> {
    let table: toml::Table = text.parse()?;
    check_keys(&table)?;
    Ok(toml::from_str(text)?)
}

fn check_keys(table: &toml::Table) -> anyhow::Result<()> {
    for (name, keys) in KNOWN {
        let inner = if name.is_empty() { Some(table) } else { table.get(*name).and_then(|v| v.as_table()) };
        let Some(inner) = inner.filter(|_| !keys.is_empty()) else { continue };
        if let Some(key) = inner.keys().find(|k| !keys.contains(&k.as_str())) {
            let full = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
            bail!("key `{full}` is not known; did you mean `{}`?", nearest(&full));
        }
    }
    Ok(())
}

/// The known key that is spelled most like `key`.
fn nearest(key: &str) -> String {
    let all = KNOWN.iter().flat_map(|(table, keys)| {
        keys.iter().map(move |k| if table.is_empty() { (*k).to_string() } else { format!("{table}.{k}") })
    });
    all.max_by(|a, b| strsim::jaro_winkler(a, key).total_cmp(&strsim::jaro_winkler(b, key)))
        .unwrap_or_default()
}

/// `/var/lib/linchpin` for root, else the user's state folder.
fn default_journal() -> PathBuf {
    if nix::unistd::geteuid().is_root() {
        return "/var/lib/linchpin".into();
    }
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|p| p.is_absolute());
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|p| p.is_absolute());
    state
        .or_else(|| home.map(|h| h.join(".local/state")))
        .unwrap_or_else(|| Path::new("/tmp").to_path_buf())
        .join("linchpin")
}

/// This host's name.
pub fn this_host() -> String {
    nix::unistd::gethostname().map_or("localhost".into(), |h| h.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_unknown_key_and_the_nearest() {
        for (text, key, near) in [
            ("listn = '127.0.0.1:1'", "`listn`", "`listen`"),
            ("[objective]\ntaget = 99.9", "`objective.taget`", "`objective.target`"),
            ("[docker]\nsock = 'x'", "`docker.sock`", "`docker.socket`"),
        ] {
            let e = parse(text).unwrap_err().to_string();
            assert!(e.contains(key) && e.contains(near), "{e}");
        }
    }

    #[test]
    fn reads_every_key() {
        let f = parse(
            "journal='/j'\nlisten='127.0.0.1:1'\nretention_weeks=3\n[objective]\ntarget=99.5\nwindow_days=7\noperator_counts=true\n\
             [docker]\nsocket='/s'\n[sources]\noff=['host']\n[probes]\nweb=':8080/healthz'\n\
             [names]\nwatch=['api']\nskip=['web']\ncanary_period_seconds=5\n[canary]\nproxy=['backend']",
        )
        .unwrap();
        assert_eq!(f.listen, Some("127.0.0.1:1".parse().unwrap()));
        assert_eq!(f.probes["web"], ":8080/healthz");
        assert_eq!(f.sources.off, ["host"]);
        let names = names(f.names, f.canary).unwrap();
        assert_eq!((names.watch, names.skip), (vec!["api".to_string()], vec!["web".to_string()]));
        assert_eq!(
            (names.canary_period.as_secs(), &names.canary["proxy"][..]),
            (5, &["backend".to_string()][..])
        );
    }

    #[test]
    fn a_target_is_a_percentage_or_a_share() {
        assert_eq!(share(99.9, "t").unwrap(), 0.999);
        assert_eq!(share(0.999, "t").unwrap(), 0.999);
        for bad in [100.0, 0.0, -1.0, f64::NAN, 101.0, 1.0] {
            assert!(share(bad, "t").is_err(), "{bad}");
        }
    }
}
