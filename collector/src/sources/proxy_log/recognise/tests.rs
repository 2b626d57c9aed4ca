//! The samples, the look-alikes, and what clients write into a proxy's lines.

use super::super::lines::plain;
use super::*;
use proptest::prelude::*;

/// `program | name | outcome | line`, each of the first three `-` where there is none; look-alikes have none of them.
fn samples() -> Vec<(Option<Failed>, &'static str)> {
    let text = include_str!("../../../../tests/fixtures/proxy_log/samples.txt");
    let lines = text.lines().filter(|l| !l.is_empty() && !l.starts_with("# "));
    let some = |s: &'static str| (s != "-").then_some(s);
    lines
        .map(|l| {
            let mut parts = l.splitn(4, " | ");
            let mut next = || parts.next().unwrap_or_else(|| panic!("{l}"));
            let (program, name, outcome, line) = (some(next()), some(next()), some(next()), next());
            (program.map(|program| Failed { name: name.map(Into::into), outcome, program }), line)
        })
        .collect()
}

#[test]
fn every_sample_is_what_it_is() {
    let wrong: Vec<String> = samples()
        .into_iter()
        .filter_map(|(expected, line)| {
            let got = recognise(&plain(line));
            (got != expected).then(|| format!("{line}\n  expected {expected:?}\n  got      {got:?}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn there_are_several_of_each_program_and_of_look_alikes() {
    let samples = samples();
    let count = |p: Option<&str>| samples.iter().filter(|(f, _)| f.as_ref().map(|f| f.program) == p).count();
    for program in
        ["nginx", "haproxy", "caddy", "traefik", "envoy", "rust", "go", "node", "java", "python", "libc"]
    {
        assert!(count(Some(program)) >= 3, "{program}");
    }
    assert!(count(None) >= 25);
}

#[test]
fn what_clients_send_is_not_taken_for_the_proxys_word() {
    for (expected, line) in samples() {
        let Some(_) = expected.filter(|f| f.program != "envoy") else { continue };
        let agent = line.replace('"', "");
        for access in [
            format!("192.0.2.9 - - [30/Nov/2026:07:00:00 +0000] \"GET / HTTP/1.1\" 200 612 \"-\" \"{agent}\" \"-\""),
            serde_json::json!({"level": "info", "msg": "handled request", "request": {"headers": {"User-Agent": [agent]}}, "status": 200}).to_string(),
            serde_json::json!({"level": "error", "msg": "refused", "request": {"uri": agent}}).to_string(),
            format!("2026/11/30 07:00:00 [error] 7#7: *1 open() \"/x\" failed (2: No such file or directory), client: 192.0.2.9, server: _, request: \"GET / HTTP/1.1\", host: \"{agent}\""),
        ] {
            assert_eq!(recognise(&plain(&access)), None, "{access}");
        }
    }
}

proptest! {
    #[test]
    fn any_line_is_borne(line: String) {
        let _ = recognise(&line);
    }

    #[test]
    fn any_cut_and_change_of_a_sample_is_borne(which: prop::sample::Index, cut: prop::sample::Index, put in "\\PC{0,6}") {
        let samples = samples();
        let line = samples[which.index(samples.len())].1;
        let at = (0..=cut.index(line.len() + 1)).rev().find(|n| line.is_char_boundary(*n)).unwrap();
        for text in [line[..at].to_string() + &put, put.clone() + &line[at..], line[..at].to_string() + &put + &line[at..]] {
            if let Some(name) = recognise(&plain(&text)).and_then(|f| f.name) {
                prop_assert!(name.len() <= 253 && name.bytes().all(|b| b.is_ascii_graphic()));
            }
        }
    }
}
