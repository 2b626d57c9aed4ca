//! The JSON for programs, under `/api/v1`.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::desk::{Desk, blocking};
use crate::markup::{encode, visible};
use crate::problem::Problem;
use crate::range::{Params, Range};
use crate::scan::{self, Asked};
use crate::view::ceiling;

type Answer = Result<Response, Problem>;
type Desked = State<Arc<Desk>>;

fn range_of(params: &Params) -> Result<Range, Problem> {
    Range::of(params).map_err(|e| Problem::question(e).for_program())
}

fn written(value: &impl serde::Serialize) -> Answer {
    let text = serde_json::to_vec(value).map_err(|e| Problem::broken(&e.to_string()).for_program())?;
    Ok(([(header::CONTENT_TYPE, "application/json")], Bytes::from(text)).into_response())
}

/// `/api/v1/report`: the report as `replay --format json` prints it.
pub async fn report(State(desk): Desked, params: Params) -> Answer {
    let range = range_of(&params)?;
    let kept = desk.report(&range).await.map_err(Problem::for_program)?;
    written(&*kept.report)
}

/// `/api/v1/processes/{host}/{*subject}`: one process with its episodes.
pub async fn process(
    State(desk): Desked,
    Path((host, subject)): Path<(String, String)>,
    params: Params,
) -> Answer {
    let query = desk.query(&range_of(&params)?);
    let wanted = (host.clone(), subject.clone());
    let detail = desk
        .ask(move |l| l.process(Some(&wanted.0), &wanted.1, query))
        .await
        .map_err(Problem::for_program)?;
    match detail {
        Some(d) => written(&d),
        None => Err(Problem::missing(
            "no such process was seen",
            format!(
                "{} on host {}: /api/v1/report lists every process",
                visible(&subject, 96),
                visible(&host, 64)
            ),
        )
        .for_program()),
    }
}

/// `/api/v1/events`: a page of events, newest first; as JSON Lines all of them, oldest first.
pub async fn events(State(desk): Desked, params: Params, headers: HeaderMap) -> Answer {
    let asked = Asked::of(&params, desk.now()).map_err(|e| Problem::question(e).for_program())?;
    let accepts = headers
        .get(header::ACCEPT)
        .and_then(|v| v.to_str().ok())
        .is_some_and(|a| a.contains("application/x-ndjson"));
    match params.get("format") {
        Some("jsonl" | "ndjson") => lines(&desk, asked).await,
        None if accepts => lines(&desk, asked).await,
        None | Some("json") => {
            let found = scan::newest(&desk, asked).await.map_err(Problem::for_program)?;
            let next = found.older.map(|to| {
                let mut parts: Vec<String> = ["range", "from", "subject", "kind", "limit"]
                    .iter()
                    .filter_map(|k| params.get(k).map(|v| format!("{k}={}", encode(v))))
                    .collect();
                parts.push(format!("to={}", encode(&to.to_string())));
                format!("/api/v1/events?{}", parts.join("&"))
            });
            let events: Vec<Value> = found.events.iter().map(|e| json!({"id": e.id(), "event": e})).collect();
            written(&json!({"events": events, "next": next}))
        }
        Some(other) => Err(Problem::question(format!(
            "format={} is not known; there are json and jsonl",
            visible(other, 40)
        ))
        .for_program()),
    }
}

async fn lines(desk: &Desk, asked: Asked) -> Answer {
    let body = scan::stream(desk, asked).await.map_err(Problem::for_program)?;
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

/// `/api/v1/ceiling`: the calculator.
pub async fn calculator(params: Params) -> Answer {
    let form = ceiling::read(&params);
    match &form.calculation {
        Some(c) => written(c),
        None => {
            let wrong: serde_json::Map<String, Value> = form
                .fields
                .iter()
                .filter(|f| !f.error.is_empty())
                .map(|f| (f.name.to_string(), Value::from(f.error.clone())))
                .collect();
            let body = json!({"error": "some inputs cannot be read", "fields": wrong, "status": 400});
            Ok((StatusCode::BAD_REQUEST, Json(body)).into_response())
        }
    }
}

/// `/api/v1/sources`: coverage, the doctor's word, and what could not be read.
pub async fn sources(State(desk): Desked, params: Params) -> Answer {
    let report = desk.report(&range_of(&params)?).await.map_err(Problem::for_program)?.report;
    let doctor = desk.app.doctor.clone();
    let sights = blocking(move || doctor()).await.map_err(Problem::for_program)?;
    written(&json!({
        "window": report.window, "hosts": report.hosts, "sources": report.sources, "doctor": sights,
        "issues": report.issues, "unknown_kinds": report.unknown_kinds,
    }))
}

/// `/api/v1/status`: how the agent itself does.
pub async fn status(State(desk): Desked) -> Answer {
    let folded =
        desk.ask(linchpin_analyzer::ledger::Ledger::events_folded).await.map_err(Problem::for_program)?;
    let (now, boot_ns) = (desk.app.now)();
    let own = (desk.app.self_status)();
    written(&json!({
        "version": desk.app.version, "host": desk.app.host, "now": now, "boot_ns": boot_ns,
        "events_folded": folded, "agent": own,
    }))
}

/// `/healthz`: that it answers, and the journal's state beside.
pub async fn healthz(State(desk): Desked) -> Answer {
    let own = (desk.app.self_status)();
    written(
        &json!({"status": "ok", "version": desk.app.version, "journal": own.get("journal").unwrap_or(&own)}),
    )
}
