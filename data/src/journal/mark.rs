//! `MARK` in a segment: how many of its events were acknowledged as durable. The database drops, without a word, what
//! follows a torn record in its log; the mark tells a torn tail that nobody was promised from a loss.
//!
//! Two slots are written in turn, each with its checksum; written after each flush and not itself fsynced, so it never
//! claims more than is durable.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub(super) const NAME: &str = "MARK";
const MAGIC: &[u8; 4] = b"LPM1";
const SLOT: usize = 24;

/// The mark of an open segment.
#[derive(Debug)]
pub(super) struct Mark {
    file: File,
    generation: u64,
    acknowledged: u64,
}

impl Mark {
    pub(super) fn open(dir: &Path) -> io::Result<Mark> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(dir.join(NAME))?;
        let (generation, acknowledged) = best(&file).unwrap_or_default();
        Ok(Mark { file, generation, acknowledged })
    }

    /// Events that were acknowledged; 0 where nothing is known.
    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    pub(super) fn set(&mut self, acknowledged: u64) -> io::Result<()> {
        if acknowledged == self.acknowledged {
            return Ok(());
        }
        let generation = self.generation.wrapping_add(1);
        let mut slot = [0; SLOT];
        slot[..4].copy_from_slice(MAGIC);
        slot[4..12].copy_from_slice(&generation.to_le_bytes());
        slot[12..20].copy_from_slice(&acknowledged.to_le_bytes());
        let crc = crc32fast::hash(&slot[..20]);
        slot[20..].copy_from_slice(&crc.to_le_bytes());
        self.file.write_all_at(&slot, generation % 2 * SLOT as u64)?;
        (self.generation, self.acknowledged) = (generation, acknowledged);
        Ok(())
    }
}

fn best(file: &File) -> Option<(u64, u64)> {
    let slot = |n: u64| {
        let mut slot = [0; SLOT];
        file.read_exact_at(&mut slot, n * SLOT as u64).ok()?;
        let number = |i: usize| slot[i..i + 8].try_into().map(u64::from_le_bytes).ok();
        let crc = u32::from_le_bytes(slot[20..].try_into().ok()?);
        (slot[..4] == *MAGIC && crc == crc32fast::hash(&slot[..20])).then_some((number(4)?, number(12)?))
    };
    slot(0).max(slot(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_last_whole_slot() {
        let dir = tempfile::tempdir().unwrap();
        let mut mark = Mark::open(dir.path()).unwrap();
        assert_eq!(mark.acknowledged(), 0);
        for n in [5, 9, 12] {
            mark.set(n).unwrap();
        }
        assert_eq!(Mark::open(dir.path()).unwrap().acknowledged(), 12);
        let path = dir.path().join(NAME);
        let good = std::fs::read(&path).unwrap();
        for i in 0..good.len() {
            let mut bad = good.clone();
            bad[i] ^= 0x10;
            std::fs::write(&path, bad).unwrap();
            assert!([9, 12].contains(&Mark::open(dir.path()).unwrap().acknowledged()), "byte {i}");
        }
        std::fs::write(&path, b"").unwrap();
        assert_eq!(Mark::open(dir.path()).unwrap().acknowledged(), 0);
    }
}
