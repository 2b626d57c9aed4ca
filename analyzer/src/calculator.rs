//! The planning form of the ceiling: what a restart rate and a recovery time cost, before anything was observed.
//! Observed ceilings are [`crate::ceiling`]'s.

use serde::{Deserialize, Serialize};

use crate::budget::{PAGES, burn_rate, lasts_days};

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Inputs {
    /// Restarts of the one process, an hour (λ).
    pub restarts_per_hour: f64,
    /// Mean seconds from exit to ready (r̄).
    pub recovery_seconds: f64,
    /// Hostnames served through it.
    pub hostnames: u32,
    /// Replicas behind it.
    pub replicas: u32,
    /// Share of time up that is aimed at, 0 to below 1.
    pub target: f64,
    /// Budget window in days.
    pub window_days: f64,
}

/// Why an input cannot be calculated with.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum InputError {
    /// Not a number, infinite or negative.
    #[error("{name} is {value}; give a number of at least 0")]
    NotACount {
        /// Which input.
        name: &'static str,
        /// What was given.
        value: f64,
    },
    /// A target that leaves no budget, or is no share.
    #[error("target is {0}; give a share of at least 0 and below 1, such as 0.999 for 99.9 %")]
    Target(f64),
    /// A budget window without length.
    #[error("window_days is {0}; give a number of days above 0")]
    Window(f64),
    /// More downtime than time.
    #[error(
        "restarts_per_hour times recovery_seconds is {0} seconds of downtime an hour, and an hour has 3600: a process cannot restart while it recovers"
    )]
    MoreThanAllTime(f64),
}

/// What follows from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calculation {
    /// The inputs, echoed.
    pub inputs: Inputs,
    /// λ·r̄.
    pub downtime_seconds_per_hour: f64,
    /// λ·r̄ over 24 hours.
    pub downtime_seconds_per_day: f64,
    /// 1 − λ·r̄: the best availability that the process can reach.
    pub ceiling: f64,
    /// Downtime share over (1 − target).
    pub burn_rate: f64,
    /// Downtime that the target allows in the budget window, in seconds.
    pub budget_seconds_per_month: f64,
    /// Downtime in the budget window, in seconds.
    pub downtime_seconds_per_month: f64,
    /// Downtime in the budget window over all hostnames served, in hostname-seconds.
    pub hostname_seconds_per_month: f64,
    /// Days after which a whole budget is gone; `None` if never.
    pub budget_lasts_days: Option<f64>,
    /// Which of the usual pages (burn 14.4 over 1 h and 5 min, 6 over 6 h and 30 min) a steady burn like this fires.
    pub pages_fired: Vec<String>,
    /// What the replicas behind the one process change.
    pub replicas_note: String,
}

impl Inputs {
    fn check(&self) -> Result<(), InputError> {
        for (name, value) in
            [("restarts_per_hour", self.restarts_per_hour), ("recovery_seconds", self.recovery_seconds)]
        {
            if !value.is_finite() || value < 0.0 {
                return Err(InputError::NotACount { name, value });
            }
        }
        if !(0.0..1.0).contains(&self.target) {
            return Err(InputError::Target(self.target));
        }
        if !self.window_days.is_finite() || self.window_days <= 0.0 {
            return Err(InputError::Window(self.window_days));
        }
        let hourly = self.restarts_per_hour * self.recovery_seconds;
        if hourly > 3600.0 {
            return Err(InputError::MoreThanAllTime(hourly));
        }
        Ok(())
    }
}

impl Calculation {
    /// Calculates.
    ///
    /// # Errors
    /// An input that is not a number, negative, or contradicts another; the error names it.
    pub fn new(inputs: Inputs) -> Result<Self, InputError> {
        inputs.check()?;
        let hourly = inputs.restarts_per_hour * inputs.recovery_seconds;
        let share = hourly / 3600.0;
        let burn = burn_rate(share, inputs.target);
        let month = hourly * 24.0 * inputs.window_days;
        Ok(Calculation {
            inputs,
            downtime_seconds_per_hour: hourly,
            downtime_seconds_per_day: hourly * 24.0,
            ceiling: 1.0 - share,
            burn_rate: burn,
            budget_seconds_per_month: (1.0 - inputs.target) * inputs.window_days * 86_400.0,
            downtime_seconds_per_month: month,
            hostname_seconds_per_month: month * f64::from(inputs.hostnames),
            budget_lasts_days: lasts_days(burn, inputs.window_days),
            pages_fired: PAGES
                .iter()
                .filter(|p| burn >= p.burn)
                .map(|p| format!("{} over {} and {}", p.burn, p.long, p.short))
                .collect(),
            replicas_note: note(inputs.replicas),
        })
    }
}

fn note(replicas: u32) -> String {
    match replicas {
        0 | 1 => {
            "Every request crosses the one process: its ceiling is the ceiling of all that it serves.".into()
        }
        n => format!(
            "The {n} replicas behind the one process change none of these figures: every request crosses that process first."
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs() -> Inputs {
        Inputs {
            restarts_per_hour: 16.0,
            recovery_seconds: 1.15,
            hostnames: 10,
            replicas: 3,
            target: 0.999,
            window_days: 30.0,
        }
    }

    fn close(got: f64, want: f64, digits: f64) {
        assert!((got - want).abs() < digits, "{got} is not {want}");
    }

    #[test]
    fn the_founding_incident() {
        let c = Calculation::new(inputs()).unwrap();
        close(c.downtime_seconds_per_hour, 18.4, 1e-9);
        close(c.downtime_seconds_per_day, 441.6, 1e-9);
        close(c.ceiling, 0.994_889, 5e-7);
        close(c.burn_rate, 5.11, 5e-3);
        close(c.budget_seconds_per_month, 2592.0, 1e-6);
        close(c.downtime_seconds_per_month, 13_248.0, 1e-6);
        close(c.hostname_seconds_per_month, 132_480.0, 1e-6);
        close(c.budget_lasts_days.unwrap(), 5.87, 5e-3);
        assert!(c.pages_fired.is_empty());
        assert!(c.replicas_note.starts_with("The 3 replicas"));
    }

    #[test]
    fn pages_by_burn() {
        let fired = |rate| {
            Calculation::new(Inputs { restarts_per_hour: rate, ..inputs() }).unwrap().pages_fired.len()
        };
        assert_eq!((fired(18.0), fired(19.0), fired(45.0), fired(46.0)), (0, 1, 1, 2));
    }

    #[test]
    fn nothing_down_lasts_for_ever() {
        let c = Calculation::new(Inputs { restarts_per_hour: 0.0, ..inputs() }).unwrap();
        assert_eq!((c.ceiling, c.burn_rate, c.budget_lasts_days), (1.0, 0.0, None));
    }

    #[test]
    fn refuses_by_name() {
        let err = |i: Inputs| Calculation::new(i).unwrap_err().to_string();
        for bad in [f64::NAN, f64::INFINITY, -1.0] {
            assert!(err(Inputs { restarts_per_hour: bad, ..inputs() }).starts_with("restarts_per_hour is"));
            assert!(err(Inputs { recovery_seconds: bad, ..inputs() }).starts_with("recovery_seconds is"));
            assert!(err(Inputs { window_days: bad, ..inputs() }).starts_with("window_days is"));
            assert!(err(Inputs { target: bad, ..inputs() }).starts_with("target is"));
        }
        assert!(err(Inputs { target: 1.0, ..inputs() }).starts_with("target is 1"));
        assert!(err(Inputs { window_days: 0.0, ..inputs() }).starts_with("window_days is 0"));
        assert!(err(Inputs { recovery_seconds: 300.0, ..inputs() }).contains("4800 seconds"));
    }
}
