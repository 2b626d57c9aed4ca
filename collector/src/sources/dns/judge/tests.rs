//! Clients played from scripts: what is told of their lookups, and what is not.

use super::super::decode::Message;
use super::*;
use proptest::prelude::*;

/// Plays a client: one step a line, `MS ? NAME KIND` asks, `MS ! NAME KIND REPLY` answers, `MS end` ends it. Names that
/// begin with `c-` are containers'. Gives what is told, with its moment in milliseconds.
fn play(script: &str) -> Vec<String> {
    let (mut matcher, mut judge, mut out, mut now) = (Matcher::default(), Judge::default(), Vec::new(), 0);
    let known = |name: &str| name.starts_with("c-");
    for line in script.trim().lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words[0].parse::<u64>().unwrap() * MS;
        // Time passes as it does for the source: whatever is due first is done first.
        while now < at {
            let next = [matcher.deadline(), judge.deadline(now)].into_iter().flatten().min();
            now = next.map_or(at, |n| n.clamp(now + 1, at));
            for lookup in matcher.expire(now) {
                let k = known(&lookup.name);
                out.extend(judge.take(lookup, k));
            }
            out.extend(judge.settle(now, &matcher));
        }
        if words[1] == "end" {
            out.extend(judge.end());
            continue;
        }
        let kind = match words[3] {
            "A" => Kind::A,
            "AAAA" => Kind::Aaaa,
            _ => Kind::Srv,
        };
        let reply = words.get(4).map(|r| match *r {
            "ok" => Reply::Records,
            "empty" => Reply::NoData,
            "nxdomain" => Reply::NxDomain,
            "servfail" => Reply::ServFail,
            "refused" => Reply::Refused,
            _ => Reply::Neutral,
        });
        let (client, server) = ("127.0.0.1:4000".parse().unwrap(), "127.0.0.11:53".parse().unwrap());
        let (from, to) = if reply.is_some() { (server, client) } else { (client, server) };
        let message = Message { from, to, id: 7, name: words[2].into(), kind, reply };
        if let Some(lookup) = matcher.see(message, now, true, false) {
            let k = known(&lookup.name);
            out.extend(judge.take(lookup, k));
        }
    }
    out.iter().map(text).collect()
}

fn text(told: &Told) -> String {
    match told {
        Told::Failure { name, kind, outcome, took, at, count, .. } => {
            format!("{} {name} {} {outcome} after {}, {count}", at / MS, kind.text(), took / MS)
        }
        Told::Recovered { name, at, since, failures, .. } => {
            format!("{} {name} ok since {}, {failures}", at / MS, since / MS)
        }
    }
}

/// What a dead backend looks like to a client that asked before: the founding shape.
#[test]
fn a_name_that_worked_fails_and_is_back() {
    assert_eq!(
        play(
            "0 ? backend A\n0 ? backend AAAA\n1 ! backend A ok\n1 ! backend AAAA empty\n\
              5000 ? backend A\n5000 ? backend AAAA\n5002 ! backend A nxdomain\n5003 ! backend AAAA nxdomain\n\
              5200 ? backend A\n5200 ? backend AAAA\n5201 ! backend A ok\n5201 ! backend AAAA empty\n9000 end"
        ),
        ["5002 backend A nxdomain after 2, 1", "5201 backend ok since 5002, 1"]
    );
}

#[test]
fn each_outcome() {
    for (reply, told) in [
        ("nxdomain", "10002 backend A nxdomain after 2, 1"),
        ("servfail", "10002 backend A servfail after 2, 1"),
        ("refused", "10002 backend A refused after 2, 1"),
        ("empty", "10002 backend A nodata after 2, 1"),
    ] {
        let script = format!(
            "0 ? backend A\n1 ! backend A ok\n10000 ? backend A\n10002 ! backend A {reply}\n20000 end"
        );
        assert_eq!(play(&script), [told]);
    }
    assert_eq!(
        play("0 ? backend A\n1 ! backend A ok\n10000 ? backend A\n20000 end"),
        ["15000 backend A timeout after 5000, 1"]
    );
    for reply in ["ok", "truncated"] {
        let script = format!(
            "0 ? backend A\n1 ! backend A ok\n10000 ? backend A\n10002 ! backend A {reply}\n20000 end"
        );
        assert!(play(&script).is_empty(), "{reply}");
    }
}

#[test]
fn search_domain_misses_are_no_failures() {
    for (what, script) in [
        (
            "longest first",
            "0 ? c-b.example.test A\n2 ! c-b.example.test A nxdomain\n3 ? c-b A\n4 ! c-b A ok\n9000 end",
        ),
        (
            "shortest first",
            "0 ? c-b A\n2 ! c-b A nxdomain\n3 ? c-b.example.test A\n4 ! c-b.example.test A ok\n9000 end",
        ),
        (
            "a slow second answer",
            "0 ? c-b A\n2 ! c-b A nxdomain\n3 ? c-b.example.test A\n3500 ! c-b.example.test A ok\n9000 end",
        ),
        (
            "side by side",
            "0 ? c-b.example.test A\n1 ? c-b A\n2 ! c-b A nxdomain\n4 ! c-b.example.test A ok\n9000 end",
        ),
        (
            "a list of three",
            "0 ? c-b.a.test A\n2 ! c-b.a.test A nxdomain\n3 ? c-b.test A\n4 ! c-b.test A nxdomain\n5 ? c-b A\n6 ! c-b A ok\n9000 end",
        ),
    ] {
        assert_eq!(play(script), [""; 0], "{what}");
    }
}

#[test]
fn the_search_goes_wrong_as_a_whole() {
    assert_eq!(
        play(
            "0 ? b.example.test A\n1 ! b.example.test A nxdomain\n2 ? b A\n3 ! b A ok\n\
              5000 ? b.example.test A\n5001 ! b.example.test A nxdomain\n5002 ? b A\n5003 ! b A nxdomain\n9000 end"
        ),
        ["5003 b A nxdomain after 1, 1"]
    );
}

#[test]
fn a_name_within_another_is_no_search() {
    assert!(of_one_search("backend", "backend.example.test") && of_one_search("b.test", "b"));
    assert!(
        !of_one_search("backend", "backend2") && !of_one_search("end", "backend") && !of_one_search("b", "b")
    );
}

#[test]
fn a_kind_of_record_that_the_name_lacks_is_no_failure() {
    for (what, script) in [
        ("aaaa empty", "0 ? b A\n0 ? b AAAA\n1 ! b AAAA empty\n2 ! b A ok\n9000 end"),
        ("aaaa nxdomain first", "0 ? c-b A\n0 ? c-b AAAA\n1 ! c-b AAAA nxdomain\n2 ! c-b A ok\n9000 end"),
        ("aaaa nxdomain last", "0 ? c-b A\n0 ? c-b AAAA\n1 ! c-b A ok\n2 ! c-b AAAA nxdomain\n9000 end"),
        ("one after the other", "0 ? c-b A\n1 ! c-b A ok\n2 ? c-b AAAA\n3 ! c-b AAAA servfail\n9000 end"),
        ("aaaa never answered", "0 ? c-b A\n0 ? c-b AAAA\n1 ! c-b A ok\n9000 end"),
        (
            "both are had, one is slow",
            "0 ? b AAAA\n1 ! b AAAA ok\n100 ? b A\n100 ? b AAAA\n101 ! b AAAA servfail\n900 ! b A ok\n9000 end",
        ),
        ("no service record", "0 ? b A\n1 ! b A ok\n50 ? b SRV\n51 ! b SRV nxdomain\n9000 end"),
    ] {
        assert_eq!(play(script), [""; 0], "{what}");
    }
}

#[test]
fn a_name_of_both_kinds_fails_when_both_do() {
    let both = "0 ? b A\n0 ? b AAAA\n1 ! b A ok\n1 ! b AAAA ok\n9000 ? b A\n9000 ? b AAAA\n";
    assert_eq!(
        play(&format!("{both}9001 ! b A nxdomain\n9002 ! b AAAA nxdomain\n20000 end")),
        ["9001 b A nxdomain after 1, 1"]
    );
    assert_eq!(play(&format!("{both}9001 ! b A nxdomain\n9002 ! b AAAA ok\n20000 end")), [""; 0]);
    assert_eq!(
        play(&format!(
            "{both}9001 ! b A nxdomain\n9002 ! b AAAA nxdomain\n9300 ? b A\n9300 ? b AAAA\n9301 ! b A ok\n9301 ! b AAAA ok\n20000 end"
        )),
        ["9001 b A nxdomain after 1, 1", "9301 b ok since 9001, 2"]
    );
}

#[test]
fn names_that_never_existed_are_none_and_those_of_containers_are() {
    assert_eq!(
        play("0 ? nowhere A\n1 ! nowhere A nxdomain\n5000 ? nowhere A\n5001 ! nowhere A nxdomain\n20000 end"),
        [""; 0]
    );
    assert_eq!(
        play("0 ? c-b A\n0 ? c-b AAAA\n1 ! c-b A nxdomain\n1 ! c-b AAAA nxdomain\n20000 end"),
        ["1 c-b A nxdomain after 1, 1"]
    );
}

#[test]
fn one_that_is_answered_later_had_failed() {
    assert_eq!(
        play(
            "0 ? b A\n1 ! b A nxdomain\n2000 ? b A\n2001 ! b A nxdomain\n4000 ? b A\n4001 ! b A ok\n9000 end"
        ),
        ["2001 b A nxdomain after 1, 2", "4001 b ok since 1, 2"]
    );
    assert_eq!(
        play("0 ? b A\n1 ! b A nxdomain\n60000 ? b A\n60001 ! b A ok\n90000 end"),
        ["60001 b ok since 1, 1"]
    );
    assert_eq!(
        play("0 ? b A\n1 ! b A nxdomain\n700000 ? b A\n700001 ! b A ok\n900000 end"),
        [""; 0],
        "too long ago"
    );
}

#[test]
fn a_lost_packet_is_no_failure() {
    assert_eq!(
        play("0 ? b A\n1 ! b A ok\n100 ? b A\n100 end\n2600 ? b A\n2601 ! b A ok\n20000 end"),
        [""; 0],
        "the same question again"
    );
    assert_eq!(
        play("0 ? b A\n1 ! b A ok\n100 ? b A\n20000 ? b A\n20001 ! b A ok\n30000 end"),
        ["5100 b A timeout after 5000, 1", "20001 b ok since 5100, 1"]
    );
}

#[test]
fn a_name_that_goes_on_failing_is_told_once_a_second() {
    let mut script = "0 ? b A\n1 ! b A ok\n".to_string();
    for n in 0..20 {
        script += &format!("{} ? b A\n{} ! b A nxdomain\n", 1000 + n * 200, 1001 + n * 200);
    }
    script += "5000 ? b A\n5001 ! b A ok\n9000 end";
    assert_eq!(
        play(&script),
        [
            "1001 b A nxdomain after 1, 1",
            "2001 b A nxdomain after 1, 5",
            "3001 b A nxdomain after 1, 5",
            "4001 b A nxdomain after 1, 5",
            "5001 b ok since 1001, 20"
        ]
    );
}

#[test]
fn silence_is_no_recovery() {
    // Asked no more for an hour, and then answered: back from then on, not from the moment it was no longer asked.
    assert_eq!(
        play(
            "0 ? b A\n1 ! b A ok\n1000 ? b A\n1001 ! b A nxdomain\n3600000 ? b A\n3600001 ! b A ok\n3610000 end"
        ),
        ["1001 b A nxdomain after 1, 1", "3600001 b ok since 1001, 1"]
    );
    // Never again: it never was.
    assert_eq!(
        play("0 ? b A\n1 ! b A ok\n1000 ? b A\n1001 ! b A nxdomain\n3600000 end"),
        ["1001 b A nxdomain after 1, 1"]
    );
}

#[test]
fn what_waits_is_told_when_the_client_ends() {
    assert_eq!(
        play("0 ? b A\n1 ! b A ok\n100 ? b A\n101 ! b A nxdomain\n110 end"),
        ["101 b A nxdomain after 1, 1"]
    );
}

#[test]
fn each_life_tells_its_first_failure() {
    let script =
        "0 ? b A\n1 ! b A ok\n100 ? b A\n101 ! b A nxdomain\n110 end\n300 ? b A\n301 ! b A nxdomain\n310 end";
    assert_eq!(play(script), ["101 b A nxdomain after 1, 1", "301 b A nxdomain after 1, 1"]);
}

#[test]
fn memory_is_bounded() {
    let mut judge = Judge::default();
    let matcher = Matcher::default();
    for n in 0..3 * WORKED as u64 {
        let lookup = |name: String, end| Lookup {
            name,
            kind: Kind::A,
            resolver: [127, 0, 0, 11].into(),
            asked: n * MS,
            ended: n * MS,
            end,
        };
        judge.take(lookup(format!("good{n}"), End::Replied(Reply::Records)), false);
        judge.take(lookup(format!("bad{n}"), End::TimedOut), n % 2 == 0);
        judge.settle(n * MS, &matcher);
    }
    assert!(judge.worked.len() <= WORKED && judge.failing.len() <= FAILING && judge.pending.len() <= PENDING);
    assert!(judge.worked.contains_key(&judge.hasher.hash_one(format!("good{}", 3 * WORKED - 1))));
}

proptest! {
    #[test]
    fn only_names_that_work_are_told_and_moments_are_those_of_lookups(
        steps in prop::collection::vec((0usize..4, 0usize..2, 0usize..5, 1u64..900), 0..150)
    ) {
        let (names, kinds) = (["b", "b.test", "c-d", "e"], ["A", "AAAA"]);
        let replies = ["ok", "empty", "nxdomain", "servfail", ""];
        let (mut script, mut at, mut ends) = (String::new(), 0, Vec::new());
        for (name, kind, reply, wait) in steps {
            let (name, kind) = (names[name], kinds[kind]);
            script += &format!("{at} ? {name} {kind}\n");
            ends.extend([at + 5000, at + 1]);
            if reply < 4 {
                script += &format!("{} ! {name} {kind} {}\n", at + 1, replies[reply]);
            }
            at += wait + 1;
        }
        script += &format!("{} end", at + 20_000);
        for told in play(&script) {
            let mut words = told.split(' ');
            let moment: u64 = words.next().unwrap().parse().unwrap();
            let name = words.next().unwrap();
            let answered = kinds.iter().any(|kind| script.contains(&format!("! {name} {kind} ok")));
            prop_assert!(answered || name.starts_with("c-"), "{}", told);
            // An unanswered question that is asked again keeps its first moment, so answers can be later than one step.
            prop_assert!(ends.contains(&moment), "{}", told);
        }
    }
}
