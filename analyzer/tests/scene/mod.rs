//! Scenes as lines: `SECONDS SUBJECT KIND field=value …`. A field's value is JSON where it parses as such, else text.
//! `boot=B@SECONDS` sets boot id and boot time; `wall=SECONDS` a wall clock that disagrees. A line's seconds are the truth.
#![allow(dead_code)]

use linchpin_analyzer::report::Process;
use linchpin_analyzer::{Ledger, Objective, Query};
use linchpin_data::{Event, Timestamp};
use serde_json::{Map, Value};

pub const BASE: i64 = 1_786_255_200;

pub fn at(seconds: f64) -> Timestamp {
    Timestamp(BASE * 1_000_000_000 + (seconds * 1e9).round() as i64)
}

pub fn event(line: &str) -> Event {
    let mut words = line.split_whitespace();
    let seconds: f64 = words.next().unwrap().parse().unwrap();
    let mut map = Map::new();
    map.insert("at".into(), at(seconds).to_string().into());
    map.insert("host".into(), "h".into());
    map.insert("subject".into(), words.next().unwrap().into());
    map.insert("kind".into(), words.next().unwrap().into());
    for word in words {
        let (name, value) = word.split_once('=').unwrap();
        match name {
            "boot" => {
                let (id, s) = value.split_once('@').unwrap();
                map.insert("boot_id".into(), id.into());
                let ns = (s.parse::<f64>().unwrap() * 1e9).round() as u64;
                map.insert("boot_ns".into(), ns.into());
            }
            "wall" => drop(map.insert("at".into(), at(value.parse().unwrap()).to_string().into())),
            _ => {
                let text = value.replace('_', " ");
                let value = serde_json::from_str(value).unwrap_or(Value::String(text));
                map.insert(name.into(), value);
            }
        }
    }
    serde_json::from_value(Value::Object(map)).unwrap_or_else(|e| panic!("{line}: {e}"))
}

pub fn events(scene: &str) -> Vec<Event> {
    scene.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')).map(event).collect()
}

pub fn fold<'a>(events: impl IntoIterator<Item = &'a Event>) -> Ledger {
    let mut ledger = Ledger::new(Objective::default());
    for e in events {
        ledger.fold(e);
    }
    ledger
}

pub fn ledger(scene: &str) -> Ledger {
    fold(&events(scene))
}

/// The figures of one process in one line; parts that are nothing are left out.
pub fn figures(p: &Process) -> String {
    let mut s = format!("restarts {}", p.restarts);
    for (name, n) in [
        ("operator", p.operator_restarts),
        ("outages", p.outages),
        ("kills", p.oom_kills),
        ("missed", p.restarts_missed),
    ] {
        if n > 0 {
            s += &format!(", {name} {n}");
        }
    }
    let round = |x: f64| (x * 1e3).round() / 1e3;
    s += &format!(", down {}", round(p.downtime_seconds));
    if p.downtime_lower_bound {
        s += "+";
    }
    if p.operator_downtime_seconds > 0.0 {
        s += &format!(", operator down {}", round(p.operator_downtime_seconds));
    }
    s += &format!(" of {}, {}", round(p.observed_seconds), p.state);
    if let Some(r) = p.recovery_seconds {
        s += &format!(", recovery {}", round(r.mean));
    }
    for (cause, n) in &p.causes {
        s += &format!("; {cause} {n}");
    }
    s
}

/// The figures of `docker:a` after a scene of 100 seconds that docker watched, unless the scene says otherwise.
pub fn told(scene: &str, q: Query) -> String {
    let p = ledger(scene).process(None, "docker:a", q);
    p.map_or("nothing".into(), |p| figures(&p.process))
}

/// A hundred watched seconds of one container around the scene.
pub fn watched(scene: &str) -> String {
    format!(
        "0 host: watch_started source=docker\n0.1 docker:a described running=true instance=i1 pid=10 image=a:1\n{scene}\n\
         100 host: watch_stopped source=docker reason=end"
    )
}

#[track_caller]
pub fn check(scene: &str, want: &str) {
    assert_eq!(told(&watched(scene), Query::default()), want, "{scene}");
}
