//! From the lines of one container's log to events: which of them are told, how often, with which moment. Pure: time is the log's own.

use std::collections::HashMap;

use linchpin_data::event::DnsFailure;
use linchpin_data::time::{NS, Timestamp};

use super::lines::{evidence, plain};
use super::recognise::{Failed, recognise};

/// At least this long between two events of one name as one program tells it, in nanoseconds. nginx prints each error twice.
const QUIET: i64 = NS;
/// How many names are remembered.
const NAMES: usize = 256;
/// How many lines of one second are looked at.
pub const RATE: u32 = 1_000;

/// What one container's log told of late.
#[derive(Debug, Default)]
pub struct Teller {
    told: HashMap<Failed, (Timestamp, u64)>,
    second: i64,
    looked_at: u32,
    skipped: u64,
}

impl Teller {
    /// Takes in a line of moment `at`; the failing lookup that it tells of, unless the same was told less than a second ago.
    pub fn take(&mut self, at: Timestamp, line: &str) -> Option<DnsFailure> {
        if at.0.div_euclid(NS) != self.second {
            (self.second, self.looked_at) = (at.0.div_euclid(NS), 0);
        }
        self.looked_at = self.looked_at.saturating_add(1);
        if self.looked_at > RATE {
            self.skipped += 1;
            return None;
        }
        let line = plain(line);
        let failed = recognise(&line)?;
        let entry = self.told.get_mut(&failed);
        let count = match entry {
            // A clock that was set back begins anew.
            Some((last, untold)) if (0..QUIET).contains(&at.0.saturating_sub(last.0)) => {
                *untold += 1;
                return None;
            }
            Some((last, untold)) => {
                *last = at;
                std::mem::take(untold) + 1
            }
            None => {
                self.make_room();
                self.told.insert(failed.clone(), (at, 0));
                1
            }
        };
        Some(DnsFailure {
            name: failed.name,
            outcome: failed.outcome.map(Into::into),
            by: Some("log".into()),
            program: Some(failed.program.into()),
            line: Some(evidence(&line)),
            count: (count > 1).then_some(count),
            ..DnsFailure::default()
        })
    }

    /// The container lives anew: what is told first in this life is told at once.
    pub fn begin(&mut self) {
        self.told.clear();
    }

    fn make_room(&mut self) {
        if self.told.len() >= NAMES
            && let Some(oldest) = self.told.iter().min_by_key(|(_, (at, _))| *at).map(|(f, _)| f.clone())
        {
            self.told.remove(&oldest);
        }
    }

    /// How many lines were not looked at since the last time, because there were too many.
    pub fn take_skipped(&mut self) -> u64 {
        std::mem::take(&mut self.skipped)
    }
}

/// A line as the engine hands it on with its moment: `2026-11-30T06:51:17.123456789Z TEXT`.
#[must_use]
pub fn stamped(line: &str) -> Option<(Timestamp, &str)> {
    let (at, text) = line.split_once(' ')?;
    Some((at.parse().ok()?, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EMERG: &str =
        "nginx: [emerg] host not found in upstream \"realtime:80\" in /etc/nginx/conf.d/default.conf:7";

    #[test]
    fn printed_twice_is_told_once() {
        let mut teller = Teller::default();
        let first = teller
            .take(
                Timestamp(0),
                "2026/11/30 06:51:17 [emerg] 1#1: host not found in upstream \"realtime\" in /etc/x:7",
            )
            .unwrap();
        assert_eq!(
            (first.name.as_deref(), first.program.as_deref(), first.by.as_deref()),
            (Some("realtime"), Some("nginx"), Some("log"))
        );
        assert_eq!((first.count, first.resolver), (None, None));
        assert!(teller.take(Timestamp(NS / 100), EMERG).is_none());
        assert!(
            teller
                .take(Timestamp(NS / 50), "nginx: configuration file /etc/nginx/nginx.conf test failed")
                .is_none()
        );
        let later = teller.take(Timestamp(2 * NS), EMERG).unwrap();
        assert_eq!(later.count, Some(2));
        assert_eq!(later.line.as_deref(), Some(EMERG));
    }

    #[test]
    fn each_life_tells_its_own() {
        let mut teller = Teller::default();
        assert!(teller.take(Timestamp(0), EMERG).is_some() && teller.take(Timestamp(1), EMERG).is_none());
        teller.begin();
        assert_eq!(teller.take(Timestamp(2), EMERG).and_then(|f| f.count), None);
        assert!(teller.take(Timestamp(3), EMERG).is_none());
    }

    #[test]
    fn evidence_bears_no_colours_and_is_short() {
        let line = format!("\u{1b}[31m{EMERG}\u{1b}[0m{}", " x".repeat(500));
        let told = Teller::default().take(Timestamp(0), &line).unwrap();
        let kept = told.line.unwrap();
        assert!(
            kept.starts_with("nginx: [emerg]") && kept.chars().count() <= 301 && !kept.contains('\u{1b}')
        );
    }

    #[test]
    fn a_flood_is_not_looked_at_and_is_counted() {
        let mut teller = Teller::default();
        for n in 0..5_000 {
            teller.take(Timestamp(n), "x");
        }
        assert!(teller.take(Timestamp(6_000), EMERG).is_none());
        assert_eq!(teller.take_skipped(), 5_001 - u64::from(RATE));
        assert!(teller.take(Timestamp(NS), EMERG).is_some());
        for n in 2..3 * NAMES as i64 {
            teller.take(Timestamp(n * NS), &format!("curl: (6) Could not resolve host: n{n}"));
        }
        assert!(teller.told.len() <= NAMES);
    }

    #[test]
    fn the_engines_stamp() {
        let (at, text) = stamped("2026-11-30T06:51:17.123456789Z a b").unwrap();
        assert_eq!((at.to_string().as_str(), text), ("2026-11-30T06:51:17.123456789Z", "a b"));
        assert!(stamped("a b").is_none() && stamped("").is_none());
    }

    proptest! {
        #[test]
        fn any_lines_are_borne(lines: Vec<(i64, String)>) {
            let mut teller = Teller::default();
            for (at, line) in lines {
                teller.take(Timestamp(at), &line);
                let _ = stamped(&line);
            }
        }
    }
}
