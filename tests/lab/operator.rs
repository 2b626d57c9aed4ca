//! What a person asks for is no crash: stopped, killed, restarted and re-created containers.

use std::time::Duration;

use crate::agent::{Agent, oldest_first};
use crate::engine::Engine;
use crate::lives::SLACK_MS;
use crate::process::pass;
use crate::truth::Prober;

#[test]
fn stopped_killed_restarted_and_recreated_by_its_operator() {
    let engine = Engine::start();
    let agent = Agent::watch(&engine);
    let words = ["server", "--port", "8080"];
    let options = ["--network", "container:lab-pause"];
    let pause = engine.pid("lab-pause");
    let prober = Prober::start(&engine, Some(&pause), &[("op", "127.0.0.1:8080")]);
    engine.play("lab-op", &options, &words);
    prober.wait_up("op");
    agent.wait_known("lab-op");
    let acts: [&[&[&str]]; 4] = [
        &[&["stop", "lab-op"], &["start", "lab-op"]],
        &[&["kill", "lab-op"], &["start", "lab-op"]],
        &[&["restart", "lab-op"]],
        &[&["rm", "-f", "lab-op"]],
    ];
    for (i, act) in acts.iter().enumerate() {
        pass(2500);
        for words in *act {
            engine.docker(words);
            pass(300);
        }
        if i == 3 {
            engine.play("lab-op", &options, &words);
        }
        prober.wait_outages("op", i + 1, Duration::from_secs(20));
    }
    let truth = prober.outages("op");
    let detail = agent.check_against("lab-op", &truth, SLACK_MS);
    let p = &detail.process;
    let told = format!("{:?} {:#?}", p.causes, detail.episodes);
    assert_eq!((p.restarts, p.operator_restarts, p.outages), (0, 4, 0), "{told}");
    assert!(detail.episodes.iter().all(|e| e.by_operator && e.sort == "restart"), "{told}");
    assert!(!p.causes.contains_key("crash exit") && !p.causes.contains_key("signal"), "{told}");
    let causes: Vec<_> = oldest_first(&detail).iter().map(|e| e.cause.clone()).collect();
    assert_eq!(&causes[..3], ["operator", "operator", "operator"], "{told}");
    assert!(
        ["deploy", "operator"].contains(&causes[3].as_str()),
        "a re-creation is one subject's deploy: {told}"
    );
    assert_eq!(p.budget.burn_rate, Some(0.0), "what was asked for burns nothing by default");
    let alike = agent.report().processes.iter().filter(|p| p.subject.contains("lab-op")).count();
    assert_eq!(alike, 1, "one subject over its re-creation");
}

#[test]
fn a_signal_from_outside_the_engine_is_a_death_that_nobody_asked_it_for() {
    let engine = Engine::start();
    let agent = Agent::watch(&engine);
    let words = ["server", "--port", "8080"];
    let ip = engine.play_on_bridge("lab-shot", 20, &["--restart", "always"], &words);
    let prober = Prober::start(&engine, None, &[("shot", &format!("{ip}:8080"))]);
    prober.wait_up("shot");
    agent.wait_known("lab-shot");
    pass(11_000);
    crate::process::run(&["kill", "-KILL", &engine.pid("lab-shot")]);
    let truth = prober.wait_outages("shot", 1, Duration::from_secs(20));
    let detail = agent.check_against("lab-shot", &truth, SLACK_MS);
    let p = &detail.process;
    assert_eq!((p.restarts, p.operator_restarts, p.oom_kills), (1, 0, 0));
    assert_eq!(
        p.causes.get("signal"),
        Some(&1),
        "137 is any SIGKILL, and no OOM kill was seen: {:?}",
        p.causes
    );
}
