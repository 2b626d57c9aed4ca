//! Every vector: a recording with the right answer, made by an independent program.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use linchpin_analyzer::{Ledger, Objective, Query, Report};
use linchpin_data::jsonl::Reader;
use serde_json::Value;

fn vectors() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let mut all: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    all.retain(|p| p.extension().is_some_and(|e| e == "jsonl"));
    all.sort();
    all
}

fn replay(path: &Path) -> Report {
    let mut ledger = Ledger::new(Objective::default());
    for event in Reader::new(BufReader::new(File::open(path).unwrap())) {
        ledger.fold(&event.unwrap());
    }
    ledger.report(Query::default())
}

/// Every number of `want` is in `got`, to a relative 1e-6; intervals of the ceiling are random and not in the answers.
fn same(at: &str, want: &Value, got: &Value) {
    match want {
        Value::Object(fields) => {
            for (name, value) in fields {
                same(
                    &format!("{at}.{name}"),
                    value,
                    got.get(name).unwrap_or_else(|| panic!("{at}.{name} is missing")),
                );
            }
        }
        Value::Array(items) => {
            assert_eq!(items.len(), got.as_array().unwrap().len(), "{at}");
            for (i, value) in items.iter().enumerate() {
                same(&format!("{at}[{i}]"), value, &got[i]);
            }
        }
        Value::Number(n) => {
            let (want, got) = (n.as_f64().unwrap(), got.as_f64().unwrap_or_else(|| panic!("{at}: {got}")));
            assert!((want - got).abs() <= 1e-6 * want.abs().max(1e-12), "{at}: {got} is not {want}");
        }
        other => assert_eq!(other, got, "{at}"),
    }
}

#[test]
fn windows_and_processes_match() {
    let all = vectors();
    assert_eq!(all.len(), 14);
    for path in all {
        let answer: Value =
            serde_json::from_slice(&fs::read(path.with_extension("answer.json")).unwrap()).unwrap();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let report = replay(&path);
        let json = serde_json::to_value(&report).unwrap();
        same(&format!("{name}.window"), &answer["window"], &json["window"]);
        for (subject, want) in answer["processes"].as_object().unwrap() {
            let got = json["processes"].as_array().unwrap().iter().find(|p| p["subject"] == **subject);
            same(&format!("{name}.{subject}"), want, got.unwrap_or_else(|| panic!("{name}: {subject}")));
        }
        for p in &report.processes {
            let (point, [lo, hi]) = (p.ceiling.unwrap(), p.ceiling_ci.unwrap());
            assert!(lo <= point && point <= hi && lo < hi, "{name} {}: {lo} {point} {hi}", p.subject);
            let window = report.window.to.unwrap().seconds_since(report.window.from.unwrap());
            let operator = p.operator_downtime_seconds;
            let sum = p.up_seconds + p.downtime_seconds + operator + p.unknown_seconds;
            assert!((sum - window).abs() < 1e-6, "{name} {}: {sum} of {window}", p.subject);
        }
        let again = serde_json::to_string(&replay(&path)).unwrap();
        assert_eq!(serde_json::to_string(&report).unwrap(), again, "{name} changes from run to run");
    }
}

#[test]
fn a_founding_vector_tells_its_causes() {
    let report = replay(&vectors().into_iter().find(|p| p.ends_with("linked-1.jsonl")).unwrap());
    let of = |subject: &str| report.processes.iter().find(|p| p.subject == subject).unwrap();
    let backend = of("docker:backend");
    assert_eq!(backend.causes.get("own memory ceiling"), Some(&backend.restarts));
    assert_eq!(backend.oom_kills, backend.restarts);
    assert_eq!(of("docker:proxy").hostnames.len(), 10);
    assert_eq!(of("docker:proxy").causes.keys().collect::<Vec<_>>(), ["clean exit"]);
    assert!(of("docker:proxy").budget.steady_burn_unpaged);
}
