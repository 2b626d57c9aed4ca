//! The event vocabulary: every kind, every field, its unit and its meaning. Reading and writing are lossless: fields
//! that no version of ours knows, and explicit nulls, are kept in [`Event::extra`] and written again; a kind that is
//! not known is kept verbatim as [`Fact::Unknown`]. Deriving anything from events is the analyzer's.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value};

use crate::time::Timestamp;

/// One fact seen on one host at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Wall-clock time; for display, and for lag between hosts.
    pub at: Timestamp,
    /// Nanoseconds since that host booted (CLOCK_BOOTTIME). Order and lag within one boot use it.
    pub boot_ns: Option<u64>,
    /// Which boot `boot_ns` counts from (the kernel's random boot id). For `host_up`, the boot it tells of.
    pub boot_id: Option<Arc<str>>,
    /// The agent's start, counted from 1 in its journal.
    pub run: Option<u64>,
    /// Number of the event within the run, from 1, without holes.
    pub seq: Option<u64>,
    /// The fact was polled, and happened in (`after`, `at`].
    pub after: Option<Timestamp>,
    /// Host name.
    pub host: Arc<str>,
    /// What the event is about, stable across restarts and re-creations: `docker:NAME` (compose:
    /// `docker:PROJECT/SERVICE/N`), `systemd:UNIT`, `k8s:NS/WORKLOAD/CONTAINER`, `nomad:JOB/GROUP/TASK/N`, `host:`.
    pub subject: Arc<str>,
    /// The kind of fact, and its fields.
    pub fact: Fact,
    /// Fields that this version does not know, and nulls, kept as they came.
    pub extra: Map<String, Value>,
}

/// Where an event stands in its host's journal: its moment, the agent's run and the number within it. Recordings
/// without runs have zeros there. Text form `AT_NS-RUN-SEQ`, used in addresses and evidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId {
    /// The event's `at`.
    pub at: Timestamp,
    /// The event's `run`, or 0.
    pub run: u64,
    /// The event's `seq`, or 0.
    pub seq: u64,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.at.0, self.run, self.seq)
    }
}

impl std::str::FromStr for EventId {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let bad = || "an event id is AT_NS-RUN-SEQ, three numbers".to_string();
        let mut parts = s.rsplitn(3, '-');
        let seq = parts.next().and_then(|p| p.parse().ok()).ok_or_else(bad)?;
        let run = parts.next().and_then(|p| p.parse().ok()).ok_or_else(bad)?;
        let at = parts.next().and_then(|p| p.parse().ok()).ok_or_else(bad)?;
        Ok(EventId { at: Timestamp(at), run, seq })
    }
}

impl Serialize for EventId {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for EventId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(de::Error::custom)
    }
}

/// Where a hostname leads: one route that a proxy serves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upstream {
    /// The hostname served, or `*` for all that the subject serves.
    #[serde(default)]
    pub hostname: String,
    /// Subjects or addresses it leads to.
    #[serde(default)]
    pub to: Vec<String>,
    /// `name` (a lookup stands on the request path) or `address`.
    #[serde(default)]
    pub by: String,
}

/// Why a JSON object is no event.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// A field that every event must have.
    #[error("field `{0}` is missing")]
    Missing(&'static str),
    /// A field whose value does not fit its type.
    #[error("field `{field}`: {source}")]
    Field {
        /// Its name.
        field: &'static str,
        /// What does not fit.
        source: serde_json::Error,
    },
}

/// Takes a field out of the object; an explicit null stays behind, to be written again.
fn take<T: de::DeserializeOwned>(
    map: &mut Map<String, Value>,
    field: &'static str,
) -> Result<Option<T>, EventError> {
    match map.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(_) => {
            let value = map.remove(field).unwrap_or_default();
            T::deserialize(value).map(Some).map_err(|source| EventError::Field { field, source })
        }
    }
}

fn need<T: de::DeserializeOwned>(map: &mut Map<String, Value>, field: &'static str) -> Result<T, EventError> {
    take(map, field)?.ok_or(EventError::Missing(field))
}

/// Declares the payload of each kind: a struct of optional fields, and the enum over them.
macro_rules! facts {
    ($( $(#[$doc:meta])* $name:ident = $kind:literal { $( $(#[$fdoc:meta])* $field:ident : $ty:ty ),* $(,)? } )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, Default, PartialEq)]
            pub struct $name { $( $(#[$fdoc])* pub $field: Option<$ty>, )* }

            impl $name {
                fn take(map: &mut Map<String, Value>) -> Result<Self, EventError> {
                    let _ = &map;
                    Ok($name { $( $field: take(map, stringify!($field))?, )* })
                }
                fn len(&self) -> usize { 0 $( + usize::from(self.$field.is_some()) )* }
                fn write<M: SerializeMap>(&self, m: &mut M) -> Result<(), M::Error> {
                    let _ = &m;
                    $( if let Some(v) = &self.$field { m.serialize_entry(stringify!($field), v)?; } )*
                    Ok(())
                }
            }

            impl From<$name> for Fact { fn from(f: $name) -> Fact { Fact::$name(Box::new(f)) } }
        )*

        /// What happened: one variant a kind. The structs of the same name say what each field means.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Fact {
            $( $(#[$doc])* $name(Box<$name>), )*
            /// A kind that this version does not know: counted, kept, not interpreted. All its fields are in `extra`.
            Unknown(Box<str>),
        }

        impl Fact {
            /// Every kind that this version knows, as written on the wire.
            pub const KINDS: &'static [&'static str] = &[$($kind),*];

            /// Each kind with the fields of its own, as written on the wire.
            pub const VOCABULARY: &'static [(&'static str, &'static [&'static str])] =
                &[$( ($kind, &[$( stringify!($field) ),*]) ),*];

            /// The kind as written on the wire.
            #[must_use]
            pub fn kind(&self) -> &str {
                match self { $( Fact::$name(_) => $kind, )* Fact::Unknown(kind) => kind }
            }

            fn take(kind: String, map: &mut Map<String, Value>) -> Result<Self, EventError> {
                Ok(match kind.as_str() {
                    $( $kind => Fact::$name(Box::new($name::take(map)?)), )*
                    _ => Fact::Unknown(kind.into()),
                })
            }

            fn len(&self) -> usize {
                match self { $( Fact::$name(f) => f.len(), )* Fact::Unknown(_) => 0 }
            }

            fn write<M: SerializeMap>(&self, m: &mut M) -> Result<(), M::Error> {
                match self { $( Fact::$name(f) => f.write(m), )* Fact::Unknown(_) => Ok(()) }
            }
        }
    };
}

facts! {
    /// The host was found up (told at each start of the agent, and once a boot). Subject `host:`; the boot is the
    /// event's `boot_id`.
    HostUp = "host_up" {
        /// RAM in bytes.
        memory_total_bytes: u64,
        /// Swap space in bytes.
        swap_total_bytes: u64,
        /// 1 or 2; 1 also for hybrid hierarchies whose memory controller is v1.
        cgroup_version: u64,
        /// Kernel release, as `uname -r` says.
        kernel: String,
    }
    /// A source began to watch. Subject `host:`. What it watches is observed from here on.
    WatchStarted = "watch_started" {
        /// The source's name: `docker`, `cgroup`, `kernel_log`, `ready`, `host`, `dns`, …
        source: String,
        /// Why now: `agent started`, `reconnected`, …
        reason: String,
        /// What the source can see and how finely, in words.
        detail: String,
    }
    /// A source stopped watching. Subject `host:`. From here on its subjects are not observed.
    WatchStopped = "watch_stopped" {
        /// The source's name.
        source: String,
        /// What ended it.
        reason: String,
    }
    /// Facts about a subject as its runtime states them; told at start and at each change.
    Described = "described" {
        /// What the subject is a replica of.
        service: String,
        /// Which replica, from 1.
        replica: u64,
        /// Container id, unit invocation or allocation that the facts are read from.
        instance: String,
        /// Image reference.
        image: String,
        /// Content id of that image.
        image_id: String,
        /// Memory limit in bytes; absent where unlimited.
        memory_limit_bytes: u64,
        /// Limit of memory and swap together in bytes; absent where unlimited.
        memory_swap_limit_bytes: u64,
        /// Labels, cut to a bounded number and length.
        labels: BTreeMap<String, String>,
        /// Network names joined, or `host`.
        networks: Vec<String>,
        /// Published ports, as `ADDRESS:HOST_PORT->PORT/PROTOCOL`.
        ports: Vec<String>,
        /// `no`, `always`, `unless-stopped`, `on-failure`.
        restart_policy: String,
        /// Times the runtime restarted this instance by policy.
        restart_count: u64,
        /// Whether its main process was running when the facts were read.
        running: bool,
        /// Main process id on the host.
        pid: u64,
        /// When this instance was created.
        created_at: Timestamp,
        /// Cgroup path of the instance, as in /proc/PID/cgroup (memory controller).
        cgroup: String,
        /// Health check as declared, with its interval in seconds; absent where there is none.
        health_interval_seconds: f64,
        /// Hostnames served through the subject.
        hostnames: Vec<String>,
        /// Where those lead.
        upstreams: Vec<Upstream>,
        /// When the configuration it runs with was last changed.
        config_at: Timestamp,
    }
    /// Its main process was started.
    Started = "started" {
        /// Container id, pid or allocation id.
        instance: String,
        /// Main process id on the host.
        pid: u64,
        /// The runtime's restart counter after this start.
        restart_count: u64,
        /// The runtime's own time of the start, where `at` is taken from a finer witness.
        runtime_at: Timestamp,
    }
    /// It accepts work again.
    Ready = "ready" {
        /// Container id, pid or allocation id.
        instance: String,
        /// Which witness: `listen`, `health`, `http`, `log`.
        by: String,
        /// How finely the moment is known, in milliseconds: it lies within this much before `at`.
        resolution_ms: f64,
        /// The port or address it was seen on.
        port: u64,
    }
    /// It stopped accepting work while its main process lived.
    Unready = "unready" {
        /// Container id, pid or allocation id.
        instance: String,
        /// Which witness: `listen`, `health`, `http`.
        by: String,
        /// How finely the moment is known, in milliseconds.
        resolution_ms: f64,
        /// The port or address it was missed on.
        port: u64,
    }
    /// Its main process ended.
    Exited = "exited" {
        /// Container id, pid or allocation id.
        instance: String,
        /// Exit code as the runtime tells it (137 is any SIGKILL).
        exit_code: i64,
        /// Signal that ended it, where known.
        signal: i64,
        /// Whether the runtime claims that it ran out of memory. A claim, not proof.
        oom_killed: bool,
        /// A stop, kill, restart or re-create was asked for.
        by_operator: bool,
        /// What was asked for: `stop`, `kill`, `restart`, `recreate`, `remove`. With `by_operator` false: `runtime`, where the
        /// runtime itself ended it when it shut down or booted.
        action: String,
        /// How finely the moment is known, in milliseconds.
        resolution_ms: f64,
        /// The runtime's own time of the exit, where `at` is taken from a finer witness.
        runtime_at: Timestamp,
    }
    /// The subject is gone: its container was removed. Nothing is expected of it until it is described or started again.
    Removed = "removed" {
        /// Container id.
        instance: String,
    }
    /// The kernel killed a process for want of memory.
    OomKill = "oom_kill" {
        /// The victim's cgroup.
        cgroup: String,
        /// The victim's process name.
        process: String,
        /// The victim's process id (host's view).
        pid: u64,
        /// Its resident memory at death, in bytes (anonymous, file and shared).
        rss_bytes: u64,
        /// The limit that was hit, in bytes.
        limit_bytes: u64,
        /// `memcg` (a cgroup's limit) or `host` (the machine ran out).
        scope: String,
        /// Whether the whole group was killed (memory.oom.group).
        group: bool,
        /// Which witness: `kernel_log` or `cgroup` (a counter rose).
        by: String,
        /// By how much the counter rose, where a counter is the witness.
        count: u64,
        /// The kernel log's sequence number of the line.
        kmsg_seq: u64,
        /// The line, shortened.
        line: String,
        /// By what the subject was found, or why it could not be, in words.
        attribution: String,
    }
    /// A sample of memory. For subject `host:` current is what is in use and limit is RAM.
    Memory = "memory" {
        /// In use, in bytes.
        current_bytes: u64,
        /// Limit in bytes; absent where unlimited.
        limit_bytes: u64,
        /// Swap in use, in bytes.
        swap_bytes: u64,
        /// Swap space in bytes (host).
        swap_total_bytes: u64,
        /// Sum of the memory limits of all running containers, in bytes (host).
        container_limits_bytes: u64,
        /// Running containers without a memory limit (host).
        containers_unlimited: u64,
        /// memory.events `low`.
        low: u64,
        /// memory.events `high`.
        high: u64,
        /// memory.events `max` (v1: memory.failcnt).
        max: u64,
        /// memory.events `oom`.
        oom: u64,
        /// memory.events `oom_kill` (v1: memory.oom_control, where the kernel has it).
        oom_kill: u64,
        /// memory.events `oom_group_kill`.
        oom_group_kill: u64,
    }
    /// The kernel logged a memory fault or a trap of a process.
    Segfault = "segfault" {
        /// Process name.
        process: String,
        /// Process id (host's view).
        pid: u64,
        /// `segfault`, `general protection fault`, `invalid opcode`, … with its addresses.
        detail: String,
        /// The kernel log's sequence number of the line.
        kmsg_seq: u64,
        /// By what the subject was found, or why it could not be, in words.
        attribution: String,
    }
    /// A client failed to resolve a name. The subject is the client.
    DnsFailure = "dns_failure" {
        /// The name asked for; absent where a log line does not say it.
        name: String,
        /// `nxdomain`, `servfail`, `refused`, `timeout`; `nodata` where the name is there and its addresses are gone;
        /// absent where a log line does not say it.
        outcome: String,
        /// Who was asked; absent where a log is the witness.
        resolver: String,
        /// How long the answer took, in milliseconds.
        took_ms: f64,
        /// Which witness: `capture` (packets), `log` (the client's own word) or `canary` (asked by us on its behalf). One failure
        /// can have several.
        by: String,
        /// Record type: `A`, `AAAA`, `SRV`.
        record: String,
        /// How many failing lookups this stands for: those of the name since the last that was told. Absent is 1.
        count: u64,
        /// Which program wrote the line, where a log is the witness: `nginx`, `haproxy`, `go`, …
        program: String,
        /// The line, shortened and without control characters.
        line: String,
    }
    /// The first success for a name after a failure.
    DnsOk = "dns_ok" {
        /// The name asked for.
        name: String,
        /// Who was asked.
        resolver: String,
        /// How long the answer took, in milliseconds.
        took_ms: f64,
        /// Which witness: `capture` or `canary`.
        by: String,
        /// When the first of the failing lookups ended.
        since: Timestamp,
        /// How many lookups of the name failed since then.
        failures: u64,
    }
    /// Denominators: failures alone give no rate.
    Tally = "tally" {
        /// Of what: `dns`, `probe`, …
        of: String,
        /// Length of the window that ends at `at`, in seconds.
        window_s: f64,
        /// How many were asked.
        asked: u64,
        /// How many were answered.
        answered: u64,
        /// How many failed.
        failed: u64,
    }
    /// The runtime's own counter rose, or the instance changed, while nobody watched.
    RestartsMissed = "restarts_missed" {
        /// How many restarts.
        count: u64,
        /// Since when nobody had watched.
        since: Timestamp,
        /// How the last of them ended, where inspect tells: `FinishedAt`.
        last_finished_at: Timestamp,
        /// When the present run began: `StartedAt`.
        last_started_at: Timestamp,
    }
    /// Something that the observer itself could not read or keep. Subject `host:` or the subject it concerns.
    Issue = "issue" {
        /// The source that met it.
        source: String,
        /// What was met: `overrun`, `suppressed`, `unreadable`, `dropped`, `segment_damaged`, …
        what: String,
        /// What was tried, on what, and what to do, in words.
        detail: String,
        /// How many.
        count: u64,
        /// One of them, shortened.
        sample: String,
    }
    /// A change was made, and someone marked it. Subject: what was changed, or `host:`.
    Mark = "mark" {
        /// What was changed, in the words of whoever did it.
        text: String,
        /// Who marked it, as a user's name.
        by: String,
    }
    /// A drill: a subject is restarted on purpose, and another is to stay up. Subject: who is to stay up.
    Drill = "drill" {
        /// Names the drill: its begin and its end share it.
        drill: String,
        /// `begun` (before anything is changed) or `ended`.
        phase: String,
        /// What is restarted on purpose.
        restarts: String,
        /// `survived` (its start time did not change, it stayed ready, every hostname answered), `restarted`, `interrupted`
        /// (it lived, and did not accept or a hostname did not answer), `failed` (the restart itself could not be made).
        /// With `ended` only.
        verdict: String,
        /// The verdict as a sentence, with its figures.
        text: String,
        /// Hostnames that were watched, and how many of how many requests to each were answered: `shop.test: 40/40`.
        hostnames: Vec<String>,
        /// Length of the watch in seconds.
        seconds: f64,
        /// Who ran it, as a user's name.
        by: String,
    }
    /// A remark for people: where a recording comes from, what an incident was.
    Note = "note" {
        /// The remark.
        text: String,
    }
}

/// The fields that all kinds share, as written on the wire.
pub const SHARED_FIELDS: [&str; 9] =
    ["at", "boot_ns", "boot_id", "run", "seq", "after", "host", "subject", "kind"];

impl Event {
    /// An event with the fields that every event must have.
    #[must_use]
    pub fn new(at: Timestamp, host: &str, subject: &str, fact: impl Into<Fact>) -> Self {
        Event {
            at,
            boot_ns: None,
            boot_id: None,
            run: None,
            seq: None,
            after: None,
            host: host.into(),
            subject: subject.into(),
            fact: fact.into(),
            extra: Map::new(),
        }
    }

    /// From one JSON object.
    ///
    /// # Errors
    /// A field that every event must have is missing, or a known field has a value of the wrong type.
    pub fn from_map(mut map: Map<String, Value>) -> Result<Self, EventError> {
        let m = &mut map;
        let kind: String = need(m, "kind")?;
        Ok(Event {
            at: need(m, "at")?,
            boot_ns: take(m, "boot_ns")?,
            boot_id: take::<String>(m, "boot_id")?.map(Into::into),
            run: take(m, "run")?,
            seq: take(m, "seq")?,
            after: take(m, "after")?,
            host: need::<String>(m, "host")?.into(),
            subject: need::<String>(m, "subject")?.into(),
            fact: Fact::take(kind, m)?,
            extra: map,
        })
    }

    /// Where it stands in its journal.
    #[must_use]
    pub fn id(&self) -> EventId {
        EventId { at: self.at, run: self.run.unwrap_or(0), seq: self.seq.unwrap_or(0) }
    }

    /// The instance (container id, pid, allocation) that the fact names, if it names one.
    #[must_use]
    pub fn instance(&self) -> Option<&str> {
        match &self.fact {
            Fact::Described(f) => f.instance.as_deref(),
            Fact::Started(f) => f.instance.as_deref(),
            Fact::Ready(f) => f.instance.as_deref(),
            Fact::Unready(f) => f.instance.as_deref(),
            Fact::Exited(f) => f.instance.as_deref(),
            Fact::Removed(f) => f.instance.as_deref(),
            _ => None,
        }
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let optional = [
            self.boot_ns.is_some(),
            self.boot_id.is_some(),
            self.run.is_some(),
            self.seq.is_some(),
            self.after.is_some(),
        ];
        let count = 4 + optional.iter().filter(|o| **o).count() + self.fact.len() + self.extra.len();
        let mut m = s.serialize_map(Some(count))?;
        m.serialize_entry("at", &self.at)?;
        if let Some(v) = &self.boot_ns {
            m.serialize_entry("boot_ns", v)?;
        }
        if let Some(v) = &self.boot_id {
            m.serialize_entry("boot_id", &**v)?;
        }
        if let Some(v) = &self.run {
            m.serialize_entry("run", v)?;
        }
        if let Some(v) = &self.seq {
            m.serialize_entry("seq", v)?;
        }
        if let Some(v) = &self.after {
            m.serialize_entry("after", v)?;
        }
        m.serialize_entry("host", &*self.host)?;
        m.serialize_entry("subject", &*self.subject)?;
        m.serialize_entry("kind", self.fact.kind())?;
        self.fact.write(&mut m)?;
        for (k, v) in &self.extra {
            m.serialize_entry(k, v)?;
        }
        m.end()
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Event::from_map(Map::deserialize(d)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(line: &str) {
        let before: Value = serde_json::from_str(line).unwrap();
        let event: Event = serde_json::from_str(line).unwrap();
        let after: Value = serde_json::to_value(&event).unwrap();
        assert_eq!(before, after);
        let packed: Event = serde_json::from_str(&serde_json::to_string(&event).unwrap()).unwrap();
        assert_eq!(packed, event);
    }

    #[test]
    fn keeps_what_it_does_not_know_and_what_is_null() {
        round(
            r#"{"at":"2026-08-09T06:05:03.458939354Z","host":"h","subject":"docker:proxy","kind":"exited","exit_code":0,"signal":null,"colour":"blue","deep":{"a":[1,2.5]}}"#,
        );
        round(
            r#"{"at":"2026-08-09T06:05:03.458939354Z","host":"h","subject":"docker:proxy","kind":"of_tomorrow","exit_code":"not a number here","boot_ns":null}"#,
        );
        round(
            r#"{"at":"2026-08-09T06:05:03.458939354Z","boot_ns":18446744073709551615,"boot_id":"b","run":3,"seq":7,"after":"2026-08-09T06:05:03.000000000Z","host":"h","subject":"host:","kind":"host_up","memory_total_bytes":17179869184}"#,
        );
    }

    #[test]
    fn says_which_field_is_wrong() {
        let err = |line: &str| serde_json::from_str::<Event>(line).unwrap_err().to_string();
        assert!(err(r#"{"host":"h","subject":"s","kind":"exited"}"#).contains("`at` is missing"));
        assert!(
            err(r#"{"at":"2026-08-09T06:05:03Z","host":"h","subject":"s","kind":"exited","exit_code":"x"}"#)
                .contains("`exit_code`")
        );
        assert!(err(r#"{"at":"noon","host":"h","subject":"s","kind":"exited"}"#).contains("RFC 3339"));
    }

    #[test]
    fn ids_both_ways() {
        let id = EventId { at: Timestamp(-5), run: 2, seq: 9 };
        assert_eq!(id.to_string(), "-5-2-9");
        assert_eq!(id.to_string().parse::<EventId>().unwrap(), id);
        assert!("1-2".parse::<EventId>().is_err());
    }
}
