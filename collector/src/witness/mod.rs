//! Witnesses that several sources share: not sources themselves, they emit no events.

pub mod connector;
mod dying;
mod exits;
pub mod priority;
pub mod sockopt;

pub use exits::{Exit, Exits, Hearing};
