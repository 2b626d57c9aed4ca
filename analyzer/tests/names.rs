//! Names that failed, and the chains through them: what several witnesses tell counts once, silence is no recovery, and a name
//! that fails all the time is no step of a chain.

mod scene;

use std::fmt::Write as _;

use linchpin_analyzer::report::diagnosis::{FailingName, StepKind};
use linchpin_analyzer::{ProcessDetail, Query};

fn detail(scene: &str) -> ProcessDetail {
    scene::ledger(scene).process(None, "docker:a", Query::default()).unwrap()
}

fn names(lines: &str) -> Vec<FailingName> {
    detail(&scene::watched(lines)).names
}

fn in_words(names: &[FailingName]) -> Vec<String> {
    let spell = |s: &(linchpin_data::Timestamp, Option<linchpin_data::Timestamp>)| {
        let s0 = s.0.seconds_since(scene::at(0.0));
        s.1.map_or(format!("{s0:.1}-"), |t| format!("{s0:.1}-{:.1}", t.seconds_since(scene::at(0.0))))
    };
    names
        .iter()
        .map(|n| {
            let spells: Vec<String> = n.spells.iter().map(spell).collect();
            let outcomes: Vec<String> = n.outcomes.iter().map(|(o, n)| format!("{o} {n}")).collect();
            format!(
                "{:?} {} [{}] {} by {}",
                n.name,
                n.failures,
                outcomes.join(", "),
                spells.join(" "),
                n.witnesses.join("+")
            )
        })
        .collect()
}

#[test]
fn what_several_witnesses_tell_counts_once() {
    let told = names(
        "10 docker:a dns_failure name=backend outcome=nxdomain by=capture
         10.1 docker:a dns_failure name=backend by=log
         10.2 docker:a dns_failure by=log
         11 docker:a dns_failure name=backend outcome=nxdomain by=capture count=7
         12 docker:a dns_ok name=backend by=capture",
    );
    assert_eq!(in_words(&told), ["\"backend\" 8 [nxdomain 8] 10.0-12.0 by capture+log"]);
}

#[test]
fn nxdomain_and_servfail_are_one_failing_name() {
    let told = names(
        "10 docker:a dns_failure name=backend. outcome=servfail by=capture
         20 docker:a dns_failure name=BACKEND outcome=nxdomain by=capture
         30 docker:a dns_failure name=other outcome=timeout by=canary
         31 docker:a dns_failure by=log
         50 docker:a dns_failure by=log",
    );
    assert_eq!(
        in_words(&told),
        [
            // Silence is no recovery: the spell is open.
            "\"backend\" 2 [nxdomain 1, servfail 1] 10.0- by capture",
            // A line without a name, alone: counted, and not guessed to be of any name.
            "\"\" 1 [unsaid 1] 50.0- by log",
            "\"other\" 1 [timeout 1] 30.0- by canary",
        ]
    );
}

#[test]
fn any_number_of_names_is_bounded() {
    let mut lines = String::new();
    for i in 0..300 {
        writeln!(
            lines,
            "{} docker:a dns_failure name=n{i}.example outcome=nxdomain by=capture",
            10.0 + f64::from(i) / 10.0
        )
        .unwrap();
    }
    let told = names(&lines);
    assert_eq!(told.len(), 100);
    assert_eq!(told[99].name, "(201 more names)");
    assert_eq!(told.iter().map(|n| n.failures).sum::<u64>(), 300);
}

/// Ten kills of a backend, 90 s apart and more, each followed by what `then` says at the kill's time, and a database that dies as
/// often and at other times.
fn founding(then: impl Fn(f64) -> String) -> ProcessDetail {
    let mut s =
        String::from("0 host: watch_started source=docker\n0 host: watch_started source=\"kernel_log\"\n");
    for who in ["a", "backend", "database"] {
        writeln!(s, "0.1 docker:{who} described running=true instance={who} pid=10").unwrap();
    }
    let life = |who: &str, t: f64, code: i64, s: &mut String| {
        writeln!(s, "{t} docker:{who} exited instance={who} exit_code={code}").unwrap();
        writeln!(s, "{} docker:{who} started instance={who}", t + 0.5).unwrap();
        writeln!(s, "{} docker:{who} ready instance={who} by=listen", t + 0.9).unwrap();
    };
    for i in 0..10 {
        let t = 100.0 + f64::from(i) * 97.0 + f64::from(i * i % 7) * 5.0;
        life("backend", t, 137, &mut s);
        life("a", t + 1.2, 139, &mut s);
        s += &then(t);
        life("database", t + 47.0, 137, &mut s);
    }
    s += "1300 host: watch_stopped source=docker reason=end\n";
    detail(&s)
}

#[test]
fn a_kill_a_name_and_a_restart_are_a_chain() {
    let d = founding(|t| {
        format!(
            "{} docker:a dns_failure name=backend.example outcome=nxdomain by=capture\n\
             {} docker:a dns_failure name=backend.example by=log\n\
             {} docker:a dns_ok name=backend.example by=capture\n",
            t + 0.3,
            t + 1.19,
            t + 2.4
        )
    });
    assert_eq!(d.chains.len(), 1, "{:#?}", d.links);
    let c = &d.chains[0];
    assert_eq!(
        (c.seen, c.restarts, c.names.as_slice()),
        (10, 10, ["backend.example".to_string()].as_slice())
    );
    let steps: Vec<_> = c.steps.iter().map(|s| (s.what, s.who.as_str())).collect();
    assert_eq!(
        steps,
        [
            (StepKind::Death, "docker:backend"),
            (StepKind::NameFails, "backend.example"),
            (StepKind::Restart, "docker:a"),
        ]
    );
    assert_eq!(
        c.sentence,
        "10 of 10 restarts of a: backend dies, backend.example fails to resolve 0.3 s later, a ends 0.9 s after that (medians). \
         Control: database died 10 times, 0 of 10."
    );
    let example: Vec<&str> = c.example.iter().map(|e| e.text.as_str()).collect();
    assert_eq!(
        example,
        [
            "docker:backend: its main process ended with exit code 137 (SIGKILL)",
            "docker:a: backend.example did not resolve (nxdomain)",
            "docker:a: its main process ended with exit code 139 (SIGSEGV)",
        ]
    );
}

#[test]
fn a_name_that_fails_all_the_time_is_no_step() {
    let d = founding(|t| {
        (0..40)
            .map(|i| {
                format!(
                    "{} docker:a dns_failure name=typo.example outcome=nxdomain by=capture\n",
                    t - 40.0 + f64::from(i) * 2.0
                )
            })
            .collect()
    });
    assert_eq!(d.links[0].suspect, "docker:backend");
    assert_eq!(d.names[0].failures, 400);
    assert!(d.chains.is_empty(), "{:#?}", d.chains);
}

#[test]
fn without_a_failing_name_there_is_a_link_and_no_chain() {
    let d = founding(|_| String::new());
    assert_eq!((d.links[0].hits, d.chains.len(), d.names.len()), (10, 0, 0));
}
