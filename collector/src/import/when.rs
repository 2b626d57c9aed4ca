//! The moment of a line: times without a zone, without a year, or counted from boot become moments. What is needed and not
//! known is said, not guessed.

use linchpin_data::Timestamp;
use linchpin_data::time::NS;

use crate::sources::kernel_log::civil::Civil;
use crate::sources::kernel_log::prefix::{LogTime, strip};

/// How years are found where a log writes none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Years {
    /// The first line is of this year.
    From(i32),
    /// No line is later than this: the file was last written then, or read.
    Until(Timestamp),
}

/// What is known of a log's times beyond what it writes.
#[derive(Clone, Debug)]
pub struct Calendar {
    /// Where years come from.
    pub years: Years,
    /// Seconds east of UTC of times without a zone.
    pub utc_offset_seconds: i32,
    /// When the machine booted, where that was told or found.
    pub boot: Option<Timestamp>,
    first: Option<Civil>,
    /// Lines without a year, or without a zone, were placed; a line of the log told the boot.
    yearless: bool,
    zoneless: bool,
    told: Option<Timestamp>,
}

/// A log may be written a little after its file's time was read, or in another zone.
const SLACK_NS: i64 = 86_400 * NS;

impl Calendar {
    /// With what is known from outside.
    #[must_use]
    pub fn new(years: Years, utc_offset_seconds: i32, boot: Option<Timestamp>) -> Self {
        Calendar {
            years,
            utc_offset_seconds,
            boot,
            first: None,
            yearless: false,
            zoneless: false,
            told: None,
        }
    }

    /// Another boot begins, at a moment that a line of the log tells, or at none that is known.
    pub fn reboot(&mut self, boot: Option<Timestamp>) {
        self.boot = boot;
        self.told = self.told.or(boot);
    }

    /// What was assumed, in words.
    #[must_use]
    pub fn assumed(&self) -> Vec<String> {
        let mut out = Vec::new();
        if self.yearless {
            out.push(match self.years {
                Years::From(year) => format!("the first line is of {year}"),
                Years::Until(at) => {
                    let day = at.to_utc().date_naive();
                    format!("no line is later than {day}, the file's own time (--year says otherwise)")
                }
            });
        }
        if self.zoneless {
            let (sign, o) =
                (if self.utc_offset_seconds < 0 { '-' } else { '+' }, self.utc_offset_seconds.abs());
            out.push(format!("times without a zone are UTC{sign}{:02}:{:02}", o / 3600, o / 60 % 60));
        }
        if let Some(boot) = self.told {
            out.push(format!("the machine booted at {}, by the log's own line", boot.to_millis_text()));
        }
        out
    }

    /// The moment; or why there is none.
    ///
    /// # Errors
    /// In words: what is missing.
    pub fn place(&mut self, time: LogTime) -> Result<Timestamp, &'static str> {
        match time {
            LogTime::Wall(at) => Ok(at),
            LogTime::Boot(us) => {
                let ns = i64::try_from(us).ok().and_then(|us| us.checked_mul(1_000));
                match (self.boot, ns) {
                    (Some(boot), Some(ns)) => Ok(boot.plus_ns(ns)),
                    (None, _) => Err("a time since boot, and when the machine booted is not known"),
                    _ => Err("a time that is none"),
                }
            }
            LogTime::Local(c) => self.local(c).ok_or("a date that is none"),
            LogTime::Unknown => Err("no time that is understood"),
        }
    }

    fn local(&mut self, c: Civil) -> Option<Timestamp> {
        self.zoneless = true;
        self.yearless |= c.year.is_none();
        let first = *self.first.get_or_insert(c);
        let of = |year: i32| c.to_timestamp(year, self.utc_offset_seconds);
        if let Some(year) = c.year {
            return of(year);
        }
        match self.years {
            Years::From(year) => {
                // A log that reads a month back or more went over new year.
                let days = |c: Civil| i32::from(c.month) * 31 + i32::from(c.day);
                of(if days(c) + 31 < days(first) { year.checked_add(1)? } else { year })
            }
            Years::Until(latest) => {
                let year = chrono::Datelike::year(&latest.to_utc());
                let bound = latest.plus_ns(SLACK_NS);
                // Back to the last year that had such a day: 29 February.
                (0..=8).find_map(|back| of(year + 1 - back).filter(|t| *t <= bound))
            }
        }
    }
}

/// When the machine booted, if this line of its log tells both clocks: the real-time clock's and the audit system's do.
#[must_use]
pub fn boot_told_by(line: &[u8]) -> Option<Timestamp> {
    let stripped = strip(line);
    let LogTime::Boot(us) = stripped.time else { return None };
    if stripped.foreign {
        return None;
    }
    let text = std::str::from_utf8(&stripped.message).ok()?;
    let told = if let Some((_, rest)) = text.split_once("setting system clock to ") {
        rest.split_once('(')?.1.split_once(')')?.0
    } else if text.starts_with("audit: ") || text.starts_with("type=") {
        text.split_once("audit(")?.1.split_once(':')?.0
    } else {
        return None;
    };
    let (seconds, part) = told.split_once('.').unwrap_or((told, ""));
    let seconds: i64 = seconds.parse().ok().filter(|s| *s > 0)?;
    let millis: i64 = if part.is_empty() { 0 } else { part.get(..3)?.parse().ok()? };
    let at = seconds.checked_mul(NS)?.checked_add(millis.checked_mul(1_000_000)?)?;
    Some(Timestamp(at).plus_ns(-i64::try_from(us).ok()?.checked_mul(1_000)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> LogTime {
        strip(text.as_bytes()).time
    }

    fn t(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn years_roll_over_at_new_year() {
        let (dec, jan) = (at("Dec 31 23:59:59 web kernel: x"), at("Jan  1 00:00:01 web kernel: x"));
        for years in [Years::From(2017), Years::Until(t("2018-01-03T00:00:00Z"))] {
            let mut c = Calendar::new(years, 0, None);
            assert_eq!(c.place(dec), Ok(t("2017-12-31T23:59:59Z")), "{years:?}");
            assert_eq!(c.place(jan), Ok(t("2018-01-01T00:00:01Z")), "{years:?}");
        }
    }

    #[test]
    fn a_day_that_few_years_have() {
        let mut c = Calendar::new(Years::Until(t("2027-01-03T00:00:00Z")), 0, None);
        assert_eq!(c.place(at("Feb 29 10:00:00 web kernel: x")), Ok(t("2024-02-29T10:00:00Z")));
        let mut c = Calendar::new(Years::From(2023), 0, None);
        assert!(c.place(at("Feb 29 10:00:00 web kernel: x")).is_err());
    }

    #[test]
    fn zones_and_boots() {
        let mut c = Calendar::new(Years::From(2017), 3600, Some(t("2017-12-07T00:00:00Z")));
        assert_eq!(c.place(at("[Thu Dec  7 00:05:15 2017] x")), Ok(t("2017-12-06T23:05:15Z")));
        assert_eq!(c.place(at("[  514.682838] x")), Ok(t("2017-12-07T00:08:34.682838Z")));
        assert!(Calendar::new(Years::From(2017), 0, None).place(at("[  514.682838] x")).is_err());
    }

    #[test]
    fn lines_that_tell_both_clocks() {
        let rtc =
            "[    1.500000] rtc_cmos 00:01: setting system clock to 2017-12-07T00:05:15 UTC (1512605115)";
        assert_eq!(boot_told_by(rtc.as_bytes()), Some(t("2017-12-07T00:05:13.5Z")));
        let audit = "[    0.400000] audit: type=2000 audit(1512605115.400:1): state=initialized";
        assert_eq!(boot_told_by(audit.as_bytes()), Some(t("2017-12-07T00:05:15Z")));
        for none in [
            "[    0.4] audit: type=2000 audit(x:1)",
            "Dec  7 00:05:15 web kernel: rtc: setting system clock to x (1)",
            "[  0.400000] setting system clock to (99999999999999999999)",
        ] {
            assert_eq!(boot_told_by(none.as_bytes()), None, "{none}");
        }
    }
}
