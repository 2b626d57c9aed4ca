//! Names from outside are text on every page: markup, quotes, direction marks, control characters, a megabyte.

mod common;
#[path = "../src/wellformed.rs"]
mod wellformed;

use axum::http::StatusCode;
use common::{app, get, parse};
use linchpin_web::markup::encode;
use serde_json::json;

fn names() -> Vec<String> {
    vec![
        "<script>alert(1)</script>".into(),
        "\"><img src=x onerror=alert(1)>".into(),
        "' onmouseover='alert(1)".into(),
        "</title></svg><script>x</script>".into(),
        "{{ 7*7 }}{% if x %}&lt;&amp;".into(),
        "a\u{202e}gpj.exe\u{2066}\u{200f}".into(),
        "a\u{0}b\u{1b}[31m\u{7f}\n\r\t".into(),
        "a/b/../c?x=1#y%2F%00".into(),
        "..".into(),
        String::new(),
        "x".repeat(1 << 20),
        "<".repeat(100_000),
        "\u{301}".repeat(5_000),
    ]
}

fn recording(name: &str, subject: &str) -> String {
    let at = |s: u32| format!("2026-08-09T06:00:{s:02}.000000000Z");
    let line = |s: u32, subject: &str, rest: serde_json::Value| {
        let mut v = json!({"at": at(s), "host": name, "subject": subject});
        if let (Some(v), Some(rest)) = (v.as_object_mut(), rest.as_object()) {
            v.extend(rest.clone());
        }
        v.to_string()
    };
    [
        line(0, "host:", json!({"kind": "host_up", "kernel": name, "memory_total_bytes": 1})),
        line(1, "host:", json!({"kind": "watch_started", "source": name, "reason": name, "detail": name})),
        line(1, "host:", json!({"kind": "watch_started", "source": "docker", "reason": name, "detail": name})),
        line(2, subject, json!({"kind": "described", "service": name, "image": name, "labels": {name: name}, "hostnames": [name], "networks": [name]})),
        line(3, subject, json!({"kind": "oom_kill", "process": name, "cgroup": name, "scope": name, "by": name, "line": name})),
        line(3, subject, json!({"kind": "exited", "instance": name, "exit_code": 137, "action": name, "signal": 9})),
        line(4, subject, json!({"kind": "started", "instance": name})),
        line(5, subject, json!({"kind": "ready", "instance": name, "by": name, "resolution_ms": 5})),
        line(6, "host:", json!({"kind": "issue", "source": name, "what": name, "detail": name, "sample": name, "count": 3})),
        line(7, subject, json!({"kind": name, name: name})),
        line(8, "host:", json!({"kind": "watch_stopped", "source": "docker", "reason": name})),
        line(9, "host:", json!({"kind": "watch_started", "source": "docker", "reason": name})),
    ]
    .join("\n")
}

fn is_text(path: &str, name: &str, body: &str) {
    wellformed::check(body, false)
        .unwrap_or_else(|e| panic!("{path} of {:?}: {e}", name.chars().take(40).collect::<String>()));
    assert!(body.len() < 1 << 20, "{path}: {} bytes", body.len());
    assert_eq!(body.matches("<script").count(), 1, "{path}: a script of another's");
    for c in body.chars() {
        let hidden = (c.is_control() && c != '\n')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}');
        assert!(!hidden, "{path}: U+{:04X} got through", c as u32);
    }
}

#[tokio::test]
async fn every_page_shows_every_name_as_text() {
    for name in names() {
        let subject = format!("docker:{name}");
        let events = parse(&recording(&name, &subject));
        let ids: Vec<String> = events.iter().map(|e| e.id().to_string()).collect();
        let (mut app, _tell) = app(events);
        let told = name.clone();
        app.doctor = std::sync::Arc::new(
            move || json!([{"source": told, "sees": told, "sight": {"status": "limited", "detail": told, "missing": told, "grant": told}}]),
        );
        app.host = name.clone();
        let router = linchpin_web::router(app);
        let mut paths = vec!["/".to_string(), "/sources".into(), "/events".into()];
        paths.extend(ids.iter().map(|id| format!("/event/{id}")));
        for path in &paths {
            let reply = get(&router, path).await;
            assert_eq!(
                reply.status,
                StatusCode::OK,
                "{path}: {}",
                reply.body.chars().take(3000).collect::<String>()
            );
            is_text(path, &name, &reply.body);
        }
        for path in ["/api/v1/report", "/api/v1/events", "/api/v1/sources", "/api/v1/status"] {
            assert_eq!(get(&router, path).await.status, StatusCode::OK, "{path}");
        }
        if (1..600).contains(&name.len()) && name != ".." {
            let path = format!("/process/{}/{}", encode(&name), encode(&subject));
            let reply = get(&router, &path).await;
            assert_eq!(reply.status, StatusCode::OK, "{path}");
            is_text(&path, &name, &reply.body);
            assert!(get(&router, "/").await.body.contains(&path), "the overview does not lead to {path}");
        }
    }
}

#[tokio::test]
async fn what_is_asked_for_is_text_too() {
    let router = common::linked();
    for name in names().iter().filter(|n| n.len() < 600) {
        let e = encode(name);
        for path in [
            format!("/process/h/{e}x"),
            format!("/events?subject={e}&kind={e}"),
            format!("/events?from={e}x"),
            format!("/events?limit={e}x"),
            format!("/?range={e}x"),
            format!("/ceiling?target={e}x&recovery_seconds={e}"),
            format!("/event/{e}x"),
            format!("/{e}x"),
        ] {
            let reply = get(&router, &path).await;
            assert!(
                reply.status == StatusCode::OK || reply.status.is_client_error(),
                "{path}: {}",
                reply.status
            );
            is_text(&path, name, &reply.body);
        }
    }
}
