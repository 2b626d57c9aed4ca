//! The questions that are put to an engine, all of them GET: its events, its list, a container's state, whether it is
//! there. What this client can not read of an answer, our own lenient reading may.

use std::collections::HashMap;
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use bollard::query_parameters::{EventsOptionsBuilder, InspectContainerOptions};
use futures_util::StreamExt;
use linchpin_data::Timestamp;
use linchpin_data::clock::Stamp;
use linchpin_data::time::NS;
use serde_json::Value;
use tokio::sync::mpsc;

use super::decode::{Decoded, RuntimeEvent, decode, moment};
use super::inspect::{Facts, facts};
use super::kernel;
use crate::source::{Roots, SourceContext};

/// How long the engine may take to say that it is there; shorter than exits that were asked for are held back.
const PING: Duration = Duration::from_millis(500);
/// What the reader hands on.
pub enum Item {
    Event(RuntimeEvent),
    /// An event that is not understood; the stream goes on.
    Odd(&'static str, String),
    /// The stream broke at something unreadable, of this moment if it could be told.
    Broken(String, String, Option<Timestamp>),
    /// The connection ended.
    Lost(String),
}

/// What became of an inspection.
pub enum Inspected {
    Facts(Box<Facts>, Stamp),
    Gone,
    Failed(String),
}

/// Whether the engine answers: while it shuts down it does not, and what it does to its containers nobody asked for. A
/// client's request is told of in the same moment in which the engine can be asked; `at` is that moment.
pub async fn ping(docker: &Docker, at: Timestamp) -> (Timestamp, bool) {
    (at, tokio::time::timeout(PING, docker.ping()).await.is_ok_and(|r| r.is_ok()))
}

/// Reads the event stream to its end.
pub async fn read(docker: Docker, since: Timestamp, items: mpsc::Sender<Item>) {
    const ACTIONS: [&str; 16] = [
        "create",
        "start",
        "restart",
        "die",
        "died",
        "oom",
        "kill",
        "stop",
        "destroy",
        "remove",
        "rename",
        "update",
        "health_status",
        "pause",
        "unpause",
        "cleanup",
    ];
    let words = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    let filters =
        HashMap::from([("type".to_string(), words(&["container"])), ("event".to_string(), words(&ACTIONS))]);
    let since = format!("{}.{:09}", since.0.div_euclid(NS), since.0.rem_euclid(NS));
    let options = EventsOptionsBuilder::default().since(&since).filters(&filters).build();
    let mut events = std::pin::pin!(docker.events(Some(options)));
    loop {
        let item = match events.next().await {
            Some(Ok(message)) => match serde_json::to_value(&message) {
                Ok(value) => match decode(&value) {
                    Decoded::Event(e) => Item::Event(e),
                    Decoded::Other => continue,
                    Decoded::Unreadable(why) => Item::Odd(why, value.to_string()),
                },
                Err(e) => Item::Odd("it can not be written as JSON", e.to_string()),
            },
            Some(Err(Error::JsonDataError { message, contents, .. })) => {
                broken(message, contents, &items).await
            }
            Some(Err(e @ Error::JsonSerdeError { .. })) => Item::Broken(e.to_string(), String::new(), None),
            Some(Err(e)) => Item::Lost(e.to_string()),
            None => Item::Lost("the engine closed it".into()),
        };
        let end = matches!(item, Item::Broken(..) | Item::Lost(_));
        if items.send(item).await.is_err() || end {
            return;
        }
    }
}

/// What the client can not read, our own lenient reading may: then it is an event all the same.
async fn broken(why: String, contents: String, items: &mpsc::Sender<Item>) -> Item {
    let value: Value = serde_json::from_str(&contents).unwrap_or_default();
    let at = moment(&value).map(|(at, _)| at);
    if let Decoded::Event(e) = decode(&value) {
        // If nobody listens any more the next send says so.
        let _ = items.send(Item::Event(e)).await;
    }
    Item::Broken(why, contents, at)
}

/// The ids out of a list whose entries the client could not read in full.
pub fn ids_of(e: Error) -> Result<Vec<String>, String> {
    match e {
        Error::JsonDataError { contents, message, .. } => {
            let list: Vec<Value> = serde_json::from_str(&contents).map_err(|_| message)?;
            Ok(list.iter().filter_map(|c| Some(c.get("Id")?.as_str()?.to_string())).collect())
        }
        e => Err(e.to_string()),
    }
}

pub async fn inspect(docker: &Docker, cx: &SourceContext, id: &str) -> Inspected {
    let asked = cx.clock.now();
    let value = match docker.inspect_container(id, None::<InspectContainerOptions>).await {
        Ok(answer) => serde_json::to_value(&answer).map_err(|e| e.to_string()),
        // A value that this client does not know of: our own reading is lenient.
        Err(Error::JsonDataError { contents, message, .. }) => {
            serde_json::from_str(&contents).map_err(|_| message)
        }
        Err(Error::DockerResponseServerError { status_code: 404, .. }) => return Inspected::Gone,
        Err(e) => Err(e.to_string()),
    };
    match value.map(|v| facts(&v)) {
        Ok(Some(mut facts)) => {
            facts.cgroup = cgroup(&cx.roots, &facts);
            Inspected::Facts(Box::new(facts), asked)
        }
        Ok(None) => Inspected::Failed("the answer has no `Id`".into()),
        Err(why) => Inspected::Failed(why),
    }
}

fn cgroup(roots: &Roots, facts: &Facts) -> Option<String> {
    kernel::cgroup_of(roots, facts.pid?)
}
