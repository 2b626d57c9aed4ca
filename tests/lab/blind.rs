//! The agent where it can see little: no engine, no privileges, no containers; and where it cannot start at all.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::agent::{Agent, LINCHPIN, free_port};
use crate::engine::Engine;
use crate::process::{pass, try_run};

/// Nobody's ids, and no capability at all.
const NOBODY: [&str; 6] =
    ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"];

/// Processor time that a process has used, in milliseconds: user and system ticks of /proc/PID/stat.
fn used_ms(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after = stat.rsplit_once(')').unwrap().1;
    let fields: Vec<&str> = after.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    ticks * 10
}

/// Below 2 % of a core over ten idle seconds: it waits, it does not spin.
fn is_calm(agent: &Agent) {
    pass(4000);
    let before = used_ms(agent.pid());
    pass(10_000);
    let used = used_ms(agent.pid()) - before;
    assert!(used < 200, "{used} ms of processor time in 10 s without anything to do; log: {}", agent.log());
}

/// No process is told of but containers that this host itself shows without their engine: by the cgroup of one that
/// another engine runs, or by the kernel's log of one that ran out of memory since the boot.
fn nothing_made_up(agent: &Agent, before: &str) {
    let now = traces();
    for p in agent.report().processes {
        let id = p.subject.trim_start_matches("docker:");
        let there = before.contains(id) || now.contains(id);
        assert!(id.len() == 12 && there, "{} is made up", p.subject);
    }
}

/// Every cgroup's path, and the kernel's log.
fn traces() -> String {
    let (cgroups, log) = (try_run(&["find", "/sys/fs/cgroup", "-type", "d"]), try_run(&["dmesg"]));
    [cgroups.stdout, log.stdout].map(|out| String::from_utf8_lossy(&out).into_owned()).concat()
}

/// `doctor`'s word on `source`: its status, and all of it as text.
fn doctor(wrapper: &[&str], socket: &Path, source: &str) -> (String, String) {
    let socket = socket.display().to_string();
    let words = [wrapper, &[LINCHPIN, "doctor", "--format", "json", "--docker-socket", &socket]].concat();
    let out = try_run(&words);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let all: Vec<Value> = serde_json::from_slice(&out.stdout).unwrap();
    let one = all.iter().find(|c| c["source"] == source).unwrap_or_else(|| panic!("no {source} in {all:?}"));
    (one["sight"]["status"].as_str().unwrap().to_string(), one.to_string())
}

#[test]
fn without_an_engine_it_starts_says_so_and_waits() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("no.sock");
    let before = traces();
    let agent = Agent::start(&[], &dir.path().join("journal"), &socket);
    is_calm(&agent);
    let report = agent.report();
    let docker = report.sources.iter().find(|s| s.source == "docker").expect("the blind source is listed");
    assert!(!docker.watching);
    for path in ["/api/v1/sources", "/sources"] {
        let said = agent.get(path).unwrap();
        assert!(said.contains("docker") && said.contains("no.sock"), "{path} names what was tried: {said}");
    }
    nothing_made_up(&agent, &before);
    assert!(agent.get("/").is_some());
    let (status, said) = doctor(&[], &socket, "docker");
    assert_eq!(status, "blind", "{said}");
    assert!(said.contains("no.sock") && said.contains("grant"), "{said}");
    agent.end();
}

#[test]
fn without_root_it_starts_says_what_it_cannot_see_and_waits() {
    let engine = Engine::start();
    let dir = tempfile::tempdir().unwrap();
    try_run(&["chmod", "755", &dir.path().display().to_string()]);
    let home = dir.path().join("home");
    std::fs::create_dir(&home).unwrap();
    crate::process::run(&["chown", "65534:65534", &home.display().to_string()]);
    // The binary may lie where nobody may look.
    let binary = dir.path().join("linchpin");
    std::fs::copy(LINCHPIN, &binary).unwrap();
    let agent = Agent::start_program(&NOBODY, &binary, &home.join("journal"), &engine.socket());
    let status = std::fs::read_to_string(format!("/proc/{}/status", agent.pid())).unwrap();
    assert!(status.contains("Uid:\t65534") && status.contains("CapEff:\t0000000000000000"), "{status}");
    is_calm(&agent);
    let docker = agent.report().sources.into_iter().find(|s| s.source == "docker").expect("docker is listed");
    assert!(!docker.watching, "the socket is root's");
    assert!(agent.get("/").is_some());
    let sources = agent.get("/api/v1/sources").unwrap();
    assert!(sources.contains("docker") && sources.contains("kernel_log"), "{sources}");
    agent.end();
}

#[test]
fn a_host_without_containers_is_no_error() {
    let engine = Engine::start();
    engine.docker(&["rm", "-f", "lab-pause"]);
    let before = traces();
    let agent = Agent::watch(&engine);
    is_calm(&agent);
    nothing_made_up(&agent, &before);
    let report = agent.report();
    assert!(report.sources.iter().any(|s| s.source == "docker" && s.watching));
    assert!(agent.get("/").is_some());
    let (status, said) = doctor(&[], &engine.socket(), "docker");
    assert_eq!(status, "works", "{said}");
    agent.end();
}

#[test]
fn a_taken_port_and_a_held_journal_are_said() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, socket) = (dir.path().join("journal"), dir.path().join("no.sock"));
    let agent = Agent::start(&[], &journal, &socket);
    let second = |journal: &Path, listen: &str| {
        let out = Command::new(LINCHPIN)
            .args(["agent", "--listen", listen, "--journal"])
            .arg(journal)
            .arg("--docker-socket")
            .arg(&socket)
            .output()
            .unwrap();
        assert_eq!(out.status.code(), Some(2));
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    let taken = agent.base().trim_start_matches("http://");
    let said = second(&dir.path().join("other"), taken);
    assert!(said.contains(taken), "the address is named: {said}");
    let said = second(&journal, &format!("127.0.0.1:{}", free_port()));
    assert!(said.contains(&agent.pid().to_string()), "the holder is named: {said}");
    // `export` on a held journal asks its holder.
    pass(500);
    let out = try_run(&[LINCHPIN, "export", "--journal", &journal.display().to_string()]);
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(
        out.status.success() && text.contains("\"host_up\""),
        "{} {text}",
        String::from_utf8_lossy(&out.stderr)
    );
    agent.end();
}
