//! What folding one event and answering one report cost: 100,000 deaths of 500 subjects over a week.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use linchpin_analyzer::{Ledger, Objective, Query};
use linchpin_data::event::{Described, Exited, OomKill, Ready, Started, WatchStarted};
use linchpin_data::{Event, Fact, Timestamp};

const SUBJECTS: u64 = 500;
const DEATHS: u64 = 100_000;
const STEP_NS: i64 = 6_048_000_000;

fn event(ns: i64, subject: &str, seq: &mut u64, fact: impl Into<Fact>) -> Event {
    *seq += 1;
    let mut e = Event::new(Timestamp(1_786_255_200_000_000_000 + ns), "host-a", subject, fact);
    (e.boot_id, e.boot_ns) = (Some("b".into()), Some(1_000_000_000_000 + ns.unsigned_abs()));
    (e.run, e.seq) = (Some(1), Some(*seq));
    e
}

/// Four events a death: a kill, the exit, the start, the port.
fn history() -> Vec<Event> {
    let names: Vec<String> = (0..SUBJECTS).map(|i| format!("docker:shop/service-{i}/1")).collect();
    let mut seq = 0;
    let watch = WatchStarted { source: Some("docker".into()), ..WatchStarted::default() };
    let mut all = vec![event(0, "host:", &mut seq, watch)];
    for name in &names {
        let facts = Described { running: Some(true), image: Some("app:1".into()), ..Described::default() };
        all.push(event(1_000, name, &mut seq, facts));
    }
    for d in 0..DEATHS {
        let name = &names[(d.wrapping_mul(7_919) % SUBJECTS) as usize];
        let (t, id) = (10_000_000 + d as i64 * STEP_NS, Some(format!("{d:064x}")));
        let kill = OomKill { pid: Some(d), process: Some("app".into()), ..OomKill::default() };
        all.push(event(t, name, &mut seq, kill));
        let exit = Exited { instance: id.clone(), exit_code: Some(137), ..Exited::default() };
        all.push(event(t + 20_000_000, name, &mut seq, exit));
        let start = Started { instance: id.clone(), pid: Some(d + 1), ..Started::default() };
        all.push(event(t + 370_000_000, name, &mut seq, start));
        let ready = Ready { instance: id, by: Some("listen".into()), ..Ready::default() };
        all.push(event(t + 1_170_000_000, name, &mut seq, ready));
    }
    all
}

fn fold(events: &[Event]) -> Ledger {
    let mut ledger = Ledger::new(Objective::default());
    for e in events {
        ledger.fold(e);
    }
    ledger
}

fn ledger(c: &mut Criterion) {
    let events = history();
    let mut group = c.benchmark_group("ledger");
    group.sample_size(10);
    group.throughput(Throughput::Elements(events.len() as u64));
    group.bench_function("fold", |b| b.iter(|| black_box(fold(&events))));
    let full = fold(&events);
    let last = events.last().map_or(0, |e| e.at.0);
    let mut now = last;
    group.throughput(Throughput::Elements(1));
    group.bench_function("report", |b| {
        b.iter(|| {
            // Time goes on between two looks.
            now += 1_000_000_000;
            black_box(full.report(Query { as_of: Some(Timestamp(now)), ..Query::default() }))
        });
    });
    group.bench_function("report_of_an_hour", |b| {
        b.iter(|| {
            let (from, as_of) = (Some(Timestamp(last - 3_600_000_000_000)), Some(Timestamp(last)));
            black_box(full.report(Query { from, as_of, ..Query::default() }))
        });
    });
    group.bench_function("process", |b| {
        b.iter(|| black_box(full.process(None, "docker:shop/service-7/1", Query::default())));
    });
    group.finish();
}

criterion_group!(benches, ledger);
criterion_main!(benches);
