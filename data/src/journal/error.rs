//! What can go wrong with the journal, said so that a person knows what was tried, on what, and what to do.

use std::io;
use std::path::{Path, PathBuf};

use crate::event::EventId;
use crate::journal::lock::Holder;

/// Why the journal could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// Another process has it open.
    #[error("the journal {} is held by {holder}; {}", dir.display(), advice(holder))]
    Held {
        /// The journal's directory.
        dir: PathBuf,
        /// Who holds it.
        holder: Holder,
    },
    /// The system refused something.
    #[error("{action} {}: {source}{}", path.display(), hint(source))]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The database of a segment refused something that a retry may cure.
    #[error("{action} {}: {detail}", path.display())]
    Segment {
        /// What was tried.
        action: &'static str,
        /// The segment.
        path: PathBuf,
        /// What the database says.
        detail: String,
    },
    /// Written by a newer version of this program.
    #[error("{} is written in format {found}; this version reads up to format {supported}: use the newer linchpin that wrote it", path.display())]
    Format {
        /// The journal or the segment.
        path: PathBuf,
        /// The format found.
        found: u64,
        /// The newest format that is read.
        supported: u64,
    },
    /// One event cannot be kept, whatever is tried; others can.
    #[error("event {id} cannot be journaled: {why}")]
    Event {
        /// Which.
        id: EventId,
        /// What is wrong with it.
        why: String,
    },
}

impl JournalError {
    /// An I/O error with what was tried and on what.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> JournalError {
        move |source| JournalError::Io { action, path: path.to_path_buf(), source }
    }
}

fn advice(holder: &Holder) -> String {
    match &holder.note {
        Some(url) => format!("ask it at {url}, or end it first"),
        None => "end it first".into(),
    }
}

fn hint(e: &io::Error) -> &'static str {
    match e.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            " (the journal needs a directory that this user may write: choose one with --journal, or grant it)"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            " (free some space; what is not written yet is kept in memory and tried again)"
        }
        _ => "",
    }
}
