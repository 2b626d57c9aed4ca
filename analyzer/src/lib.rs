//! Events become findings. Pure: no I/O, no clock, no async, no unsafe; all time comes from events or from the caller.
//!
//! The [`ledger`] folds one event at a time, live and replayed alike, and answers with a [`report`].
#![forbid(unsafe_code)]

pub mod archive;
pub mod budget;
pub mod calculator;
mod cause;
pub mod ceiling;
mod chain;
mod change;
mod differential;
mod drills;
mod episode;
mod fact;
mod host;
mod kills;
pub mod ledger;
pub mod link;
mod names;
mod observed;
mod pressure;
mod process;
mod proof;
pub mod rate;
pub mod report;
mod sentence;
mod subject;
mod timeline;
pub mod trend;
mod view;
mod why;

pub use ledger::Ledger;
pub use linchpin_data as data;
pub use report::{Objective, ProcessDetail, Query, Report};
