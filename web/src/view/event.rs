//! Raw events: a page of them, newest first, and one in full.

use askama::Template;
use linchpin_analyzer::data::Event;
use serde_json::Value;

use super::frame::Frame;
use crate::markup::{self, Html, TEXT_MAX, visible};
use crate::words::{self, Shown};

/// The page of events.
#[derive(Template)]
#[template(path = "events.html")]
pub struct Events {
    /// What stands around.
    pub frame: Frame,
    /// The verdict.
    pub headline: String,
    /// The events.
    pub rows: Vec<EventRow>,
    /// Where older ones are.
    pub older: Option<String>,
    /// Where the newest are, if this is not them.
    pub newest: Option<String>,
    /// The filter as it stands.
    pub filter: Filter,
    /// Kinds that can be chosen.
    pub kinds: Vec<(String, bool)>,
    /// The same as JSON Lines.
    pub jsonl: String,
}

/// What is asked for, as text for the form.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only this subject.
    pub subject: String,
    /// Only this kind.
    pub kind: String,
    /// From.
    pub from: String,
    /// To.
    pub to: String,
    /// At most so many.
    pub limit: String,
}

/// One event in a list.
pub struct EventRow {
    /// Its page.
    pub href: String,
    /// Its id.
    pub id: String,
    /// When.
    pub at: Html,
    /// Host, where it is not this one.
    pub elsewhere: Html,
    /// Subject.
    pub subject: Html,
    /// Kind.
    pub kind: String,
    /// Its own fields, in one line.
    pub fields: String,
}

/// The page of one event.
#[derive(Template)]
#[template(path = "event.html")]
pub struct EventPage {
    /// What stands around.
    pub frame: Frame,
    /// The verdict: what happened to whom.
    pub headline: Html,
    /// When.
    pub at: Html,
    /// Every field.
    pub fields: Vec<(String, String)>,
    /// The event as it stands in the journal, bounded.
    pub raw: String,
    /// Its process.
    pub process: Option<String>,
    /// What happened about then.
    pub around: String,
}

/// One event in a list.
#[must_use]
pub fn event_row(e: &Event, here: &str) -> EventRow {
    let fields: Vec<String> = own_fields(e).into_iter().take(12).map(|(k, v)| format!("{k} {v}")).collect();
    EventRow {
        href: format!("/event/{}", e.id()),
        id: e.id().to_string(),
        at: words::time(e.at, Shown::Milli),
        elsewhere: if *e.host == *here { Html::default() } else { markup::name(&e.host) },
        subject: markup::subject(&e.subject),
        kind: visible(e.fact.kind(), 40),
        fields: markup::cut(&fields.join(" · "), 300),
    }
}

/// One event in full.
#[must_use]
pub fn event_page(e: &Event, frame: Frame) -> EventPage {
    let about = 60 * 1_000_000_000;
    let window = |ns: i64| markup::encode(&e.at.plus_ns(ns).to_string());
    let all = as_object(e);
    let fields = all.iter().take(200).map(|(k, v)| (visible(k, 80), value(v, TEXT_MAX))).collect();
    EventPage {
        frame,
        headline: Html(format!(
            "<code>{}</code> of {}",
            markup::escape(&visible(e.fact.kind(), 40)),
            markup::subject(&e.subject)
        )),
        at: words::time(e.at, Shown::Milli),
        fields,
        raw: visible(&serde_json::to_string(e).unwrap_or_default(), 8_000),
        process: (&*e.subject != "host:").then(|| markup::process_href(&e.host, &e.subject)).flatten(),
        around: format!("/events?from={}&to={}", window(-about), window(about)),
    }
}

fn as_object(e: &Event) -> serde_json::Map<String, Value> {
    match serde_json::to_value(e) {
        Ok(Value::Object(map)) => map,
        _ => serde_json::Map::new(),
    }
}

fn own_fields(e: &Event) -> Vec<(String, String)> {
    as_object(e)
        .iter()
        .filter(|(k, v)| !linchpin_analyzer::data::event::SHARED_FIELDS.contains(&k.as_str()) && !v.is_null())
        .map(|(k, v)| (markup::cut(k, 40), short(v)))
        .collect()
}

fn short(v: &Value) -> String {
    match v {
        Value::String(s) => markup::cut(s, 40),
        other => markup::cut(&other.to_string(), 40),
    }
}

fn value(v: &Value, max: usize) -> String {
    match v {
        Value::String(s) => visible(s, max),
        other => visible(&other.to_string(), max),
    }
}
