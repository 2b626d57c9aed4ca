//! Kernel OOM kills: of the container's own process, and of its child while it lives.

use std::time::Duration;

use crate::agent::Agent;
use crate::engine::Engine;
use crate::process::{pass, wait_for};
use crate::truth::Prober;

const LIMIT: u64 = 64 << 20;
/// A process is killed before its port closes: the kernel first takes its memory apart.
const DYING_MS: f64 = 250.0;
const OPTIONS: [&str; 4] = ["--memory", "64m", "--memory-swap", "64m"];

#[test]
fn killed_at_its_limit_is_one_death_with_its_evidence() {
    let engine = Engine::start();
    let agent = Agent::watch(&engine);
    std::fs::write(engine.shared().join("plan"), "0 0 0\n").unwrap();
    let words = ["server", "--port", "8080", "--end", "eat", "--plan", "/shared/plan"];
    let options = [&OPTIONS[..], &["--restart", "always"]].concat();
    let ip = engine.play_on_bridge("lab-eater", 20, &options, &words);
    let prober = Prober::start(&engine, None, &[("eater", &format!("{ip}:8080"))]);
    prober.wait_up("eater");
    agent.wait_known("lab-eater");
    pass(3000);
    std::fs::write(engine.shared().join("plan.end"), "").unwrap();
    let truth = prober.wait_outages("eater", 1, Duration::from_secs(30));
    let detail = agent.check_against("lab-eater", &truth, DYING_MS);
    let (p, e) = (&detail.process, &detail.episodes[0]);
    let told = format!("{p:#?} {e:#?} {:#?}", detail.other_deaths);
    assert_eq!((p.restarts, p.oom_kills), (1, 1), "one death, told once: {told}");
    assert_eq!(e.cause, "own memory ceiling", "{told}");
    assert!(detail.other_deaths.is_empty(), "the kill and the exit are one death: {told}");
    assert!(!e.by_operator);
    let sources: Vec<_> = e.evidence.iter().map(|x| x.source.as_str()).collect();
    for source in ["kernel log", "cgroup counter"] {
        assert!(sources.contains(&source), "{source} is quoted: {told}");
    }
    let limit = e.evidence.iter().any(|x| x.text.contains("64") && x.text.to_lowercase().contains("limit"));
    assert!(limit, "the limit of {LIMIT} bytes is quoted: {told}");
}

#[test]
fn a_childs_kill_ends_no_episode() {
    let engine = Engine::start();
    let agent = Agent::watch(&engine);
    let words = ["server", "--port", "8080", "--child-eats", "6000"];
    let ip = engine.play_on_bridge("lab-parent", 20, &OPTIONS, &words);
    let mut prober = Prober::start(&engine, None, &[("parent", &format!("{ip}:8080"))]);
    prober.wait_up("parent");
    agent.wait_known("lab-parent");
    let killed = wait_for(Duration::from_secs(20), || {
        (agent.detail("lab-parent").process.oom_kills > 0).then_some(())
    });
    assert!(killed.is_some(), "the kill is seen; log: {}", agent.log());
    pass(2000);
    let (open, _) = prober.end("parent");
    assert!(open.is_none() && prober.outages("parent").is_empty(), "the parent accepted all the time");
    let detail = agent.detail("lab-parent");
    let told = format!("{:#?} {:#?} {:#?}", detail.process, detail.episodes, detail.other_deaths);
    assert_eq!((detail.process.restarts, detail.process.oom_kills), (0, 1), "{told}");
    assert!(detail.episodes.is_empty(), "nothing was down: {told}");
    assert_eq!(detail.other_deaths.len(), 1, "the child's death is told, apart and once: {told}");
    assert_eq!(detail.process.state, "up");
}
