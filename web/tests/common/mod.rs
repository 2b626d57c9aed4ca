//! What the tests of pages share: an app over events held in memory, and a way to ask it.
#![allow(dead_code, reason = "each test file uses its part")]

use std::ops::ControlFlow;
use std::sync::{Arc, RwLock};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use linchpin_analyzer::Objective;
use linchpin_analyzer::archive::Archive;
use linchpin_analyzer::data::{Event, EventId, Timestamp, jsonl};
use linchpin_analyzer::ledger::Ledger;
use linchpin_web::App;
use tokio::sync::watch;
use tower::ServiceExt;

pub const LINKED: &str = include_str!("../fixtures/linked-1.jsonl");

pub struct Memory(pub Vec<Event>);

impl Archive for Memory {
    fn events(
        &self,
        from: Timestamp,
        to: Timestamp,
        each: &mut dyn FnMut(&Event) -> ControlFlow<()>,
    ) -> Result<(), String> {
        for e in self.0.iter().filter(|e| from <= e.at && e.at < to) {
            if each(e).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn event(&self, id: EventId) -> Result<Option<Event>, String> {
        Ok(self.0.iter().find(|e| e.id() == id).cloned())
    }
}

pub fn parse(text: &str) -> Vec<Event> {
    jsonl::Reader::new(text.as_bytes()).map(|e| e.unwrap()).collect()
}

/// An app over `events`, and the sender that tells of changes.
pub fn app(mut events: Vec<Event>) -> (App, watch::Sender<u64>) {
    events.sort_by_key(Event::id);
    let mut ledger = Ledger::new(Objective::default());
    for e in &events {
        ledger.fold(e);
    }
    let end = events.last().map_or(Timestamp(0), |e| e.at);
    let (tell, changes) = watch::channel(ledger.events_folded());
    let app = App {
        ledger: Arc::new(RwLock::new(ledger)),
        changes,
        now: Arc::new(move || (end, 0)),
        archive: Arc::new(Memory(events)),
        doctor: Arc::new(|| serde_json::json!([])),
        host: "host-a".into(),
        version: "0.0.0-test",
        self_status: Arc::new(|| serde_json::json!({"journal": {"state": "writing"}})),
    };
    (app, tell)
}

pub fn linked() -> Router {
    linchpin_web::router(app(parse(LINKED)).0)
}

pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: String,
}

impl Reply {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or("")
    }
}

pub async fn send(router: &Router, request: Request<Body>) -> Reply {
    let response = router.clone().oneshot(request).await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    let bytes = axum::body::to_bytes(response.into_body(), 64 << 20).await.unwrap();
    Reply { status, headers, body: String::from_utf8(bytes.to_vec()).unwrap() }
}

pub async fn get(router: &Router, path: &str) -> Reply {
    send(router, Request::get(path).header("host", "127.0.0.1:7420").body(Body::empty()).unwrap()).await
}
