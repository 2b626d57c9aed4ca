//! The kernel stamps its log with sched_clock, which drifts against CLOCK_BOOTTIME and stands still while the machine
//! sleeps. The distance is learned from records read as they were written: reading can only be late, so the least distance
//! seen lately is the truest.

use std::collections::VecDeque;

/// How many records the distance is learned from.
const WINDOW: usize = 32;

/// Turns the log's microseconds into boot time.
#[derive(Debug, Default)]
pub struct LogClock {
    /// Boot time at reading less log time, in nanoseconds, of the last records read live.
    live: VecDeque<i128>,
    /// The same over all records: an upper bound, far off where the log was quiet.
    bound: Option<i128>,
}

impl LogClock {
    /// A record of log time `micros` was read at `boot_ns`; `live` where the reader was waiting for it.
    pub fn observe(&mut self, boot_ns: u64, micros: u64, live: bool) {
        let distance = i128::from(boot_ns) - i128::from(micros) * 1_000;
        self.bound = Some(self.bound.map_or(distance, |b| b.min(distance)));
        if live {
            self.live.push_back(distance);
            if self.live.len() > WINDOW {
                self.live.pop_front();
            }
        }
    }

    /// Boot time, in nanoseconds, of a record of log time `micros`. Before any record was read live both clocks are
    /// taken to agree, unless that would put a record after its reading.
    #[must_use]
    pub fn boot_ns(&self, micros: u64) -> u64 {
        let distance = match self.live.iter().min() {
            Some(least) => *least,
            None => self.bound.unwrap_or(0).min(0),
        };
        u64::try_from((i128::from(micros) * 1_000 + distance).max(0)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn learns_the_distance_from_live_records() {
        let mut clock = LogClock::default();
        // Read an hour late: says nothing.
        clock.observe(3700 * S, 100_000_000, false);
        assert_eq!(clock.boot_ns(100_000_000), 100 * S);
        // The log runs 2 s behind boot time (a sleep); read 3 ms and 1 ms late.
        clock.observe(3702 * S + 3_000_000, 3_700_000_000, true);
        clock.observe(3704 * S + 1_000_000, 3_702_000_000, true);
        assert_eq!(clock.boot_ns(3_702_000_000), 3704 * S + 1_000_000);
        // After another sleep of a minute the old distance is forgotten.
        for i in 0..WINDOW as u64 {
            clock.observe((3800 + i) * S, (3738 + i) * 1_000_000, true);
        }
        assert_eq!(clock.boot_ns(3_800_000_000), 3862 * S);
    }

    #[test]
    fn a_record_is_never_later_than_its_reading() {
        let mut clock = LogClock::default();
        clock.observe(100 * S, 101_000_000, false);
        assert_eq!(clock.boot_ns(101_000_000), 100 * S);
        assert_eq!(clock.boot_ns(0), 0);
    }
}
