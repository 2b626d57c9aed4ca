//! Writes the incidents as recordings, simulated from their facts with a fixed seed: the same bytes each time.
//!
//! `cargo run -p linchpin-data --example incidents -- i1 > data/recordings/i1-one-proxy.jsonl`
//!
//! I1, the founding incident: one proxy process serves ten hostnames with three replicas behind it. It looks upstreams up by
//! name on the request path and ends when a lookup fails; one replica is killed at its memory ceiling again and again.

use std::io::{self, BufWriter, Write};

use linchpin_data::event::{
    Described, DnsFailure, DnsOk, Exited, HostUp, Memory, Note, OomKill, Ready, Started, Upstream,
    WatchStarted, WatchStopped,
};
use linchpin_data::{Event, Fact, Timestamp, jsonl};

const S: i64 = 1_000_000_000;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const HOST: &str = "edge-1";
const PROXY: &str = "docker:proxy";
const DATABASE: &str = "docker:shop/database/1";

fn main() -> io::Result<()> {
    let which = std::env::args().nth(1).unwrap_or_default();
    let events = match which.as_str() {
        "i1" => Scene::default().one_proxy(),
        _ => {
            eprintln!("incidents: name one of: i1");
            std::process::exit(2);
        }
    };
    let mut out = BufWriter::new(io::stdout().lock());
    for event in &events {
        jsonl::write(&mut out, event)?;
    }
    out.flush()
}

/// A history being made: its events, and the draws that make it.
struct Scene {
    events: Vec<Event>,
    state: u64,
    begin: Timestamp,
    swing: f64,
}

impl Default for Scene {
    fn default() -> Self {
        let begin = "2026-08-06T00:00:00Z".parse().unwrap_or_default();
        Scene { events: Vec::new(), state: 16, begin, swing: 0.0 }
    }
}

impl Scene {
    /// A draw in 0..1 (splitmix64).
    fn draw(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.draw()
    }

    /// Tells a fact at `seconds` after the begin.
    fn tell(&mut self, seconds: f64, subject: &str, fact: impl Into<Fact>) {
        let ns = (seconds * S as f64) as i64;
        let mut event = Event::new(self.begin.plus_ns(ns), HOST, subject, fact);
        event.boot_id = Some("5c1d7f0e-6a2b-4f7e-9d55-3f2f5f0a0001".into());
        event.boot_ns = u64::try_from(86_400 * 12 * S + ns).ok();
        self.events.push(event);
    }

    fn one_proxy(mut self) -> Vec<Event> {
        const DAY: f64 = 86_400.0;
        self.tell(0.0, "host:", Note {
            text: Some(
                "Simulated from the facts of the founding incident (16 restarts an hour of 1.15 s each, kills of one backend \
                 climbing from 9 to 25 an hour over a day); not a capture of a real host."
                    .into(),
            ),
        });
        self.tell(
            0.0,
            "host:",
            HostUp {
                memory_total_bytes: Some(16 * GIB),
                swap_total_bytes: Some(4 * GIB),
                cgroup_version: Some(1),
                kernel: Some("6.1.0-simulated".into()),
            },
        );
        for source in ["docker", "kernel_log", "cgroup", "ready", "dns", "host"] {
            self.tell(
                0.0,
                "host:",
                WatchStarted {
                    source: Some(source.into()),
                    reason: Some("agent started".into()),
                    detail: None,
                },
            );
        }
        self.describe_all();
        self.samples(DAY);
        self.backend_and_proxy(DAY);
        self.database(DAY);
        for source in ["docker", "kernel_log", "cgroup", "ready", "dns", "host"] {
            self.tell(DAY, "host:", WatchStopped { source: Some(source.into()), reason: Some("end".into()) });
        }
        self.events.sort_by_key(|e| e.at);
        self.events
    }

    fn describe_all(&mut self) {
        let names: Vec<String> = (1..=10).map(|n| format!("site{n}.example.test")).collect();
        let backends: Vec<String> = (1..=3).map(|n| format!("docker:shop/backend/{n}")).collect();
        self.tell(
            0.001,
            PROXY,
            Described {
                service: Some("proxy".into()),
                instance: Some("a".repeat(64)),
                image: Some("example/proxy:1.4.0".into()),
                memory_limit_bytes: Some(4 * GIB),
                restart_policy: Some("always".into()),
                restart_count: Some(1_502),
                running: Some(true),
                hostnames: Some(names),
                upstreams: Some(vec![Upstream {
                    hostname: "*".into(),
                    to: backends.clone(),
                    by: "name".into(),
                }]),
                ..Described::default()
            },
        );
        let mut others: Vec<(String, String, u64)> =
            backends.into_iter().map(|b| (b, "shop/backend".into(), 512 * MIB)).collect();
        others.push((DATABASE.into(), "shop/database".into(), 2 * GIB));
        // The limits of all containers add up to 2.2 times the RAM.
        let rest = (16 * GIB) * 22 / 10 - 4 * GIB - 3 * 512 * MIB - 2 * GIB;
        others.extend((1..=8).map(|n| (format!("docker:worker-{n}"), format!("worker-{n}"), rest / 8)));
        for (n, (subject, service, limit)) in others.into_iter().enumerate() {
            self.tell(
                0.002 + n as f64 / 1000.0,
                &subject,
                Described {
                    service: Some(service),
                    image: Some("example/app:7".into()),
                    memory_limit_bytes: Some(limit),
                    restart_policy: Some("always".into()),
                    running: Some(true),
                    ..Described::default()
                },
            );
        }
    }

    /// Samples every ten minutes: the proxy far below its ceiling, the host's swap nearly full.
    fn samples(&mut self, until: f64) {
        let mut t = 5.0;
        while t < until {
            let proxy = self.between(548.0, 566.0) as u64 * MIB;
            self.tell(
                t,
                PROXY,
                Memory {
                    current_bytes: Some(proxy),
                    limit_bytes: Some(4 * GIB),
                    oom_kill: Some(0),
                    ..Memory::default()
                },
            );
            let (used, swap) = (self.between(14.6, 15.4), self.between(0.87, 0.94));
            self.tell(
                t,
                "host:",
                Memory {
                    current_bytes: Some((used * GIB as f64) as u64),
                    limit_bytes: Some(16 * GIB),
                    swap_bytes: Some((swap * (4 * GIB) as f64) as u64),
                    swap_total_bytes: Some(4 * GIB),
                    container_limits_bytes: Some((16 * GIB) * 22 / 10),
                    containers_unlimited: Some(0),
                    ..Memory::default()
                },
            );
            t += 600.0;
        }
    }

    /// Kills of one replica, climbing from 9 to 25 an hour; nearly each is followed by the proxy's end.
    fn backend_and_proxy(&mut self, until: f64) {
        let backend = "docker:shop/backend/2";
        let (mut t, mut backend_count, mut proxy_count, mut proxy_free) = (0.0, 0, 1_502, 0.0);
        loop {
            // Gaps between half and one and a half of the mean gap: regular enough never to overlap a restart.
            let rate = 9.0 + 16.0 * t / until;
            t += 3600.0 / rate * self.between(0.5, 1.5);
            if t > until - 60.0 {
                return;
            }
            backend_count += 1;
            let up_again = self.killed(t, backend, "app", 512 * MIB, backend_count);
            // A request comes for that upstream before it is back, or not.
            if t < proxy_free || self.draw() > 0.94 {
                continue;
            }
            let asked = t + self.between(0.9, 1.9);
            if asked >= up_again {
                continue;
            }
            proxy_count += 1;
            proxy_free = asked + 60.0;
            self.proxy_ends(asked, up_again, proxy_count);
        }
    }

    fn proxy_ends(&mut self, at: f64, resolvable: f64, count: u64) {
        let name = || Some("backend-2".to_string());
        self.tell(
            at,
            PROXY,
            DnsFailure {
                name: name(),
                outcome: Some("nxdomain".into()),
                resolver: Some("127.0.0.11".into()),
                took_ms: Some(1.2),
                ..DnsFailure::default()
            },
        );
        let id = || Some("a".repeat(64));
        let exit = at + self.between(0.004, 0.02);
        self.tell(
            exit,
            PROXY,
            Exited {
                instance: id(),
                exit_code: Some(0),
                oom_killed: Some(false),
                by_operator: Some(false),
                resolution_ms: Some(1.0),
                ..Exited::default()
            },
        );
        let started = exit + self.between(0.32, 0.42);
        self.tell(
            started,
            PROXY,
            Started { instance: id(), restart_count: Some(count), ..Started::default() },
        );
        // In pairs about the mean, so that the day's sum is exact.
        self.swing = if count.is_multiple_of(2) { -self.swing } else { self.between(-0.07, 0.07) };
        let down = 1.15 + self.swing;
        self.tell(
            exit + down,
            PROXY,
            Ready { instance: id(), by: Some("listen".into()), resolution_ms: Some(5.0), port: Some(443) },
        );
        self.tell(
            resolvable.max(exit + down) + 0.3,
            PROXY,
            DnsOk {
                name: name(),
                resolver: Some("127.0.0.11".into()),
                took_ms: Some(0.9),
                ..DnsOk::default()
            },
        );
    }

    /// One kill at a container's own ceiling, and its way back. Returns when it accepts again.
    fn killed(&mut self, t: f64, subject: &str, process: &str, limit: u64, count: u64) -> f64 {
        let id = || Some(format!("{:064x}", subject.bytes().map(u64::from).sum::<u64>()));
        self.tell(
            t,
            subject,
            OomKill {
                cgroup: id().map(|i| format!("/docker/{i}")),
                process: Some(process.into()),
                pid: Some(20_000 + count),
                rss_bytes: Some(limit - 9 * MIB),
                limit_bytes: Some(limit),
                scope: Some("memcg".into()),
                group: Some(false),
                by: Some("kernel_log".into()),
                ..OomKill::default()
            },
        );
        let exit = t + self.between(0.01, 0.05);
        self.tell(
            exit,
            subject,
            Exited {
                instance: id(),
                exit_code: Some(137),
                signal: Some(9),
                oom_killed: Some(true),
                by_operator: Some(false),
                resolution_ms: Some(1.0),
                ..Exited::default()
            },
        );
        let started = exit + self.between(0.4, 0.6);
        self.tell(
            started,
            subject,
            Started { instance: id(), restart_count: Some(count), ..Started::default() },
        );
        let ready = started + self.between(2.0, 3.5);
        self.tell(
            ready,
            subject,
            Ready { instance: id(), by: Some("listen".into()), resolution_ms: Some(5.0), port: Some(8080) },
        );
        ready
    }

    /// The control: a database at its own ceiling, which nothing follows.
    fn database(&mut self, until: f64) {
        let (mut t, mut count) = (0.0, 0);
        loop {
            t += 3600.0 / 10.0 * self.between(0.4, 1.6);
            if t > until - 60.0 {
                return;
            }
            count += 1;
            self.killed(t, DATABASE, "postgres", 2 * GIB, count);
        }
    }
}
