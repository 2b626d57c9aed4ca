//! The links of every vector: counts and verdicts exactly, chances to a relative 1e-6, lags to 1 ms. The vectors were made
//! by an independent program; their q stands over the proxy's pairs alone, so verdicts are compared and q is not.

use linchpin_analyzer::link::pairs::Link;
use linchpin_analyzer::{Ledger, Objective, Query};
use linchpin_data::jsonl::Reader;
use serde_json::Value;

fn close(what: &str, got: f64, want: f64) {
    let off = (got - want).abs() / want.abs().max(1e-300);
    assert!(off <= 1e-6, "{what}: {got} {want}");
}

fn check(name: &str, got: &Link, want: &Value) {
    let what = format!("{name} {} {}", got.victim, got.suspect);
    for (field, n) in [
        ("restarts", got.restarts),
        ("kills", got.kills),
        ("hits", got.hits),
        ("reverse_hits", got.reverse_hits),
    ] {
        assert_eq!(Some(n), want[field].as_u64(), "{what} {field}");
    }
    close(&format!("{what} expected"), got.expected_hits, want["expected_hits"].as_f64().unwrap());
    close(&format!("{what} p"), got.p_value, want["p_value"].as_f64().unwrap());
    close(&format!("{what} direction"), got.p_direction, want["p_direction"].as_f64().unwrap());
    if let Some(power) = got.power {
        close(&format!("{what} power"), power, want["power"].as_f64().unwrap());
    }
    let verdict = serde_json::to_value(got.verdict).unwrap();
    assert_eq!(verdict, want["verdict"], "{what}");
    match &got.lag_seconds {
        None => assert!(want["lag_seconds"].is_null(), "{what} lag"),
        Some(l) => {
            for (field, v) in [("median", l.median), ("p25", l.p25), ("p75", l.p75)] {
                let w = want["lag_seconds"][field].as_f64().unwrap();
                assert!((v - w).abs() <= 1e-3, "{what} lag {field}: {v} {w}");
            }
        }
    }
}

#[test]
fn every_vector() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let mut compared = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let Some(name) =
            path.file_name().unwrap().to_str().unwrap().strip_suffix(".jsonl").map(str::to_string)
        else {
            continue;
        };
        let mut ledger = Ledger::new(Objective::default());
        for event in Reader::new(&std::fs::read(&path).unwrap()[..]) {
            ledger.fold(&event.unwrap());
        }
        let report = ledger.report(Query::default());
        let answer = std::fs::read(path.with_file_name(format!("{name}.answer.json"))).unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        for want in answer["links_of_proxy"].as_array().unwrap() {
            let found = |l: &&Link| l.victim == want["victim"] && l.suspect == want["suspect"];
            let Some(got) = report.links.iter().find(found) else {
                panic!("{name}: no pair {} {}", want["victim"], want["suspect"]);
            };
            check(&name, got, want);
            compared += 1;
        }
    }
    assert!(compared >= 40, "only {compared} pairs were compared");
}
