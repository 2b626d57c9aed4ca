//! The answer depends on which events were told: not on their order, not on how often, not on when it was asked. And for
//! every process, up, down and unknown add up to the window.

use std::fmt::Write as _;

mod scene;

use linchpin_analyzer::{Ledger, Objective, Query};
use linchpin_data::Event;
use proptest::prelude::*;

/// One happening: when (tenths of a second into its boot), to whom, what, of which instance.
#[derive(Clone, Debug)]
struct Happening {
    boot: Option<u8>,
    run: Option<u8>,
    tenths: u16,
    subject: u8,
    kind: u8,
    instance: u8,
    flag: bool,
}

fn happening() -> impl Strategy<Value = Happening> {
    let boot = prop::option::weighted(0.8, 0u8..2);
    let run = prop::option::weighted(0.7, 0u8..3);
    (boot, run, 0u16..900, 0u8..3, 0u8..20, 0u8..3, any::<bool>()).prop_map(
        |(boot, run, tenths, subject, kind, instance, flag)| Happening {
            boot,
            run,
            tenths,
            subject,
            kind,
            instance,
            flag,
        },
    )
}

impl Happening {
    /// As a line of a scene; `i` makes every happening one of its own.
    fn line(&self, i: usize) -> String {
        let boot = self.boot.unwrap_or(0);
        let t = f64::from(self.tenths) / 10.0 + i as f64 * 1e-4;
        // The second boot's wall clock steps back an hour half way: no order may depend on it.
        let step = if boot == 1 && t > 45.0 && self.boot.is_some() { -3600.0 } else { 0.0 };
        let name =
            if self.subject == 2 { "ferry:b" } else { ["docker:a", "docker:b"][usize::from(self.subject)] };
        let source = ["docker", "docker", "cgroup", "journal", "ferry"]
            [usize::from(self.instance + u8::from(self.flag) * 2)];
        let n = self.instance;
        let (subject, rest) = match self.kind {
            0..=2 => (
                name,
                format!("exited instance=i{n} exit_code={} by_operator={}", n * 100, self.flag && n == 0),
            ),
            3 | 4 => (name, format!("started instance=i{n} pid={}", 5 + n)),
            5 | 6 => (name, format!("ready instance=i{n} by=listen resolution_ms={n}")),
            7 => (name, format!("unready instance=i{n} by={}", if self.flag { "health" } else { "listen" })),
            8 => (name, format!("described instance=i{n} running={} pid={} image=a:{n}", self.flag, 5 + n)),
            9 => (
                name,
                format!("oom_kill pid={} by={}", 5 + n, if self.flag { "cgroup" } else { "kernel_log" }),
            ),
            10 => (name, format!("segfault pid={n} process=x detail=general_protection")),
            11 => (
                name,
                if self.flag { format!("removed instance=i{n}") } else { "restarts_missed count=2".into() },
            ),
            12 => ("host:", format!("watch_started source={source} reason=r{n}")),
            13 => ("host:", format!("watch_stopped source={source} reason=r{n}")),
            14 => (
                if self.flag { name } else { "host:" },
                format!("memory current_bytes={n} limit_bytes=100 swap_bytes={n} container_limits_bytes={n}"),
            ),
            15 => (
                name,
                format!(
                    "dns_failure name=n{n}.example outcome=nxdomain count={} by={}",
                    n + 1,
                    if self.flag { "capture" } else { "log" }
                ),
            ),
            16 => (
                name,
                if self.flag {
                    format!("dns_ok name=n{n}.example by=capture")
                } else {
                    "dns_failure by=log".into()
                },
            ),
            _ => (
                "host:",
                if self.flag {
                    format!("issue source=docker what=w{n} count={n}")
                } else {
                    "of_tomorrow x=1".into()
                },
            ),
        };
        let at = 7_000.0 * f64::from(boot) + t;
        let mut line = format!("{at} {subject} {rest} wall={}", at + step);
        if let Some(b) = self.boot {
            let _ = write!(line, " boot=b{b}@{}", 50.0 + t);
        }
        if let Some(r) = self.run {
            let _ = write!(line, " run={} seq={}", u16::from(r) + 1 + u16::from(boot) * 3, i + 1);
        }
        line
    }
}

fn answer(ledger: &Ledger, q: Query) -> String {
    let report = ledger.report(q);
    let mut s = serde_json::to_string(&report).unwrap();
    for p in &report.processes {
        let detail = ledger.process(Some(&p.host), &p.subject, q).unwrap();
        s += &serde_json::to_string(&detail).unwrap();
    }
    s + &serde_json::to_string(&ledger.lanes(q)).unwrap()
}

fn batch(events: &[Event]) -> Ledger {
    let mut sorted: Vec<&Event> = events.iter().collect();
    sorted.sort_by_key(|e| (e.boot_id.clone(), e.boot_ns, e.at));
    scene::fold(sorted)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_order_with_repeats_is_the_batch_at_every_prefix(
        happenings in prop::collection::vec(happening(), 1..40),
        repeats in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..10),
        order in any::<prop::sample::Index>(),
        seed in any::<u64>(),
    ) {
        let mut events: Vec<Event> = happenings.iter().enumerate().map(|(i, h)| scene::event(&h.line(i))).collect();
        // A shuffle by a small generator, then repeats put in anywhere.
        let mut x = seed | 1;
        for i in (1..events.len()).rev() {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            events.swap(i, (x % (i as u64 + 1)) as usize);
        }
        for (what, place) in repeats {
            let e = events[what.index(events.len())].clone();
            events.insert(place.index(events.len() + 1), e);
        }
        let mut ledger = Ledger::new(Objective::default());
        let asked = order.index(events.len());
        for (i, event) in events.iter().enumerate() {
            ledger.fold(event);
            // Every prefix by its report; one of them, and the whole, in every detail.
            let q = Query::default();
            let fresh = batch(&events[..=i]);
            if i == asked || i + 1 == events.len() {
                prop_assert_eq!(answer(&ledger, q), answer(&fresh, q), "after {} of {:#?}", i + 1, events);
            } else {
                let json = |l: &Ledger| serde_json::to_string(&l.lanes(q)).unwrap();
                prop_assert_eq!(json(&ledger), json(&fresh), "after {} of {:#?}", i + 1, events);
            }
        }
    }

    #[test]
    fn up_and_down_and_unknown_are_the_window(
        happenings in prop::collection::vec(happening(), 1..60),
        window in prop::option::of((-10.0f64..8_000.0, 0.0f64..8_000.0)),
        counts in any::<bool>(),
        live in prop::option::of(0.0f64..9_000.0),
    ) {
        let mut ledger = Ledger::new(Objective { operator_counts: counts, ..Objective::default() });
        for (i, h) in happenings.iter().enumerate() {
            ledger.fold(&scene::event(&h.line(i)));
        }
        let q = Query {
            from: window.map(|w| scene::at(w.0)),
            to: window.map(|w| scene::at(w.0 + w.1)),
            as_of: live.map(scene::at),
            as_of_boot_ns: None,
        };
        let report = ledger.report(q);
        for p in &report.processes {
            let whole = report.window.to.unwrap().seconds_since(report.window.from.unwrap());
            let operator = if counts { 0.0 } else { p.operator_downtime_seconds };
            let sum = p.up_seconds + p.downtime_seconds + operator + p.unknown_seconds;
            prop_assert!((sum - whole).abs() < 1e-6, "{} of {whole}: {p:#?}", sum);
            prop_assert!(p.downtime_seconds >= 0.0 && p.downtime_seconds <= p.observed_seconds + 1e-9);
            if let (Some(c), Some([lo, hi])) = (p.ceiling, p.ceiling_ci) {
                prop_assert!(lo <= c && c <= hi && (0.0..=1.0).contains(&c));
            }
            let detail = ledger.process(Some(&p.host), &p.subject, q).unwrap();
            let counted = detail.episodes.iter().filter(|e| e.counted).count() as u64;
            prop_assert!(counted >= p.restarts + p.outages);
            prop_assert_eq!(p.sparkline.len(), 60);
            for pair in detail.episodes.windows(2) {
                prop_assert!(pair[0].seconds >= 0.0 && pair[1].seconds >= 0.0);
            }
        }
    }
}

#[test]
fn the_order_of_a_vector_does_not_matter() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/messy-2.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let mut events: Vec<Event> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let straight = answer(&scene::fold(&events), Query::default());
    events.reverse();
    assert_eq!(answer(&scene::fold(&events), Query::default()), straight);
    let doubled: Vec<Event> = events.iter().chain(&events).cloned().collect();
    assert_eq!(answer(&scene::fold(&doubled), Query::default()), straight);
}
