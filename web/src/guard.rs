//! What every request passes first and every answer last: which hosts are answered (a page elsewhere must not reach in
//! through a rebound name), which methods, how long an address may be, and the headers that keep a page to itself.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::desk::Desk;
use crate::markup::visible;
use crate::problem::Problem;

/// Nothing from elsewhere, nothing inline, no frame around it.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
/// The longest path and the longest query that are read, in bytes.
const PATH_MAX: usize = 8 << 10;
const QUERY_MAX: usize = 4 << 10;

const HEADERS: [(&str, &str); 7] = [
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("x-frame-options", "DENY"),
];

/// The middleware around everything.
pub async fn guard(State(desk): State<Arc<Desk>>, request: Request, next: Next) -> Response {
    let json = is_api(request.uri());
    let mut response = match refuse(&request, &desk) {
        Some(problem) if json => problem.for_program().into_response(),
        Some(problem) => problem.into_response(),
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Whether programs ask here.
pub fn is_api(uri: &Uri) -> bool {
    uri.path().starts_with("/api/") || uri.path() == "/healthz"
}

fn refuse(request: &Request, desk: &Desk) -> Option<Problem> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return Some(Problem::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "Linchpin only looks.",
            format!(
                "{} is not answered here; there are GET and HEAD, and neither changes anything.",
                visible(request.method().as_str(), 20)
            ),
        ));
    }
    let uri = request.uri();
    if uri.path().len() > PATH_MAX || uri.query().is_some_and(|q| q.len() > QUERY_MAX) {
        return Some(Problem::new(
            StatusCode::URI_TOO_LONG,
            "This address is too long.",
            format!("A path may have {PATH_MAX} bytes and a query {QUERY_MAX}."),
        ));
    }
    let named = request.headers().get_all(header::HOST).iter().map(|v| v.to_str().unwrap_or("(not text)"));
    let hosts: Vec<&str> = named.chain(uri.authority().map(|a| a.as_str())).collect();
    if hosts.is_empty() || !hosts.iter().all(|h| answers(h, desk.bound, &desk.app.host)) {
        let asked =
            hosts.iter().find(|h| !answers(h, desk.bound, &desk.app.host)).map_or("no host at all", |h| *h);
        return Some(Problem::new(
            StatusCode::MISDIRECTED_REQUEST,
            "This name is not answered here.",
            format!(
                "The request asked for {}. So that no web page elsewhere can read this one through a name of its own, only localhost and the address that the agent listens on are answered: open http://127.0.0.1:7420, or give --listen the address you want to use.",
                visible(asked, 100)
            ),
        ));
    }
    None
}

/// Whether a `Host` is ours: a loopback name or address, or the address bound. Bound to every address, any address and
/// this host's own name are ours; a name that somebody else's DNS answers for never is.
fn answers(host: &str, bound: Option<IpAddr>, own: &str) -> bool {
    let name = without_port(host);
    let loopback =
        name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost");
    let ip: Option<IpAddr> = name.trim_start_matches('[').trim_end_matches(']').parse().ok();
    match (ip, bound) {
        _ if loopback => true,
        (Some(ip), _) if ip.is_loopback() => true,
        (Some(_), Some(b)) if b.is_unspecified() => true,
        (Some(ip), Some(b)) => ip == b,
        (None, Some(b)) if !b.is_loopback() => !own.is_empty() && name.eq_ignore_ascii_case(own),
        _ => false,
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|b| b.is_ascii_digit()) && (!name.contains(':') || name.ends_with(']')) =>
        {
            name
        }
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::answers;

    #[test]
    fn only_our_own_names() {
        let lo = Some("127.0.0.1".parse().unwrap());
        for good in [
            "localhost",
            "LOCALHOST:7420",
            "127.0.0.1:7420",
            "[::1]:7420",
            "127.9.9.9",
            "linchpin.localhost:1",
        ] {
            assert!(answers(good, lo, "host-a"), "{good}");
        }
        for bad in [
            "",
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example:7420",
            "host-a",
            "10.0.0.1",
            "127.0.0.1@evil.example",
            "[::1",
            "localhost:x",
        ] {
            let is_loopback_literal = bad == "[::1";
            assert_eq!(answers(bad, lo, "host-a"), is_loopback_literal, "{bad}");
        }
        let all = Some("0.0.0.0".parse().unwrap());
        assert!(answers("10.0.0.1:7420", all, "host-a") && answers("Host-A:7420", all, "host-a"));
        assert!(!answers("evil.example", all, "host-a") && !answers("", all, ""));
        let one = Some("10.0.0.1".parse().unwrap());
        assert!(answers("10.0.0.1", one, "") && !answers("10.0.0.2", one, ""));
    }
}
