//! Keys and values as they lie in a segment.
//!
//! Key, 24 bytes, so that byte order is time order: `at` (nanoseconds, sign bit flipped), `run`, `seq`, each big-endian.
//! Value: one byte of format version, the event as MessagePack with field names, and a CRC-32 (little-endian) over both.
//! The checksum and the shared beginning of every value let the salvage find events in a file that no database opens.

use std::io::Cursor;

use crate::event::{Event, EventId};
use crate::time::Timestamp;

/// The format version that is written, and the newest that is read.
pub(super) const VERSION: u8 = 1;
/// The longest value that is kept, in bytes.
pub(super) const MAX_VALUE: usize = 1 << 20;
/// Bytes of the checksum at the end.
const CRC: usize = 4;

pub(super) type Key = [u8; 24];

/// Why a value gives no event.
#[derive(Debug)]
pub(super) enum Unreadable {
    /// Written by a newer version.
    Format(u8),
    /// Not what was written.
    Damaged(String),
}

const SIGN: u64 = 1 << 63;

pub(super) fn key(id: EventId) -> Key {
    let mut out = [0; 24];
    out[..8].copy_from_slice(&(id.at.0.cast_unsigned() ^ SIGN).to_be_bytes());
    out[8..16].copy_from_slice(&id.run.to_be_bytes());
    out[16..].copy_from_slice(&id.seq.to_be_bytes());
    out
}

pub(super) fn id(key: &[u8]) -> Option<EventId> {
    let key: &Key = key.try_into().ok()?;
    let part = |i: usize| key[i..i + 8].try_into().map(u64::from_be_bytes).ok();
    Some(EventId { at: Timestamp((part(0)? ^ SIGN).cast_signed()), run: part(8)?, seq: part(16)? })
}

/// # Errors
/// What is wrong with the event, in words.
pub(super) fn encode(event: &Event) -> Result<Vec<u8>, String> {
    if event.run.is_none() || event.seq.is_none() {
        return Err("it has no run and seq; number it first".into());
    }
    let mut out = vec![VERSION];
    rmp_serde::encode::write_named(&mut out, event).map_err(|e| e.to_string())?;
    let crc = crc32fast::hash(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    if out.len() > MAX_VALUE {
        return Err(format!("it takes {} bytes; at most {MAX_VALUE} are kept", out.len()));
    }
    Ok(out)
}

/// Whether the value is whole, without reading the event.
pub(super) fn check(value: &[u8]) -> Result<&[u8], Unreadable> {
    match value.first() {
        Some(&VERSION) => {}
        Some(&v) => return Err(Unreadable::Format(v)),
        None => return Err(Unreadable::Damaged("an empty value".into())),
    }
    let Some((body, crc)) = value.split_last_chunk::<CRC>() else {
        return Err(Unreadable::Damaged("a value without its checksum".into()));
    };
    if crc32fast::hash(body) != u32::from_le_bytes(*crc) {
        return Err(Unreadable::Damaged("a value whose checksum does not match".into()));
    }
    body.get(1..).ok_or_else(|| Unreadable::Damaged("an empty value".into()))
}

pub(super) fn decode(value: &[u8]) -> Result<Event, Unreadable> {
    rmp_serde::from_slice(check(value)?).map_err(|e| Unreadable::Damaged(e.to_string()))
}

/// Reads a whole value from the beginning of `bytes`, which go on after it: the event, and how many bytes were the
/// value. `None` where none begins.
pub(super) fn carve(bytes: &[u8]) -> Option<(EventId, usize)> {
    // Version, a map, and its first key: every event begins with `at`.
    let map = match bytes.get(1)? {
        0x80..=0x8f => 2,
        0xde => 4,
        0xdf => 6,
        _ => return None,
    };
    if bytes.first() != Some(&VERSION) || bytes.get(map..map + 3) != Some(b"\xa2at") {
        return None;
    }
    let mut rest = Cursor::new(bytes.get(1..)?);
    let event: Event = rmp_serde::from_read(&mut rest).ok()?;
    let len = 1 + usize::try_from(rest.position()).ok()? + CRC;
    check(bytes.get(..len)?).ok()?;
    Some((event.id(), len))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn event(line: &str) -> Event {
        serde_json::from_str(line).unwrap()
    }

    const RICH: &str = r#"{"at":"2026-08-09T06:05:03.458939354Z","boot_ns":18446744073709551615,"run":3,"seq":7,"host":"h","subject":"docker:proxy","kind":"exited","exit_code":-1,"resolution_ms":0.1,"signal":null,"colour":"blue","deep":{"a":[1,2.5,-9223372036854775808,null]}}"#;

    #[test]
    fn values_are_lossless() {
        let e = event(RICH);
        let bytes = encode(&e).unwrap();
        assert_eq!(decode(&bytes).unwrap(), e);
        let mut noise = bytes.clone();
        noise.extend_from_slice(b"what follows");
        assert_eq!(carve(&noise), Some((e.id(), bytes.len())));
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        let bytes = encode(&event(RICH)).unwrap();
        for i in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[i / 8] ^= 1 << (i % 8);
            assert!(decode(&bad).is_err(), "bit {i}");
            assert_eq!(carve(&bad), None, "bit {i}");
        }
        for n in 0..bytes.len() {
            assert!(decode(&bytes[..n]).is_err());
        }
    }

    #[test]
    fn refuses_the_unnumbered_and_the_huge() {
        let mut e = event(RICH);
        e.seq = None;
        assert!(encode(&e).unwrap_err().contains("number it"));
        let mut e = event(RICH);
        e.extra.insert("x".into(), "y".repeat(MAX_VALUE).into());
        assert!(encode(&e).unwrap_err().contains("at most"));
    }

    #[test]
    fn a_newer_format_is_named() {
        let mut bytes = encode(&event(RICH)).unwrap();
        bytes[0] = 2;
        assert!(matches!(decode(&bytes), Err(Unreadable::Format(2))));
    }

    proptest! {
        #[test]
        fn keys_sort_as_ids(a: (i64, u64, u64), b: (i64, u64, u64)) {
            let make = |(at, run, seq)| EventId { at: Timestamp(at), run, seq };
            let (a, b) = (make(a), make(b));
            prop_assert_eq!(key(a).cmp(&key(b)), a.cmp(&b));
            prop_assert_eq!(id(&key(a)), Some(a));
        }

        #[test]
        fn garbage_is_no_event(bytes: Vec<u8>) {
            prop_assert!(decode(&bytes).is_err());
            prop_assert_eq!(carve(&bytes), None);
        }
    }
}
