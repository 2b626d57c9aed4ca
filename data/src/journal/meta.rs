//! `META`: the format of the journal and the run counter. Replaced whole, by rename, and fsynced, so that a run is
//! never counted twice.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use crate::journal::error::JournalError;

pub(super) const NAME: &str = "META";
const NEW: &str = "META.new";
const MAGIC: &str = "linchpin-journal";
/// The layout that is written, and the newest that is read.
pub(super) const FORMAT: u64 = 1;

/// What `META` says of the last run; `Ok(None)` where there is none, `Ok(Some(Err))` where it cannot be read.
pub(super) fn read(dir: &Path) -> Result<Option<Result<u64, String>>, JournalError> {
    let path = dir.join(NAME);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(JournalError::io("reading", &path)(e)),
    };
    match parse(&bytes) {
        Some((format, _)) if format > FORMAT => {
            Err(JournalError::Format { path: dir.to_path_buf(), found: format, supported: FORMAT })
        }
        Some((_, Some(runs))) => Ok(Some(Ok(runs))),
        _ => Ok(Some(Err("it is not what was written".into()))),
    }
}

/// Format, and the run counter where its line is whole.
fn parse(bytes: &[u8]) -> Option<(u64, Option<u64>)> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (first, rest) = text.split_once('\n')?;
    let format = first.strip_prefix(MAGIC)?.trim_start().parse().ok()?;
    let runs = || {
        let (runs, crc) = rest.strip_suffix('\n')?.split_once("\ncrc ")?;
        (crc == sum(first, runs)).then_some(())?;
        runs.strip_prefix("runs ")?.parse().ok()
    };
    Some((format, runs()))
}

fn sum(first: &str, second: &str) -> String {
    format!("{:08x}", crc32fast::hash(format!("{first}\n{second}\n").as_bytes()))
}

pub(super) fn write(dir: &Path, runs: u64) -> Result<(), JournalError> {
    let (first, second) = (format!("{MAGIC} {FORMAT}"), format!("runs {runs}"));
    let text = format!("{first}\n{second}\ncrc {}\n", sum(&first, &second));
    let new = dir.join(NEW);
    let put = || {
        let mut file = File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, dir.join(NAME))?;
        sync_dir(dir)
    };
    put().map_err(JournalError::io("writing", &dir.join(NAME)))
}

/// Makes renames and new names in a directory durable.
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_is_seen_and_a_newer_format_is_named() {
        let dir = tempfile::tempdir().unwrap();
        assert!(read(dir.path()).unwrap().is_none());
        write(dir.path(), 41).unwrap();
        write(dir.path(), 42).unwrap();
        assert_eq!(read(dir.path()).unwrap(), Some(Ok(42)));
        let good = fs::read(dir.path().join(NAME)).unwrap();
        for i in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[i / 8] ^= 1 << (i % 8);
            fs::write(dir.path().join(NAME), bad).unwrap();
            assert!(!matches!(read(dir.path()), Ok(Some(Ok(_)) | None)), "bit {i}");
        }
        fs::write(dir.path().join(NAME), format!("{MAGIC} 7\nof tomorrow")).unwrap();
        assert!(read(dir.path()).unwrap_err().to_string().contains("format 7"));
    }
}
