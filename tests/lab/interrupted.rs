//! The watching itself is interrupted: the engine's daemon restarts, the agent is killed. What happened meanwhile is
//! found or shown as unobserved, and nothing is counted twice.

use std::time::Duration;

use linchpin_analyzer::report::ProcessDetail;

use crate::agent::{Agent, down_ms, oldest_first};
use crate::engine::Engine;
use crate::lives::SLACK_MS;
use crate::process::pass;
use crate::truth::{Outage, Prober};

/// Each of the prober's outages is an episode, or lies (begin and end) where nobody watched; and no episode is without an
/// outage.
fn accounted_for(detail: &ProcessDetail, truth: &[Outage], log: &str) {
    let told = format!("truth {truth:#?}\nepisodes {:#?}\ngaps {:#?}\n{log}", detail.episodes, detail.gaps);
    let mut free = oldest_first(detail);
    let unseen =
        |ns: i64| detail.gaps.iter().any(|g| g.from.0 <= ns + 100_000_000 && ns - 100_000_000 <= g.to.0);
    for outage in truth {
        // An engine that restarts tells late what it ended: the begin may be as late as the outage's end.
        let from = outage.down_wall_ns as f64 / 1e6 - 1000.0;
        let to = outage.up_wall_ns as f64 / 1e6;
        match free.iter().position(|e| (from..=to).contains(&down_ms(e))) {
            Some(found) => drop(free.remove(found)),
            None => {
                let shown = unseen(outage.down_wall_ns) || detail.process.restarts_missed > 0;
                assert!(shown, "an outage is neither found nor unobserved: {told}");
            }
        }
    }
    assert!(free.is_empty(), "episodes that never were: {free:#?} {told}");
}

#[test]
fn the_daemon_restarts_and_takes_its_containers_along() {
    let mut engine = Engine::start();
    let agent = Agent::watch(&engine);
    let words = ["server", "--port", "8080"];
    let ip = engine.play_on_bridge("lab-ward", 20, &["--restart", "always"], &words);
    let mut prober = Prober::start(&engine, None, &[("ward", &format!("{ip}:8080"))]);
    prober.wait_up("ward");
    agent.wait_known("lab-ward");
    pass(3000);
    engine.stop_daemon();
    pass(1000);
    engine.start_daemon();
    let truth = prober.wait_outages("ward", 1, Duration::from_secs(60));
    agent.wait_watching("docker");
    agent.wait_known("lab-ward");
    pass(2000);
    let (open, _) = prober.end("ward");
    assert!(open.is_none());
    let detail = agent.detail("lab-ward");
    accounted_for(&detail, &truth, &agent.log());
    assert!(detail.process.restarts + detail.process.operator_restarts <= 1, "once: {:#?}", detail.episodes);
    for e in &detail.episodes {
        assert!(
            !["crash exit", "own memory ceiling"].contains(&e.cause.as_str()),
            "it did not crash: {e:#?}"
        );
    }
    // It goes on: a later death is seen as ever.
    pass(11_000);
    let prober = Prober::start(&engine, None, &[("ward", &format!("{ip}:8080"))]);
    prober.wait_up("ward");
    crate::process::run(&["kill", "-KILL", &engine.pid("lab-ward")]);
    let later = prober.wait_outages("ward", 1, Duration::from_secs(30));
    pass(2000);
    let after = agent.detail("lab-ward");
    assert_eq!(after.episodes.len(), detail.episodes.len() + 1, "{:#?} {}", after.episodes, agent.log());
    let off = after.episodes[0].seconds * 1e3 - later[0].ms();
    assert!(off.abs() <= SLACK_MS, "{off} ms off: {:#?}", after.episodes[0]);
}

#[test]
fn the_daemon_restarts_and_its_containers_live_on() {
    let mut engine = Engine::with(true);
    let agent = Agent::watch(&engine);
    std::fs::write(engine.shared().join("dies"), "0 0 5\n").unwrap();
    let lives =
        engine.play_on_bridge("lab-lives", 20, &["--restart", "always"], &["server", "--port", "8080"]);
    let words = ["server", "--port", "8080", "--plan", "/shared/dies"];
    let dies = engine.play_on_bridge("lab-dies", 21, &["--restart", "always"], &words);
    let targets = [("lives", &*format!("{lives}:8080")), ("dies", &*format!("{dies}:8080"))];
    let mut prober = Prober::start(&engine, None, &targets);
    for (name, _) in targets {
        prober.wait_up(name);
        agent.wait_known(&format!("lab-{name}"));
    }
    pass(3000);
    engine.stop_daemon();
    pass(500);
    // One dies while no daemon is there to see it.
    std::fs::write(engine.shared().join("dies.end"), "").unwrap();
    pass(1000);
    engine.start_daemon();
    let truth = prober.wait_outages("dies", 1, Duration::from_secs(60));
    agent.wait_watching("docker");
    pass(3000);
    let (open, _) = prober.end("lives");
    assert!(open.is_none() && prober.outages("lives").is_empty(), "it lived on: else the scene is broken");
    let detail = agent.detail("lab-lives");
    assert!(
        detail.episodes.is_empty() && detail.process.state == "up",
        "nothing invented: {:#?}",
        detail.episodes
    );
    accounted_for(&agent.detail("lab-dies"), &truth, &agent.log());
}

#[test]
fn the_agent_is_killed_and_goes_on_without_counting_twice() {
    let engine = Engine::start();
    let agent = Agent::watch(&engine);
    std::fs::write(engine.shared().join("plan"), "0 0 3\n0 0 4\n0 0 5\n0 0 6\n").unwrap();
    let words = ["server", "--port", "8080", "--plan", "/shared/plan"];
    let ip = engine.play_on_bridge("lab-seen", 20, &["--restart", "always"], &words);
    let mut prober = Prober::start(&engine, None, &[("seen", &format!("{ip}:8080"))]);
    prober.wait_up("seen");
    agent.wait_known("lab-seen");
    let die = |nth: usize| {
        pass(2500);
        std::fs::write(engine.shared().join("plan.end"), "").unwrap();
        prober.wait_outages("seen", nth, Duration::from_secs(20));
    };
    die(1);
    pass(1500);
    let before = agent.events();
    agent.kill();
    die(2);
    die(3);
    pass(500);
    let agent = Agent::watch(&engine);
    agent.wait_known("lab-seen");
    pass(1500);
    die(4);
    pass(2000);
    prober.end("seen");
    let truth = prober.outages("seen");
    assert_eq!(truth.len(), 4);
    let detail = agent.detail("lab-seen");
    accounted_for(&detail, &truth, &agent.log());
    let p = &detail.process;
    let told = format!("{p:?} {:?} {:?}\n{}", detail.episodes, detail.gaps, agent.told_of("lab-seen"));
    let known = detail.episodes.len() as u64 + p.restarts_missed;
    assert_eq!(known, 4, "all four by the engine's events and counter, and none twice: {told}");
    assert!(p.restarts <= 4 && p.restarts >= 2, "what was watched counts: {told}");
    assert!(detail.gaps.iter().any(|g| g.from < g.to), "the time without an agent is shown: {told}");
    // Nothing that was told before the kill is gone, or told again.
    let after = agent.events();
    let key = |e: &serde_json::Value| (e["run"].as_u64(), e["seq"].as_u64());
    for event in &before {
        let same = after.iter().filter(|e| key(e) == key(event)).count();
        assert_eq!(same, 1, "after the kill this event stands {same} times: {event}");
    }
    let exits: Vec<_> = after
        .iter()
        .filter(|e| e["kind"] == "exited" && e["subject"] == "docker:lab-seen")
        .map(|e| e["exit_code"].as_i64())
        .collect();
    for code in [3, 6] {
        assert_eq!(exits.iter().filter(|c| **c == Some(code)).count(), 1, "{exits:?}");
    }
    agent.end();
}
