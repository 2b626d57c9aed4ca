//! The docker source: the transport. Connects to the engine's socket, subscribes, lists, inspects, reconnects; only ever
//! with GET requests. What is heard is understood in [`decode`] and [`inspect`], what it means for each container in
//! [`tracker`], [`operator`], [`pending`] and [`conclude`]: all of those are pure.
//!
//! The event stream is subscribed to first, from the last moment that is known, and the containers are listed after: what
//! happens between is in the stream. Engines keep 256 events at most; what a replay lacks is found by what inspect proves.

mod answers;
mod ask;
mod bounds;
mod conclude;
pub(crate) mod connect;
pub mod decode;
mod hostnames;
pub mod inspect;
mod kernel;
pub mod operator;
mod pending;
mod session;
pub mod subject;
pub mod tracker;
mod traits;

#[cfg(test)]
mod tests;

use async_trait::async_trait;
use tokio::sync::Mutex;

use crate::source::{Roots, Sight, Source, SourceContext, SourceError};
use session::{Memory, Session};

/// Watches the containers of a Docker (or Podman) engine.
#[derive(Default)]
pub struct Docker {
    /// What is known across lost connections.
    memory: Mutex<Option<Memory>>,
}

/// For the registry.
#[must_use]
pub fn source() -> Box<dyn Source> {
    Box::<Docker>::default()
}

#[async_trait]
impl Source for Docker {
    fn name(&self) -> &'static str {
        "docker"
    }

    fn sees(&self) -> &'static str {
        "containers started, ended, stopped by an operator, removed, renamed, changed; their health, limits, labels and networks"
    }

    async fn run(&self, cx: SourceContext) -> Result<(), SourceError> {
        let mut memory = self.memory.lock().await;
        let memory = memory.get_or_insert_with(|| Memory::new(&cx));
        let docker = match connect::patiently(&cx, memory.connected, &mut memory.refused).await {
            Ok(Some(docker)) => docker,
            Ok(None) => return Ok(()),
            Err(e) => {
                // Nobody needs to wait for a list that does not come.
                cx.roster.set_filled();
                return Err(e);
            }
        };
        loop {
            let ended = Session::new(&cx, &docker, memory).run().await;
            // Unless the stream broke on one event, which is left behind, this is an end.
            match ended? {
                session::End::Shutdown => return Ok(()),
                session::End::Unreadable => {}
            }
        }
    }

    async fn sight(&self, roots: &Roots) -> Sight {
        connect::sight(&roots.docker).await
    }
}
