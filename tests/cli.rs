//! The command line as people and programs meet it: what it prints, what it refuses, and with which exit code. Real
//! containers are the lab's.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn linchpin(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_linchpin"))
        .args(args)
        .env_remove("LINCHPIN_CONFIG")
        .env_remove("LINCHPIN_JOURNAL")
        .env_remove("LINCHPIN_LISTEN")
        .output()
        .unwrap()
}

fn out(o: &Output) -> String {
    String::from_utf8_lossy(&o.stdout).into_owned()
}

fn refused(args: &[&str], said: &[&str]) {
    let o = linchpin(args);
    let err = String::from_utf8_lossy(&o.stderr).into_owned();
    assert_eq!(o.status.code(), Some(2), "{args:?}: {err}");
    for part in said {
        assert!(err.contains(part), "{args:?}: {part:?} is not in {err:?}");
    }
}

fn recording(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn close(got: &Value, want: f64, within: f64) {
    let got = got.as_f64().unwrap();
    assert!((got - want).abs() <= within, "{got} {want}");
}

#[test]
fn the_calculator_gives_the_founding_figures() {
    let args = "ceiling --restarts-per-hour 16 --recovery 1.15s --hostnames 10 --replicas 3 --target 99.9 --format json";
    let o = linchpin(&args.split(' ').collect::<Vec<_>>());
    assert!(o.status.success());
    let v: Value = serde_json::from_slice(&o.stdout).unwrap();
    close(&v["downtime_seconds_per_hour"], 18.4, 1e-9);
    close(&v["downtime_seconds_per_day"], 441.6, 1e-9);
    close(&v["ceiling"], 0.994_889, 5e-7);
    close(&v["burn_rate"], 5.11, 5e-3);
    close(&v["budget_seconds_per_month"], 2592.0, 1e-6);
    close(&v["hostname_seconds_per_month"], 132_480.0, 1e-6);
    let text = out(&linchpin(&["ceiling", "--restarts-per-hour", "16", "--recovery", "1.15s"]));
    assert!(text.contains("99.489 %") && text.contains("5.11") && text.contains("5.9 days"), "{text}");
}

#[test]
fn the_calculator_refuses_what_makes_no_sense() {
    refused(&["ceiling", "--restarts-per-hour", "nan", "--recovery", "1s"], &["restarts"]);
    refused(&["ceiling", "--restarts-per-hour=-1", "--recovery", "1s"], &["restarts"]);
    refused(&["ceiling", "--restarts-per-hour", "1", "--recovery", "soon"], &["soon", "1.15s"]);
    refused(
        &["ceiling", "--restarts-per-hour", "1", "--recovery", "1s", "--target", "100"],
        &["--target", "99.9"],
    );
}

#[test]
fn the_founding_incident_replayed() {
    let file = recording("data/recordings/i1-one-proxy.jsonl");
    let first = fs::read_to_string(&file).unwrap().lines().next().unwrap().to_string();
    assert!(first.contains("Simulated"), "a simulated recording says so in its first line");
    let o = linchpin(&["replay", file.to_str().unwrap(), "--format", "json"]);
    assert!(o.status.success());
    let v: Value = serde_json::from_slice(&o.stdout).unwrap();
    close(&v["window"]["observed_seconds"], 86_400.0, 1e-6);
    let proxy = v["processes"].as_array().unwrap().iter().find(|p| p["subject"] == "docker:proxy").unwrap();
    assert_eq!(proxy["restarts"], 384);
    close(&proxy["restarts_per_hour"], 16.0, 1e-9);
    close(&proxy["ceiling"], 0.994_89, 5e-6);
    close(&proxy["recovery_seconds"]["mean"], 1.15, 1e-3);
    close(&proxy["budget"]["burn_rate"], 5.11, 5e-3);
    assert_eq!(proxy["hostnames"].as_array().unwrap().len(), 10);
    assert_eq!(proxy["causes"], serde_json::json!({"clean exit": 384}));
    // In the afternoon, when it was first looked at: burning, and under every page.
    let (from, to) = ("2026-08-06T12:00:00Z", "2026-08-06T15:00:00Z");
    let o = linchpin(&["replay", file.to_str().unwrap(), "--format", "json", "--from", from, "--to", to]);
    let v: Value = serde_json::from_slice(&o.stdout).unwrap();
    let proxy = v["processes"].as_array().unwrap().iter().find(|p| p["subject"] == "docker:proxy").unwrap();
    close(&proxy["budget"]["burn_rate"], 5.3, 0.1);
    assert_eq!(proxy["budget"]["steady_burn_unpaged"], true, "no page fires, and it is told");
    let text = out(&linchpin(&["replay", file.to_str().unwrap()]));
    assert!(text.contains("99.489 %") && text.contains("own memory ceiling"), "{text}");
}

#[test]
fn a_malformed_line_is_named_and_leniently_counted() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("r.jsonl");
    let good = r#"{"at":"2026-08-09T06:00:00Z","host":"h","subject":"docker:a","kind":"started"}"#;
    fs::write(&file, format!("{good}\n{good}\n{{\"at\": \u{1b}[31m\n{good}\n")).unwrap();
    let path = file.to_str().unwrap();
    refused(&["replay", path], &["line 3", path]);
    let o = linchpin(&["replay", path, "--lenient", "--format", "json"]);
    assert!(o.status.success());
    let err = String::from_utf8_lossy(&o.stderr).into_owned();
    assert!(err.contains("skipped 1") && err.contains("line 3"), "{err}");
    assert!(serde_json::from_slice::<Value>(&o.stdout).is_ok());
    refused(&["replay", "/nowhere/at/all.jsonl"], &["/nowhere/at/all.jsonl"]);
}

#[test]
fn unknown_kinds_are_counted_with_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("r.jsonl");
    fs::write(&file, r#"{"at":"2026-08-09T06:00:00Z","host":"h","subject":"docker:a","kind":"of_tomorrow"}"#)
        .unwrap();
    let o = linchpin(&["replay", file.to_str().unwrap(), "--format", "json"]);
    assert!(String::from_utf8_lossy(&o.stderr).contains("1 events of the unknown kind \"of_tomorrow\""));
    let v: Value = serde_json::from_slice(&o.stdout).unwrap();
    assert_eq!(v["unknown_kinds"]["of_tomorrow"], 1);
}

#[test]
fn an_unknown_key_is_named_with_the_nearest() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("linchpin.toml");
    fs::write(&file, "[objective]\ntaget = 99.9\n").unwrap();
    refused(
        &["doctor", "--config", file.to_str().unwrap()],
        &["objective.taget", "objective.target", file.to_str().unwrap()],
    );
    fs::write(&file, "listen = 7\n").unwrap();
    refused(&["doctor", "--config", file.to_str().unwrap()], &["listen"]);
    refused(&["doctor", "--config", "/nowhere.toml"], &["/nowhere.toml"]);
}

#[test]
fn a_port_taken_says_so_and_leaves_no_trace() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    let journal = dir.path().join("journal");
    refused(
        &["agent", "--listen", &address, "--journal", journal.to_str().unwrap()],
        &[&address, "--listen"],
    );
    assert!(!journal.exists());
}

#[test]
fn it_listens_on_loopback_alone() {
    let dir = tempfile::tempdir().unwrap();
    let journal = dir.path().join("journal");
    refused(
        &["agent", "--listen", "0.0.0.0:0", "--journal", journal.to_str().unwrap()],
        &["0.0.0.0", "no log-in", "ssh -L"],
    );
    refused(&["agent", "--without", "dokcer", "--journal", journal.to_str().unwrap()], &["dokcer", "docker"]);
}

#[test]
fn without_a_journal_it_says_how_to_get_one() {
    for command in ["report", "export"] {
        refused(&[command, "--journal", "/nowhere/journal"], &["/nowhere/journal", "linchpin agent"]);
    }
}

#[test]
fn doctor_names_every_source() {
    let o = linchpin(&["doctor", "--format", "json", "--docker-socket", "/nowhere/docker.sock"]);
    assert!(o.status.success());
    let v: Value = serde_json::from_slice(&o.stdout).unwrap();
    let docker = v.as_array().unwrap().iter().find(|c| c["source"] == "docker").unwrap();
    assert_eq!(docker["sight"]["status"], "blind");
    assert!(docker["sight"]["grant"].as_str().is_some_and(|g| !g.is_empty()));
    let text = out(&linchpin(&["doctor", "--docker-socket", "/nowhere/docker.sock"]));
    for source in linchpin_collector::registry() {
        assert!(text.lines().any(|l| l.starts_with(source.name())), "{} in {text}", source.name());
    }
}
