//! Evidence in words: what one fact says, with its figures.

use linchpin_data::Timestamp;

use crate::fact::{Exit, Kill, Witness};

/// Bytes as people say them: `512 MiB`.
#[must_use]
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut x = n as f64;
    let mut unit = 0;
    while x >= 1024.0 && unit + 1 < UNITS.len() {
        x /= 1024.0;
        unit += 1;
    }
    let name = UNITS[unit];
    if x.fract() < 0.05 || x >= 100.0 { format!("{x:.0} {name}") } else { format!("{x:.1} {name}") }
}

/// A time between two moments: `1.150 s`, `20 ms`.
#[must_use]
pub fn lag(from: Timestamp, to: Timestamp) -> String {
    let s = to.seconds_since(from);
    if s < 1.0 { format!("{:.0} ms", s * 1000.0) } else { format!("{s:.3} s") }
}

/// The signal that an exit code above 128 stands for.
#[must_use]
pub fn signal_of_code(code: Option<i64>) -> Option<i64> {
    code.filter(|c| (129..=192).contains(c)).map(|c| c - 128)
}

/// A signal's name, if it is one of the usual.
#[must_use]
pub fn signal_name(signal: i64) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        _ => return None,
    })
}

/// An exit.
#[must_use]
pub fn exit(e: &Exit) -> String {
    let mut s = "its main process ended".to_string();
    if let Some(code) = e.code {
        s += &format!(" with exit code {code}");
    }
    if let Some(signal) = e.signal.or_else(|| signal_of_code(e.code)) {
        match signal_name(signal) {
            Some(name) => s += &format!(" ({name})"),
            None => s += &format!(" (signal {signal})"),
        }
    }
    if e.by_operator {
        match e.action.as_deref() {
            Some(action) => s += &format!("; {action} was asked for"),
            None => s += "; it was asked for",
        }
    }
    s
}

/// A kernel OOM kill.
#[must_use]
pub fn kill(k: &Kill) -> String {
    if k.counter {
        let times = if k.count == 1 { "once".to_string() } else { format!("{} times", k.count) };
        let limit = k.limit.map(|l| format!(" at its limit of {}", bytes(l))).unwrap_or_default();
        return format!("the counter of OOM kills rose {times}{limit}");
    }
    let name = k.process.as_deref().unwrap_or("a process");
    let pid = k.pid.map(|p| format!(" (pid {p})")).unwrap_or_default();
    let rss = k.rss.map(|r| format!(", resident {}", bytes(r))).unwrap_or_default();
    let limit = k.limit.map(|l| format!(", limit {}", bytes(l))).unwrap_or_default();
    let why = if k.host { "the host ran out of memory" } else { "its cgroup was at its limit" };
    let group = if k.group { ", with its whole group" } else { "" };
    format!("killed {name}{pid}{group}: {why}{rss}{limit}")
}

/// It stopped accepting.
#[must_use]
pub const fn unready(by: Witness) -> &'static str {
    match by {
        Witness::Port => "the port closed while the process lived",
        Witness::Health => "the health check failed",
        Witness::Http => "the http probe failed",
        Witness::Log | Witness::Unnamed => "it stopped accepting while the process lived",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_in_words() {
        for (n, want) in [(0, "0 B"), (536_870_912, "512 MiB"), (1_610_612_736, "1.5 GiB"), (1_000, "1000 B")]
        {
            assert_eq!(bytes(n), want);
        }
        assert_eq!(lag(Timestamp(0), Timestamp(20_000_000)), "20 ms");
        assert_eq!(lag(Timestamp(0), Timestamp(1_150_000_000)), "1.150 s");
        assert_eq!(
            (signal_of_code(Some(137)), signal_of_code(Some(128)), signal_of_code(Some(255))),
            (Some(9), None, None)
        );
    }
}
