//! What stands before a kernel message: raw `/dev/kmsg` records, dmesg in its several forms, syslog with and without a
//! host, journalctl short and JSON. Takes it off and says what time it told; what the message means is [`super::oom`]'s
//! and [`super::fault`]'s. Pure, on bytes; a form that is not known leaves the line as the message, without a time.

use std::borrow::Cow;

use linchpin_data::Timestamp;

use super::civil::{self, Civil};

/// The moment that a line's prefix tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogTime {
    /// None was told, or in a form that is not known.
    #[default]
    Unknown,
    /// Microseconds of the kernel's log clock since boot (sched_clock: near CLOCK_MONOTONIC, not CLOCK_BOOTTIME).
    Boot(u64),
    /// A moment with its zone.
    Wall(Timestamp),
    /// A calendar time without a zone, and often without a year: whoever imports it must know both.
    Local(Civil),
}

impl LogTime {
    /// Microseconds from `earlier` to here, if both are of one kind and can be compared.
    #[must_use]
    pub fn micros_since(self, earlier: LogTime) -> Option<i64> {
        match (self, earlier) {
            (LogTime::Boot(a), LogTime::Boot(b)) => i64::try_from(i128::from(a) - i128::from(b)).ok(),
            (LogTime::Wall(a), LogTime::Wall(b)) => Some(a.0.saturating_sub(b.0) / 1_000),
            (LogTime::Local(a), LogTime::Local(b)) => Some(a.micros_since(b)),
            _ => None,
        }
    }
}

/// A line without its prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stripped<'a> {
    /// The moment told.
    pub time: LogTime,
    /// The kernel's sequence number (raw records only).
    pub seq: Option<u64>,
    /// Who printed it, where the kernel says so (`T9185`, `caller=T9185`): the thread's id.
    pub caller: Option<u32>,
    /// A program other than the kernel wrote the line.
    pub foreign: bool,
    /// The message.
    pub message: Cow<'a, [u8]>,
}

/// The head of a raw `/dev/kmsg` record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KmsgHead {
    /// Syslog facility; 0 is the kernel.
    pub facility: u64,
    /// Sequence number.
    pub seq: u64,
    /// Microseconds of the log clock.
    pub micros: u64,
    /// The thread that printed it, where the kernel says so.
    pub caller: Option<u32>,
    /// Where the message begins.
    pub message_at: usize,
}

/// Reads `6,1234,5678901,-;` or `6,1234,5678901,-,caller=T12;`.
#[must_use]
pub fn kmsg_head(line: &[u8]) -> Option<KmsgHead> {
    let (prio, at) = number(line, 0)?;
    let (seq, at) = number(line, comma(line, at)?)?;
    let (micros, at) = number(line, comma(line, at)?)?;
    comma(line, at)?;
    let semicolon = at + line.get(at..)?.iter().take(128).position(|b| *b == b';')?;
    let fields = line.get(at..semicolon)?;
    let caller = fields.split(|b| *b == b',').find_map(|f| f.strip_prefix(b"caller=T")).and_then(digits);
    Some(KmsgHead { facility: prio >> 3, seq, micros, caller, message_at: semicolon + 1 })
}

fn comma(line: &[u8], at: usize) -> Option<usize> {
    (line.get(at) == Some(&b',')).then_some(at + 1)
}

/// The number that begins at `at`, and where it ends.
fn number(line: &[u8], at: usize) -> Option<(u64, usize)> {
    let rest = line.get(at..)?;
    let len = rest.iter().take(21).take_while(|b| b.is_ascii_digit()).count();
    let value = std::str::from_utf8(rest.get(..len)?).ok()?.parse().ok()?;
    Some((value, at + len))
}

fn digits<T: std::str::FromStr>(bytes: &[u8]) -> Option<T> {
    if bytes.is_empty() || !bytes.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// Takes the prefix off one line (without its newline).
#[must_use]
pub fn strip(line: &[u8]) -> Stripped<'_> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if let Some(head) = kmsg_head(line) {
        return Stripped {
            time: LogTime::Boot(head.micros),
            seq: Some(head.seq),
            caller: head.caller,
            foreign: head.facility != 0,
            message: unescape(line.get(head.message_at..).unwrap_or_default()),
        };
    }
    if line.first() == Some(&b'{')
        && let Some(s) = journal_json(line)
    {
        return s;
    }
    let mut out = Stripped::default();
    let rest = syslog(line, &mut out);
    let rest = brackets(rest, &mut out);
    out.message = Cow::Borrowed(rest);
    out
}

/// `\xNN`, as the kernel writes what is not printable ASCII, and the backslash itself, in raw records.
fn unescape(raw: &[u8]) -> Cow<'_, [u8]> {
    if !raw.contains(&b'\\') {
        return Cow::Borrowed(raw);
    }
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((&first, tail)) = rest.split_first() {
        let hex = (first == b'\\' && tail.first() == Some(&b'x'))
            .then(|| tail.get(1..3))
            .flatten()
            .and_then(|h| std::str::from_utf8(h).ok())
            .and_then(|h| u8::from_str_radix(h, 16).ok());
        match hex {
            Some(byte) => {
                out.push(byte);
                rest = tail.get(3..).unwrap_or_default();
            }
            None => {
                out.push(first);
                rest = tail;
            }
        }
    }
    Cow::Owned(out)
}

/// One object of `journalctl -o json`. None where it is not one.
fn journal_json(line: &[u8]) -> Option<Stripped<'_>> {
    let object: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(line).ok()?;
    let text = |key: &str| object.get(key).and_then(serde_json::Value::as_str);
    let message = match object.get("MESSAGE")? {
        serde_json::Value::String(s) => s.as_bytes().to_vec(),
        // journald writes what is not UTF-8 as numbers.
        serde_json::Value::Array(bytes) => {
            bytes.iter().map(|b| b.as_u64().and_then(|b| u8::try_from(b).ok())).collect::<Option<_>>()?
        }
        _ => return None,
    };
    let micros: Option<i64> =
        text("_SOURCE_REALTIME_TIMESTAMP").or(text("__REALTIME_TIMESTAMP")).and_then(|t| t.parse().ok());
    let time = micros
        .and_then(|us| us.checked_mul(1_000))
        .map_or(LogTime::Unknown, |ns| LogTime::Wall(Timestamp(ns)));
    let foreign = match text("_TRANSPORT") {
        Some(transport) => transport != "kernel",
        None => text("SYSLOG_IDENTIFIER").is_some_and(|s| s != "kernel"),
    };
    // A message that syslog passed on may hold a prefix of its own.
    let mut inner = Stripped { time, foreign, ..Stripped::default() };
    let skip = message.len() - brackets(&message, &mut inner).len();
    inner.time = if time == LogTime::Unknown { inner.time } else { time };
    inner.message = Cow::Owned(message.get(skip..).unwrap_or_default().to_vec());
    Some(inner)
}

/// `<6>`, `[  514.682838]`, `[T9185]`, `[Thu Dec  7 00:05:15 2017]`, any number of them.
fn brackets<'a>(mut rest: &'a [u8], out: &mut Stripped<'_>) -> &'a [u8] {
    for _ in 0..4 {
        let trimmed = rest.trim_ascii_start();
        if let Some(inner) = enclosed(trimmed, b'<', b'>', 5)
            && digits::<u64>(inner).is_some()
        {
            rest = trimmed.get(inner.len() + 2..).unwrap_or_default();
            continue;
        }
        let Some(inner) = enclosed(trimmed, b'[', b']', 64) else { break };
        let word = inner.trim_ascii();
        if let Some(us) = seconds(word) {
            if out.time == LogTime::Unknown {
                out.time = LogTime::Boot(us);
            }
        } else if let Some(id) = word.strip_prefix(b"T").and_then(digits) {
            out.caller = Some(id);
        } else if word.strip_prefix(b"C").and_then(digits::<u32>).is_some() {
            // Printed by a processor in interrupt context: no thread to join by.
        } else if let Some(t) = std::str::from_utf8(word).ok().and_then(civil::dmesg) {
            out.time = LogTime::Local(t);
        } else if let Some(t) = std::str::from_utf8(word).ok().and_then(civil::iso) {
            out.time = t;
        } else if inner.iter().filter(|b| **b == b':').count() == 2 && inner.iter().any(u8::is_ascii_digit) {
            // A date in words that are not known: still a prefix.
        } else {
            break;
        }
        rest = trimmed.get(inner.len() + 2..).unwrap_or_default();
    }
    rest.trim_ascii_start()
}

/// What stands between `open`, at the very start, and the first `close` within `limit` bytes.
fn enclosed(text: &[u8], open: u8, close: u8, limit: usize) -> Option<&[u8]> {
    let body = text.strip_prefix(&[open])?;
    let end = body.iter().take(limit).position(|b| *b == close)?;
    body.get(..end)
}

/// `514.682838` as microseconds.
fn seconds(word: &[u8]) -> Option<u64> {
    let dot = word.iter().position(|b| *b == b'.')?;
    let whole: u64 = digits(word.get(..dot)?)?;
    let part = word.get(dot + 1..)?;
    let fraction: u64 = digits(part)?;
    let scale = 10u64.checked_pow(6u32.checked_sub(u32::try_from(part.len()).ok()?)?)?;
    whole.checked_mul(1_000_000)?.checked_add(fraction * scale)
}

/// Time, host and tag of syslog, journalctl short and its ISO forms; the line as it is where it has none of them.
fn syslog<'a>(line: &'a [u8], out: &mut Stripped<'_>) -> &'a [u8] {
    let start = match enclosed(line, b'<', b'>', 5) {
        Some(inner) if digits::<u64>(inner).is_some() => line.get(inner.len() + 2..).unwrap_or_default(),
        _ => line,
    };
    // A date is short; what comes after it may be anything.
    let head = start.get(..start.len().min(96)).unwrap_or_default();
    let head = match std::str::from_utf8(head) {
        Ok(s) => s,
        Err(e) => std::str::from_utf8(head.get(..e.valid_up_to()).unwrap_or_default()).unwrap_or_default(),
    };
    let (time, used) = if let Some((t, used)) = civil::syslog(head) {
        (LogTime::Local(t), used)
    } else if let Some((word, _)) = head.split_once(' ')
        && let Some(t) = civil::iso(word)
    {
        (t, word.len())
    } else {
        return line;
    };
    out.time = time;
    let rest = start.get(used..).unwrap_or_default().trim_ascii_start();
    // `dmesg --time-format iso` writes a comma, and neither host nor tag.
    if head.get(..used).is_some_and(|t| t.contains(',')) { rest } else { tag(rest, out) }
}

/// Host and tag: `web-1 kernel: `, `kernel: `, `web-1 kern.err kernel: `, `web-1 kernel[0]: `. A tag of another program
/// makes the line foreign.
fn tag<'a>(rest: &'a [u8], out: &mut Stripped<'_>) -> &'a [u8] {
    let mut at = 0;
    for _ in 0..3 {
        let Some(tail) = rest.get(at..) else { break };
        let len = tail.iter().take(256).position(|b| *b == b' ').unwrap_or(tail.len());
        let word = tail.get(..len).unwrap_or_default();
        if word.starts_with(b"[") {
            break;
        }
        if let Some(name) = word.strip_suffix(b":") {
            let name = name.split(|b| *b == b'[').next().unwrap_or_default();
            let after = tail.get(len..).unwrap_or_default().trim_ascii_start();
            if matches!(name, b"memory" | b"traps") || after.starts_with(b"segfault at ") {
                // The message's own words: there is no tag.
                break;
            }
            out.foreign = name != b"kernel";
            return after;
        }
        at += len + 1;
    }
    // A host at most, and no tag.
    match rest.iter().position(|b| *b == b'[') {
        Some(bracket) if rest.iter().take(bracket).filter(|b| **b == b' ').count() <= 1 => {
            rest.get(bracket..).unwrap_or_default()
        }
        _ => rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(year: Option<i32>, month: u8, day: u8, h: u8, m: u8, s: u8) -> LogTime {
        LogTime::Local(Civil { year, month, day, hour: h, minute: m, second: s, micros: 0 })
    }

    #[test]
    fn every_form_of_prefix() {
        let wall = |t: &str| LogTime::Wall(t.parse().unwrap());
        let table: &[(&str, LogTime, &str)] = &[
            ("6,1234,5678901,-;tail invoked", LogTime::Boot(5_678_901), "tail invoked"),
            ("6,1234,5678901,-,caller=T9185;tail invoked", LogTime::Boot(5_678_901), "tail invoked"),
            (r"6,1,2,-;task_memcg=/a\x5cx2db", LogTime::Boot(2), r"task_memcg=/a\x2db"),
            ("[  514.682838] tail invoked", LogTime::Boot(514_682_838), "tail invoked"),
            ("<4>[  514.682838] tail invoked", LogTime::Boot(514_682_838), "tail invoked"),
            ("[   37.1][ T9185] tail invoked", LogTime::Boot(37_100_000), "tail invoked"),
            ("[Thu Dec  7 00:05:15 2017] tail invoked", local(Some(2017), 12, 7, 0, 5, 15), "tail invoked"),
            ("[Do Dez  7 00:05:15 2017] tail invoked", local(Some(2017), 12, 7, 0, 5, 15), "tail invoked"),
            ("[jeu. déc.  7 00:05:15 2017] tail invoked", local(Some(2017), 12, 7, 0, 5, 15), "tail invoked"),
            ("[四 12月  7 00:05:15 2017] tail invoked", local(Some(2017), 12, 7, 0, 5, 15), "tail invoked"),
            ("[чт дек  7 00:05:15 2017] tail invoked", local(Some(2017), 12, 7, 0, 5, 15), "tail invoked"),
            ("[xx yyyy  7 00:05:15 2017] tail invoked", LogTime::Unknown, "tail invoked"),
            (
                "Dec  7 00:05:15 web-1 kernel: [  514.682838] tail invoked",
                local(None, 12, 7, 0, 5, 15),
                "tail invoked",
            ),
            ("Dec 17 00:05:15 web-1 kernel: tail invoked", local(None, 12, 17, 0, 5, 15), "tail invoked"),
            (
                "Dec  7 00:05:15 kernel: [  514.682838] tail invoked",
                local(None, 12, 7, 0, 5, 15),
                "tail invoked",
            ),
            (
                "Dec  7 00:05:15 web-1 kern.err kernel: tail invoked",
                local(None, 12, 7, 0, 5, 15),
                "tail invoked",
            ),
            ("Dez 07 00:05:15 web-1 kernel: tail invoked", local(None, 12, 7, 0, 5, 15), "tail invoked"),
            (
                "2017-12-07T00:05:15.25+01:00 web-1 kernel: [    1.5] tail invoked",
                wall("2017-12-06T23:05:15.25Z"),
                "tail invoked",
            ),
            (
                "2017-12-07T00:05:15+0100 web-1 kernel: tail invoked",
                wall("2017-12-06T23:05:15Z"),
                "tail invoked",
            ),
            (
                "2017-12-07T00:05:15,123456+00:00 tail invoked",
                wall("2017-12-07T00:05:15.123456Z"),
                "tail invoked",
            ),
            (
                r#"{"__REALTIME_TIMESTAMP":"1512605115000000","_TRANSPORT":"kernel","SYSLOG_IDENTIFIER":"kernel","MESSAGE":"tail invoked"}"#,
                wall("2017-12-07T00:05:15Z"),
                "tail invoked",
            ),
            (
                r#"{"__REALTIME_TIMESTAMP":"1512605115000000","_TRANSPORT":"kernel","MESSAGE":[116,97,105,108]}"#,
                wall("2017-12-07T00:05:15Z"),
                "tail",
            ),
            (
                "2017-12-07T00:05:15,5+00:00 Out of memory: Killed",
                wall("2017-12-07T00:05:15.5Z"),
                "Out of memory: Killed",
            ),
            ("Dec  7 00:05:15 Out of memory: Killed", local(None, 12, 7, 0, 5, 15), "Out of memory: Killed"),
            ("tail invoked", LogTime::Unknown, "tail invoked"),
            ("", LogTime::Unknown, ""),
        ];
        for (line, time, message) in table {
            let got = strip(line.as_bytes());
            assert_eq!((got.time, &*String::from_utf8_lossy(&got.message)), (*time, *message), "{line}");
            assert!(!got.foreign, "{line}");
        }
    }

    #[test]
    fn the_caller_is_told() {
        assert_eq!(strip(b"[   37.1][ T9185] x").caller, Some(9185));
        assert_eq!(strip(b"6,1234,5678901,-,caller=T9185;x").caller, Some(9185));
        assert_eq!(strip(b"6,1234,5678901,-,caller=C1;x").caller, None);
        assert_eq!(strip(b"6,1234,5678901,-;x").seq, Some(1234));
    }

    #[test]
    fn other_programs_are_foreign() {
        for line in [
            "12,7,5,-;Killed process 1 (a) total-vm:1kB",
            "Dec  7 00:05:15 web-1 earlyoom[77]: Killed process 1 (a) total-vm:1kB",
            "2017-12-07T00:05:15+01:00 web-1 app: Killed process 1 (a) total-vm:1kB",
            r#"{"_TRANSPORT":"stdout","MESSAGE":"Killed process 1 (a) total-vm:1kB"}"#,
            r#"{"SYSLOG_IDENTIFIER":"app","MESSAGE":"Killed process 1 (a) total-vm:1kB"}"#,
        ] {
            assert!(strip(line.as_bytes()).foreign, "{line}");
        }
    }
}
