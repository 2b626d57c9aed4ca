//! Moments as nanoseconds since the Unix epoch, and their RFC 3339 text. Reads no clock; that is [`crate::clock`]'s.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Nanoseconds in a second.
pub const NS: i64 = 1_000_000_000;

/// A moment: nanoseconds since 1970-01-01T00:00:00Z (years 1677 to 2262). Leap seconds fold into the second after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The earliest moment that can be written as RFC 3339 with a four-digit year in this type.
    pub const MIN: Timestamp = Timestamp(i64::MIN);
    /// The latest moment of this type.
    pub const MAX: Timestamp = Timestamp(i64::MAX);

    /// From whole seconds since the epoch, saturating.
    #[must_use]
    pub const fn from_secs(secs: i64) -> Self {
        Timestamp(secs.saturating_mul(NS))
    }

    /// Seconds from `earlier` to here; negative when `earlier` is later.
    #[must_use]
    pub fn seconds_since(self, earlier: Timestamp) -> f64 {
        (i128::from(self.0) - i128::from(earlier.0)) as f64 / NS as f64
    }

    /// This moment moved by `ns` nanoseconds, saturating at the ends of the type.
    #[must_use]
    pub const fn plus_ns(self, ns: i64) -> Self {
        Timestamp(self.0.saturating_add(ns))
    }

    /// As chrono's type, for calendars and display.
    #[must_use]
    pub fn to_utc(self) -> DateTime<Utc> {
        DateTime::from_timestamp_nanos(self.0)
    }

    /// From chrono's type; `None` outside the years 1677 to 2262.
    #[must_use]
    pub fn from_utc(t: DateTime<Utc>) -> Option<Self> {
        t.timestamp_nanos_opt().map(Timestamp)
    }

    /// `2026-08-09T06:05:03.458Z`, for people; the wire form ([`fmt::Display`]) has nine digits.
    #[must_use]
    pub fn to_millis_text(self) -> String {
        self.to_utc().to_rfc3339_opts(SecondsFormat::Millis, true)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_utc().to_rfc3339_opts(SecondsFormat::Nanos, true))
    }
}

/// Why a text is no timestamp.
#[derive(Debug, thiserror::Error)]
pub enum TimestampError {
    /// Not RFC 3339.
    #[error("{text:?} is not an RFC 3339 time such as 2026-08-09T06:05:03.458Z: {source}")]
    Format {
        /// What was read, shortened.
        text: String,
        /// What chrono says of it.
        source: chrono::ParseError,
    },
    /// Outside what nanoseconds in 64 bits can hold.
    #[error("{0:?} lies outside the years 1677 to 2262")]
    Range(String),
}

impl FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let short = || text.chars().take(64).collect::<String>();
        let t = DateTime::parse_from_rfc3339(text)
            .map_err(|source| TimestampError::Format { text: short(), source })?;
        Timestamp::from_utc(t.with_timezone(&Utc)).ok_or_else(|| TimestampError::Range(short()))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Text;
        impl de::Visitor<'_> for Text {
            type Value = Timestamp;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an RFC 3339 time")
            }
            fn visit_str<E: de::Error>(self, v: &str) -> Result<Timestamp, E> {
                v.parse().map_err(E::custom)
            }
        }
        d.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_both_ways() {
        for (text, ns) in [
            ("2026-08-09T06:05:01.673854062Z", 1_786_255_501_673_854_062),
            ("2026-08-09T08:05:01.673854062+02:00", 1_786_255_501_673_854_062),
            ("1970-01-01T00:00:00Z", 0),
            ("1969-12-31T23:59:59.999999999Z", -1),
            ("2016-12-31T23:59:60.5Z", 1_483_228_800 * NS + NS / 2),
        ] {
            let t: Timestamp = text.parse().unwrap();
            assert_eq!(t.0, ns, "{text}");
            assert_eq!(t.to_string().parse::<Timestamp>().unwrap(), t);
        }
    }

    #[test]
    fn refuses_what_it_cannot_hold() {
        for bad in ["", "yesterday", "2026-08-09 06:05", "9999-01-01T00:00:00Z", "1600-01-01T00:00:00Z"] {
            assert!(bad.parse::<Timestamp>().is_err(), "{bad}");
        }
    }
}
