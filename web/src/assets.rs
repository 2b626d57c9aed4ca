//! The style sheet, the script and the icon: embedded, served under addresses that change with their content, so that
//! they may be kept for ever.

use std::sync::OnceLock;

use axum::extract::Path;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::range::Params;

struct Asset {
    name: &'static str,
    mime: &'static str,
    body: &'static str,
}

const ASSETS: [Asset; 3] = [
    Asset {
        name: "style.css",
        mime: "text/css; charset=utf-8",
        body: include_str!("../../templates/assets/style.css"),
    },
    Asset {
        name: "live.js",
        mime: "text/javascript; charset=utf-8",
        body: include_str!("../../templates/assets/live.js"),
    },
    Asset { name: "icon.svg", mime: "image/svg+xml", body: include_str!("../../templates/assets/icon.svg") },
];

/// FNV-1a over the content: not secret, only different when the content is.
fn stamp(body: &str) -> u64 {
    body.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

fn hrefs() -> &'static [String; 3] {
    static HREFS: OnceLock<[String; 3]> = OnceLock::new();
    HREFS.get_or_init(|| ASSETS.each_ref().map(|a| format!("/assets/{}?v={:016x}", a.name, stamp(a.body))))
}

/// The style sheet's address.
pub fn css_href() -> &'static str {
    &hrefs()[0]
}

/// The script's address.
pub fn js_href() -> &'static str {
    &hrefs()[1]
}

/// The icon's address.
pub fn icon_href() -> &'static str {
    &hrefs()[2]
}

/// `/assets/{name}`.
pub async fn serve(Path(name): Path<String>, params: Params) -> Response {
    let Some(asset) = ASSETS.iter().find(|a| a.name == name) else {
        return (StatusCode::NOT_FOUND, "no such asset; there are style.css, live.js and icon.svg\n")
            .into_response();
    };
    let current = params.get("v").is_some_and(|v| v == format!("{:016x}", stamp(asset.body)));
    let keep = if current { "public, max-age=31536000, immutable" } else { "no-cache" };
    (
        [
            (header::CONTENT_TYPE, HeaderValue::from_static(asset.mime)),
            (header::CACHE_CONTROL, HeaderValue::from_static(keep)),
        ],
        asset.body,
    )
        .into_response()
}
