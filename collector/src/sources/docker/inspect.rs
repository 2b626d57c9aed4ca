//! What inspect says of a container becomes [`Facts`], and those the `described` event and the roster's entry. Pure, and
//! lenient: every field may be missing or of another type, as between engines and versions they are.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use linchpin_data::Timestamp;
use linchpin_data::event::Described;
use serde_json::Value;

use super::bounds::{ITEMS, bounded, bounded_map};
use super::decode::signal_named;
use super::hostnames::hostnames;
use super::subject::{Identity, identity};
use super::traits::traits;
use crate::roster::{Container, Network, Traits};

/// One container as its runtime states it at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// Full id.
    pub id: Arc<str>,
    /// Name without the slash.
    pub name: String,
    /// Its place among its likes.
    pub identity: Identity,
    /// Image reference.
    pub image: Option<String>,
    /// Content id of the image.
    pub image_id: Option<String>,
    /// Memory limit in bytes, if limited.
    pub memory: Option<u64>,
    /// Limit of memory and swap together in bytes, if limited.
    pub memory_swap: Option<u64>,
    /// Labels, bounded.
    pub labels: BTreeMap<String, String>,
    /// Networks joined, sorted; `host` for the host's.
    pub networks: Vec<String>,
    /// How it sees the network.
    pub network: Network,
    /// Its address on the first network.
    pub address: Option<IpAddr>,
    /// Published ports, sorted.
    pub ports: Vec<String>,
    /// `no`, `always`, `unless-stopped`, `on-failure`.
    pub restart_policy: String,
    /// Restarts by policy, as the runtime counts them (it falls to 0 when an operator acts).
    pub restart_count: Option<u64>,
    /// Whether its main process runs: a container that waits for its next restart does not, whatever `Running` says.
    pub running: bool,
    /// Whether it waits for its next restart.
    pub restarting: bool,
    /// Main process id on the host.
    pub pid: Option<u32>,
    /// When it was created.
    pub created_at: Option<Timestamp>,
    /// When its last run began.
    pub started_at: Option<Timestamp>,
    /// When its last run that ended did.
    pub finished_at: Option<Timestamp>,
    /// How its last run ended; 0 while it runs, whatever came before.
    pub exit_code: Option<i64>,
    /// The runtime's claim that it ran out of memory.
    pub oom_killed: bool,
    /// The health check's present word, if it has one to say.
    pub health: Option<bool>,
    /// The health check's interval in seconds, if there is a check.
    pub health_interval: Option<f64>,
    /// The signal that asks it to stop.
    pub stop_signal: i64,
    /// How long it is given to stop, in seconds.
    pub stop_timeout: f64,
    /// The label `linchpin.probe`.
    pub probe: Option<String>,
    /// Hostnames it says it serves.
    pub hostnames: Vec<String>,
    /// What other sources choose it by.
    pub traits: Arc<Traits>,
    /// Its cgroup; not inspect's to tell, filled in by the transport.
    pub cgroup: Option<String>,
}

fn at<'a>(v: &'a Value, path: &[&str]) -> &'a Value {
    path.iter().fold(v, |v, key| v.get(*key).unwrap_or(&Value::Null))
}

fn string<'a>(v: &'a Value, path: &[&str]) -> Option<&'a str> {
    at(v, path).as_str().filter(|s| !s.is_empty())
}

/// A time that is one: runtimes write the year 1 for never.
fn time(v: &Value, path: &[&str]) -> Option<Timestamp> {
    string(v, path)?.parse().ok().filter(|t: &Timestamp| t.0 > 0)
}

fn limit(v: &Value, path: &[&str]) -> Option<u64> {
    at(v, path).as_u64().filter(|n| *n > 0)
}

fn object<'a>(v: &'a Value, path: &[&str]) -> impl Iterator<Item = (&'a String, &'a Value)> {
    at(v, path).as_object().into_iter().flatten()
}

/// Docker's own defaults where a container does not say: 10 s to stop, 30 s between two health checks.
const STOP_SECONDS: f64 = 10.0;
const HEALTH_SECONDS: f64 = 30.0;

/// Reads the answer of `GET /containers/ID/json`; none if it has no id.
#[must_use]
pub fn facts(v: &Value) -> Option<Facts> {
    let id: Arc<str> = string(v, &["Id"]).or_else(|| string(v, &["ID"]))?.into();
    let name = bounded(string(v, &["Name"]).unwrap_or_default().trim_start_matches('/'));
    let labels = labels(v);
    let state = at(v, &["State"]);
    let pid = at(state, &["Pid"]).as_u64().and_then(|p| u32::try_from(p).ok()).filter(|p| *p > 0);
    let flag = |key: &str| at(state, &[key]).as_bool().unwrap_or(false);
    let status = string(state, &["Status"]).unwrap_or_default();
    let running =
        pid.is_some() && !flag("Restarting") && (flag("Running") || matches!(status, "running" | "paused"));
    let network = network(v);
    let env = at(v, &["Config", "Env"]).as_array().into_iter().flatten().filter_map(Value::as_str);
    let hostnames = hostnames(&labels, env);
    Some(Facts {
        identity: identity(&name, &id, &labels),
        image: string(v, &["Config", "Image"]).map(bounded),
        image_id: string(v, &["Image"]).map(bounded),
        memory: limit(v, &["HostConfig", "Memory"]),
        memory_swap: limit(v, &["HostConfig", "MemorySwap"]),
        networks: networks(v, &network),
        address: address(v),
        network,
        ports: ports(v),
        restart_policy: string(v, &["HostConfig", "RestartPolicy", "Name"])
            .map_or_else(|| "no".into(), bounded),
        restart_count: at(v, &["RestartCount"]).as_u64(),
        running,
        restarting: flag("Restarting") || status == "restarting",
        pid: pid.filter(|_| running),
        created_at: time(v, &["Created"]),
        started_at: time(state, &["StartedAt"]),
        finished_at: time(state, &["FinishedAt"]),
        exit_code: at(state, &["ExitCode"]).as_i64(),
        oom_killed: flag("OOMKilled"),
        health: match string(state, &["Health", "Status"]) {
            Some("healthy") => Some(true),
            Some("unhealthy") => Some(false),
            _ => None,
        },
        health_interval: health_interval(v),
        stop_signal: string(v, &["Config", "StopSignal"]).and_then(signal_named).unwrap_or(15),
        stop_timeout: at(v, &["Config", "StopTimeout"])
            .as_f64()
            .filter(|t| *t >= 0.0)
            .unwrap_or(STOP_SECONDS),
        probe: labels.get("linchpin.probe").cloned(),
        traits: traits(v, &labels, !hostnames.is_empty()).into(),
        hostnames,
        cgroup: None,
        labels,
        name,
        id,
    })
}

fn labels(v: &Value) -> BTreeMap<String, String> {
    let all = object(v, &["Config", "Labels"]).filter_map(|(k, v)| Some((k.as_str(), v.as_str()?)));
    // What tools need to know a container by comes first, so that a flood of labels can not push it out.
    let known = |k: &str| ["com.docker.", "linchpin.", "caddy", "traefik."].iter().any(|p| k.starts_with(p));
    let (ours, others): (Vec<_>, Vec<_>) = all.partition(|(k, _)| known(k));
    bounded_map(ours.into_iter().chain(others))
}

fn network(v: &Value) -> Network {
    match string(v, &["HostConfig", "NetworkMode"]) {
        Some("host") => Network::Host,
        Some("none") => Network::None,
        Some(mode) => match mode.strip_prefix("container:") {
            Some(id) => Network::Container(id.into()),
            None => Network::Own,
        },
        None => Network::Own,
    }
}

fn networks(v: &Value, network: &Network) -> Vec<String> {
    if *network == Network::Host {
        return vec!["host".into()];
    }
    let mut names: Vec<_> =
        object(v, &["NetworkSettings", "Networks"]).map(|(name, _)| bounded(name)).collect();
    names.sort();
    names.truncate(ITEMS);
    names
}

/// The address on the first network by name that gave one; old engines have it one level up.
fn address(v: &Value) -> Option<IpAddr> {
    let mut by_name: Vec<_> = object(v, &["NetworkSettings", "Networks"]).collect();
    by_name.sort_by_key(|(name, _)| *name);
    by_name
        .into_iter()
        .find_map(|(_, n)| {
            string(n, &["IPAddress"]).or_else(|| string(n, &["GlobalIPv6Address"]))?.parse().ok()
        })
        .or_else(|| string(v, &["NetworkSettings", "IPAddress"])?.parse().ok())
}

/// Published ports as `ADDRESS:HOST_PORT->PORT/PROTOCOL`, IPv6 addresses in brackets.
fn ports(v: &Value) -> Vec<String> {
    let mut all: Vec<String> = object(v, &["NetworkSettings", "Ports"])
        .flat_map(|(port, bindings)| {
            bindings.as_array().into_iter().flatten().filter_map(move |b| {
                let host_port = string(b, &["HostPort"])?;
                let address = string(b, &["HostIp"]).unwrap_or("0.0.0.0");
                let address =
                    if address.contains(':') { format!("[{address}]") } else { address.to_string() };
                Some(bounded(&format!("{address}:{host_port}->{port}")))
            })
        })
        .take(ITEMS)
        .collect();
    all.sort();
    all
}

/// None where no check is declared (also `["NONE"]`, which turns an image's check off).
fn health_interval(v: &Value) -> Option<f64> {
    let check = at(v, &["Config", "Healthcheck"]);
    let test = check.get("Test")?.as_array()?;
    if test.is_empty() || test.first().and_then(Value::as_str) == Some("NONE") {
        return None;
    }
    Some(at(check, &["Interval"]).as_f64().filter(|ns| *ns > 0.0).map_or(HEALTH_SECONDS, |ns| ns / 1e9))
}

/// The cgroup path out of /proc/PID/cgroup: the memory controller's line (v1), else the unified one (v2).
#[must_use]
pub fn memory_cgroup(text: &str) -> Option<String> {
    let lines = || {
        text.lines().filter_map(|l| {
            let mut parts = l.splitn(3, ':');
            Some((parts.next()?, parts.next()?, parts.next()?))
        })
    };
    let memory = lines().find(|(_, controllers, _)| controllers.split(',').any(|c| c == "memory"));
    memory
        .or_else(|| lines().find(|(n, c, _)| *n == "0" && c.is_empty()))
        .map(|(_, _, path)| path.chars().take(4096).collect())
}

impl Facts {
    /// The facts as an event tells them.
    #[must_use]
    pub fn described(&self) -> Described {
        let some = |list: &Vec<String>| (!list.is_empty()).then(|| list.clone());
        Described {
            service: self.identity.service.clone(),
            replica: self.identity.replica,
            instance: Some(self.id.to_string()),
            image: self.image.clone(),
            image_id: self.image_id.clone(),
            memory_limit_bytes: self.memory,
            memory_swap_limit_bytes: self.memory_swap,
            labels: (!self.labels.is_empty()).then(|| self.labels.clone()),
            networks: some(&self.networks),
            ports: some(&self.ports),
            restart_policy: Some(self.restart_policy.clone()),
            restart_count: self.restart_count,
            running: Some(self.running),
            pid: self.pid.map(u64::from),
            created_at: self.created_at,
            cgroup: self.cgroup.clone(),
            health_interval_seconds: self.health_interval,
            hostnames: some(&self.hostnames),
            upstreams: None,
            config_at: None,
        }
    }

    /// The facts as the roster keeps them.
    #[must_use]
    pub fn container(&self) -> Container {
        Container {
            id: self.id.clone(),
            subject: self.identity.subject.clone(),
            name: self.name.as_str().into(),
            pid: self.pid,
            running: self.running,
            network: self.network.clone(),
            memory_limit: self.memory,
            health_check: self.health_interval.is_some(),
            probe: self.probe.clone(),
            address: self.address,
            removed: false,
            traits: self.traits.clone(),
        }
    }
}

/// Whether two descriptions differ in more than what every restart changes (and `started` tells).
#[must_use]
pub fn differ(a: &Described, b: &Described) -> bool {
    let still = |d: &Described| Described {
        restart_count: None,
        running: None,
        pid: None,
        cgroup: None,
        networks: d.networks.clone(),
        ..d.clone()
    };
    still(a) != still(b)
}
