//! Histories in, facts out: the recording of a real engine (Docker 20.10) and sequences made after it.

use super::super::decode::Action::{self, *};
use super::stage::{Stage, event, recorded, stamp, t};
use crate::resume::Resume;
use crate::witness::Exit;

fn play(history: &[(i64, &str, Action)]) -> Vec<String> {
    let mut stage = Stage::new(&Resume::default(), t(0));
    for (ms, id, action) in history {
        stage.play(&event(*ms, id, action.clone()));
    }
    stage.pass(t(10_000_000));
    stage.words()
}

#[test]
fn a_recorded_day_of_docker_20_10() {
    let events = recorded(include_str!("../../../../tests/fixtures/docker/events-20.10.jsonl"));
    let mut stage = Stage::new(&Resume::default(), events[0].at.plus_ns(-1));
    for e in &events {
        stage.play(e);
    }
    stage.pass(stage.now.plus_ns(10_000_000_000));
    assert_eq!(
        stage.words(),
        [
            "demo-a started 0",
            // Stopped, removed and made anew within half a second.
            "demo-a exited 3 recreate",
            "demo-a started 0",
            "demo-a exited 137 stop",
            "demo-a started 0",
            "demo-a exited 137 kill",
            "demo-a started 0",
            "demo-a exited 137 restart",
            "demo-a started 0",
            "demo-a exited 137 recreate",
            // A crash loop; the `stop` at its end came while nothing ran.
            "demo-a started 0",
            "demo-a exited 3 unasked",
            "demo-a started 0",
            "demo-a exited 3 unasked",
            "demo-a started 0",
            "demo-a exited 3 unasked",
            "demo-a started 0",
            "demo-a exited 137 unasked oom",
            "demo-a started 0",
            "demo-a exited 137 unasked oom",
            "demo-a started 0",
            "demo-a exited 137 unasked oom",
            // SIGHUP was sent through the runtime, and two seconds later it ended by itself.
            "demo-a started 0",
            "demo-a exited 4 unasked",
            "demo-a removed",
            // Re-created as Compose does it: the subject stays.
            "dsp/web/1 started 0",
            "demo-a-b removed",
            "dsp/web/1 exited 137 recreate",
            "dsp/web/1 started 0",
            "dsp/web/1 unready by pause",
            "dsp/web/1 ready by pause",
            // SIGKILL from the host, not through the runtime.
            "dsp/web/1 exited 137 unasked",
            "demo-a started 0",
            "demo-a unready by health",
            "dsp/web/1 removed",
            "demo-a ready by health",
            "demo-a unready by health",
            "demo-a exited 0 unasked",
            "demo-a started 0",
            "demo-a exited 7 unasked",
            "demo-a started 0",
            "demo-a exited 137 remove",
            "demo-a removed",
        ]
    );
}

#[test]
fn a_signal_that_it_survives_marks_no_later_crash() {
    for (signal, later) in [(1, 60_000), (10, 3_000), (28, 60_000), (15, 600_000), (9, 600_000)] {
        let told = play(&[
            (0, "a", Create),
            (1, "a", Start),
            (1000, "a", Kill(Some(signal))),
            (1000 + later, "a", Die(Some(1))),
        ]);
        assert_eq!(told, ["a started 0", "a exited 1 unasked"], "signal {signal}");
    }
}

#[test]
fn a_reload_signal_that_ends_it_at_once_was_asked_for() {
    let told = play(&[(0, "a", Start), (1000, "a", Kill(Some(1))), (1050, "a", Die(Some(129)))]);
    assert_eq!(told, ["a started 0", "a exited 129 kill"]);
}

#[test]
fn a_stop_with_a_long_timeout_is_known_by_the_stop_that_follows() {
    let told = play(&[
        (0, "a", Start),
        (1000, "a", Kill(Some(15))),
        (200_000, "a", Die(Some(0))),
        (200_050, "a", Stop),
    ]);
    assert_eq!(told, ["a started 0", "a exited 0 stop"]);
}

#[test]
fn what_was_asked_of_one_life_is_not_asked_of_the_next() {
    let told = play(&[
        (0, "a", Start),
        (1000, "a", Kill(Some(15))),
        (1100, "a", Die(Some(0))),
        (1150, "a", Stop),
        (1400, "a", Start),
        (1400, "a", Restart),
        (1900, "a", Die(Some(1))),
    ]);
    assert_eq!(told, ["a started 0", "a exited 0 restart", "a started 0", "a exited 1 unasked"]);
}

#[test]
fn podman_puts_stop_first() {
    let told = play(&[(0, "a", Start), (1000, "a", Stop), (1100, "a", Die(Some(0))), (1200, "a", Destroy)]);
    assert_eq!(told, ["a started 0", "a exited 0 remove", "a removed"]);
}

#[test]
fn several_words_for_one_death_are_one_exit() {
    let told = play(&[
        (0, "a", Start),
        (900, "a", Oom),
        (950, "a", Oom),
        (1000, "a", Die(Some(137))),
        (1001, "a", Die(Some(137))),
        (1300, "a", Die(None)),
        (1500, "a", Start),
        (1500, "a", Start),
    ]);
    assert_eq!(told, ["a started 0", "a exited 137 unasked oom", "a started 0"]);
}

#[test]
fn an_oom_event_of_one_life_is_not_the_next_ones() {
    let told = play(&[
        (0, "a", Start),
        (10, "a", Oom),
        (1000, "a", Die(Some(137))),
        (1500, "a", Start),
        (2000, "a", Die(Some(1))),
    ]);
    assert_eq!(told[3], "a exited 1 unasked");
}

#[test]
fn what_the_runtime_does_while_it_answers_nobody_nobody_asked_for() {
    let mut stage = Stage::new(&Resume::default(), t(0));
    for (ms, action) in [(0, Start), (1000, Kill(Some(15)))] {
        stage.play(&event(ms, "a", action));
    }
    stage.tracker.unserved(t(900), linchpin_data::Timestamp::MAX);
    stage.play(&event(1100, "a", Die(Some(0))));
    stage.play(&event(1110, "a", Stop));
    stage.pass(t(5000));
    assert_eq!(stage.words(), ["a started 0", "a exited 0 runtime"]);
    // It answers again: what follows is a client's request.
    stage.tracker.served(t(6000));
    for (ms, action) in [(7000, Start), (8000, Kill(Some(9))), (8050, Die(Some(137)))] {
        stage.play(&event(ms, "a", action));
    }
    stage.pass(t(20_000));
    assert_eq!(stage.words(), ["a started 0", "a exited 137 kill"]);
}

#[test]
fn the_kernels_word_gives_the_moment_and_the_signal() {
    let mut stage = Stage::new(&Resume::default(), t(0));
    stage.play(&event(0, "a", Start));
    let kernel = t(960);
    stage.exits.record(Exit { pid: 1001, boot_ns: stamp(kernel).boot_ns, code: Some(137), signal: None });
    stage.play(&event(1000, "a", Die(Some(137))));
    stage.pass(t(2000));
    let told = stage.told.iter().find(|t| t.fact.kind() == "exited").unwrap();
    let linchpin_data::Fact::Exited(f) = &told.fact else { panic!() };
    assert_eq!((told.stamp, f.resolution_ms, f.runtime_at), (stamp(kernel), Some(1.0), Some(t(1000))));
    // It exited with 137 of its own accord: no signal, whatever the number looks like.
    assert_eq!(f.signal, None);
}

#[test]
fn without_the_kernels_word_the_moment_is_finished_at_and_without_that_the_events() {
    for (answers, at, resolution) in [(true, 970, 40.0), (false, 1000, 100.0)] {
        let mut stage = Stage::new(&Resume::default(), t(0));
        stage.play(&event(0, "a", Start));
        stage.answer();
        stage.answers = answers;
        stage.play(&event(1000, "a", Die(Some(1))));
        stage.pass(t(2000));
        let told = stage.told.iter().find(|t| t.fact.kind() == "exited").unwrap();
        let linchpin_data::Fact::Exited(f) = &told.fact else { panic!() };
        assert_eq!((told.stamp, f.resolution_ms), (stamp(t(at)), Some(resolution)));
    }
}

#[test]
fn a_recycled_pid_is_another_process() {
    let mut stage = Stage::new(&Resume::default(), t(0));
    stage.exits.record(Exit { pid: 1001, boot_ns: stamp(t(1000)).boot_ns, code: Some(0), signal: None });
    stage.play(&event(60_000, "a", Start));
    stage.play(&event(70_000, "a", Die(Some(1))));
    stage.pass(t(80_000));
    let told = stage.told.iter().find(|t| t.fact.kind() == "exited").unwrap();
    // The runtime's FinishedAt, which is nearer than its event.
    assert_eq!(told.stamp, stamp(t(69_970)));
}

#[test]
fn an_exit_before_its_own_start_is_put_after_it() {
    let mut stage = Stage::new(&Resume::default(), t(0));
    stage.play(&event(1000, "a", Start));
    stage.answer();
    let began = stage.told.iter().find(|t| t.fact.kind() == "started").unwrap().stamp;
    stage.exits.record(Exit { pid: 1001, boot_ns: stamp(t(990)).boot_ns, code: Some(1), signal: None });
    stage.play(&event(1004, "a", Die(Some(1))));
    let ended = stage.told.iter().find(|t| t.fact.kind() == "exited").unwrap().stamp;
    assert!(ended.at > began.at && ended.boot_ns > began.boot_ns);
}

#[test]
fn a_container_that_is_gone_before_it_can_be_inspected_is_told_all_the_same() {
    let mut stage = Stage::new(&Resume::default(), t(0));
    stage.answers = false;
    for (ms, action) in [(0, Create), (10, Start), (20, Die(Some(7))), (30, Destroy)] {
        stage.play(&event(ms, "a", action));
    }
    stage.pass(t(10_000));
    assert_eq!(stage.words(), ["a started ?", "a exited 7 unasked", "a removed"]);
}

#[test]
fn a_compose_recreation_keeps_its_subject() {
    let mut stage = Stage::new(&Resume::default(), t(0));
    let labels = [("project", "shop"), ("service", "web"), ("container-number", "1")];
    let mut play = |ms, id: &str, action| {
        let mut e = event(ms, id, action);
        e.attributes =
            labels.iter().map(|(k, v)| (format!("com.docker.compose.{k}"), v.to_string())).collect();
        stage.play(&e);
    };
    for (ms, id, action) in [
        (0, "old", Start),
        (1000, "new", Create),
        (1010, "old", Kill(Some(15))),
        (1100, "old", Die(Some(0))),
        (1150, "old", Stop),
        (1200, "old", Destroy),
        (1250, "new", Rename),
        (1500, "new", Start),
    ] {
        play(ms, id, action);
    }
    stage.pass(t(60_000));
    // The new one is described when it speaks for the subject, not while the old one runs.
    let described: Vec<_> =
        stage.told.iter().filter(|t| t.fact.kind() == "described").map(|t| t.stamp.at).collect();
    assert!(described.iter().all(|at| *at <= t(10) || *at > t(1100)), "{described:?}");
    assert_eq!(
        stage.words(),
        ["shop/web/1 started 0", "shop/web/1 exited 0 recreate", "shop/web/1 started 0"]
    );
}

#[test]
fn a_changed_limit_is_described_and_an_unchanged_one_is_not() {
    let mut stage = Stage::new(&Resume::default(), t(0));
    for (ms, action) in [(0, Start), (100, Update), (200, Kill(Some(1))), (300, Die(Some(1))), (400, Start)] {
        stage.play(&event(ms, "a", action));
    }
    stage.answer();
    assert_eq!(stage.told.iter().filter(|t| t.fact.kind() == "described").count(), 2);
}

proptest::proptest! {
    #[test]
    fn no_history_breaks_it(history in proptest::collection::vec((0i64..20_000, 0usize..3, 0usize..14), 0..80)) {
        let mut stage = Stage::new(&Resume::default(), t(0));
        let actions = [Create, Start, Restart, Die(None), Die(Some(137)), Oom, Kill(Some(15)), Kill(None), Stop, Destroy,
            Rename, Update, Health(true), Pause];
        let mut exits = 0;
        for (i, (ms, id, action)) in history.iter().enumerate() {
            if i % 17 == 16 {
                stage.conclude();
            }
            exits += usize::from(matches!(actions[*action], Die(_)));
            stage.play(&event(*ms, ["a", "b", "c"][*id], actions[*action].clone()));
        }
        stage.pass(t(1_000_000));
        // Whatever comes, no more exits are told than deaths were heard of or found by inspect.
        let told = stage.words();
        let heard = told.iter().filter(|w| w.contains(" exited ") && !w.contains("found")).count();
        proptest::prop_assert!(heard <= exits, "{told:?}");
    }
}
