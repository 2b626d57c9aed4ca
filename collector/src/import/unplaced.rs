//! Lines that could not be placed: counted by sort, with the first of each as a sample. Nothing is dropped in silence.

use std::collections::BTreeMap;

/// Samples kept of one sort, and characters of each.
const SAMPLES: usize = 3;
const CHARS: usize = 160;

/// Lines that could not be placed, by why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unplaced(BTreeMap<&'static str, Sort>);

/// One sort of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sort {
    /// How many.
    pub count: u64,
    /// The first of them, shortened.
    pub samples: Vec<String>,
}

impl Unplaced {
    /// Counts a line.
    pub fn count(&mut self, why: &'static str, line: &str) {
        let sort = self.0.entry(why).or_default();
        sort.count += 1;
        if sort.samples.len() < SAMPLES {
            sort.samples.push(line.chars().take(CHARS).collect());
        }
    }

    /// Counts lines of which there is no sample.
    pub fn add(&mut self, why: &'static str, count: u64) {
        if count > 0 {
            self.0.entry(why).or_default().count += count;
        }
    }

    /// Each sort with why.
    pub fn sorts(&self) -> impl Iterator<Item = (&'static str, &Sort)> {
        self.0.iter().map(|(why, sort)| (*why, sort))
    }

    /// How many in all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.values().map(|s| s.count).sum()
    }
}
