//! Witnesses that several sources share: not sources themselves, they emit no events.

mod exits;

pub use exits::{Exit, Exits};
