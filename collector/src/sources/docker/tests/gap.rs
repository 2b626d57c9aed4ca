//! What inspect proves after time in which nobody watched; nothing is told twice.

use std::sync::Arc;

use linchpin_data::{Event, Fact};

use super::super::decode::Action::*;
use super::stage::{Life, Stage, event, t};
use crate::resume::Resume;

/// A container that ran from `started` on.
fn running(name: &str, pid: u32, started: i64, count: u64) -> Life {
    Life { name: name.into(), pid, started: Some(t(started)), count, ..Life::default() }
}

/// The journal's knowledge after all that `stage` told.
fn journal(stage: &Stage) -> Resume {
    let mut resume = Resume::default();
    for told in &stage.told {
        resume.fold(&Event::new(told.stamp.at, "h", &told.subject, told.fact.clone()));
    }
    resume
}

/// A stage that has watched `a` run since 1 s, and its journal.
fn watched() -> (Stage, Resume) {
    let mut stage = Stage::new(&Resume::default(), t(0));
    stage.play(&event(1000, "a", Start));
    stage.pass(t(5000));
    let resume = journal(&stage);
    stage.words();
    (stage, resume)
}

/// Both ways over a gap: the same tracker after a lost connection, and a new one after a new start of the agent.
fn over_a_gap(change: impl Fn(&mut Life), expected: &[&str]) {
    let (mut stage, resume) = watched();
    stage.now = t(100_000);
    change(stage.engine.get_mut("a").unwrap());
    let mut fresh = Stage::new(&resume, t(100_000));
    fresh.engine = stage.engine.clone();
    for (way, mut stage) in [("lost connection", stage), ("new start", fresh)] {
        stage.conclude();
        assert_eq!(stage.words(), expected, "{way}");
        stage.conclude();
        assert_eq!(stage.words(), Vec::<String>::new(), "{way}, looked at again");
    }
}

#[test]
fn nothing_happened() {
    over_a_gap(|_| (), &[]);
}

#[test]
fn it_restarted_as_often_as_its_counter_rose() {
    over_a_gap(|l| *l = Life { finished: Some(t(59_000)), ..running("a", 77, 60_000, 4) }, &["a missed 4"]);
}

#[test]
fn an_operator_started_it_anew_and_the_counter_fell() {
    over_a_gap(|l| *l = Life { finished: Some(t(59_000)), ..running("a", 77, 60_000, 0) }, &["a missed 1"]);
}

#[test]
fn it_ended() {
    over_a_gap(|l| (l.pid, l.finished, l.code) = (0, Some(t(50_000)), 255), &["a exited 255 found"]);
}

#[test]
fn it_waits_for_its_next_restart() {
    over_a_gap(
        |l| (l.pid, l.finished, l.code, l.count, l.restarting) = (0, Some(t(50_000)), 1, 1, true),
        &["a exited 1 found"],
    );
    // Twice before, and the third time now.
    over_a_gap(
        |l| {
            (l.pid, l.started, l.finished, l.code) = (0, Some(t(49_000)), Some(t(50_000)), 1);
            (l.count, l.restarting) = (3, true);
        },
        &["a missed 2", "a exited 1 found"],
    );
}

#[test]
fn the_clock_was_set_back() {
    // It restarted, and StartedAt lies before what was known: after a lost connection StartedAt itself tells them apart.
    let (mut stage, _) = watched();
    stage.now = t(100_000);
    *stage.engine.get_mut("a").unwrap() = running("a", 77, -500_000, 1);
    stage.conclude();
    assert_eq!(stage.words(), ["a missed 1"]);
}

#[test]
fn a_start_that_was_not_told() {
    let (mut stage, _) = watched();
    stage.play(&event(6000, "a", Die(Some(1))));
    stage.pass(t(7000));
    let told = stage.words();
    assert_eq!(told, ["a exited 1 unasked"]);
    *stage.engine.get_mut("a").unwrap() = Life { finished: Some(t(6000)), ..running("a", 77, 8000, 1) };
    stage.now = t(9000);
    stage.conclude();
    assert_eq!(stage.words(), ["a started 1"]);
}

#[test]
fn what_the_replay_tells_is_not_told_by_inspect_too() {
    let (mut stage, resume) = watched();
    // Two restarts while the agent was away; the engine replays the events of the second alone.
    *stage.engine.get_mut("a").unwrap() = running("a", 70, 20_000, 1);
    let mut fresh = Stage::new(&resume, t(100_000));
    fresh.engine = stage.engine.clone();
    fresh.play(&event(30_000, "a", Die(Some(1))));
    fresh.engine.get_mut("a").unwrap().count = 2;
    fresh.play(&event(30_500, "a", Start));
    fresh.conclude();
    assert_eq!(fresh.words(), ["a exited 1 unasked", "a missed 1", "a started 2"]);
}

#[test]
fn a_replay_of_what_the_journal_has_tells_nothing() {
    let mut stage = Stage::new(&Resume::default(), t(0));
    let history: Vec<_> = [
        (1000, "a", Start),
        (2000, "a", Die(Some(1))),
        (2500, "a", Start),
        (3000, "gone", Start),
        (3100, "gone", Die(Some(0))),
        (3200, "gone", Destroy),
        (9000, "a", Die(Some(1))),
    ]
    .into_iter()
    .map(|(ms, id, action)| event(ms, id, action))
    .collect();
    history.iter().for_each(|e| stage.play(e));
    stage.pass(t(20_000));
    let mut fresh = Stage::new(&journal(&stage), t(30_000));
    fresh.answers = false;
    history.iter().for_each(|e| fresh.play(e));
    fresh.pass(t(60_000));
    assert_eq!(fresh.words(), Vec::<String>::new());
}

#[test]
fn an_exit_that_was_held_back_when_the_agent_died_is_replayed() {
    let mut stage = Stage::new(&Resume::default(), t(0));
    stage.play(&event(1000, "a", Start));
    stage.play(&event(1000, "b", Start));
    stage.play(&event(5000, "a", Kill(Some(15))));
    stage.play(&event(5100, "a", Die(Some(0))));
    stage.play(&event(5200, "b", Die(Some(1))));
    stage.answer();
    // Killed here: the exit of `a` is not told, and one that is newer is.
    let resume = journal(&stage);
    let mut fresh = Stage::new(&resume, t(30_000));
    for e in [
        event(5000, "a", Kill(Some(15))),
        event(5100, "a", Die(Some(0))),
        event(5150, "a", Stop),
        event(5200, "b", Die(Some(1))),
    ] {
        fresh.play(&e);
    }
    fresh.pass(t(60_000));
    assert_eq!(fresh.words(), ["a exited 0 stop"]);
}

#[test]
fn recreated_while_nobody_watched() {
    let (_, resume) = watched();
    let mut fresh = Stage::new(&resume, t(100_000));
    fresh.engine.insert("new".into(), running("a", 77, 60_000, 0));
    fresh.conclude();
    assert_eq!(fresh.words(), ["a missed 1"]);
}

#[test]
fn removed_while_nobody_watched() {
    let (_, resume) = watched();
    let mut fresh = Stage::new(&resume, t(100_000));
    fresh.conclude();
    assert_eq!(fresh.words(), ["a removed"]);
    fresh.conclude();
    assert_eq!(fresh.words(), Vec::<String>::new());
}

#[test]
fn a_container_that_was_stopped_long_ago_is_no_news() {
    let mut stage = Stage::new(&Resume::default(), t(500_000));
    let stopped = Life {
        name: "a".into(),
        started: Some(t(1000)),
        finished: Some(t(2000)),
        code: 1,
        ..Life::default()
    };
    stage.engine.insert("a".into(), stopped);
    stage.conclude();
    assert!(stage.told.iter().all(|t| matches!(t.fact, Fact::Described(_))));
    let mut fresh = Stage::new(&journal(&stage), t(600_000));
    fresh.engine = stage.engine.clone();
    fresh.conclude();
    assert_eq!(fresh.words(), Vec::<String>::new());
}

#[test]
fn an_event_after_the_question_knows_more_than_the_answer() {
    let (mut stage, _) = watched();
    let asked = super::stage::stamp(t(6000));
    let listed = [Arc::<str>::from("a")].into();
    let answer = stage.engine["a"].facts("a");
    stage.play(&event(6010, "a", Die(Some(1))));
    stage.tracker.conclude(&listed, &[("a".into(), (answer, asked))].into(), asked, &stage.exits);
    stage.pass(t(9000));
    assert_eq!(stage.words(), ["a exited 1 unasked"]);
    stage.play(&event(9100, "a", Start));
    stage.answer();
    assert_eq!(stage.words(), ["a started 0"]);
}

#[test]
fn a_replay_that_comes_all_at_once_loses_no_death() {
    let (stage, resume) = watched();
    let mut fresh = Stage::new(&resume, t(100_000));
    fresh.engine = stage.engine.clone();
    // Told in one breath, long after: no question is answered in between.
    for (ms, action) in [
        (10_000, Die(Some(4))),
        (10_400, Start),
        (20_000, Die(Some(5))),
        (20_400, Start),
        (30_000, Die(Some(6))),
    ] {
        fresh.play(&event(ms, "a", action));
    }
    fresh.pass(t(110_000));
    let told: Vec<_> = fresh.words();
    assert_eq!(
        told,
        ["a exited 4 unasked", "a started ?", "a exited 5 unasked", "a started ?", "a exited 6 unasked"]
    );
}

#[test]
fn a_container_that_never_ran_is_described_as_of_its_making() {
    let mut stage = Stage::new(&Resume::default(), t(0));
    stage.play(&event(1000, "a", Create));
    stage.answer();
    let told = stage.told.iter().find(|t| t.fact.kind() == "described").unwrap();
    let Fact::Described(f) = &told.fact else { panic!() };
    assert_eq!(f.running, Some(false));
    assert_eq!(told.stamp.at, t(995), "not at the answer's time, after which its start may be told");
}
