//! What was observed, and what follows where nobody watched; and one axis of time whatever the wall clock does.

mod scene;
use scene::{at, ledger, told};

use linchpin_analyzer::{Ledger, Objective, Query};

fn live(seconds: f64) -> Query {
    Query { as_of: Some(at(seconds)), ..Query::default() }
}

#[test]
fn a_gap_is_neither_up_nor_down() {
    // Trap 22. Down over the gap: only its observed ends count; and what began in it is no observed restart.
    let scene = "0 host: watch_started source=docker
        0.1 docker:a described running=true instance=i1
        10 docker:a exited instance=i1 exit_code=1
        12 host: watch_stopped source=docker reason=agent_ended
        40 host: watch_started source=docker
        41 docker:a started instance=i1
        43 docker:a ready instance=i1
        50 host: note";
    assert_eq!(told(scene, Query::default()), "restarts 1, down 5 of 22, up; crash exit 1");
    let report = ledger(scene).report(Query::default());
    assert_eq!(report.window.observed_seconds, 22.0);
    assert_eq!(report.window.gaps.len(), 1);
    assert_eq!((report.window.gaps[0].from, report.window.gaps[0].to), (at(12.0), at(40.0)));
    assert_eq!(report.window.gaps[0].reason, "agent ended");
    let later = scene.replace("10 docker:a exited", "20 docker:a exited");
    assert_eq!(told(&later, Query::default()), "restarts 0, down 3 of 22, up");
    let detail = ledger(&later).process(None, "docker:a", Query::default()).unwrap();
    assert_eq!((detail.episodes.len(), detail.episodes[0].counted), (1, false));
}

#[test]
fn a_run_that_was_cut_off_ends_at_its_last_word() {
    let scene = "0 host: watch_started source=docker run=1 seq=1
        1 docker:a described running=true instance=i1 run=1 seq=2
        30 host: memory run=1 seq=3
        60 host: watch_started source=docker run=2 seq=1
        60 docker:a described running=true instance=i1 run=2 seq=2
        70 host: note run=2 seq=3";
    assert_eq!(told(scene, Query::default()), "restarts 0, down 0 of 40, up");
    let gaps = ledger(scene).report(Query::default()).window.gaps;
    assert_eq!((gaps[0].from, gaps[0].to, gaps[0].reason.as_str()), (at(30.0), at(60.0), ""));
    // The new run knows from a sign of life that it had watched longer.
    let sign =
        format!("{scene}\n35 host: watch_stopped source=docker reason=the_agent_was_cut_off run=2 seq=4");
    assert_eq!(told(&sign, Query::default()), "restarts 0, down 0 of 45, up");
    // Doubled by one run: it watched all along.
    let doubled = "0 host: watch_started source=docker run=1\n1 docker:a described running=true
        30 host: watch_started source=docker run=1\n50 host: note";
    assert_eq!(told(doubled, Query::default()), "restarts 0, down 0 of 50, up");
}

#[test]
fn an_open_watch_lasts_until_now_or_the_last_event() {
    let scene = "0 host: watch_started source=docker\n1 docker:a described running=true\n20 docker:a exited exit_code=1";
    assert_eq!(told(scene, live(50.0)), "restarts 1, down 30 of 50, down; crash exit 1");
    // A recording that ends with the exit: it counts, and was down for no time yet.
    assert_eq!(told(scene, Query::default()), "restarts 1, down 0 of 20, down; crash exit 1");
    let stopped = format!("{scene}\n30 host: watch_stopped source=docker reason=end");
    assert_eq!(told(&stopped, live(50.0)), "restarts 1, down 10 of 30, unknown; crash exit 1");
}

#[test]
fn only_the_source_that_sees_restarts_counts() {
    let scene = "0 host: watch_started source=cgroup\n1 docker:a described running=true\n50 host: note";
    assert_eq!(told(scene, Query::default()), "restarts 0, down 0 of 0, unknown");
    let report = ledger(scene).report(Query::default());
    let p = &report.processes[0];
    assert_eq!((p.ceiling, p.restarts_per_hour, p.budget.burn_rate), (None, None, None));
    assert_eq!(report.sources[0].watched_seconds, 50.0);
    // An unknown kind of subject: a source of that name.
    let other = "0 host: watch_started source=ferry\n1 ferry:a described\n11 ferry:a exited exit_code=1\n\
        12 ferry:a ready\n50 host: note";
    let report = ledger(other).report(Query::default());
    assert_eq!((report.processes[0].restarts, report.processes[0].observed_seconds), (1, 50.0));
    assert_eq!(report.window.observed_seconds, 50.0);
}

#[test]
fn what_the_journal_lost_nobody_watched() {
    let scene = "0 host: watch_started source=docker\n1 docker:a described running=true
        20 host: watch_stopped source=journal reason=damaged
        30 host: watch_started source=journal
        100 host: note";
    assert_eq!(told(scene, Query::default()), "restarts 0, down 0 of 90, up");
    let gaps = ledger(scene).report(Query::default()).window.gaps;
    assert_eq!((gaps.len(), gaps[0].reason.as_str()), (1, "damaged"));
}

#[test]
fn a_subject_is_expected_from_its_first_word() {
    let scene = "0 host: watch_started source=docker\n40 docker:a started instance=i1\n100 host: note";
    assert_eq!(told(scene, Query::default()), "restarts 0, down 0 of 60, up");
    let found = "0 host: watch_started source=docker\n4.9 docker:a started instance=i1\n100 host: note";
    assert_eq!(told(found, Query::default()), "restarts 0, down 0 of 100, up");
}

#[test]
fn a_window_clips() {
    let scene = "0 host: watch_started source=docker\n1 docker:a described running=true
        10 docker:a exited exit_code=1\n20 docker:a ready\n30 docker:a exited exit_code=1\n40 docker:a ready\n100 host: note";
    let q = |from, to| Query { from: Some(at(from)), to: Some(at(to)), ..Query::default() };
    assert_eq!(told(scene, q(15.0, 35.0)), "restarts 1, down 10 of 20, down; crash exit 1");
    assert_eq!(told(scene, q(0.0, 10.0)), "restarts 0, down 0 of 10, down");
    assert_eq!(told(scene, q(10.0, 30.0)), "restarts 1, down 10 of 20, down, recovery 10; crash exit 1");
    // What is asked of the future is not observed.
    assert_eq!(told(scene, q(90.0, 200.0)), "restarts 0, down 0 of 10, unknown");
    // The budget's windows reach back beyond the window asked for.
    let p = ledger(scene).process(None, "docker:a", q(90.0, 100.0)).unwrap().process;
    assert!(p.budget.burn_rate == Some(0.0) && p.budget.burn_windows[0].burn_rate.unwrap() > 190.0);
}

/// The same ten minutes under wall clocks that step.
fn stepped(step: f64) -> Ledger {
    let wall = |t: f64| if t > 150.0 { t + step } else { t };
    let mut scene = String::new();
    let mut line = |t: f64, rest: &str| {
        scene += &format!("{t} {rest} wall={} boot=b@{}\n", wall(t), 5000.0 + t);
    };
    line(0.0, "host: watch_started source=docker run=1");
    line(0.5, "docker:a described running=true instance=i1");
    for i in [0, 1, 3, 4, 5, 6, 7] {
        let t = 60.0 * f64::from(i) + 29.5;
        line(t, "docker:a exited instance=i1 exit_code=1");
        line(t + 0.4, "docker:a started instance=i1");
        line(t + 1.25, "docker:a ready instance=i1 by=listen");
    }
    // Down while the clock steps.
    line(149.0, "docker:a exited instance=i1 exit_code=1");
    line(152.0, "docker:a ready instance=i1 by=listen");
    line(600.0, "host: note run=1");
    ledger(&scene)
}

#[test]
fn a_stepped_wall_clock_changes_no_figure() {
    let figures = |l: &Ledger, q| {
        let p = l.process(None, "docker:a", q).unwrap().process;
        (scene::figures(&p), p.ceiling_ci, p.budget, p.sparkline, p.trend)
    };
    let straight = figures(&stepped(0.0), Query::default());
    assert!(straight.0.starts_with("restarts 8, down 11.75 of 600, up"), "{}", straight.0);
    for step in [3600.0, -3600.0, -10.0 * 365.25 * 86_400.0, 0.3, -0.3] {
        assert_eq!(figures(&stepped(step), Query::default()), straight, "{step}");
        // Live: now is told on both clocks.
        let q = Query {
            as_of: Some(at(660.0 + step)),
            as_of_boot_ns: Some(5_660_000_000_000),
            ..Query::default()
        };
        let p = stepped(step).process(None, "docker:a", q).unwrap();
        assert_eq!((p.process.observed_seconds, p.process.downtime_seconds), (660.0, 11.75), "{step}");
        assert_eq!(p.window.observed_seconds, 660.0);
        // The last five minutes, as the wall clock of now has them.
        let q = Query { from: Some(at(360.0 + step)), ..q };
        let p = stepped(step).process(None, "docker:a", q).unwrap();
        assert_eq!((p.process.observed_seconds, p.process.restarts), (300.0, 2), "{step}");
        // Shown are the event's own times.
        assert_eq!(p.episodes[0].down_at, at(449.5 + step));
    }
}

#[test]
fn a_container_that_only_the_kernels_log_knows_is_never_called_up() {
    let told = |at: &str, subject: &str, rest: &str| {
        format!(r#"{{"at":"2026-08-09T{at}Z","host":"h","subject":"{subject}",{rest}}}"#)
    };
    let kill = r#""kind":"oom_kill","process":"app","pid":7,"scope":"memcg","by":"kernel_log""#;
    let lines = [
        told("05:00:00", "docker:11fe85b17ada", kill),
        told("06:00:00", "host:", r#""kind":"watch_started","source":"docker""#),
        told("06:10:00", "docker:b246c3c95d67", kill),
        told("07:00:00", "host:", r#""kind":"watch_stopped","source":"docker""#),
    ];
    let mut ledger = Ledger::new(Objective::default());
    for line in &lines {
        ledger.fold(&serde_json::from_str(line).unwrap());
    }
    let report = ledger.report(Query::default());
    // The kill before the window is no part of it; the one within is told, and nothing is made up around it.
    let names: Vec<_> = report.processes.iter().map(|p| p.subject.as_str()).collect();
    assert_eq!(names, ["docker:b246c3c95d67"]);
    let p = &report.processes[0];
    assert_eq!((p.oom_kills, p.ceiling, p.state.as_str()), (1, None, "unknown"));
    assert_eq!((p.observed_seconds, p.budget.burn_rate), (0.0, None));
}
