//! The agent under test: started as people start it, asked through its API alone.

use std::path::{Path, PathBuf};
use std::time::Duration;

use linchpin_analyzer::report::{Episode, Process, ProcessDetail, Report};
use serde_json::Value;

use crate::engine::Engine;
use crate::process::{Running, wait_for};
use crate::truth::Outage;

/// The binary under test.
pub const LINCHPIN: &str = env!("CARGO_BIN_EXE_linchpin");

/// A running agent.
pub struct Agent {
    running: Running,
    base: String,
    log: PathBuf,
    client: reqwest::blocking::Client,
}

/// A port that nobody listens on.
pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Agent {
    /// An agent that watches `engine`, with its journal in the engine's directory; waits until it watches.
    pub fn watch(engine: &Engine) -> Agent {
        let agent = Agent::start(&[], &engine.dir().join("journal"), &engine.socket());
        agent.wait_watching("docker");
        agent
    }

    /// Starts one behind `wrapper` (as `setpriv …`); waits until it answers.
    pub fn start(wrapper: &[&str], journal: &Path, socket: &Path) -> Agent {
        Agent::start_program(wrapper, Path::new(LINCHPIN), journal, socket)
    }

    /// As [`Agent::start`], with the binary at another place.
    pub fn start_program(wrapper: &[&str], program: &Path, journal: &Path, socket: &Path) -> Agent {
        let listen = format!("127.0.0.1:{}", free_port());
        let log = journal.with_extension("log");
        let (dir, socket) = (journal.display().to_string(), socket.display().to_string());
        let program = program.display().to_string();
        let mut words = wrapper.to_vec();
        words.extend([&program, "agent", "--journal", &dir, "--listen", &listen, "--docker-socket", &socket]);
        let mut running = Running::start(&words, &log);
        let client =
            reqwest::blocking::Client::builder().no_proxy().timeout(Duration::from_secs(10)).build().unwrap();
        let base = format!("http://{listen}");
        let healthy = wait_for(Duration::from_secs(20), || {
            let said = || std::fs::read_to_string(&log).unwrap_or_default();
            assert!(running.ended().is_none(), "the agent ended: {}", said());
            client.get(format!("{base}/healthz")).send().ok().filter(|r| r.status().is_success())
        });
        assert!(
            healthy.is_some(),
            "no answer from the agent: {}",
            std::fs::read_to_string(&log).unwrap_or_default()
        );
        Agent { running, base, log, client }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// Where it listens.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// A page or document as text; `None` unless the status is a success.
    pub fn get(&self, path: &str) -> Option<String> {
        let reply = self.client.get(format!("{}{path}", self.base)).send().unwrap_or_else(|e| {
            panic!("{path}: {e}; the agent's log: {}", self.log());
        });
        reply.status().is_success().then(|| reply.text().unwrap())
    }

    /// A JSON document.
    pub fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.get(path).unwrap_or_else(|| panic!("{path}: no success"))).unwrap()
    }

    /// The whole report.
    pub fn report(&self) -> Report {
        serde_json::from_value(self.json("/api/v1/report")).unwrap()
    }

    /// The journal's events.
    pub fn events(&self) -> Vec<Value> {
        let text = self.get("/api/v1/events?format=jsonl").expect("the events");
        text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
    }

    /// What the journal holds of a container, one event a line: for the message of a failed check.
    pub fn told_of(&self, name: &str) -> String {
        let subject = format!("docker:{name}");
        let all = self.events().into_iter().filter(|e| e["subject"] == subject.as_str());
        all.map(|e| format!("{e}\n")).collect()
    }

    /// Waits until `source` watches.
    pub fn wait_watching(&self, source: &str) {
        let watching = wait_for(Duration::from_secs(20), || {
            self.report().sources.iter().any(|s| s.source == source && s.watching).then_some(())
        });
        assert!(watching.is_some(), "{source} does not watch; the agent's log: {}", self.log());
    }

    /// Waits until it knows the container `name`; no test shall end what the agent has not met.
    pub fn wait_known(&self, name: &str) -> Process {
        let subject = format!("docker:{name}");
        let known = wait_for(Duration::from_secs(10), || {
            self.report().processes.into_iter().find(|p| p.subject == subject && p.state == "up")
        });
        known.unwrap_or_else(|| panic!("{subject} is not known as up; the agent's log: {}", self.log()))
    }

    /// The detail of one container, if it is known.
    pub fn find(&self, subject: &str) -> Option<ProcessDetail> {
        let host = self.report().processes.into_iter().find(|p| p.subject == subject)?.host;
        let text = self.get(&format!("/api/v1/processes/{}/{}", escaped(&host), escaped(subject)))?;
        Some(serde_json::from_str(&text).unwrap_or_else(|e| panic!("{subject}: {e}: {text}")))
    }

    /// The detail of the container `name`.
    pub fn detail(&self, name: &str) -> ProcessDetail {
        self.find(&format!("docker:{name}")).unwrap_or_else(|| panic!("docker:{name} is not known"))
    }

    /// Waits until the closed episodes of `name` are as many as the prober's outages, gives the agent time to invent
    /// more, and checks that each is the prober's within `slack_ms` and what it says of its own resolution: as many, at the same times, of the same lengths.
    pub fn check_against(&self, name: &str, truth: &[Outage], slack_ms: f64) -> ProcessDetail {
        let closed = |d: &ProcessDetail| d.episodes.iter().filter(|e| !e.open).count();
        wait_for(Duration::from_secs(5), || (closed(&self.detail(name)) >= truth.len()).then_some(()));
        crate::process::pass(1500);
        let detail = self.detail(name);
        let told = || {
            format!(
                "\ntruth: {truth:?}\nepisodes: {:?}\n{}\nlog: {}",
                detail.episodes,
                self.told_of(name),
                self.log()
            )
        };
        assert_eq!(
            detail.episodes.len(),
            truth.len(),
            "episodes of {name}, none missed and none invented{}",
            told()
        );
        for (mine, true_one) in oldest_first(&detail).iter().zip(truth) {
            // An episode may be measured more coarsely (on a loaded host), if it says so.
            let slack_ms = slack_ms + mine.resolution_ms.unwrap_or(0.0);
            let off = down_ms(mine) - true_one.down_wall_ns as f64 / 1e6;
            assert!(off.abs() <= slack_ms, "{name} went down {off} ms off{}", told());
            let longer = mine.seconds * 1e3 - true_one.ms();
            assert!(longer.abs() <= slack_ms, "an episode of {name} is {longer} ms too long{}", told());
            assert!(!mine.lower_bound, "{name}: readiness was seen{}", told());
        }
        detail
    }

    /// Ends it as an init system would.
    pub fn end(mut self) {
        let status = self.running.end(Duration::from_secs(15));
        let said = self.log();
        assert!(status.is_some_and(|s| s.success()), "the agent did not end well: {status:?}: {said}");
    }

    /// Ends it with SIGKILL.
    pub fn kill(mut self) {
        self.running.kill();
    }
}

/// When an episode began, in milliseconds of the wall clock.
pub fn down_ms(e: &Episode) -> f64 {
    e.down_at.0 as f64 / 1e6
}

/// The episodes in the order of time.
pub fn oldest_first(detail: &ProcessDetail) -> Vec<Episode> {
    let mut all = detail.episodes.clone();
    all.sort_by_key(|e| e.down_at);
    all
}

/// A path segment with everything but letters, digits, `-`, `_`, `.` and `~` escaped.
pub fn escaped(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.~".contains(&b);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}
