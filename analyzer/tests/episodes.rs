//! What is a restart, what an outage, what neither, and how long.

mod scene;
use scene::{check, ledger, told, watched};

use linchpin_analyzer::{Ledger, Objective, Query};

#[test]
fn an_exit_to_the_next_ready() {
    check(
        "10 docker:a exited instance=i1 exit_code=0
         10.35 docker:a started instance=i1 pid=11
         11.15 docker:a ready instance=i1 by=listen",
        "restarts 1, down 1.15 of 100, up, recovery 1.15; clean exit 1",
    );
    // Without ready, the next start is a lower bound; a ready that comes later, before the next exit, closes it truly.
    check(
        "10 docker:a exited instance=i1 exit_code=1
         10.5 docker:a started instance=i1",
        "restarts 1, down 0.5+ of 100, up, recovery 0.5; crash exit 1",
    );
    check(
        "10 docker:a exited instance=i1 exit_code=1
         10.5 docker:a started instance=i1
         70 docker:a ready instance=i1 by=health",
        "restarts 1, down 60 of 100, up, recovery 60; crash exit 1",
    );
    // Nothing closes it: a restart, downtime to the end, no recovery.
    check("90 docker:a exited instance=i1 exit_code=1", "restarts 1, down 10 of 100, down; crash exit 1");
    // The start was lost, the ready was not.
    check(
        "10 docker:a exited instance=i1 exit_code=1\n12 docker:a ready instance=i1",
        "restarts 1, down 2 of 100, up, recovery 2; crash exit 1",
    );
}

#[test]
fn one_death_told_in_many_words_is_one() {
    // Told twice to the letter, and told again by the runtime's own time after a finer witness had told it.
    check(
        "10 docker:a exited instance=i1 exit_code=1
         10 docker:a exited instance=i1 exit_code=1
         9.98 docker:a exited instance=i1 exit_code=1 runtime_at=\"2026-08-09T06:00:10Z\"
         11 docker:a ready instance=i1",
        "restarts 1, down 1.02 of 100, up, recovery 1.02; crash exit 1",
    );
    // Another moment, no start in between: kill, die and stop of one death (trap 16).
    check(
        "10 docker:a exited instance=i1 exit_code=137
         10.02 docker:a exited instance=i1 exit_code=137
         10.04 docker:a exited exit_code=137
         11 docker:a started instance=i1
         12 docker:a ready instance=i1",
        "restarts 1, down 2 of 100, up, recovery 2; signal 1",
    );
}

#[test]
fn a_loop_counts_each_of_its_rounds() {
    // Dies before it is ready (traps 19, 27, 29): each start closes, each exit opens.
    check(
        "10 docker:a exited instance=i1 exit_code=1
         10.1 docker:a started instance=i1
         10.2 docker:a exited instance=i1 exit_code=1
         10.4 docker:a started instance=i1
         10.5 docker:a exited instance=i1 exit_code=1
         10.9 docker:a started instance=i1
         11.2 docker:a ready instance=i1",
        "restarts 3, down 1+ of 100, up, recovery 0.333; crash exit 3",
    );
    // Seen started and told not to be ready: that start did not end it; the exit after it is another death.
    check(
        "10 docker:a exited instance=i1 exit_code=1
         11 docker:a started instance=i1
         12 docker:a unready instance=i1 by=health
         13 docker:a exited instance=i1 exit_code=1
         14 docker:a started instance=i1
         15 docker:a ready instance=i1 by=listen",
        "restarts 2, down 5 of 100, up, recovery 2; crash exit 2",
    );
}

#[test]
fn an_outage_is_no_restart() {
    check(
        "10 docker:a unready instance=i1 by=listen\n10.05 docker:a ready instance=i1 by=listen",
        "restarts 0, outages 1, down 0.05 of 100, up; port closed 1",
    );
    check(
        "10 docker:a unready instance=i1 by=health\n15 docker:a ready instance=i1 by=health",
        "restarts 0, outages 1, down 5 of 100, up; check failed 1",
    );
    check(
        "97 docker:a unready instance=i1 by=listen",
        "restarts 0, outages 1, down 3 of 100, down; port closed 1",
    );
    // Shortly before an exit it is part of the same time down.
    check(
        "10 docker:a unready instance=i1 by=listen
         10.2 docker:a exited instance=i1 exit_code=1
         10.5 docker:a started instance=i1
         11 docker:a ready instance=i1 by=listen",
        "restarts 1, down 1 of 100, up, recovery 1; crash exit 1",
    );
    // Long before, it is one of its own, and the time is counted once.
    check(
        "10 docker:a unready instance=i1 by=listen
         75 docker:a exited instance=i1 exit_code=1
         76 docker:a ready instance=i1 by=listen",
        "restarts 1, outages 1, down 66 of 100, up, recovery 1; crash exit 1; port closed 1",
    );
    // An operator who stops what had been closed for half a minute did not close it.
    check(
        "10 docker:a unready instance=i1 by=listen
         40 docker:a exited instance=i1 exit_code=137 by_operator=true action=restart
         41 docker:a ready instance=i1 by=listen",
        "restarts 0, operator 1, outages 1, down 30, operator down 1 of 100, up; operator 1; port closed 1",
    );
}

#[test]
fn a_childs_kill_ends_nothing() {
    check(
        "10 docker:a oom_kill pid=77 process=worker scope=memcg rss_bytes=1000 limit_bytes=2000 by=kernel_log
         30 docker:a oom_kill pid=78 process=worker scope=memcg by=kernel_log
         30.5 docker:a oom_kill scope=memcg by=cgroup count=1",
        "restarts 0, kills 2, down 0 of 100, up",
    );
    let detail =
        ledger(&watched("10 docker:a oom_kill pid=77 process=worker rss_bytes=1048576 limit_bytes=2097152"))
            .process(Some("h"), "docker:a", Query::default())
            .unwrap();
    assert_eq!(detail.other_deaths.len(), 1);
    assert_eq!(
        detail.other_deaths[0].text,
        "killed worker (pid 77): its cgroup was at its limit, resident 1 MiB, limit 2 MiB"
    );
    assert!(detail.episodes.is_empty());
}

#[test]
fn what_an_operator_asks_for_is_told_apart() {
    let stop = "10 docker:a exited instance=i1 exit_code=0 by_operator=true action=stop";
    check(stop, "restarts 0, operator 1, down 0, operator down 90 of 100, stopped; operator 1");
    let restart = format!(
        "{}\n12 docker:a started instance=i1\n13 docker:a ready instance=i1",
        stop.replace("stop", "restart")
    );
    check(&restart, "restarts 0, operator 1, down 0, operator down 3 of 100, up; operator 1");
    let mut counting = Ledger::new(Objective { operator_counts: true, ..Objective::default() });
    scene::events(&watched(&restart)).iter().for_each(|e| counting.fold(e));
    let p = counting.process(None, "docker:a", Query::default()).unwrap().process;
    assert_eq!((p.restarts, p.downtime_seconds), (1, 3.0));
}

#[test]
fn a_deploy_is_one_subject_and_no_crash() {
    // compose: the new one is made, the old one stopped and removed, the new one started (trap 15).
    check(
        "9 docker:a described running=false instance=i2 image=a:2
         10 docker:a exited instance=i1 exit_code=0 by_operator=true action=stop
         10.1 docker:a removed instance=i1
         11 docker:a started instance=i2 pid=20
         12 docker:a ready instance=i2 by=listen",
        "restarts 0, operator 1, down 0, operator down 2 of 100, up; deploy 1",
    );
    // By hand: removed first. Between removal and the new start nothing is expected.
    check(
        "10 docker:a exited instance=i1 exit_code=0 by_operator=true action=remove
         11 docker:a removed instance=i1
         21 docker:a described running=false instance=i2 image=a:2
         21.5 docker:a started instance=i2 pid=20
         22 docker:a ready instance=i2",
        "restarts 0, operator 1, down 0, operator down 1 of 89.5, up; deploy 1",
    );
    // The old instance's end is told after the new one's start: it was replaced, nothing was down.
    check(
        "9 docker:a started instance=i2 pid=20\n10 docker:a exited instance=i1 exit_code=0",
        "restarts 0, down 0 of 100, up",
    );
}

#[test]
fn what_is_gone_is_not_down() {
    check("10 docker:a removed instance=i1", "restarts 0, down 0 of 10, gone");
    check(
        "10 docker:a exited instance=i1 exit_code=1\n15 docker:a removed instance=i1",
        "restarts 1, down 5 of 15, gone; crash exit 1",
    );
}

#[test]
fn what_never_ran_is_no_process() {
    let made = "0 host: watch_started source=docker\n1 docker:a described running=false instance=i1";
    assert_eq!(told(made, Query::default()), "nothing");
    let run = format!(
        "{made}\n60 docker:a started instance=i1 pid=5\n61 docker:a ready instance=i1\n100 host: note"
    );
    assert_eq!(told(&run, Query::default()), "restarts 0, down 0 of 40, up");
}

#[test]
fn found_not_running_is_down_and_no_seen_restart() {
    check(
        "40 docker:a described running=false instance=i1
         45 docker:a started instance=i1 pid=9
         46 docker:a ready instance=i1",
        "restarts 0, down 6 of 100, up; unknown 1",
    );
    // The exit is told after all.
    check(
        "40 docker:a described running=false instance=i1
         40.5 docker:a exited instance=i1 exit_code=3
         46 docker:a ready instance=i1",
        "restarts 1, down 6 of 100, up, recovery 6; crash exit 1",
    );
}

#[test]
fn a_restart_that_only_a_counter_proves() {
    check("50 docker:a restarts_missed count=3", "restarts 0, missed 3, down 0 of 100, up");
}
