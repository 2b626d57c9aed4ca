//! Containers that end by themselves and come back: at once, slowly, in a loop, together; and a listener that leaves its
//! port while its container lives.

use std::time::{Duration, Instant};

use crate::agent::Agent;
use crate::engine::Engine;
use crate::process::{pass, wait_for};
use crate::truth::Prober;

/// How far an episode may lie from the prober's outage in a scene that is about something else. The measured accuracy
/// stands in `two_hundred.rs`.
pub const SLACK_MS: f64 = 40.0;

/// Lives long enough for the engine's back-off to start anew, and for the agent to learn what listens.
const LIFE: &str = "11000";

#[test]
fn a_container_that_exits_is_on_the_page_within_a_second() {
    let engine = Engine::start();
    let agent = Agent::watch(&engine);
    std::fs::write(engine.shared().join("plan"), "0 0 3\n0 0 0\n").unwrap();
    let words = ["server", "--port", "8080", "--plan", "/shared/plan"];
    let ip = engine.play_on_bridge("lab-web", 20, &["--restart", "always"], &words);
    let mut prober = Prober::start(&engine, None, &[("web", &format!("{ip}:8080"))]);
    prober.wait_up("web");
    agent.wait_known("lab-web");
    for round in 1..=2 {
        pass(3000);
        std::fs::write(engine.shared().join("plan.end"), "").unwrap();
        prober.wait_outages("web", round, Duration::from_secs(20));
        let back = Instant::now();
        let shown = wait_for(Duration::from_secs(10), || {
            let detail = agent.detail("lab-web");
            (detail.episodes.iter().filter(|e| !e.open).count() == round).then_some(())
        });
        assert!(shown.is_some(), "the episode is shown; log: {}", agent.log());
        assert!(back.elapsed() < Duration::from_secs(1), "within one second of the end of the outage");
    }
    let truth = prober.outages("web");
    let detail = agent.check_against("lab-web", &truth, SLACK_MS);
    let p = &detail.process;
    assert_eq!((p.restarts, p.operator_restarts, p.outages), (2, 0, 0));
    assert_eq!(p.causes.get("crash exit"), Some(&1), "{:?}", p.causes);
    assert_eq!(p.causes.get("clean exit"), Some(&1), "{:?}", p.causes);
    let codes: Vec<_> = crate::agent::oldest_first(&detail).iter().map(|e| e.exit_code).collect();
    assert_eq!(codes, [Some(3), Some(0)]);
    assert_eq!(p.runtime_restart_count, Some(2));
    let down: f64 = truth.iter().map(|o| o.ms() / 1e3).sum();
    assert!((p.downtime_seconds - down).abs() < 2.0 * SLACK_MS / 1e3, "{} of {down}", p.downtime_seconds);
    assert_eq!(p.state, "up");
    let page = agent.get("/").expect("the dashboard");
    assert!(page.contains("lab-web"), "the dashboard names it");
    prober.end("web");
    agent.end();
}

#[test]
fn a_slow_starter_is_down_until_it_listens() {
    let engine = Engine::start();
    let agent = Agent::watch(&engine);
    let words = ["server", "--port", "8080", "--delay", "1150", "--life", LIFE, "--code", "1"];
    let ip = engine.play_on_bridge("lab-slow", 20, &["--restart", "always"], &words);
    let prober = Prober::start(&engine, None, &[("slow", &format!("{ip}:8080"))]);
    let truth = prober.wait_outages("slow", 2, Duration::from_secs(50));
    assert!(truth.iter().all(|o| o.ms() > 1150.0), "the scene is slow: {truth:?}");
    let detail = agent.check_against("lab-slow", &truth, SLACK_MS);
    assert_eq!((detail.process.restarts, detail.process.causes.get("crash exit")), (2, Some(&2)));
}

#[test]
fn as_fast_as_the_engine_allows_on_the_hosts_network() {
    let engine = Engine::start();
    let agent = Agent::watch(&engine);
    let port = crate::agent::free_port().to_string();
    let words = ["server", "--port", &port, "--life", LIFE, "--code", "0"];
    engine.play("lab-fast", &["--restart", "always", "--network", "host"], &words);
    let prober = Prober::start(&engine, None, &[("fast", &format!("127.0.0.1:{port}"))]);
    let truth = prober.wait_outages("fast", 2, Duration::from_secs(40));
    let detail = agent.check_against("lab-fast", &truth, SLACK_MS);
    assert_eq!((detail.process.restarts, detail.process.causes.get("clean exit")), (2, Some(&2)));
}

#[test]
fn a_crash_loop_shows_every_turn() {
    let engine = Engine::start();
    let agent = Agent::watch(&engine);
    let words = ["server", "--port", "8080", "--life", "300", "--code", "1"];
    let pause = engine.pid("lab-pause");
    let prober = Prober::start(&engine, Some(&pause), &[("loop", "127.0.0.1:8080")]);
    engine.play("lab-loop", &["--restart", "on-failure:6", "--network", "container:lab-pause"], &words);
    // Six restarts: the seventh life is the last, and nothing comes after it.
    prober.wait_outages("loop", 6, Duration::from_secs(60));
    wait_for(Duration::from_secs(10), || {
        (engine.inspect("lab-loop", "{{.State.Status}}") == "exited").then_some(())
    });
    pass(1500);
    let mut prober = prober;
    let (open, _) = prober.end("loop");
    assert!(open.is_some(), "the loop ended down: the scene is broken");
    let truth = prober.outages("loop");
    assert_eq!(truth.len(), 6);
    let detail = agent.detail("lab-loop");
    let told = format!("{:#?}\n{truth:#?}\n{}", detail.episodes, agent.log());
    assert_eq!(detail.process.restarts, 7, "the last death counts though it is still open: {told}");
    let all = crate::agent::oldest_first(&detail);
    for (mine, true_one) in all.iter().zip(&truth) {
        assert!((mine.seconds * 1e3 - true_one.ms()).abs() <= SLACK_MS, "{told}");
        assert_eq!((mine.cause.as_str(), mine.exit_code), ("crash exit", Some(1)), "{told}");
    }
    assert!(all.last().is_some_and(|e| e.open), "{told}");
    assert_eq!(detail.process.state, "down");
}

#[test]
fn a_listener_that_leaves_its_port_is_an_outage_and_no_restart() {
    let engine = Engine::start();
    let agent = Agent::watch(&engine);
    let words = ["supervise", "--port", "8080", "--life", "4000", "--gap", "40", "--times", "4"];
    let ip = engine.play_on_bridge("lab-super", 20, &["--restart", "always"], &words);
    let prober = Prober::start(&engine, None, &[("super", &format!("{ip}:8080"))]);
    let truth = prober.wait_outages("super", 4, Duration::from_secs(40));
    assert!(truth.iter().all(|o| (25.0..100.0).contains(&o.ms())), "the scene's gaps are short: {truth:?}");
    let detail = agent.check_against("lab-super", &truth, 20.0);
    let p = &detail.process;
    assert_eq!((p.restarts, p.operator_restarts, p.outages), (0, 0, 4));
    assert!(
        detail.episodes.iter().all(|e| e.sort == "outage" && e.cause == "port closed"),
        "{:?}",
        detail.episodes
    );
    assert!(p.downtime_seconds > 0.15 && p.ceiling.is_some_and(|c| c < 1.0), "an outage costs availability");
}

#[test]
fn two_containers_that_die_together_are_two_episodes() {
    let engine = Engine::start();
    let agent = Agent::watch(&engine);
    for (name, port, delay) in [("lab-a", "8081", "0"), ("lab-b", "8082", "600")] {
        std::fs::write(engine.shared().join(name), format!("{delay} 0 7\n{delay} 0 7\n")).unwrap();
        let plan = format!("/shared/{name}");
        let words = ["server", "--port", port, "--plan", &plan];
        engine.play(name, &["--restart", "always", "--network", "container:lab-pause"], &words);
    }
    let pause = engine.pid("lab-pause");
    let targets = [("lab-a", "127.0.0.1:8081"), ("lab-b", "127.0.0.1:8082")];
    let prober = Prober::start(&engine, Some(&pause), &targets);
    for (name, _) in targets {
        prober.wait_up(name);
        agent.wait_known(name);
    }
    pass(3000);
    for (name, _) in targets {
        std::fs::write(engine.shared().join(format!("{name}.end")), "").unwrap();
    }
    for (name, _) in targets {
        let truth = prober.wait_outages(name, 1, Duration::from_secs(20));
        let detail = agent.check_against(name, &truth, SLACK_MS);
        assert_eq!((detail.process.restarts, detail.process.outages), (1, 0), "{name}");
    }
    assert!(agent.detail("lab-pause").episodes.is_empty(), "who holds the namespace was never down");
}
