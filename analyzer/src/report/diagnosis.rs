//! Shapes of the why: links over time, chains of failing names, usual suspects, pressure, changes and what they proved. Only
//! shapes and units; how they are reached stands in the modules that fill them.

use std::collections::BTreeMap;

use linchpin_data::{EventId, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Evidence, Trend};
use crate::link::pair::{Lag, Verdict};

/// How long before (positive) or after (negative) each restart the suspect's nearest death came, beside what chance gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LagHistogram {
    /// Who died.
    pub suspect: String,
    /// The pair's verdict.
    pub verdict: Verdict,
    /// Left edge of the first bin in seconds; the last bin ends at its negative.
    pub from_seconds: f64,
    /// Width of a bin in seconds.
    pub bin_seconds: f64,
    /// Restarts whose nearest death lies in each bin.
    pub counts: Vec<u64>,
    /// How many of them chance would put there, bursts and drift allowed for.
    pub chance: Vec<f64>,
    /// Restarts with no death of the suspect that near.
    pub beyond: u64,
}

/// What a step of a chain is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// A subject died.
    Death,
    /// A name stopped resolving.
    NameFails,
    /// The victim restarted.
    Restart,
}

/// One step of a chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// What it is.
    pub what: StepKind,
    /// Who: a subject, `service:NAME`, or a name asked for.
    pub who: String,
    /// From the step before, in seconds; `None` for the first.
    pub lag_seconds: Option<Lag>,
}

/// Kill → name fails → proxy exits, found where links share their ends in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chain {
    /// Who restarted.
    pub victim: String,
    /// Who died first: a subject or `service:NAME`.
    pub suspect: String,
    /// The host of both.
    pub host: String,
    /// Names that failed in between, most often first.
    pub names: Vec<String>,
    /// The steps in order of time.
    pub steps: Vec<Step>,
    /// Restarts before which every step was seen, in order.
    pub seen: u64,
    /// Restarts of the victim.
    pub restarts: u64,
    /// A suspect whose deaths nothing follows, if any: its name, deaths and hits.
    pub control: Option<Control>,
    /// The whole as a sentence that can be checked.
    pub sentence: String,
    /// The latest time it was seen, step by step.
    pub example: Vec<Evidence>,
}

/// A suspect that died as well and that no restart follows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Control {
    /// Who died.
    pub suspect: String,
    /// How often.
    pub kills: u64,
    /// Restarts that follow, by chance or not.
    pub hits: u64,
    /// Restarts of the victim.
    pub restarts: u64,
}

/// A name that failed for a client within the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailingName {
    /// Who asked.
    pub client: String,
    /// Its host.
    pub host: String,
    /// The name; empty where a log line does not say it.
    pub name: String,
    /// Failing lookups: what several witnesses tell of one failure counts once.
    pub failures: u64,
    /// Spells: from the first failure to the success that ended it; `None` while it lasts or where no success was seen.
    pub spells: Vec<(Timestamp, Option<Timestamp>)>,
    /// Failures by outcome (`nxdomain`, `timeout`, …; `unsaid`).
    pub outcomes: BTreeMap<String, u64>,
    /// Who saw it: `capture`, `log`, `canary`.
    pub witnesses: Vec<String>,
}

/// What the evidence does to a suspicion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ruled {
    /// The evidence is for it.
    In,
    /// Not enough was seen to say.
    Open,
    /// The evidence is against it.
    Out,
}

/// One usual suspect of a subject's restarts, against the evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ruling {
    /// `segfault`, `own memory ceiling`, `host out of memory`, `exit code`, `health check`, `deploy`, `operator`, `dns`,
    /// `another subject`.
    pub suspicion: String,
    /// In, out or open.
    pub ruled: Ruled,
    /// Restarts of the window that it explains.
    pub explains: u64,
    /// The ruling as a sentence with its figures: "not a segfault: no kernel record, exit code 0".
    pub sentence: String,
    /// What it rests on, oldest first; the latest few where there are many.
    pub evidence: Vec<Evidence>,
}

/// The differential of one subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Differential {
    /// Who restarts.
    pub subject: String,
    /// Its host.
    pub host: String,
    /// Restarts it is about.
    pub restarts: u64,
    /// Each usual suspect, those ruled in first.
    pub rulings: Vec<Ruling>,
}

/// How a host's memory stands against what was promised of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostPressure {
    /// The host.
    pub host: String,
    /// RAM in bytes.
    pub memory_total_bytes: Option<u64>,
    /// Sum of the limits of running containers in bytes.
    pub container_limits_bytes: Option<u64>,
    /// That sum over RAM.
    pub overcommit: Option<f64>,
    /// Running containers without a limit.
    pub containers_unlimited: Option<u64>,
    /// Swap in use over swap space within the window: least and most.
    pub swap_share: Option<[f64; 2]>,
    /// Kernel OOM kills of the window, of every subject.
    pub kills: u64,
    /// Those an hour of time in which the kernel log or a counter was watched.
    pub kills_per_hour: Option<f64>,
    /// Rising or falling.
    pub trend: Option<Trend>,
    /// What follows, as sentences.
    pub sentences: Vec<String>,
}

/// How a subject's memory stands against its ceiling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubjectPressure {
    /// Who.
    pub subject: String,
    /// Its host.
    pub host: String,
    /// Its limit in bytes.
    pub limit_bytes: Option<u64>,
    /// The most seen in use within the window, by samples and by the kernel's word at a kill.
    pub peak_bytes: Option<u64>,
    /// That over the limit.
    pub peak_share: Option<f64>,
    /// Kernel OOM kills of the window.
    pub kills: u64,
    /// Those an hour of observed time.
    pub kills_per_hour: Option<f64>,
    /// Rising or falling.
    pub trend: Option<Trend>,
    /// The whole as a sentence.
    pub sentence: String,
}

/// A change marked on the timeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The event that tells of it.
    pub id: EventId,
    /// When.
    pub at: Timestamp,
    /// The host.
    pub host: String,
    /// What changed: a subject, or `host:` for a mark that names none.
    pub subject: String,
    /// `image`, `config`, `limit`, `upstreams`, `mark`.
    pub what: String,
    /// What it was and is, or the mark's own words.
    pub text: String,
}

/// What has been survived since a change: with k kills and no restart, the 95 % upper bound of P(restart | kill) is
/// 1 − 0.05^(1/k); k = 0 proves nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// Who used to restart.
    pub victim: String,
    /// Whose deaths used to cause it.
    pub suspect: String,
    /// The host.
    pub host: String,
    /// The change that is to be proved.
    pub change: Change,
    /// The suspect's deaths since, in time in which the victim was observed.
    pub triggers: u64,
    /// Of those, how many an operator (or a drill) asked for.
    pub triggers_by_operator: u64,
    /// Of the triggers, how many a restart of the victim followed.
    pub followed: u64,
    /// 95 % upper bound of P(restart | kill) where none followed; `None` without triggers or where one did.
    pub bound: Option<f64>,
    /// `not proven` (no trigger yet), `held` (triggers and no restart followed), `failed` (one did).
    pub verdict: String,
    /// The whole as a sentence.
    pub sentence: String,
}

/// One drill and how it ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DrillResult {
    /// The event that tells of its end, or of its begin where the end is missing.
    pub id: EventId,
    /// When it began.
    pub at: Timestamp,
    /// The host.
    pub host: String,
    /// What was restarted on purpose.
    pub restarted: String,
    /// Who was to stay up.
    pub expected: String,
    /// `survived`, `restarted`, `interrupted`, or `unfinished` where no end was told.
    pub verdict: String,
    /// The verdict as a sentence, with what each hostname did.
    pub sentence: String,
}
