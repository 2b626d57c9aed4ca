//! Two hundred restarts: ten containers (four in one network namespace, three on the host's network, three on the bridge),
//! twenty restarts each by the engine's own policy, down between the engine's shortest and 2 s, several at once. The agent
//! must know exactly these, and each recovery to 10 ms or as finely as it says. Prints the errors' quantiles, beside what Docker's own
//! `die` and `start` events would have said, as the table of BENCHMARKS.md.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use crate::agent::{Agent, down_ms, free_port, oldest_first};
use crate::engine::Engine;
use crate::process::{Running, pass};
use crate::truth::{Outage, Prober};

const ROUNDS: usize = 20;
/// Containers that die together.
const GROUPS: [&[usize]; 5] = [&[0, 4, 7], &[1, 5, 8], &[2, 3], &[6], &[9]];
/// The engine's back-off starts anew after a run of ten seconds, which it counts from when it has noted the start.
const RUN_MS: u64 = 10_600;

/// Milliseconds that container `c` takes to listen after its start in `round`: a quarter at once, the rest spread to 1.6 s.
fn delay(c: usize, round: usize) -> u64 {
    let i = (c * ROUNDS + round) as u64;
    if i.is_multiple_of(4) { 0 } else { i * 617 % 1600 }
}

fn name(c: usize) -> String {
    format!("lab-{c}")
}

/// What one restart was, and what was said of it; milliseconds.
struct Compared {
    container: usize,
    resolution: f64,
    truth: f64,
    doubt: f64,
    ours: f64,
    down: f64,
    ready: f64,
    docker: f64,
}

impl Compared {
    /// How far the measured recovery lies outside of what the prober saw; milliseconds.
    fn error(&self) -> f64 {
        ((self.ours - self.truth).abs() - self.doubt).max(0.0)
    }
}

#[test]
fn two_hundred_restarts_are_two_hundred_episodes() {
    let engine = Engine::start();
    let agent = Agent::watch(&engine);
    let log = engine.dir().join("docker-events.jsonl");
    let host = format!("unix://{}", engine.socket().display());
    let docker_words =
        ["docker", "-H", &host, "events", "--filter", "type=container", "--format", "{{json .}}"];
    let docker_events = Running::start(&docker_words, &log);
    let probers = cast(&engine);
    for c in 0..10 {
        prober_of(&probers, c).wait_up(&name(c));
        agent.wait_known(&name(c));
    }
    conduct(&engine, &probers);
    let truth: Vec<Vec<Outage>> = (0..10)
        .map(|c| prober_of(&probers, c).wait_outages(&name(c), ROUNDS, Duration::from_secs(20)))
        .collect();
    pass(3000);
    drop(docker_events);
    let compared = compare(&agent, &truth, &docker_recoveries(&std::fs::read_to_string(log).unwrap()));
    let table = table(&compared);
    println!("{table}");
    std::fs::write(concat!(env!("CARGO_TARGET_TMPDIR"), "/two_hundred.md"), &table).unwrap();
    let mut worst: Vec<&Compared> = compared.iter().collect();
    worst.sort_by(|a, b| (b.ours - b.truth).abs().total_cmp(&(a.ours - a.truth).abs()));
    for c in worst.iter().take(20) {
        println!(
            "{} was down {:.1} ms (doubt {:.1}): begin off by {:.1}, end by {:.1}, said to be known to {:.1}",
            name(c.container),
            c.truth,
            c.doubt,
            c.down,
            c.ready,
            c.resolution
        );
    }
    // Measured to 10 ms, or it says how much worse: that holds for each, however busy the host. How many are within 10 ms is a
    // figure of BENCHMARKS.md; on a host that is not starved it is 99 % of them.
    let honest = compared.iter().filter(|c| c.error() <= c.resolution.max(10.0)).count();
    assert!(
        honest * 100 >= compared.len() * 99,
        "{honest} of {} are as fine as they say\n{table}",
        compared.len()
    );
    let within = compared.iter().filter(|c| c.error() <= 10.0).count();
    assert!(within * 100 >= compared.len() * 90, "{within} of {} within 10 ms\n{table}", compared.len());
}

/// Ends each group as soon as all of it are back and have run for long enough, twenty times.
fn conduct(engine: &Engine, probers: &[Prober; 2]) {
    let begun = Instant::now();
    let mut done = [0usize; GROUPS.len()];
    let mut back = [(0usize, begun); 10];
    while done.iter().any(|d| *d < ROUNDS) {
        for (g, group) in GROUPS.iter().enumerate() {
            for c in *group {
                let seen = prober_of(probers, *c).outages(&name(*c)).len();
                if seen > back[*c].0 {
                    back[*c] = (seen, Instant::now());
                }
            }
            // It had run for its delay already when it was seen to be back.
            let ran = |c: usize| back[c].1.elapsed().as_millis() as u64 + delay(c, done[g]);
            if done[g] == ROUNDS || group.iter().any(|c| back[*c].0 < done[g] || ran(*c) < RUN_MS) {
                continue;
            }
            // The probers look closely from here on, and then they die.
            for end in ["soon", "end"] {
                for c in *group {
                    std::fs::write(engine.shared().join(format!("{}.{end}", name(*c))), "").unwrap();
                }
                pass(150);
            }
            done[g] += 1;
        }
        assert!(begun.elapsed() < Duration::from_secs(600), "the scene hangs: {done:?} of {ROUNDS} rounds");
        pass(50);
    }
}

/// Starts the ten, and a prober where each is to be probed from: inside the shared namespace, and on the host.
fn cast(engine: &Engine) -> [Prober; 2] {
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    for c in 0..10 {
        let name = name(c);
        let mut plan: String =
            (0..=ROUNDS).map(|r| format!("{} 0 {}\n", delay(c, r), [0, 1, 3][(c + r) % 3])).collect();
        plan.push_str("0 0 0\n");
        std::fs::write(engine.shared().join(&name), plan).unwrap();
        let plan = format!("/shared/{name}");
        let server = |port: &str| ["server", "--port", port, "--plan", &plan].map(str::to_string);
        let play = |options: &[&str], port: &str| {
            let options = [&["--restart", "always"], options].concat();
            let words = server(port);
            engine.play(&name, &options, &words.iter().map(String::as_str).collect::<Vec<_>>());
        };
        match c {
            0..4 => {
                let port = (8100 + c).to_string();
                play(&["--network", "container:lab-pause"], &port);
                inside.push((name.clone(), format!("127.0.0.1:{port}")));
            }
            4..7 => {
                let port = free_port().to_string();
                play(&["--network", "host"], &port);
                outside.push((name.clone(), format!("127.0.0.1:{port}")));
            }
            _ => {
                let words = server("8080");
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let ip = engine.play_on_bridge(&name, 20 + c as u8, &["--restart", "always"], &words);
                outside.push((name.clone(), format!("{ip}:8080")));
            }
        }
    }
    fn lent(all: &[(String, String)]) -> Vec<(&str, &str)> {
        all.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect()
    }
    let pause = engine.pid("lab-pause");
    [
        Prober::announced(engine, Some(&pause), &lent(&inside)),
        Prober::announced(engine, None, &lent(&outside)),
    ]
}

fn prober_of(probers: &[Prober; 2], c: usize) -> &Prober {
    &probers[usize::from(c >= 4)]
}

/// By container, the milliseconds from each `die` to the next `start`, as Docker tells them.
fn docker_recoveries(log: &str) -> HashMap<String, Vec<f64>> {
    let (mut died, mut out) = (HashMap::new(), HashMap::<String, Vec<f64>>::new());
    for line in log.lines() {
        let e: serde_json::Value = serde_json::from_str(line).unwrap();
        let (name, at) =
            (e["Actor"]["Attributes"]["name"].as_str().unwrap_or("").to_string(), e["timeNano"].as_i64());
        match (e["Action"].as_str(), at) {
            (Some("die"), Some(at)) => drop(died.insert(name, at)),
            (Some("start"), Some(at)) => {
                if let Some(down) = died.remove(&name) {
                    out.entry(name).or_default().push((at - down) as f64 / 1e6);
                }
            }
            _ => {}
        }
    }
    out
}

fn compare(agent: &Agent, truth: &[Vec<Outage>], docker: &HashMap<String, Vec<f64>>) -> Vec<Compared> {
    let mut out = Vec::new();
    for (c, outages) in truth.iter().enumerate() {
        assert_eq!(outages.len(), ROUNDS, "lab-{c}: the scene itself");
        let detail = agent.detail(&name(c));
        let told =
            || format!("{outages:?}\n{:?}\n{}\n{}", detail.episodes, agent.told_of(&name(c)), agent.log());
        assert_eq!(detail.episodes.len(), ROUNDS, "lab-{c}: none missed, none invented {}", told());
        assert_eq!(
            (detail.process.restarts, detail.process.outages),
            (ROUNDS as u64, 0),
            "lab-{c} {}",
            told()
        );
        assert_eq!(detail.process.operator_restarts, 0, "lab-{c}");
        for ((o, e), docker) in outages.iter().zip(oldest_first(&detail)).zip(&docker[&name(c)]) {
            let ready = e.ready_at.unwrap_or_else(|| panic!("lab-{c}: open {}", told()));
            out.push(Compared {
                container: c,
                resolution: e.resolution_ms.unwrap_or(f64::NAN),
                truth: o.ms(),
                doubt: o.doubt_ms(),
                ours: e.seconds * 1e3,
                down: down_ms(&e) - o.down_wall_ns as f64 / 1e6,
                ready: ready.0 as f64 / 1e6 - o.up_wall_ns as f64 / 1e6,
                docker: *docker,
            });
        }
    }
    let counted: u64 = agent.report().processes.iter().map(|p| p.restarts + p.outages).sum();
    assert_eq!(counted, 200, "and none of anything else");
    out
}

fn table(all: &[Compared]) -> String {
    let mut out = String::from(
        "| milliseconds | least | 50 % | 90 % | 95 % | 99 % | most |\n| --- | --: | --: | --: | --: | --: | --: |\n",
    );
    let mut row_of = |what: &str, of: &dyn Fn(&Compared) -> f64, some: std::ops::Range<usize>| {
        let mut values: Vec<f64> = all.iter().filter(|c| some.contains(&c.container)).map(of).collect();
        values.sort_by(f64::total_cmp);
        let at = |q: f64| values[((values.len() as f64 * q).ceil() as usize).clamp(1, values.len()) - 1];
        let _ = write!(out, "| {what}");
        for q in [0.0, 0.5, 0.9, 0.95, 0.99, 1.0] {
            let _ = write!(out, " | {:.1}", at(q));
        }
        out.push_str(" |\n");
    };
    let mut row = |what: &str, of: &dyn Fn(&Compared) -> f64| row_of(what, of, 0..10);
    row("down, by the prober", &|c| c.truth);
    row("the prober's own doubt", &|c| c.doubt);
    row("recovery: error of Linchpin", &|c| (c.ours - c.truth).abs());
    row("begin: error of Linchpin", &|c| c.down.abs());
    row("end: error of Linchpin", &|c| c.ready.abs());
    row("recovery: error of Docker's die to start", &|c| (c.docker - c.truth).abs());
    for (what, some) in
        [("in one namespace", 0..4), ("on the host's network", 4..7), ("on the bridge", 7..10)]
    {
        row_of(&format!("recovery, {what}: error of Linchpin"), &|c| (c.ours - c.truth).abs(), some);
    }
    let within = all.iter().filter(|c| c.error() <= 10.0).count();
    let raw = all.iter().filter(|c| (c.ours - c.truth).abs() <= 10.0).count();
    let _ = writeln!(
        out,
        "\n{within} of {} recoveries within 10 ms of what the prober saw ({raw} with its own doubt counted as ours).",
        all.len()
    );
    out
}
