//! Reaching the engine, and saying what is missing where it can not be reached.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use bollard::query_parameters::ListContainersOptionsBuilder;
use bollard::{API_DEFAULT_VERSION, Docker};

use linchpin_data::Timestamp;

use crate::source::{Sight, SourceContext, SourceError};

/// How long an answer to a single question is waited for, in seconds.
const ANSWER_SECONDS: u64 = 30;
/// An engine that serves answers within this, in seconds.
const AT_ONCE_SECONDS: f64 = 0.2;
/// After a lost connection the engine is most likely restarting: how often it is tried, and for how long.
const TRY_EVERY: Duration = Duration::from_millis(250);
const TRIES: u32 = 240;

/// Why the engine can not be reached, and what to do.
#[derive(Debug)]
struct Unreachable {
    missing: String,
    grant: String,
}

/// Connects; after a lost connection with patience. None when the agent ends meanwhile. `refused` becomes the last moment
/// at which nobody answered.
pub async fn patiently(
    cx: &SourceContext,
    before: bool,
    refused: &mut Option<Timestamp>,
) -> Result<Option<Docker>, SourceError> {
    let mut tries = if before { TRIES } else { 1 };
    loop {
        let asked = cx.clock.now().at;
        let why = match engine(&cx.roots.docker).await {
            Ok(docker) => {
                // An engine that boots takes the question early and answers it late.
                let answered = cx.clock.now().at;
                if answered.seconds_since(asked) > AT_ONCE_SECONDS {
                    *refused = Some(answered);
                }
                return Ok(Some(docker));
            }
            Err(why) => why,
        };
        *refused = Some(cx.clock.now().at);
        tries -= 1;
        if tries == 0 {
            return Err(SourceError::Unavailable { what: why.missing, why: why.grant });
        }
        tokio::select! {
            () = tokio::time::sleep(TRY_EVERY) => {}
            () = cx.ended() => return Ok(None),
        }
    }
}

/// The engine behind a socket's path, `unix://PATH`, or `http://` and `tcp://` with host and port.
async fn engine(address: &Path) -> Result<Docker, Unreachable> {
    let text = address.to_string_lossy();
    let docker = if text.starts_with("http://") || text.starts_with("tcp://") {
        Docker::connect_with_http(&text, ANSWER_SECONDS, API_DEFAULT_VERSION)
    } else {
        let path = text.strip_prefix("unix://").unwrap_or(&text);
        // Asked here because the client hides which error it was.
        if let Err(e) = tokio::net::UnixStream::connect(path).await {
            return Err(refused(path, e.kind(), &e.to_string()));
        }
        Docker::connect_with_socket(path, ANSWER_SECONDS, API_DEFAULT_VERSION)
    };
    let answered = async { docker?.negotiate_version().await }.await;
    answered.map_err(|e| Unreachable {
        missing: format!("GET /version from {text}: {e}"),
        grant: "look at `docker version`; an engine older than 1.13 or a proxy that hides /version can not be read".into(),
    })
}

fn refused(path: &str, kind: ErrorKind, said: &str) -> Unreachable {
    let grant = match kind {
        ErrorKind::PermissionDenied => {
            "add the agent's user to the group docker (`usermod -aG docker USER`), or run the agent as root"
        }
        ErrorKind::NotFound => {
            "start Docker (`systemctl start docker`); if the agent runs in a container, mount /var/run/docker.sock into it; \
             if the socket is elsewhere (Podman: /run/podman/podman.sock), say where in the configuration"
        }
        _ => "start Docker (`systemctl start docker`): the socket is there and nobody answers",
    };
    Unreachable { missing: format!("connect to the socket {path}: {said}"), grant: grant.into() }
}

/// For `doctor`.
pub async fn sight(address: &Path) -> Sight {
    let docker = match engine(address).await {
        Ok(docker) => docker,
        Err(why) => return Sight::Blind { missing: why.missing, grant: why.grant },
    };
    let all = ListContainersOptionsBuilder::default().all(true).build();
    match docker.list_containers(Some(all)).await {
        Ok(list) => Sight::Works {
            detail: format!("{} containers at {} over API {}", list.len(), address.display(), docker.client_version()),
        },
        Err(e) => Sight::Blind {
            missing: format!("GET /containers/json from {}: {e}", address.display()),
            grant: "let the agent read /events, /containers/json and /containers/ID/json through whatever guards the socket".into(),
        },
    }
}
