//! What the analyzer answers: the object of `replay --format json` and `/api/v1/report`, and the detail of one process.
//! Only shapes and units; how the figures are reached stands in the modules that fill them. The fields that DESIGN calls
//! stable keep their names for ever; others may be added.

pub mod diagnosis;

use std::cmp::Ordering;
use std::collections::BTreeMap;

use linchpin_data::{EventId, Timestamp};
use serde::{Deserialize, Serialize};

/// What to report on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Begin of the window; from the first observation if absent.
    pub from: Option<Timestamp>,
    /// End of the window; `as_of`, or the last observation, if absent.
    pub to: Option<Timestamp>,
    /// The report's now, given by the caller who holds a clock. Sources that still watch are taken to have watched
    /// until then. Without it (a recording), until the last event.
    pub as_of: Option<Timestamp>,
    /// The same now on the boot clock (CLOCK_BOOTTIME, nanoseconds) of the host that asks. Where it fits the host's
    /// latest boot it decides, so that a stepped wall clock lengthens and shortens nothing.
    pub as_of_boot_ns: Option<u64>,
}

/// What availability is aimed at. Default 99.9 % over 30 days, operator downtime left out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Objective {
    /// Share of time up that is aimed at, 0 to 1.
    pub target: f64,
    /// Budget window in days.
    pub window_days: f64,
    /// Whether downtime that an operator asked for counts.
    pub operator_counts: bool,
}

impl Default for Objective {
    fn default() -> Self {
        Objective { target: 0.999, window_days: 30.0, operator_counts: false }
    }
}

/// The whole report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// What the figures hold for.
    pub window: Window,
    /// Every subject that is or was a process, worst (largest share of budget burnt) first.
    pub processes: Vec<Process>,
    /// Which deaths caused which restarts, strongest first.
    pub links: Vec<crate::link::pairs::Link>,
    /// Pairs beyond those told, all weaker.
    #[serde(default)]
    pub links_untold: u64,
    /// Kills that reached a victim through a name that failed, strongest first.
    #[serde(default)]
    pub chains: Vec<diagnosis::Chain>,
    /// Names that failed, by client.
    #[serde(default)]
    pub names: Vec<diagnosis::FailingName>,
    /// Each usual suspect of every subject that restarted.
    #[serde(default)]
    pub differentials: Vec<diagnosis::Differential>,
    /// Each host's memory against what was promised of it.
    #[serde(default)]
    pub host_pressure: Vec<diagnosis::HostPressure>,
    /// Subjects at their memory ceiling.
    #[serde(default)]
    pub subject_pressure: Vec<diagnosis::SubjectPressure>,
    /// Changes marked on the timeline, oldest first.
    #[serde(default)]
    pub changes: Vec<diagnosis::Change>,
    /// What has been survived since those that concern a link.
    #[serde(default)]
    pub proofs: Vec<diagnosis::Proof>,
    /// Drills, oldest first.
    #[serde(default)]
    pub drills: Vec<diagnosis::DrillResult>,
    /// What replication is worth.
    pub redundancy: Vec<serde_json::Value>,
    /// What the audit rules found.
    pub findings: Vec<serde_json::Value>,
    /// Parts of this report that this version does not compute yet; their lists are empty for that reason alone.
    pub not_computed: Vec<String>,
    /// The hosts seen.
    pub hosts: Vec<Host>,
    /// Each source's coverage of the window.
    pub sources: Vec<Coverage>,
    /// What the observers could not read or keep.
    pub issues: Vec<Issue>,
    /// Kinds that this version does not know, with how many events of each were passed over.
    pub unknown_kinds: BTreeMap<String, u64>,
}

/// The window that the figures hold for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Window {
    /// First moment of the window.
    pub from: Option<Timestamp>,
    /// Its end.
    pub to: Option<Timestamp>,
    /// Seconds of it during which at least one source that sees restarts watched.
    pub observed_seconds: f64,
    /// Spans of the window in which none watched.
    pub gaps: Vec<Gap>,
}

/// A span in which nobody watched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gap {
    /// Its begin.
    pub from: Timestamp,
    /// Its end.
    pub to: Timestamp,
    /// Why, as the `watch_stopped` said; empty where the agent was cut off without a word.
    pub reason: String,
}

/// Figures of one process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Process {
    /// Stable name, `docker:proxy`.
    pub subject: String,
    /// The host it runs on.
    pub host: String,
    /// What it is a replica of, if anything.
    pub service: Option<String>,
    /// Image reference.
    pub image: Option<String>,
    /// Restarts that count against it: episodes that began in the window, those asked for by an operator left out
    /// (unless the objective counts them).
    pub restarts: u64,
    /// Restarts that an operator asked for (stop, kill, restart, deploy).
    pub operator_restarts: u64,
    /// Outages without a restart: the port closed, or the check failed, while the process lived.
    pub outages: u64,
    /// Restarts an hour of observed time; `None` where nothing was observed.
    pub restarts_per_hour: Option<f64>,
    /// Garwood's exact 95 % interval of that rate.
    pub restarts_per_hour_ci: Option<[f64; 2]>,
    /// Measure of the union of downtime within observed time, in seconds.
    pub downtime_seconds: f64,
    /// Whether part of that downtime is a lower bound (a start was seen, readiness was not).
    pub downtime_lower_bound: bool,
    /// Downtime that an operator asked for, in seconds; part of `downtime_seconds` only where the objective counts it.
    #[serde(default)]
    pub operator_downtime_seconds: f64,
    /// Seconds of observed time in which it was up. Up, downtime (an operator's too) and unknown add up to the window.
    #[serde(default)]
    pub up_seconds: f64,
    /// Seconds of the window in which nobody watched it, or nothing was expected of it.
    #[serde(default)]
    pub unknown_seconds: f64,
    /// Seconds of the window in which its restarts could be seen.
    pub observed_seconds: f64,
    /// 1 − downtime / observed; `None` where nothing was observed.
    pub ceiling: Option<f64>,
    /// Bootstrap 95 % interval of the ceiling.
    pub ceiling_ci: Option<[f64; 2]>,
    /// Recovery over closed episodes; `None` without any.
    pub recovery_seconds: Option<Recovery>,
    /// The error budget.
    pub budget: Budget,
    /// Hostnames served through it.
    pub hostnames: Vec<String>,
    /// Episodes by cause (own memory ceiling, crash exit, …), operators' included.
    pub causes: BTreeMap<String, u64>,
    /// Kernel OOM kills in it, whether or not they ended it.
    pub oom_kills: u64,
    /// The last episode's begin.
    pub last_down_at: Option<Timestamp>,
    /// How it stands at the end of the window: `up`, `down`, `stopped` (an operator stopped it, or it never ran),
    /// `gone`, `unknown` (nobody watches).
    pub state: String,
    /// The runtime's own restart counter as last seen.
    pub runtime_restart_count: Option<u64>,
    /// Restarts that the runtime's counter proves and nobody saw.
    pub restarts_missed: u64,
    /// Restarts rising or falling over the hours, where there are enough to say.
    pub trend: Option<Trend>,
    /// Deaths in each of 60 equal parts of the window; `None` for a part in which nobody watched.
    pub sparkline: Vec<Option<u32>>,
    /// The last kernel-proven or sampled use of memory against its limit.
    pub memory: Option<Memory>,
}

/// Recovery: seconds from exit to ready over closed episodes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recovery {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub median: f64,
    /// 95th percentile.
    pub p95: f64,
    /// Longest.
    pub max: f64,
    /// How many episodes.
    pub episodes: u64,
    /// How many of them are lower bounds (readiness not seen).
    pub lower_bounds: u64,
    /// The coarsest resolution among them, in milliseconds, where told.
    pub resolution_ms: Option<f64>,
}

/// The error budget of one objective.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// Target availability, 0 to 1.
    pub target: f64,
    /// Window in days.
    pub window_days: f64,
    /// (1 − target) · window, in seconds.
    pub allowed_seconds: f64,
    /// Share of observed time down over the report's window, divided by (1 − target); `None` where nothing was observed.
    pub burn_rate: Option<f64>,
    /// Burn over the windows of the SRE workbook ending at the report's end; a window not wholly observed says how much of it was.
    pub burn_windows: Vec<BurnWindow>,
    /// Days after which a whole budget is gone at the present rate; `None` if never.
    pub lasts_days: Option<f64>,
    /// Whether it burns faster than even and yet under every page of the usual pairs (14.4 and 6).
    pub steady_burn_unpaged: bool,
}

/// Burn rate over one window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BurnWindow {
    /// `5m`, `30m`, `1h`, `2h`, `6h`, `1d`, `3d`.
    pub window: String,
    /// Its length in seconds.
    pub seconds: f64,
    /// How many of those were observed.
    pub observed_seconds: f64,
    /// Burn rate over what was observed; `None` if nothing was.
    pub burn_rate: Option<f64>,
}

/// A Poisson log-linear trend over hours.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trend {
    /// Factor by which the rate changes each hour.
    pub factor_per_hour: f64,
    /// Its 95 % interval.
    pub factor_per_hour_ci: [f64; 2],
    /// Fitted rate at the begin of the window, per hour.
    pub from_per_hour: f64,
    /// Fitted rate at its end, per hour.
    pub to_per_hour: f64,
}

impl Trend {
    /// Rising (greater) or falling (less); `None` where the interval leaves a doubt.
    #[must_use]
    pub fn direction(&self) -> Option<Ordering> {
        let [lo, hi] = self.factor_per_hour_ci;
        (lo > 1.0).then_some(Ordering::Greater).or((hi < 1.0).then_some(Ordering::Less))
    }
}

/// Memory in use against its limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// When it was read.
    pub at: Timestamp,
    /// In use, bytes.
    pub current_bytes: Option<u64>,
    /// Limit, bytes.
    pub limit_bytes: Option<u64>,
    /// Swap in use, bytes.
    pub swap_bytes: Option<u64>,
}

/// One host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Host {
    /// Its name.
    pub host: String,
    /// Kernel release.
    pub kernel: Option<String>,
    /// 1 or 2.
    pub cgroup_version: Option<u64>,
    /// RAM in bytes.
    pub memory_total_bytes: Option<u64>,
    /// Swap space in bytes.
    pub swap_total_bytes: Option<u64>,
    /// Sum of the memory limits of its running containers.
    pub container_limits_bytes: Option<u64>,
    /// Boots seen in the window.
    pub boots: u64,
    /// Last sample of the host's memory.
    pub memory: Option<Memory>,
}

/// One source's coverage of the window on one host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Coverage {
    /// The host.
    pub host: String,
    /// The source's name.
    pub source: String,
    /// Whether it watches at the window's end.
    pub watching: bool,
    /// What it said it sees when it began last.
    pub detail: String,
    /// Spans of the window in which it watched.
    pub watched: Vec<[Timestamp; 2]>,
    /// Seconds of the window in which it watched.
    pub watched_seconds: f64,
    /// Spans in which it did not, with the reason.
    pub gaps: Vec<Gap>,
}

/// What an observer could not read or keep, added up by source and sort.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Issue {
    /// The host.
    pub host: String,
    /// The source.
    pub source: String,
    /// The sort.
    pub what: String,
    /// How many.
    pub count: u64,
    /// When last.
    pub last_at: Timestamp,
    /// What was tried, on what, and what to do.
    pub detail: String,
    /// A sample, shortened.
    pub sample: String,
}

/// One process with its episodes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProcessDetail {
    /// What the figures hold for.
    pub window: Window,
    /// Its figures.
    pub process: Process,
    /// Its episodes and outages within the window, newest first.
    pub episodes: Vec<Episode>,
    /// Spans in which its restarts could not be seen.
    pub gaps: Vec<Gap>,
    /// Deaths within it that ended no episode (a child's OOM kill), newest first.
    pub other_deaths: Vec<Death>,
    /// Links in which it is the victim, strongest first.
    #[serde(default)]
    pub links: Vec<crate::link::pairs::Link>,
    /// Links in which its deaths cause another's restarts.
    #[serde(default)]
    pub causes_others: Vec<crate::link::pairs::Link>,
    /// When deaths came around its restarts: for each suspect linked or together, and for the best control.
    #[serde(default)]
    pub lag_histograms: Vec<diagnosis::LagHistogram>,
    /// How kills reached it through a name.
    #[serde(default)]
    pub chains: Vec<diagnosis::Chain>,
    /// Names that failed for it.
    #[serde(default)]
    pub names: Vec<diagnosis::FailingName>,
    /// Each usual suspect of its restarts.
    #[serde(default)]
    pub differential: Option<diagnosis::Differential>,
    /// Its memory against its ceiling.
    #[serde(default)]
    pub pressure: Option<diagnosis::SubjectPressure>,
    /// Changes of it and marks of the host, oldest first.
    #[serde(default)]
    pub changes: Vec<diagnosis::Change>,
    /// What it has survived since.
    #[serde(default)]
    pub proofs: Vec<diagnosis::Proof>,
    /// Drills in which it was to stay up.
    #[serde(default)]
    pub drills: Vec<diagnosis::DrillResult>,
}

/// One time it was down.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Episode {
    /// The id of the event that began it.
    pub id: EventId,
    /// `restart` (the main process ended) or `outage` (it lived and did not accept).
    pub sort: String,
    /// When it went down (the event's own wall-clock time).
    pub down_at: Timestamp,
    /// When it accepted again; `None` while open.
    pub ready_at: Option<Timestamp>,
    /// Its length in seconds; for an open one, up to the end of the window.
    pub seconds: f64,
    /// Whether the length is a lower bound: only the next start was seen, not readiness.
    pub lower_bound: bool,
    /// Whether it is still open.
    pub open: bool,
    /// How finely its length is known, in milliseconds, where told.
    pub resolution_ms: Option<f64>,
    /// `own memory ceiling`, `host out of memory`, `signal`, `crash exit`, `clean exit`, `health-check kill`, `deploy`, `operator`,
    /// `host reboot`, `runtime restart`, `port closed`, `check failed`, `unknown`.
    pub cause: String,
    /// Whether an operator asked for it.
    pub by_operator: bool,
    /// Whether it counts in restarts (or outages) and in the budget: it began in observed time within the window, and
    /// nobody asked for it unless the objective counts that too.
    #[serde(default)]
    pub counted: bool,
    /// Exit code as told.
    pub exit_code: Option<i64>,
    /// Signal as told.
    pub signal: Option<i64>,
    /// What the cause rests on, oldest first.
    pub evidence: Vec<Evidence>,
}

/// One fact that a judgement rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// The event.
    pub event: EventId,
    /// Its time.
    pub at: Timestamp,
    /// Who says so: `kernel log`, `cgroup counter`, `docker`, `port`, `health check`, …
    pub source: String,
    /// What it says, as a sentence with its figures.
    pub text: String,
}

/// A death that ended no episode.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Death {
    /// The event that tells of it.
    pub id: EventId,
    /// When.
    pub at: Timestamp,
    /// What died, and why.
    pub text: String,
}

/// What can be pictured of the deaths of every subject over one time axis.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Lane {
    /// The subject.
    pub subject: String,
    /// Its host.
    pub host: String,
    /// Each time it was down within the window: begin, end, cause.
    pub episodes: Vec<(Timestamp, Timestamp, String)>,
    /// Spans in which nobody watched.
    pub gaps: Vec<Gap>,
}
