//! Why it was down: one scene a suspect, and the look-alikes of each.

mod scene;
use scene::{check, ledger, watched};

use linchpin_analyzer::Query;

const BACK: &str = "11 docker:a started instance=i1 pid=11\n12 docker:a ready instance=i1 by=listen";

/// The cause of the one time down, and what it rests on.
#[track_caller]
fn cause(scene: &str, want: &str, evidence: &[&str]) {
    let detail =
        ledger(&watched(&format!("{scene}\n{BACK}"))).process(None, "docker:a", Query::default()).unwrap();
    assert_eq!(detail.episodes.len(), 1, "{scene}");
    let e = &detail.episodes[0];
    assert_eq!(e.cause, want, "{scene}\n{:#?}", e.evidence);
    for part in evidence {
        let found = e.evidence.iter().any(|v| format!("{}: {}", v.source, v.text).contains(part));
        assert!(found, "{part} is not in {:#?}", e.evidence);
    }
    assert!(e.evidence.is_sorted_by_key(|v| v.at));
}

#[test]
fn its_own_memory_ceiling_needs_the_kernels_word() {
    let kill = "9.98 docker:a oom_kill pid=10 process=app scope=memcg rss_bytes=524288000 limit_bytes=536870912 by=kernel_log";
    for code in [0, 1, 128, 137, 143] {
        // Trap 30: kills come with all of these.
        let exit = format!("10 docker:a exited instance=i1 exit_code={code}");
        let told = ["kernel log: killed app (pid 10)", "resident 500 MiB, limit 512 MiB"];
        cause(&format!("{kill}\n{exit}"), "own memory ceiling", &told);
    }
    // The line may come after the exit, and a counter alone will do.
    let exit = "10 docker:a exited instance=i1 exit_code=137";
    cause(
        &format!("{exit}\n10.9 docker:a oom_kill pid=10 scope=memcg"),
        "own memory ceiling",
        &["kernel log:"],
    );
    cause(
        &format!("{exit}\n10.2 docker:a oom_kill scope=memcg by=cgroup count=2 limit_bytes=536870912"),
        "own memory ceiling",
        &["cgroup counter: the counter of OOM kills rose 2 times at its limit of 512 MiB"],
    );
    // Further away it is another death.
    cause(&format!("8.9 docker:a oom_kill pid=10 scope=memcg\n{exit}"), "signal", &[]);
}

#[test]
fn a_claim_is_no_proof() {
    // Traps 10, 12, 13.
    let claim = "docker claims OOM; the kernel log and the cgroup's counters have no record of a kill";
    cause(
        "10 docker:a exited instance=i1 exit_code=137 oom_killed=true",
        "signal",
        &[claim, "exit code 137 (SIGKILL)"],
    );
    cause("10 docker:a exited instance=i1 exit_code=0 oom_killed=true", "clean exit", &[claim]);
    cause("10 docker:a exited instance=i1 exit_code=137 oom_killed=false", "signal", &["SIGKILL"]);
}

#[test]
fn two_witnesses_and_many_lines_are_one_death() {
    let exit = "10 docker:a exited instance=i1 exit_code=137";
    check(
        &format!(
            "9.9 docker:a oom_kill pid=10 scope=memcg by=kernel_log kmsg_seq=5
             9.95 docker:a oom_kill pid=10 scope=memcg by=kernel_log kmsg_seq=6
             {exit}
             10.5 docker:a oom_kill scope=memcg by=cgroup count=1
             {BACK}"
        ),
        "restarts 1, kills 1, down 2 of 100, up, recovery 2; own memory ceiling 1",
    );
    // The counter knows of more than the log printed (trap 7, 30).
    check(
        &format!(
            "9.9 docker:a oom_kill pid=10 scope=memcg\n{exit}\n10.5 docker:a oom_kill by=cgroup count=3\n{BACK}"
        ),
        "restarts 1, kills 3, down 2 of 100, up, recovery 2; own memory ceiling 1",
    );
    // Two kills 1.9 s apart, each with its counter: two.
    check(
        "20 docker:a oom_kill pid=71\n20.1 docker:a oom_kill by=cgroup count=1
         21.9 docker:a oom_kill pid=72\n22.1 docker:a oom_kill by=cgroup count=1",
        "restarts 0, kills 2, down 0 of 100, up",
    );
    // The same pid printed twice counts once; far apart it is another process of that number.
    check(
        "20 docker:a oom_kill pid=71\n20.1 docker:a oom_kill pid=71\n60 docker:a oom_kill pid=71",
        "restarts 0, kills 2, down 0 of 100, up",
    );
}

#[test]
fn the_host_ran_out() {
    // Trap 4.
    cause(
        "9.99 docker:a oom_kill pid=10 scope=host process=java\n10 docker:a exited instance=i1 exit_code=137",
        "host out of memory",
        &["killed java (pid 10): the host ran out of memory"],
    );
}

#[test]
fn signals_crashes_and_clean_ends() {
    cause("10 docker:a exited instance=i1 exit_code=143", "signal", &["(SIGTERM)"]);
    cause("10 docker:a exited instance=i1 signal=34", "signal", &["(signal 34)"]);
    cause("10 docker:a exited instance=i1 exit_code=0 signal=0", "clean exit", &["exit code 0"]);
    cause("10 docker:a exited instance=i1 exit_code=1", "crash exit", &[]);
    cause("10 docker:a exited instance=i1 exit_code=255", "crash exit", &[]);
    cause("10 docker:a exited instance=i1", "unknown", &[]);
    // Trap 25: an abort as process 1 looks like a memory fault.
    cause(
        "9.999 docker:a segfault pid=10 process=proxy detail=general_protection_fault_ip:7f\n\
         10 docker:a exited instance=i1 exit_code=139",
        "crash exit",
        &["proxy: general protection fault", "an abort, not a memory fault"],
    );
    cause(
        "9.999 docker:a segfault pid=10 process=proxy detail=segfault_at_0\n10 docker:a exited instance=i1 exit_code=139",
        "signal",
        &["kernel log: proxy: segfault at 0", "SIGSEGV"],
    );
}

#[test]
fn a_failed_check_and_a_kill() {
    for exit in ["exit_code=137", "exit_code=137 by_operator=true action=restart"] {
        cause(
            &format!("5 docker:a unready instance=i1 by=health\n10 docker:a exited instance=i1 {exit}"),
            "health-check kill",
            &["health check: the health check failed"],
        );
    }
    // It had passed again; it failed long before; it crashed by itself.
    cause("9 docker:a unready by=listen\n10 docker:a exited instance=i1 exit_code=137", "signal", &[]);
    cause("9 docker:a unready by=health\n10 docker:a exited instance=i1 exit_code=3", "crash exit", &[]);
    check(
        &format!(
            "5 docker:a unready by=health\n6 docker:a ready by=health\n10 docker:a exited instance=i1 exit_code=137\n{BACK}"
        ),
        "restarts 1, outages 1, down 3 of 100, up, recovery 2; check failed 1; signal 1",
    );
}

#[test]
fn operators_and_deploys() {
    let stop = "10 docker:a exited instance=i1 exit_code=137 by_operator=true action=stop";
    cause(stop, "operator", &["stop was asked for"]);
    cause(&stop.replace("stop", "recreate"), "deploy", &[]);
    cause(
        &format!("{stop}\n10.5 docker:a described running=false instance=i2 image=a:2"),
        "deploy",
        &["of a:2"],
    );
    cause(&format!("{stop}\n10.5 docker:a described running=false instance=i1 image=a:2"), "deploy", &[]);
    // A kernel's kill meanwhile does not make it a crash.
    cause(&format!("9.5 docker:a oom_kill pid=10\n{stop}"), "operator", &["kernel log: killed"]);
}

#[test]
fn the_host_booted_anew() {
    let scene = "0 host: watch_started source=docker boot=b1@1000
        0.1 docker:a described running=true instance=i1 boot=b1@1000.1
        50 docker:a exited instance=i1 exit_code=143 boot=b1@1050
        51 host: watch_stopped source=docker boot=b1@1051
        90 host: watch_started source=docker boot=b2@20
        91 docker:a started instance=i1 boot=b2@21
        92 docker:a ready instance=i1 boot=b2@22
        100 host: note boot=b2@30";
    let detail = ledger(scene).process(None, "docker:a", Query::default()).unwrap();
    let e = &detail.episodes[0];
    assert_eq!((e.cause.as_str(), e.seconds), ("host reboot", 42.0));
    assert!(e.evidence.iter().any(|v| v.text == "the host booted 20.000 s later"), "{:#?}", e.evidence);
    // Only what was observed of it counts, and its length is nobody's measurement.
    let p = &detail.process;
    assert_eq!((p.restarts, p.downtime_seconds, p.observed_seconds), (1, 3.0, 61.0));
    assert!(p.recovery_seconds.is_none());
}

#[test]
fn the_runtime_went_away() {
    let scene = |code: &str, other: &str, exit: f64| {
        format!(
            "0 host: watch_started source=docker
             0 host: watch_started source=cgroup
             0.1 docker:a described running=true instance=i1
             {exit} docker:a exited instance=i1 exit_code={code}
             51 host: watch_stopped source=docker reason=connection_lost
             {other}
             56 host: watch_started source=docker reason=reconnected
             57 docker:a started instance=i1
             58 docker:a ready instance=i1
             100 host: note"
        )
    };
    let of = |s: &str| {
        let d = ledger(s).process(None, "docker:a", Query::default()).unwrap();
        (d.episodes[0].cause.clone(), d.episodes[0].counted)
    };
    // The others watched on.
    assert_eq!(of(&scene("137", "", 50.0)), ("runtime restart".into(), true));
    // In the gap: shown, and no observed restart (trap 14).
    assert_eq!(of(&scene("255", "", 53.0)), ("runtime restart".into(), false));
    // The agent ended, not the runtime.
    let agent = "51.1 host: watch_stopped source=cgroup reason=agent_ended";
    assert_eq!(of(&scene("137", agent, 50.0)), ("signal".into(), true));
    // Long before.
    assert_eq!(of(&scene("137", "", 20.0)), ("signal".into(), true));
    // The runtime says so itself.
    cause(
        "10 docker:a exited instance=i1 exit_code=137 by_operator=false action=runtime",
        "runtime restart",
        &["docker itself ended it"],
    );
}
