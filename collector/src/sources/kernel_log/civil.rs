//! Calendar times as logs write them: without a zone, often without a year, in the language of whoever logged. Reads no
//! clock and guesses nothing that is not written.

use chrono::{DateTime, NaiveDate};
use linchpin_data::Timestamp;

use super::prefix::LogTime;

/// A calendar time without a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    /// Year, where the log writes one.
    pub year: Option<i32>,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 60.
    pub second: u8,
    /// 0 to 999,999.
    pub micros: u32,
}

impl Civil {
    /// The moment, in a given year (used where the log writes none) and at a given distance from UTC.
    #[must_use]
    pub fn to_timestamp(self, year: i32, utc_offset_seconds: i32) -> Option<Timestamp> {
        let date = NaiveDate::from_ymd_opt(self.year.unwrap_or(year), self.month.into(), self.day.into())?;
        let second = u32::from(self.second.min(59));
        let t = date.and_hms_micro_opt(self.hour.into(), self.minute.into(), second, self.micros)?.and_utc();
        let t = Timestamp::from_utc(t)?;
        Some(t.plus_ns(-i64::from(utc_offset_seconds) * 1_000_000_000))
    }

    /// Microseconds from `earlier` to here, both taken to be of one year where none is written.
    #[must_use]
    pub fn micros_since(self, earlier: Civil) -> i64 {
        let of = |c: Civil| c.to_timestamp(2000, 0).map_or(0, |t| t.0 / 1_000);
        of(self).saturating_sub(of(earlier))
    }
}

/// Month names by their first letters, lower case, in the languages that glibc writes them: English, German, French,
/// Spanish, Portuguese, Italian, Dutch, Swedish, Danish, Polish, Czech, Finnish, Turkish, Russian, Ukrainian, Greek.
/// Longer names come first where one begins another.
const MONTHS: [&[&str]; 12] = [
    &["jan", "jän", "ene", "gen", "sty", "led", "tammi", "oca", "янв", "січ", "ιαν"],
    &["feb", "fév", "fev", "lut", "úno", "helmi", "şub", "фев", "лют", "φεβ"],
    &["mar", "mär", "mrz", "maa", "mrt", "bře", "мар", "бер", "μάρ", "μαρ"],
    &["apr", "avr", "abr", "kwi", "dub", "huhti", "nis", "апр", "кві", "απρ"],
    &["may", "mai", "maj", "mag", "mei", "kvě", "touko", "ма", "тра", "μάι", "μαΐ"],
    &["jun", "juin", "giu", "cze", "čer", "čen", "kesä", "haz", "июн", "чер", "ιούν", "ιουν"],
    &["jul", "juil", "lug", "lip", "čvc", "čec", "heinä", "tem", "июл", "лип", "ιούλ", "ιουλ"],
    &["aug", "août", "aoû", "ago", "sie", "srp", "elo", "ağu", "авг", "сер", "αύγ", "αυγ"],
    &["sep", "set", "wrz", "zář", "syys", "eyl", "сен", "вер", "σεπ"],
    &["oct", "okt", "out", "ott", "paź", "říj", "loka", "eki", "окт", "жов", "οκτ"],
    &["nov", "lis", "marras", "kas", "ноя", "лис", "νοέ", "νοε"],
    &["dec", "dez", "déc", "dic", "dez", "gru", "pro", "joulu", "ara", "дек", "гру", "δεκ"],
];

/// A month by its name, or written as `12月`, `12월`.
fn month(word: &str) -> Option<u8> {
    let lower = word.to_lowercase();
    let digits = lower.trim_end_matches(['月', '월']);
    if digits.len() < lower.len() {
        return digits.parse().ok().filter(|m| (1..=12).contains(m));
    }
    let longest = |names: &&[&str]| names.iter().filter(|n| lower.starts_with(**n)).map(|n| n.len()).max();
    let (best, _) = MONTHS.iter().enumerate().filter_map(|(i, names)| Some((i, longest(names)?))).fold(
        None,
        |best: Option<(usize, usize)>, x| match best {
            Some(b) if b.1 >= x.1 => Some(b),
            _ => Some(x),
        },
    )?;
    u8::try_from(best + 1).ok()
}

/// `00:05:15`, with or without a fraction.
fn clock(word: &str) -> Option<(u8, u8, u8, u32)> {
    let mut parts = word.splitn(3, ':');
    let hour: u8 = parts.next()?.parse().ok().filter(|h| *h < 24)?;
    let minute: u8 = parts.next()?.parse().ok().filter(|m| *m < 60)?;
    let rest = parts.next()?;
    let (second, fraction) = rest.split_once(['.', ',']).unwrap_or((rest, ""));
    let second: u8 = second.parse().ok().filter(|s| *s <= 60)?;
    if !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let six: String = fraction.chars().chain("000000".chars()).take(6).collect();
    Some((hour, minute, second, six.parse().ok()?))
}

fn day(word: &str) -> Option<u8> {
    word.trim_end_matches(['.', '日', '일', ',']).parse().ok().filter(|d| (1..=31).contains(d))
}

/// `Thu Dec  7 00:05:15 2017`, as `dmesg -T` writes it, in any known language; day and month in either order.
#[must_use]
pub fn dmesg(text: &str) -> Option<Civil> {
    let words: Vec<&str> = text.split_whitespace().take(7).collect();
    let at = words.iter().position(|w| clock(w).is_some())?;
    let (hour, minute, second, micros) = clock(words.get(at)?)?;
    let (a, b) = (words.get(at.checked_sub(2)?)?, words.get(at - 1)?);
    let (month, day) = match (month(a), day(b)) {
        (Some(m), Some(d)) => (m, d),
        _ => (month(b)?, day(a)?),
    };
    let year = words.get(at + 1).and_then(|y| y.parse().ok());
    Some(Civil { year, month, day, hour, minute, second, micros })
}

/// `Dec  7 00:05:15` at the start of a line, and how many bytes it takes.
#[must_use]
pub fn syslog(head: &str) -> Option<(Civil, usize)> {
    let mut words = head.split(' ').filter(|w| !w.is_empty());
    let (m, d, c) = (words.next()?, words.next()?, words.next()?);
    let (hour, minute, second, micros) = clock(c)?;
    let (month, day) = match (month(m), day(d)) {
        (Some(m), Some(d)) => (m, d),
        _ => (month(d)?, day(m)?),
    };
    let used = (c.as_ptr() as usize).checked_sub(head.as_ptr() as usize)? + c.len();
    Some((Civil { year: None, month, day, hour, minute, second, micros }, used))
}

/// `2017-12-07T00:05:15.25+01:00`, also with a comma, without the colon of the zone, or without a zone.
#[must_use]
pub fn iso(word: &str) -> Option<LogTime> {
    if word.len() > 48
        || !word.is_ascii()
        || word.as_bytes().get(4) != Some(&b'-')
        || word.as_bytes().get(10) != Some(&b'T')
    {
        return None;
    }
    let mut text = word.replace(',', ".");
    if let Some(sign) = text.get(11..).and_then(|t| t.rfind(['+', '-'])).map(|i| i + 11)
        && text.len() == sign + 5
    {
        text.insert(sign + 3, ':');
    }
    if let Ok(t) = DateTime::parse_from_rfc3339(&text) {
        return Timestamp::from_utc(t.to_utc()).map(LogTime::Wall);
    }
    let (hour, minute, second, micros) = clock(text.get(11..)?)?;
    let date: NaiveDate = text.get(..10)?.parse().ok()?;
    let (year, month, day) =
        (chrono::Datelike::year(&date), chrono::Datelike::month(&date), chrono::Datelike::day(&date));
    let (month, day) = (u8::try_from(month).ok()?, u8::try_from(day).ok()?);
    Some(LogTime::Local(Civil { year: Some(year), month, day, hour, minute, second, micros }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_in_many_languages() {
        for (word, m) in [
            ("Mai", 5),
            ("mai", 5),
            ("März", 3),
            ("Mär", 3),
            ("Mrz", 3),
            ("juin", 6),
            ("juil.", 7),
            ("août", 8),
            ("Ağu", 8),
            ("lis", 11),
            ("мая", 5),
            ("мар", 3),
            ("12月", 12),
            ("5월", 5),
            ("Haz", 6),
            ("joulu", 12),
            ("marras", 11),
            ("Sep", 9),
            ("ott", 10),
            ("čec", 7),
            ("ene", 1),
            ("Dez", 12),
        ] {
            assert_eq!(month(word), Some(m), "{word}");
        }
        assert_eq!(month("kernel"), None);
        assert_eq!(month("13月"), None);
        assert_eq!(month(""), None);
    }

    #[test]
    fn a_moment_needs_year_and_zone() {
        let (c, used) = syslog("Dec  7 00:05:15 web").unwrap();
        assert_eq!(used, 15);
        assert_eq!(c.to_timestamp(2017, 3600).unwrap().to_string(), "2017-12-06T23:05:15.000000000Z");
        assert!(Civil { day: 31, month: 2, ..c }.to_timestamp(2017, 0).is_none());
    }
}
