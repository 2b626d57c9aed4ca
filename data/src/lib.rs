//! What Linchpin records: the one reference for the event vocabulary.
//!
//! An **event** is one fact seen on one host at one moment, told in the past tense. On the wire it is one flat JSON
//! object a line (JSON Lines, UTF-8, RFC 3339 UTC with up to nanoseconds). See [`event::Event`] for the fields that all
//! kinds share and [`event::Fact`] for every kind with its own fields and units.
//!
//! This crate records and hands back; it judges nothing. Collectors write events, the analyzer folds them. With the
//! feature `journal` off (as the analyzer builds it) nothing in here can do I/O or read a clock.

pub mod event;
pub mod jsonl;
pub mod lines;
pub mod time;
pub mod window;

#[cfg(feature = "journal")]
pub mod clock;
#[cfg(feature = "journal")]
pub mod journal;

pub use event::{Event, EventId, Fact};
pub use time::Timestamp;
pub use window::{Span, Windows};
