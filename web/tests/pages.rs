//! Asked as a browser or a program asks: every page and every answer of the API, over a recording with known figures.

mod common;
#[path = "../src/wellformed.rs"]
mod wellformed;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use common::{Reply, app, get, linked, parse, send};
use futures_util::StreamExt;
use linchpin_analyzer::Report;
use tower::ServiceExt;

const PAGES: [&str; 8] = [
    "/",
    "/?range=6h",
    "/process/host-a/docker%3Aproxy",
    "/ceiling",
    "/sources",
    "/events",
    "/event/1786255501673854062-0-0",
    "/nowhere",
];
const API: [&str; 7] = [
    "/api/v1/report",
    "/api/v1/processes/host-a/docker%3Aproxy",
    "/api/v1/events",
    "/api/v1/ceiling",
    "/api/v1/sources",
    "/api/v1/status",
    "/healthz",
];

fn guarded(path: &str, reply: &Reply) {
    let policy = reply.header("content-security-policy");
    assert!(
        policy.contains("default-src 'none'") && policy.contains("script-src 'self';"),
        "{path}: {policy}"
    );
    assert!(!policy.contains("unsafe"), "{path}");
    assert_eq!(reply.header("x-content-type-options"), "nosniff", "{path}");
    assert_eq!(reply.header("referrer-policy"), "no-referrer", "{path}");
    assert_eq!(reply.header("cross-origin-opener-policy"), "same-origin", "{path}");
    assert!(
        !reply.header("permissions-policy").is_empty() && !reply.header("cache-control").is_empty(),
        "{path}"
    );
    assert!(reply.headers.get("access-control-allow-origin").is_none(), "{path}");
}

#[tokio::test]
async fn every_page_is_well_formed_guarded_and_accessible() {
    let router = linked();
    for path in PAGES {
        let reply = get(&router, path).await;
        let want = if path == "/nowhere" { StatusCode::NOT_FOUND } else { StatusCode::OK };
        assert_eq!(reply.status, want, "{path}: {}", reply.body);
        guarded(path, &reply);
        wellformed::check(&reply.body, false).unwrap_or_else(|e| panic!("{path}: {e}"));
        assert_eq!(reply.body.matches("<h1").count(), 1, "{path}");
        for must in [
            "<html lang=\"en\">",
            "<main id=\"main\"",
            "href=\"#main\"",
            "<nav aria-label=\"Pages\"",
            "<footer",
        ] {
            assert!(reply.body.contains(must), "{path} lacks {must}");
        }
        let h2 = reply.body.find("<h2").unwrap_or(usize::MAX);
        assert!(reply.body.find("<h3").is_none_or(|h3| h2 < h3), "{path}: headings out of order");
        let pictures = reply.body.matches("role=\"img\"").count();
        assert!(reply.body.matches("<title>").count() > pictures, "{path}: a picture without title");
        let mut ids: Vec<&str> =
            reply.body.split(" id=\"").skip(1).filter_map(|s| s.split('"').next()).collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all, "{path}: an id twice");
    }
}

#[tokio::test]
async fn the_api_answers_in_json() {
    let router = linked();
    for path in API {
        let reply = get(&router, path).await;
        assert_eq!(reply.status, StatusCode::OK, "{path}: {}", reply.body);
        guarded(path, &reply);
        assert_eq!(reply.header("content-type"), "application/json", "{path}");
        reply.json();
    }
    for path in [
        "/api/v1/nothing",
        "/api/v1/processes/host-a/docker%3Anone",
        "/api/v1/report?range=2y",
        "/api/v1/events?limit=x",
    ] {
        let reply = get(&router, path).await;
        assert!(reply.status.is_client_error(), "{path}");
        assert!(reply.json()["error"].is_string(), "{path}");
    }
}

#[tokio::test]
async fn the_report_is_the_recording_s() {
    let report: Report = serde_json::from_str(&get(&linked(), "/api/v1/report").await.body).unwrap();
    let proxy = report.processes.iter().find(|p| p.subject == "docker:proxy").unwrap();
    assert_eq!(proxy.restarts, 47);
    assert!((proxy.ceiling.unwrap() - 0.995_171_098_131_720_4).abs() < 1e-6);
    let page = get(&linked(), "/").await.body.replace('\u{a0}', " ");
    assert!(
        page.contains("99.517 %") && page.contains("burns its error budget 4.8 times too fast"),
        "{page}"
    );
}

#[tokio::test]
async fn a_shorter_range_counts_less() {
    let router = linked();
    let restarts = |r: Reply| -> u64 {
        let v = r.json();
        let p = v["processes"].as_array().unwrap().iter().find(|p| p["subject"] == "docker:proxy").unwrap();
        p["restarts"].as_u64().unwrap()
    };
    let all = restarts(get(&router, "/api/v1/report").await);
    let hour = restarts(get(&router, "/api/v1/report?range=1h").await);
    assert!(0 < hour && hour < all, "{hour} of {all}");
    let reply = get(&router, "/?range=2y").await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    assert!(reply.body.contains("1h, 6h"), "{}", reply.body);
}

#[tokio::test]
async fn the_calculator_s_figures() {
    let router = linked();
    let query = "restarts_per_hour=16&recovery_seconds=1.15s&hostnames=10&replicas=3&target=99.9";
    let v = get(&router, &format!("/api/v1/ceiling?{query}")).await.json();
    let near = |key: &str, want: f64, by: f64| {
        let got = v[key].as_f64().unwrap();
        assert!((got - want).abs() < by, "{key}: {got}");
    };
    near("downtime_seconds_per_hour", 18.4, 1e-9);
    near("downtime_seconds_per_day", 441.6, 1e-9);
    near("ceiling", 0.994_889, 1e-6);
    near("burn_rate", 5.11, 0.005);
    let page = get(&router, &format!("/ceiling?{query}")).await;
    let text = page.body.replace('\u{a0}', " ");
    assert_eq!(page.status, StatusCode::OK);
    for must in ["99.489 %", "18.4 s", "7.4 min", "5.1 times", "5.9 days", "43.2 min"] {
        assert!(text.contains(must), "{must}");
    }
    let wrong = get(&router, "/ceiling?restarts_per_hour=often&target=100").await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    assert_eq!(wrong.body.matches("aria-invalid=\"true\"").count(), 2);
    assert!(wrong.body.contains("often is no figure such as"));
    let wrong = get(&router, "/api/v1/ceiling?target=100").await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    assert!(wrong.json()["fields"]["target"].is_string());
}

#[tokio::test]
async fn events_page_by_page_are_all_of_them_once() {
    let router = linked();
    let mut path = "/api/v1/events?limit=37".to_string();
    let mut seen = Vec::new();
    loop {
        let v = get(&router, &path).await.json();
        for e in v["events"].as_array().unwrap() {
            seen.push(format!("{} {} {}", e["id"], e["event"]["kind"], e["event"]["source"]));
        }
        match v["next"].as_str() {
            Some(next) => path = next.to_string(),
            None => break,
        }
    }
    let all = parse(common::LINKED).len();
    assert_eq!(seen.len(), all);
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), all);
}

#[tokio::test]
async fn json_lines_are_the_recording_again() {
    let router = linked();
    let reply = get(&router, "/api/v1/events?format=jsonl").await;
    assert_eq!(reply.header("content-type"), "application/x-ndjson");
    guarded("jsonl", &reply);
    let mut want = parse(common::LINKED);
    want.sort_by_key(|e| e.id());
    assert_eq!(parse(&reply.body), want);
    let asked = Request::get("/api/v1/events?subject=docker:proxy&kind=exited")
        .header("host", "localhost")
        .header("accept", "application/x-ndjson")
        .body(Body::empty())
        .unwrap();
    let some = parse(&send(&router, asked).await.body);
    assert_eq!(some.len(), 47);
    assert!(some.iter().all(|e| &*e.subject == "docker:proxy" && e.fact.kind() == "exited"));
}

#[tokio::test]
async fn one_event_or_none() {
    let router = linked();
    let reply = get(&router, "/event/1786255501673854062-0-0").await;
    assert!(reply.body.contains("536870912") && reply.body.contains("oom_kill"));
    assert_eq!(get(&router, "/event/1-0-0").await.status, StatusCode::NOT_FOUND);
    assert_eq!(get(&router, "/event/x").await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn only_looking_and_only_here() {
    let router = linked();
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"] {
        let r = Request::builder()
            .method(method)
            .uri("/")
            .header("host", "localhost")
            .body(Body::empty())
            .unwrap();
        let reply = send(&router, r).await;
        assert_eq!(reply.status, StatusCode::METHOD_NOT_ALLOWED, "{method}");
        guarded(method, &reply);
    }
    for host in ["evil.example", "evil.example:7420", "127.0.0.1.evil.example", "10.1.2.3"] {
        for path in ["/", "/api/v1/report", "/api/v1/stream", "/assets/style.css"] {
            let r = Request::get(path).header("host", host).body(Body::empty()).unwrap();
            let reply = send(&router, r).await;
            assert_eq!(reply.status, StatusCode::MISDIRECTED_REQUEST, "{host} {path}");
            guarded(path, &reply);
            assert!(!reply.body.contains("docker:proxy") && reply.body.contains("localhost"));
        }
    }
    let none = Request::get("/").body(Body::empty()).unwrap();
    assert_eq!(send(&router, none).await.status, StatusCode::MISDIRECTED_REQUEST);
    let two = Request::get("/")
        .header("host", "localhost")
        .header("host", "evil.example")
        .body(Body::empty())
        .unwrap();
    assert_eq!(send(&router, two).await.status, StatusCode::MISDIRECTED_REQUEST);
    let head = Request::head("/").header("host", "localhost").body(Body::empty()).unwrap();
    let reply = send(&router, head).await;
    assert!(reply.status == StatusCode::OK && reply.body.is_empty());
    let long = format!("/?x={}", "y".repeat(5_000));
    assert_eq!(get(&router, &long).await.status, StatusCode::URI_TOO_LONG);
}

#[tokio::test]
async fn assets_may_be_kept_only_under_their_own_stamp() {
    let router = linked();
    let page = get(&router, "/").await.body;
    for (name, mime) in
        [("style.css", "text/css"), ("live.js", "text/javascript"), ("icon.svg", "image/svg+xml")]
    {
        let at = page.find(&format!("/assets/{name}?v=")).unwrap();
        let href = page[at..].split('"').next().unwrap();
        let reply = get(&router, href).await;
        assert!(
            reply.header("content-type").starts_with(mime)
                && reply.header("cache-control").contains("immutable")
        );
        guarded(name, &reply);
        assert_eq!(get(&router, &format!("/assets/{name}")).await.header("cache-control"), "no-cache");
    }
    assert_eq!(get(&router, "/assets/..%2FCargo.toml").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn the_stream_tells_many_changes_as_one() {
    let (app, tell) = app(parse(common::LINKED));
    let router = linchpin_web::router(app);
    let r = Request::get("/api/v1/stream").header("host", "localhost").body(Body::empty()).unwrap();
    let response = router.oneshot(r).await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut body = response.into_body().into_data_stream();
    let mut next = async || String::from_utf8(body.next().await.unwrap().unwrap().to_vec()).unwrap();
    assert!(next().await.contains("event: hello"));
    let begin = tokio::time::Instant::now();
    for n in 1000..1050 {
        tell.send(n).unwrap();
    }
    let told = next().await;
    assert!(told.contains("event: change") && told.contains("data: 1049"), "{told}");
    assert!(begin.elapsed().as_millis() >= 250 && begin.elapsed().as_millis() < 1000);
    assert!(next().await.contains("heartbeat"));
    drop(tell);
}
