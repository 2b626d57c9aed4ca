//! What breaks within stays within: panics become pages, a reader that goes away ends its scan, streams end with the
//! server, a poisoned lock is read on.

mod common;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use common::{app, get, parse};
use futures_util::StreamExt;
use linchpin_analyzer::archive::Archive;
use linchpin_analyzer::data::{Event, EventId, Timestamp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tower::ServiceExt;

struct Broken;

impl Archive for Broken {
    fn events(
        &self,
        _: Timestamp,
        _: Timestamp,
        _: &mut dyn FnMut(&Event) -> ControlFlow<()>,
    ) -> Result<(), String> {
        Err("segment 2026-W32 is damaged".into())
    }

    fn event(&self, _: EventId) -> Result<Option<Event>, String> {
        panic!("never to be seen <b>raw</b>")
    }
}

#[tokio::test]
async fn a_broken_archive_is_told_and_the_rest_goes_on() {
    let (mut app, _tell) = app(parse(common::LINKED));
    app.archive = Arc::new(Broken);
    app.doctor = Arc::new(|| panic!("the doctor is out"));
    app.self_status = Arc::new(|| panic!("no status"));
    let router = linchpin_web::router(app);
    let reply = get(&router, "/events").await;
    assert_eq!(reply.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(reply.body.contains("segment 2026-W32 is damaged") && reply.body.contains("What still holds"));
    for path in ["/event/1-0-0", "/sources", "/api/v1/sources", "/healthz"] {
        let reply = get(&router, path).await;
        assert_eq!(reply.status, StatusCode::INTERNAL_SERVER_ERROR, "{path}");
        assert!(
            !reply.body.contains("<b>raw") && !reply.header("content-security-policy").is_empty(),
            "{path}"
        );
    }
    assert_eq!(get(&router, "/").await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_poisoned_lock_is_read_on() {
    let (app, _tell) = app(parse(common::LINKED));
    let ledger = app.ledger.clone();
    let writer = std::thread::spawn(move || {
        let _held = ledger.write().unwrap();
        panic!("the writer dies with the lock in its hand");
    });
    assert!(writer.join().is_err());
    assert_eq!(get(&linchpin_web::router(app), "/").await.status, StatusCode::OK);
}

struct Endless {
    told: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
}

impl Archive for Endless {
    fn events(
        &self,
        _: Timestamp,
        _: Timestamp,
        each: &mut dyn FnMut(&Event) -> ControlFlow<()>,
    ) -> Result<(), String> {
        let e = parse(common::LINKED.lines().next().unwrap()).remove(0);
        while each(&e).is_continue() {
            self.told.fetch_add(1, Ordering::SeqCst);
        }
        self.ended.store(true, Ordering::SeqCst);
        Ok(())
    }

    fn event(&self, _: EventId) -> Result<Option<Event>, String> {
        Ok(None)
    }
}

async fn until(what: &AtomicBool) {
    while !what.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn an_export_waits_for_its_reader_and_ends_with_it() {
    let (mut app, _tell) = app(Vec::new());
    let (told, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    app.archive = Arc::new(Endless { told: told.clone(), ended: ended.clone() });
    let router = linchpin_web::router(app);
    let r =
        Request::get("/api/v1/events?format=jsonl").header("host", "localhost").body(Body::empty()).unwrap();
    let mut body = router.clone().oneshot(r).await.unwrap().into_body().into_data_stream();
    assert!(body.next().await.unwrap().unwrap().starts_with(b"{\"at\""));
    // Nobody reads on: the scan comes to rest after what the channel holds.
    let mut before = u64::MAX;
    while before != told.load(Ordering::SeqCst) {
        before = told.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(before < 10_000, "{before} events were read ahead");
    assert!(!ended.load(Ordering::SeqCst));
    drop(body);
    tokio::time::timeout(Duration::from_secs(20), until(&ended))
        .await
        .expect("the scan ends with its reader");
}

#[tokio::test]
async fn streams_end_with_the_server() {
    let (app, _tell) = app(parse(common::LINKED));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = tokio::spawn(linchpin_web::serve(listener, app, async {
        // Either way it is time to end.
        let _ = stopped.await;
    }));
    let mut client = tokio::net::TcpStream::connect(address).await.unwrap();
    client
        .write_all(format!("GET /api/v1/stream HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes())
        .await
        .unwrap();
    let mut got = Vec::new();
    while !String::from_utf8_lossy(&got).contains("event: hello") {
        assert!(client.read_buf(&mut got).await.unwrap() > 0, "{}", String::from_utf8_lossy(&got));
    }
    stop.send(()).unwrap();
    client.read_to_end(&mut got).await.unwrap();
    server.await.unwrap().unwrap();
}
