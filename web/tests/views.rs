//! What pages say of reports made by hand: the sentences, the unknown, the bounds.

use askama::Template;
use linchpin_analyzer::data::Timestamp;
use linchpin_analyzer::report::{Lane, Process, ProcessDetail, Report, Window};
use linchpin_web::range::Range;
use linchpin_web::view::frame::Frame;
use linchpin_web::view::{dashboard, process, sources};
use serde_json::{Value, json};

#[path = "../src/wellformed.rs"]
mod wellformed;

fn report() -> Report {
    serde_json::from_str(include_str!("fixtures/report.json")).unwrap()
}

fn now() -> Timestamp {
    "2026-08-09T09:00:00Z".parse().unwrap()
}

fn frame() -> Frame {
    Frame::new("Test", "/", Some(&Range::default()), "host-a", "0", true)
}

fn overview(report: &Report) -> String {
    let html = dashboard::dashboard(report, now(), frame(), String::new()).render().unwrap();
    wellformed::check(&html, false).unwrap();
    html.replace('\u{a0}', " ")
}

fn only(mut f: impl FnMut(&mut Process)) -> Report {
    let mut r = report();
    r.processes.retain(|p| p.subject == "docker:proxy");
    r.processes.iter_mut().for_each(&mut f);
    r
}

#[test]
fn the_verdict_names_what_is_shared_first() {
    let html = overview(&report());
    let h1 = html.split("<h1").nth(1).unwrap().split("</h1>").next().unwrap();
    assert!(
        h1.contains("proxy") && h1.contains("which serves 10 hostnames") && h1.contains("4.8 times too fast"),
        "{h1}"
    );
    assert!(html.contains("No usual alert fires at this rate"));
    assert!(html.contains("Also too fast: backend (12.5 times)"));
    assert!(html.contains("Not computed by this version: links, redundancy, findings"));
    assert!(html.contains("connection to the Docker socket lost"));
}

#[test]
fn what_is_unknown_is_neither_zero_nor_good() {
    let html = overview(&only(|p| {
        p.ceiling = None;
        p.ceiling_ci = None;
        p.budget.burn_rate = None;
        p.restarts_per_hour = None;
        p.restarts_per_hour_ci = None;
        p.state = "unknown".into();
    }));
    assert!(html.contains("is not enough to judge") && html.contains("verdict unknown"), "{html}");
    assert!(!html.contains("class=\"fig within\"") && !html.contains("dot within"));
    assert!(html.contains("fig unknown") && html.contains("The ceiling is unknown"));
}

#[test]
fn a_bound_is_told_as_a_bound() {
    let html = overview(&only(|p| {
        p.downtime_lower_bound = true;
        if let Some(r) = &mut p.recovery_seconds {
            r.lower_bounds = 3;
        }
    }));
    assert!(
        html.contains("≥\u{2009}1.09 s") && html.contains("a lower bound (of proxy among others)"),
        "{html}"
    );
}

#[test]
fn down_now_is_said_first() {
    let html = overview(&only(|p| {
        p.state = "down".into();
        p.last_down_at = Some("2026-08-09T08:59:48Z".parse().unwrap());
    }));
    assert!(html.contains("has been down for 12 s and burns its error budget"), "{html}");
    let html = overview(&only(|p| {
        p.state = "down".into();
        p.last_down_at = Some("2026-08-09T08:59:48Z".parse().unwrap());
        p.budget.burn_rate = Some(0.2);
    }));
    assert!(html.contains("has been down for 12 s.") && html.contains("verdict bad"), "{html}");
}

#[test]
fn what_burns_too_fast_stands_before_what_many_share() {
    let mut r = report();
    for p in &mut r.processes {
        let shared = p.subject == "docker:proxy";
        p.budget.burn_rate = Some(if shared { 0.9 } else { 3.0 });
        p.state = if shared { "down".into() } else { "up".into() };
    }
    let html = overview(&r);
    let h1 = html.split("<h1").nth(1).and_then(|h| h.split("</h1>").next()).unwrap();
    assert!(!h1.contains("proxy") && h1.contains("3.0 times too fast"), "{h1}");
    assert!(html.contains("Down now: proxy for"), "{html}");
}

#[test]
fn nothing_wrong_is_said_too() {
    let html = overview(&only(|p| {
        p.budget.burn_rate = Some(0.25);
        p.ceiling = Some(0.99975);
    }));
    assert!(
        html.contains("No process burns its error budget too fast")
            && html.contains("25 % of what is allowed"),
        "{html}"
    );
}

#[test]
fn an_empty_page_says_what_would_fill_it() {
    let mut r = report();
    r.processes.clear();
    r.window = Window { from: None, to: None, observed_seconds: 0.0, gaps: vec![] };
    let html = overview(&r);
    assert!(html.contains("Nothing has been seen yet") && html.contains("linchpin doctor"));
}

#[test]
fn thousands_of_processes_stay_a_page() {
    let mut r = report();
    let one = r.processes[0].clone();
    r.processes = (0..5_000)
        .map(|i| {
            let mut p = one.clone();
            p.subject = format!("docker:p{i}");
            p
        })
        .collect();
    let html = overview(&r);
    assert!(html.contains("4500 more stand in") && html.len() < 4 << 20, "{}", html.len());
}

fn detail() -> (ProcessDetail, Vec<Lane>) {
    (
        serde_json::from_str(include_str!("fixtures/detail.json")).unwrap(),
        serde_json::from_str(include_str!("fixtures/lanes.json")).unwrap(),
    )
}

fn story(d: &ProcessDetail, lanes: &[Lane]) -> String {
    let html = process::process(d, lanes, now(), frame(), "?range=6h").render().unwrap();
    wellformed::check(&html, false).unwrap();
    html.replace('\u{a0}', " ")
}

#[test]
fn a_process_has_its_story() {
    let (d, lanes) = detail();
    let html = story(&d, &lanes);
    assert!(html.contains("All 47 have one cause: clean exit."));
    assert!(html.contains("gone after 6.2 days") && html.contains("32 older ones"));
    assert_eq!(html.matches("class=\"lane-row own\"").count(), 1);
    assert!(html.contains("/process/host-a/docker%3Abackend?range=6h"));
    assert!(html.contains("/api/v1/processes/host-a/docker%3Aproxy?range=6h"));
    assert!(
        html.contains("/events?range=6h&amp;subject=docker%3Aproxy")
            || html.contains("/events?range=6h&#38;subject=docker%3Aproxy"),
        "events"
    );
    assert!(html.contains("its main process ended with exit code 0"));
    assert!(html.contains("a child (worker, pid 77) was killed"));
}

#[test]
fn open_bounded_and_uncounted_episodes_say_so() {
    let (mut d, lanes) = detail();
    d.episodes.truncate(3);
    d.episodes[0].open = true;
    d.episodes[0].ready_at = None;
    d.episodes[1].lower_bound = true;
    d.episodes[2].by_operator = true;
    d.episodes[2].counted = false;
    let html = story(&d, &lanes);
    assert!(html.contains("and counting") && html.contains("a lower bound: readiness was not seen"));
    assert!(html.contains("asked for by an operator, does not count"));
}

#[test]
fn a_storm_of_deaths_stays_a_page() {
    let (mut d, mut lanes) = detail();
    let one = d.episodes[0].clone();
    d.episodes = (0..20_000).map(|_| one.clone()).collect();
    let span = lanes[0].episodes[0].clone();
    lanes[0].episodes = (0..20_000).map(|_| span.clone()).collect();
    let html = story(&d, &lanes);
    assert!(html.contains("19800 older ones") && html.len() < 2 << 20, "{}", html.len());
}

fn seen(doctor: &Value) -> String {
    let html = sources::sources(&report(), doctor, frame()).render().unwrap();
    wellformed::check(&html, false).unwrap();
    html.replace('\u{a0}', " ")
}

#[test]
fn sources_say_what_to_grant() {
    let html = seen(&json!([
        {"source": "docker", "sees": "containers", "sight": {"status": "works", "detail": "all"}},
        {"source": "kernel_log", "sees": "kills", "sight": {"status": "blind", "missing": "permission denied", "grant": "setcap cap_syslog+ep"}},
    ]));
    assert!(html.contains("kernel_log sees nothing on this host") && html.contains("setcap cap_syslog+ep"));
    assert!(html.contains("90.0 %") && html.contains("70 callbacks suppressed"));
}

#[test]
fn a_doctor_that_talks_nonsense_breaks_nothing() {
    for v in [json!(null), json!("x"), json!([1, null, {"sight": 3}, {"sight": {"status": "<b>"}}])] {
        seen(&v);
    }
}
