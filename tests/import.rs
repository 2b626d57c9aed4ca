//! `linchpin import` end to end: what people have after an incident becomes a recording that `replay` folds.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const ID: &str = "00748bf4e957f82c239a1db8a88579059b7d40c7b5fbd3f43617d31d3f646f12";

fn linchpin(args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_linchpin"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let out = child.wait_with_output().unwrap();
    writer.join().unwrap();
    out
}

fn file(dir: &Path, name: &str, text: impl AsRef<[u8]>) -> String {
    let path: PathBuf = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_string()
}

fn events(out: &Output) -> Vec<serde_json::Value> {
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout.clone()).unwrap();
    text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

fn of<'a>(events: &'a [serde_json::Value], kind: &str) -> Vec<&'a serde_json::Value> {
    events.iter().filter(|e| e["kind"] == kind).collect()
}

/// The two lines of a kill, each after what `prefix` gives for the second it is printed in.
fn kill(prefix: &dyn Fn(u32) -> String, pid: u32) -> String {
    format!(
        "{0}some noise\n\
         {0}oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,oom_memcg=/docker/{ID},task_memcg=/docker/{ID},task=java,pid={pid},uid=0\n\
         {0}Memory cgroup out of memory: Killed process {pid} (java) total-vm:900kB, anon-rss:800kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:1kB oom_score_adj:0\n\
         {1}more noise\n",
        prefix(15),
        prefix(16),
    )
}

#[test]
fn every_form_of_prefix_is_placed() {
    let dir = tempfile::tempdir().unwrap();
    type Prefix = &'static dyn Fn(u32) -> String;
    let forms: [(&str, Prefix, &[&str]); 10] = [
        ("kmsg", &|s| format!("6,{s},{s}682838,-;"), &["--boot-time", "2017-12-07T00:05:00Z"]),
        ("dmesg", &|s| format!("[   {s}.682838] "), &["--boot-time", "2017-12-07T00:05:00Z"]),
        ("caller", &|s| format!("[   {s}.6][ T9185] "), &["--boot-time", "2017-12-07T00:05:00Z"]),
        ("dmesg-T", &|s| format!("[Thu Dec  7 00:05:{s} 2017] "), &[]),
        ("german", &|s| format!("[Do Dez  7 01:05:{s} 2017] "), &["--utc-offset", "+01:00"]),
        ("syslog", &|s| format!("Dec  7 00:05:{s} web-1 kernel: [  514.682838] "), &["--year", "2017"]),
        ("no host", &|s| format!("Dec  7 00:05:{s} kernel: "), &["--year", "2017"]),
        ("rfc3339", &|s| format!("2017-12-07T01:05:{s}.25+01:00 web-1 kernel: "), &[]),
        ("iso", &|s| format!("2017-12-07T00:05:{s},123456+00:00 "), &[]),
        ("crlf", &|s| format!("\r\n[Thu Dec  7 00:05:{s} 2017] "), &[]),
    ];
    for (name, prefix, extra) in forms {
        let log = file(dir.path(), "log", kill(prefix, 7134));
        let mut args = vec!["import", "--kernel-log", &log, "--host", "web-1"];
        args.extend(extra);
        let got = events(&linchpin(&args, b""));
        let kills = of(&got, "oom_kill");
        assert_eq!(kills.len(), 1, "{name}");
        assert!(kills[0]["at"].as_str().unwrap().starts_with("2017-12-07T00:05:15"), "{name}: {}", kills[0]);
        assert_eq!(kills[0]["subject"], "docker:00748bf4e957", "{name}");
        assert_eq!(kills[0]["rss_bytes"], 800 * 1024, "{name}");
        let (on, off) = (of(&got, "watch_started"), of(&got, "watch_stopped"));
        assert!(on[0]["at"].as_str().unwrap().starts_with("2017-12-07T00:05:15"), "{name}: {}", on[0]);
        assert!(off[0]["at"].as_str().unwrap().starts_with("2017-12-07T00:05:16"), "{name}: {}", off[0]);
    }
}

#[test]
fn times_since_boot_need_an_anchor() {
    let log = kill(&|s| format!("[   {s}.000000] "), 7);
    let out = linchpin(&["import", "--kernel-log", "-"], log.as_bytes());
    assert_eq!(out.status.code(), Some(2));
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(said.contains("--boot-time"), "{said}");
    // The log's own line about the real-time clock is one.
    let rtc = "[    1.500000] rtc_cmos 00:01: setting system clock to 2017-12-07T00:05:01 UTC (1512605101)\n";
    let got = events(&linchpin(&["import", "--kernel-log", "-"], format!("{rtc}{log}").as_bytes()));
    assert_eq!(of(&got, "oom_kill")[0]["at"], "2017-12-07T00:05:14.500000000Z");
}

#[test]
fn a_kill_in_two_files_counts_once_and_has_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let log = file(dir.path(), "kern.log", kill(&|s| format!("2017-12-07T00:05:{s}Z web-1 kernel: "), 7134));
    let entry = |message: String| {
        serde_json::json!({"__REALTIME_TIMESTAMP": "1512605115400000", "_TRANSPORT": "kernel", "MESSAGE": message}).to_string()
    };
    let journal: String = kill(&|_| String::new(), 7134).lines().map(|l| entry(l.into()) + "\n").collect();
    let journal = file(dir.path(), "journal.json", journal);
    let event = |action: &str, nano: i64, extra: &str| {
        format!(
            "{{\"Type\":\"container\",\"Action\":\"{action}\",\"Actor\":{{\"ID\":\"{ID}\",\"Attributes\":{{\"name\":\"app-web-1\",\
             \"com.docker.compose.project\":\"app\",\"com.docker.compose.service\":\"web\",\"com.docker.compose.container-number\":\"1\"{extra}}}}},\"timeNano\":{nano}}}\n"
        )
    };
    let stream = [
        event("start", 1_512_605_100_000_000_000, ""),
        event("die", 1_512_605_115_900_000_000, ",\"exitCode\":\"137\""),
        event("start", 1_512_605_117_000_000_000, ""),
        event("exec_create: x", 1_512_605_200_000_000_000, ""),
        "not json\n".to_string(),
    ]
    .concat();
    let stream = file(dir.path(), "events.json", stream);
    let out = linchpin(
        &[
            "import",
            "--kernel-log",
            &log,
            "--journalctl",
            &journal,
            "--docker-events",
            &stream,
            "--host",
            "web-1",
        ],
        b"",
    );
    let got = events(&out);
    let kills = of(&got, "oom_kill");
    assert_eq!(kills.len(), 1);
    assert_eq!(kills[0]["subject"], "docker:app/web/1");
    assert_eq!(of(&got, "exited").len(), 1);
    assert_eq!(of(&got, "started").len(), 2);
    let issue = of(&got, "issue");
    assert_eq!((issue.len(), &issue[0]["count"], &issue[0]["sample"]), (1, &1.into(), &"not json".into()));
    let mut sorted: Vec<&str> =
        got.iter().filter(|e| e["kind"] != "issue").map(|e| e["at"].as_str().unwrap()).collect();
    let told = sorted.clone();
    sorted.sort_unstable();
    assert_eq!(told, sorted, "in the order of time");

    let recording = file(dir.path(), "incident.jsonl", &out.stdout);
    let report = linchpin(&["replay", &recording, "--format", "json"], b"");
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    let process = &report["processes"][0];
    assert_eq!((&process["subject"], &process["restarts"]), (&"docker:app/web/1".into(), &1.into()));
    assert_eq!(process["causes"]["own memory ceiling"], 1, "{process}");
}

#[test]
fn into_a_journal_and_out_again() {
    let dir = tempfile::tempdir().unwrap();
    let log = file(dir.path(), "kern.log", kill(&|s| format!("2017-12-07T00:05:{s}Z web-1 kernel: "), 7134));
    let journal = dir.path().join("journal");
    let journal = journal.to_str().unwrap();
    let out = linchpin(&["import", "--kernel-log", &log, "--into-journal", journal], b"");
    assert!(out.status.success() && out.stdout.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
    let got = events(&linchpin(&["export", "--journal", journal], b""));
    assert_eq!((of(&got, "oom_kill").len(), got.len()), (1, 3));
}

#[test]
fn what_is_no_log_is_an_error_and_hostile_bytes_are_not() {
    let out = linchpin(&["import", "--kernel-log", "-"], b"root:x:0:0:root:/root:/bin/bash\n");
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("lines begin as"));
    for args in [&["import"][..], &["import", "--kernel-log", "/nonexistent/log"]] {
        assert_eq!(linchpin(args, b"").status.code(), Some(2), "{args:?}");
    }
    let mut log = kill(&|s| format!("2017-12-07T00:05:{s}Z web-1 kernel: "), 7134).into_bytes();
    log.extend_from_slice(&[0xff; 300_000]);
    log.extend_from_slice(b"\n\0\0\0\n2017-12-07T00:05:17Z web-1 kernel: Killed process \x1b[31m\n");
    let out = linchpin(&["import", "--kernel-log", "-"], &log);
    let got = events(&out);
    assert_eq!(of(&got, "oom_kill").len(), 1);
    assert!(of(&got, "issue").iter().any(|e| e["what"] == "unplaced"));
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(said.contains("looks like a kill and cannot be read") && !said.contains('\x1b'), "{said}");
}
