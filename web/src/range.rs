//! The time range that an address asks for: `?range=6h`, or `?from=…&to=…` (RFC 3339 or whole seconds since 1970), or
//! everything that was seen. The address holds the whole state, so that it can be sent to somebody.

use std::collections::BTreeMap;

use axum::extract::{FromRequestParts, Query as AxumQuery};
use axum::http::request::Parts;
use linchpin_analyzer::data::Timestamp;

use crate::markup::{encode, visible};

/// The ranges offered, with their lengths in seconds.
pub const RANGES: [(&str, &str, i64); 5] = [
    ("1h", "1 hour", 3_600),
    ("6h", "6 hours", 21_600),
    ("1d", "1 day", 86_400),
    ("7d", "7 days", 604_800),
    ("30d", "30 days", 2_592_000),
];

/// The parameters of an address: the last of equal names counts.
#[derive(Clone, Debug, Default)]
pub struct Params(pub BTreeMap<String, String>);

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let pairs =
            AxumQuery::<Vec<(String, String)>>::try_from_uri(&parts.uri).map(|q| q.0).unwrap_or_default();
        Ok(Params(pairs.into_iter().collect()))
    }
}

impl Params {
    /// A parameter that is there and not empty.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|v| v.trim()).filter(|v| !v.is_empty())
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// The last so many seconds, under the name it was asked for by.
    pub last: Option<(&'static str, i64)>,
    /// From here.
    pub from: Option<Timestamp>,
    /// To here.
    pub to: Option<Timestamp>,
}

impl Range {
    /// From an address.
    ///
    /// # Errors
    /// A sentence on what cannot be read, and what could.
    pub fn of(params: &Params) -> Result<Self, String> {
        let moment = |name: &str| -> Result<Option<Timestamp>, String> {
            params.get(name).map(|v| parse_moment(name, v)).transpose()
        };
        let mut range = Range { last: None, from: moment("from")?, to: moment("to")? };
        if let Some(word) = params.get("range").filter(|w| *w != "all") {
            let known = RANGES.iter().find(|r| r.0 == word).ok_or_else(|| {
                format!(
                    "range={} is not known; there are 1h, 6h, 1d, 7d, 30d and all, or from= and to=",
                    visible(word, 40)
                )
            })?;
            range.last = Some((known.0, known.2));
        }
        if let (Some(from), Some(to)) = (range.from, range.to)
            && from >= to
        {
            return Err(format!("from={from} does not lie before to={to}"));
        }
        Ok(range)
    }

    /// Its two ends, `now` being given.
    #[must_use]
    pub fn ends(&self, now: Timestamp) -> (Option<Timestamp>, Option<Timestamp>) {
        match self.last {
            Some((_, seconds)) => {
                let to = self.to.unwrap_or(now);
                (Some(Timestamp(to.0.saturating_sub(seconds.saturating_mul(1_000_000_000)))), self.to)
            }
            None => (self.from, self.to),
        }
    }

    /// As the query of an address, with its `?`; empty for everything.
    #[must_use]
    pub fn query(&self) -> String {
        let mut parts = Vec::new();
        if let Some((name, _)) = self.last {
            parts.push(format!("range={name}"));
        }
        if let Some(t) = self.from {
            parts.push(format!("from={}", encode(&t.to_string())));
        }
        if let Some(t) = self.to {
            parts.push(format!("to={}", encode(&t.to_string())));
        }
        if parts.is_empty() { String::new() } else { format!("?{}", parts.join("&")) }
    }
}

fn parse_moment(name: &str, text: &str) -> Result<Timestamp, String> {
    if let Ok(seconds) = text.parse::<i64>() {
        return Ok(Timestamp::from_secs(seconds));
    }
    // A `+` of a zone arrives as a blank when nobody encoded it; a browser's form leaves seconds and zone out.
    let joined = text.replace(' ', "+");
    let forms =
        [text.to_string(), joined, format!("{text}Z"), format!("{text}:00Z"), format!("{text}T00:00:00Z")];
    forms
        .iter()
        .find_map(|f| f.parse().ok())
        .ok_or_else(|| format!("{name}={} is no time such as 2026-08-09T06:05:03Z", visible(text, 60)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(query: &str) -> Params {
        let uri = format!("/x?{query}").parse().unwrap();
        Params(AxumQuery::<Vec<(String, String)>>::try_from_uri(&uri).unwrap().0.into_iter().collect())
    }

    #[test]
    fn ranges() {
        let now = Timestamp::from_secs(100_000);
        let ends = |q: &str| Range::of(&params(q)).unwrap().ends(now);
        assert_eq!(ends(""), (None, None));
        assert_eq!(ends("range=all"), (None, None));
        assert_eq!(ends("range=1h"), (Some(Timestamp::from_secs(96_400)), None));
        assert_eq!(ends("from=5&to=9"), (Some(Timestamp::from_secs(5)), Some(Timestamp::from_secs(9))));
        for q in
            ["1970-01-01T01:00:00%2B01:00", "1970-01-01T01:00:00+01:00", "1970-01-01T00:00", "1970-01-01"]
        {
            assert_eq!(ends(&format!("from={q}")).0, Some(Timestamp(0)), "{q}");
        }
    }

    #[test]
    fn says_what_is_wrong() {
        assert!(Range::of(&params("range=2y")).unwrap_err().contains("1h, 6h"));
        assert!(Range::of(&params("from=noon")).unwrap_err().contains("from=noon"));
        assert!(Range::of(&params("from=9&to=5")).unwrap_err().contains("before"));
    }

    #[test]
    fn addresses_both_ways() {
        for q in ["", "range=6h", "from=5&to=9"] {
            let range = Range::of(&params(q)).unwrap();
            assert_eq!(Range::of(&params(range.query().trim_start_matches('?'))).unwrap(), range);
        }
    }
}
