//! Findings become pages, JSON and live updates. Handlers ask the ledger ([`desk`]), pure views turn its answers into
//! what a page says ([`view`]), pictures are drawn as SVG ([`svg`]), templates lay them out. Nothing here changes
//! anything, reads a clock or knows a collector; everything shown is hostile text until [`markup`] has seen it.

mod api;
mod assets;
mod desk;
mod guard;
pub mod markup;
mod pages;
mod problem;
pub mod range;
mod scan;
mod stream;
pub mod svg;
pub mod view;
#[cfg(test)]
mod wellformed;
pub mod words;

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::timeout::TimeoutLayer;

use desk::Desk;
pub use desk::{App, Now, Tell};
use problem::Problem;

/// An answer takes at most this long to begin.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long answers under way may still take when the server ends.
const GRACE: Duration = Duration::from_secs(3);

/// All pages and the API. Answers only to loopback names; [`serve`] knows the address bound and answers to it too.
pub fn router(app: App) -> Router {
    let (open, closing) = watch::channel(false);
    routes(Desk::new(app, None, closing, Some(open)))
}

fn routes(desk: Desk) -> Router {
    let desk = Arc::new(desk);
    Router::new()
        .route("/", get(pages::overview))
        .route("/process/{host}/{*subject}", get(pages::one_process))
        .route("/ceiling", get(pages::calculator))
        .route("/sources", get(pages::seen))
        .route("/events", get(pages::events))
        .route("/event/{id}", get(pages::one_event))
        .route("/assets/{name}", get(assets::serve))
        .route("/healthz", get(api::healthz))
        .route("/api/v1/report", get(api::report))
        .route("/api/v1/processes/{host}/{*subject}", get(api::process))
        .route("/api/v1/events", get(api::events))
        .route("/api/v1/ceiling", get(api::calculator))
        .route("/api/v1/sources", get(api::sources))
        .route("/api/v1/status", get(api::status))
        .route("/api/v1/stream", get(stream::stream))
        .fallback(pages::nothing)
        .layer(TimeoutLayer::with_status_code(StatusCode::SERVICE_UNAVAILABLE, PATIENCE))
        .layer(CatchPanicLayer::custom(|panic: Box<dyn std::any::Any + Send>| {
            let why = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or(panic.downcast_ref::<&str>().copied())
                .unwrap_or("a panic");
            Problem::broken(why).into_response()
        }))
        .layer(from_fn_with_state(desk.clone(), guard::guard))
        .with_state(desk)
}

/// Serves until `shutdown` resolves: live streams then end at once, answers under way have a few seconds.
///
/// # Errors
/// The listener fails.
pub async fn serve(
    listener: TcpListener,
    app: App,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let bound: IpAddr = listener.local_addr()?.ip();
    let (close, closing) = watch::channel(false);
    let mut closed = closing.clone();
    let router = routes(Desk::new(app, Some(bound), closing, None));
    let serving = axum::serve(listener, router).with_graceful_shutdown(async move {
        shutdown.await;
        // Nobody listening any more is no trouble at the end.
        let _ = close.send(true);
    });
    tokio::select! {
        result = async { serving.await } => result,
        () = async {
            let _ = closed.wait_for(|end| *end).await;
            tokio::time::sleep(GRACE).await;
        } => Ok(()),
    }
}
