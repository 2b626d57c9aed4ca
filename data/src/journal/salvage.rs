//! What is done for a damaged segment: a copy from before the database touched it, what can still be read carved out of
//! its bytes, and the folder set aside by name, kept for people to look at.
//!
//! The database cannot be trusted with a damaged file: it zeroes what follows a broken record as it opens. So the events
//! are looked for in the bytes themselves, by the beginning that all values share and by their checksums, wherever they
//! lie; what the checksum vouches for was written by us.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::journal::codec::{self, MAX_VALUE};
use crate::journal::error::JournalError;
use crate::journal::meta::sync_dir;
use crate::journal::segment::{Segment, Trouble};
use crate::journal::week::Week;

/// How much of a file is looked through at once, in bytes.
const STEP: usize = 4 << 20;

/// Beside a segment `2026-W32`, while it is being opened for the first time: its files as they were before.
pub(super) const OPENING: &str = ".opening";
/// A copy that is not complete.
pub(super) const COPYING: &str = ".copying";
/// The salvaged events, until the damaged folder is out of the way.
pub(super) const FRESH: &str = ".fresh";
/// A folder being removed.
pub(super) const DROPPED: &str = ".dropped";
/// A folder set aside: a number follows.
pub(super) const DAMAGED: &str = ".damaged-";

/// `2026-W32` and an ending.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Removes a folder that may not be there.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// The first name `PATH.damaged-N` that is free.
pub(super) fn free_name(path: &Path) -> PathBuf {
    (1u64..).map(|n| beside(path, &format!("{DAMAGED}{n}"))).find(|p| !p.exists()).unwrap_or_default()
}

/// Copies a segment's files, durably, and gives the copy its name only when it is whole.
pub(super) fn copy(from: &Path, to: &Path, by_way_of: &Path) -> io::Result<()> {
    remove(by_way_of)?;
    remove(to)?;
    fs::create_dir_all(by_way_of.join("blobs"))?;
    for file in files(from)? {
        let name = file.strip_prefix(from).map_err(io::Error::other)?;
        let target = by_way_of.join(name);
        fs::copy(&file, &target)?;
        File::open(&target)?.sync_all()?;
    }
    sync_dir(&by_way_of.join("blobs"))?;
    sync_dir(by_way_of)?;
    fs::rename(by_way_of, to)
}

/// The regular files of a segment.
fn files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut out = Vec::new();
    for dir in [dir.to_path_buf(), dir.join("blobs")] {
        let entries = match fs::read_dir(&dir) {
            Err(e) if e.kind() == ErrorKind::NotFound => continue,
            other => other?,
        };
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                out.push(entry.path());
            }
        }
    }
    Ok(out)
}

/// Puts every event of `week` that can be found in the files of `from` into `fresh`; how many there were.
pub(super) fn carve(from: &Path, week: Week, fresh: &Segment) -> Result<u64, Trouble> {
    let mut seen = HashMap::new();
    for path in files(from).map_err(JournalError::io("reading", from))? {
        let io = JournalError::io("reading", &path);
        if let Err(trouble) = carve_file(&path, week, fresh, &mut seen) {
            match trouble {
                // An unreadable stretch of a disk ends this file, not the salvage.
                Stop::Read(e) if e.raw_os_error() == Some(nix::libc::EIO) => continue,
                Stop::Read(e) => return Err(io(e).into()),
                Stop::Write(t) => return Err(t),
            }
        }
    }
    Ok(seen.len() as u64)
}

enum Stop {
    Read(io::Error),
    Write(Trouble),
}

fn carve_file(
    path: &Path,
    week: Week,
    fresh: &Segment,
    seen: &mut HashMap<codec::Key, ()>,
) -> Result<(), Stop> {
    let mut file = File::open(path).map_err(Stop::Read)?;
    let mut bytes = Vec::new();
    loop {
        let got = (&mut file).take(STEP as u64).read_to_end(&mut bytes).map_err(Stop::Read)?;
        // A value may go on in what is read next, unless this is the end.
        let until = if got == 0 { bytes.len() } else { bytes.len().saturating_sub(MAX_VALUE) };
        let mut at = 0;
        while at < until {
            let rest = &bytes[at..];
            let Some((id, len)) = codec::carve(&rest[..rest.len().min(MAX_VALUE)]) else {
                at += 1;
                continue;
            };
            // One event lies in many places: each rewrite of its page leaves another copy.
            if week.contains(id.at) && seen.insert(codec::key(id), ()).is_none() {
                fresh.insert([(codec::key(id), &rest[..len])]).map_err(Stop::Write)?;
            }
            at += len;
        }
        bytes.drain(..at.min(bytes.len()));
        if got == 0 {
            return Ok(());
        }
    }
}
