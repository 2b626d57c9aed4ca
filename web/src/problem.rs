//! What went wrong, as a page that says what still holds, or as JSON for programs.

use askama::Template;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::markup::visible;
use crate::view::frame::Frame;

/// An answer that could not be given.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The status.
    pub status: StatusCode,
    /// What is wrong, in one sentence.
    pub title: String,
    /// What was tried, on what, and what to do.
    pub detail: String,
    /// Whether a program asked.
    pub json: bool,
}

/// The page of a problem.
#[derive(Template)]
#[template(path = "error.html")]
struct ProblemPage {
    frame: Frame,
    status: u16,
    title: String,
    detail: String,
    missing: bool,
}

impl Problem {
    /// A problem.
    #[must_use]
    pub fn new(status: StatusCode, title: impl Into<String>, detail: impl Into<String>) -> Self {
        Problem { status, title: title.into(), detail: detail.into(), json: false }
    }

    /// The question cannot be read.
    #[must_use]
    pub fn question(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "This address cannot be read.", detail)
    }

    /// Nothing is there.
    #[must_use]
    pub fn missing(title: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, title, detail)
    }

    /// The server is ending.
    #[must_use]
    pub fn ending() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "The agent is ending.",
            "What is in the journal stays; start the agent again and reload.",
        )
    }

    /// Too much is asked at a time.
    #[must_use]
    pub fn busy(what: &str) -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "Too much is asked at a time.",
            format!("{what} Try again in a moment."),
        )
    }

    /// Something broke in here.
    #[must_use]
    pub fn broken(why: &str) -> Self {
        tracing::error!(why, "an answer could not be made");
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "This answer could not be made.",
            format!(
                "It failed with: {}. Watching and recording go on; the other pages and the journal still hold.",
                visible(why, 300)
            ),
        )
    }

    /// The same, for a program.
    #[must_use]
    pub fn for_program(mut self) -> Self {
        self.json = true;
        self
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (title, detail) = (visible(&self.title, 300), visible(&self.detail, 1_000));
        let mut response = if self.json {
            axum::Json(serde_json::json!({"error": title, "detail": detail, "status": self.status.as_u16()}))
                .into_response()
        } else {
            let page = ProblemPage {
                frame: Frame::new(&title, "", None, "", env!("CARGO_PKG_VERSION"), false),
                status: self.status.as_u16(),
                title: title.clone(),
                detail: detail.clone(),
                missing: self.status == StatusCode::NOT_FOUND,
            };
            match page.render() {
                Ok(html) => axum::response::Html(html).into_response(),
                Err(_) => format!("{title}\n{detail}\n").into_response(),
            }
        };
        *response.status_mut() = self.status;
        response.headers_mut().insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
        response
    }
}
