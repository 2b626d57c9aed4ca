//! Changes on the timeline and what was survived since: "not proven" until a trigger comes, then the bound; never "fixed".

mod scene;

use std::fmt::Write as _;

use linchpin_analyzer::{Query, Report};

fn life(s: &mut String, who: &str, t: f64, how: &str) {
    writeln!(s, "{t} docker:{who} exited instance={who} {how}").unwrap();
    writeln!(s, "{} docker:{who} started instance={who}", t + 0.4).unwrap();
    writeln!(s, "{} docker:{who} ready instance={who} by=listen", t + 0.9).unwrap();
}

/// An hour in which the proxy follows each of twelve kills of the backend; then the change at 3,600 s, and what comes after.
fn report(change: &str, after: impl Fn(&mut String)) -> Report {
    let mut s = String::from("0 host: watch_started source=docker\n");
    for who in ["proxy", "backend"] {
        writeln!(s, "0.1 docker:{who} described running=true instance={who} pid=10 image={who}:1").unwrap();
    }
    for i in 0..12 {
        let t = 200.0 + f64::from(i) * 270.0 + f64::from(i * i % 7) * 5.0;
        life(&mut s, "backend", t, "exit_code=137");
        life(&mut s, "proxy", t + 1.2, "exit_code=0");
    }
    writeln!(s, "3600 {change}").unwrap();
    after(&mut s);
    s += "9000 host: watch_stopped source=docker reason=end\n";
    scene::ledger(&s).report(Query::default())
}

const UPGRADE: &str = "docker:proxy described instance=proxy image=proxy:2";

#[test]
fn without_a_trigger_nothing_is_proven() {
    let r = report(UPGRADE, |_| {});
    assert_eq!(
        (r.changes.len(), r.changes[0].what.as_str(), r.changes[0].text.as_str()),
        (1, "image", "proxy:1 → proxy:2")
    );
    let p = &r.proofs[0];
    assert_eq!((p.triggers, p.bound, p.verdict.as_str()), (0, None, "not proven"));
    assert!(
        p.sentence.starts_with("Not proven: backend has not died since the image change of proxy at ")
            && p.sentence.ends_with("Waiting proves nothing; a drill would."),
        "{}",
        p.sentence
    );
}

#[test]
fn survived_triggers_give_a_bound() {
    let r = report("docker:proxy described instance=proxy config_at=2026-08-09T07:00:00Z", |s| {
        writeln!(s, "3601 docker:proxy described instance=proxy config_at=2026-08-09T08:00:00Z").unwrap();
        for i in 0..14 {
            let how = if i == 0 { "exit_code=143 by_operator=true action=restart" } else { "exit_code=137" };
            life(s, "backend", 3700.0 + f64::from(i) * 300.0, how);
        }
        // Its window has not passed: neither survived nor not.
        life(s, "backend", 8998.0, "exit_code=137");
    });
    let p = &r.proofs[0];
    assert_eq!(
        (p.change.what.as_str(), p.triggers, p.triggers_by_operator, p.followed),
        ("config", 14, 1, 0)
    );
    assert!((p.bound.unwrap() - 0.192_636).abs() < 1e-6);
    assert!(
        p.sentence.contains("backend died 14 times (1 on purpose) since the config change of proxy"),
        "{}",
        p.sentence
    );
    assert!(p.sentence.contains("at most 19 % of such deaths can still restart it (95 %)"), "{}", p.sentence);
}

#[test]
fn one_restart_and_it_is_not_fixed() {
    let r = report("host: mark text=pinned_the_addresses", |s| {
        for i in 0..4 {
            life(s, "backend", 3700.0 + f64::from(i) * 300.0, "exit_code=137");
        }
        life(s, "proxy", 4301.0, "exit_code=0");
    });
    let p = &r.proofs[0];
    assert_eq!((p.triggers, p.followed, p.bound, p.verdict.as_str()), (4, 1, None, "failed"));
    assert!(p.sentence.contains("since the mark \"pinned the addresses\" at "), "{}", p.sentence);
    assert!(p.sentence.ends_with("and 1 were followed by a restart of proxy."), "{}", p.sentence);
}

#[test]
fn what_is_left_out_or_said_again_is_no_change() {
    let r = report("docker:proxy described instance=proxy", |s| {
        s.push_str("3700 docker:proxy described instance=proxy image=proxy:1\n");
        s.push_str("3800 docker:backend described instance=backend memory_limit_bytes=536870912\n");
        s.push_str("3900 docker:backend described instance=backend memory_limit_bytes=1073741824\n");
    });
    let told: Vec<_> =
        r.changes.iter().map(|c| (c.subject.as_str(), c.what.as_str(), c.text.as_str())).collect();
    assert_eq!(told, [("docker:backend", "limit", "512 MiB → 1 GiB")]);
    // The suspect's change is one that may end the victim's restarts.
    assert_eq!((r.proofs[0].victim.as_str(), r.proofs[0].verdict.as_str()), ("docker:proxy", "not proven"));
}

#[test]
fn drills_are_paired_and_an_end_that_is_missing_is_said() {
    let r = report("docker:proxy drill drill=d1 phase=begun restarts=docker:backend", |s| {
        s.push_str("3620 docker:proxy drill drill=d1 phase=ended restarts=docker:backend verdict=survived text=It_stayed_up.\n");
        s.push_str("4000 docker:proxy drill drill=d2 phase=begun restarts=docker:backend\n");
    });
    let told: Vec<_> =
        r.drills.iter().map(|d| (d.expected.as_str(), d.verdict.as_str(), d.sentence.as_str())).collect();
    assert_eq!(
        told,
        [
            ("docker:proxy", "survived", "It stayed up."),
            (
                "docker:proxy",
                "unfinished",
                "docker:backend was to be restarted on purpose; no end of the drill was told."
            ),
        ]
    );
}
