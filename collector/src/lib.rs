//! A host becomes events. One source a file (or folder) under [`sources`], one [`Source`] trait, one [`supervisor`].
//! This crate records facts in the past tense and never judges: what a death was due to, and what it cost, is the
//! analyzer's to say.

pub mod admin;
pub mod import;
mod readiness;
pub mod resume;
pub mod roster;
pub mod source;
pub mod sources;
pub mod supervisor;
pub mod witness;

pub use resume::Resume;
pub use roster::Roster;
pub use source::{Roots, Settings, Sight, Source, SourceContext, SourceError};
pub use supervisor::{Supervisor, registry};
