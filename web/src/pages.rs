//! The pages' handlers: read the address, ask, hand to the view, lay out.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use linchpin_analyzer::data::{EventId, Fact};

use crate::desk::{Desk, blocking};
use crate::markup::{encode, visible};
use crate::problem::Problem;
use crate::range::{Params, Range};
use crate::scan::{self, Asked};
use crate::view::event::{Events, Filter, event_page, event_row};
use crate::view::frame::Frame;
use crate::view::{ceiling, dashboard, process, sources};

type Page = Result<Response, Problem>;
type Desked = State<Arc<Desk>>;

fn laid_out(page: &impl Template) -> Page {
    page.render().map(|html| Html(html).into_response()).map_err(|e| Problem::broken(&e.to_string()))
}

fn range_of(params: &Params) -> Result<Range, Problem> {
    Range::of(params).map_err(Problem::question)
}

fn frame(desk: &Desk, title: &str, path: &str, range: Option<&Range>, live: bool) -> Frame {
    Frame::new(title, path, range, &desk.app.host, desk.app.version, live)
}

/// `/`
pub async fn overview(State(desk): Desked, params: Params) -> Page {
    let range = range_of(&params)?;
    let kept = desk.report(&range).await?;
    let frame = frame(&desk, "Overview", "/", Some(&range), true).knowing(kept.at);
    laid_out(&dashboard::dashboard(&kept.report, desk.now(), frame, range.query()))
}

/// `/process/{host}/{*subject}`
pub async fn one_process(
    State(desk): Desked,
    Path((host, subject)): Path<(String, String)>,
    params: Params,
) -> Page {
    let range = range_of(&params)?;
    let (at, query) = (desk.folded(), desk.query(&range));
    let wanted = (host.clone(), subject.clone());
    let answer = desk
        .ask(move |l| l.process(Some(&wanted.0), &wanted.1, query).map(|detail| (detail, l.lanes(query))))
        .await?;
    let Some((detail, lanes)) = answer else {
        return Err(Problem::missing(
            "No such process was seen.",
            format!(
                "{} on host {} is not known. The overview lists every process that was; names and hosts are written as there.",
                visible(&subject, 96),
                visible(&host, 64)
            ),
        ));
    };
    let path = crate::markup::process_href(&host, &subject).unwrap_or_default();
    let frame = frame(&desk, &crate::markup::plain_subject(&subject), &path, Some(&range), true).knowing(at);
    laid_out(&process::process(&detail, &lanes, desk.now(), frame, &range.query()))
}

/// `/sources`
pub async fn seen(State(desk): Desked, params: Params) -> Page {
    let range = range_of(&params)?;
    let kept = desk.report(&range).await?;
    let doctor = desk.app.doctor.clone();
    let sights = blocking(move || doctor()).await?;
    let frame = frame(&desk, "Sources", "/sources", Some(&range), true).knowing(kept.at);
    laid_out(&sources::sources(&kept.report, &sights, frame))
}

/// `/ceiling`
pub async fn calculator(State(desk): Desked, params: Params) -> Page {
    let page = ceiling::page(&params, frame(&desk, "Ceiling", "/ceiling", None, false));
    let status = if page.valid() { StatusCode::OK } else { StatusCode::BAD_REQUEST };
    Ok((status, laid_out(&page)?).into_response())
}

/// `/events`
pub async fn events(State(desk): Desked, params: Params) -> Page {
    let asked = Asked::of(&params, desk.now()).map_err(Problem::question)?;
    let range = range_of(&params)?;
    let at = desk.folded();
    let found = scan::newest(&desk, asked.clone()).await?;
    let rows: Vec<_> = found.events.iter().map(|e| event_row(e, &desk.app.host)).collect();
    let text = |name: &str| params.get(name).map_or(String::new(), |v| visible(v, 200));
    let filter = Filter {
        subject: text("subject"),
        kind: text("kind"),
        from: text("from"),
        to: text("to"),
        limit: asked.limit.to_string(),
    };
    let headline = match (rows.len(), found.older.is_some()) {
        (0, _) => "No event fits.".to_string(),
        (n, true) => format!("The newest {} that fit.", crate::words::plural(n as u64, "event", "events")),
        (n, false) => format!(
            "{} {}.",
            crate::words::plural(n as u64, "event", "events"),
            if n == 1 { "fits" } else { "fit" }
        ),
    };
    let with_to = |to: Option<String>| {
        let mut parts: Vec<String> = ["range", "from", "subject", "kind", "limit"]
            .iter()
            .filter_map(|k| params.get(k).map(|v| format!("{k}={}", encode(v))))
            .collect();
        parts.extend(to.map(|t| format!("to={}", encode(&t))));
        if parts.is_empty() { String::new() } else { format!("?{}", parts.join("&")) }
    };
    let current = with_to(params.get("to").map(str::to_string));
    laid_out(&Events {
        frame: frame(&desk, "Events", "/events", Some(&range), params.get("to").is_none()).knowing(at),
        headline,
        rows,
        older: found.older.map(|t| format!("/events{}", with_to(Some(t.to_string())))),
        newest: params.get("to").map(|_| format!("/events{}", with_to(None))),
        kinds: Fact::KINDS.iter().map(|k| ((*k).to_string(), params.get("kind") == Some(k))).collect(),
        filter,
        jsonl: format!("/api/v1/events{current}{}format=jsonl", if current.is_empty() { "?" } else { "&" }),
    })
}

/// `/event/{id}`
pub async fn one_event(State(desk): Desked, Path(id): Path<String>) -> Page {
    let id: EventId = id.parse().map_err(|e| Problem::question(format!("{}: {e}", visible(&id, 80))))?;
    let event = scan::one(&desk, id).await?;
    laid_out(&event_page(&event, frame(&desk, "Event", "/event", None, false)))
}

/// Everything else.
pub async fn nothing(request: axum::extract::Request) -> Problem {
    let problem = Problem::missing(
        "There is no such page.",
        format!("{} leads nowhere.", visible(request.uri().path(), 100)),
    );
    if crate::guard::is_api(request.uri()) { problem.for_program() } else { problem }
}
