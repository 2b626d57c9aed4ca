//! A look for each cause: a colour of the Okabe–Ito palette and a shape, so that neither has to be told from the other
//! by colour alone.

use crate::markup::Html;

/// The families of causes that a picture tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Killed for want of memory.
    Memory,
    /// Ended with a code other than 0.
    Crash,
    /// Ended by a signal.
    Signal,
    /// Ended with code 0.
    Clean,
    /// A health check failed.
    Health,
    /// The port closed while it lived.
    Port,
    /// The host or the runtime went.
    Host,
    /// Somebody asked for it: stop, restart, deploy.
    Operator,
    /// Not known.
    Unknown,
}

impl Cause {
    /// All, in the order of legends.
    pub const ALL: [Cause; 9] = [
        Cause::Memory,
        Cause::Crash,
        Cause::Signal,
        Cause::Clean,
        Cause::Health,
        Cause::Port,
        Cause::Host,
        Cause::Operator,
        Cause::Unknown,
    ];

    /// From the report's word.
    #[must_use]
    pub fn of(word: &str) -> Self {
        match word {
            "own memory ceiling" | "host out of memory" => Cause::Memory,
            "crash exit" => Cause::Crash,
            "signal" => Cause::Signal,
            "clean exit" => Cause::Clean,
            "health-check kill" | "check failed" => Cause::Health,
            "port closed" => Cause::Port,
            "host reboot" | "runtime restart" => Cause::Host,
            "operator" | "deploy" => Cause::Operator,
            _ => Cause::Unknown,
        }
    }

    /// The class of the style sheet that colours it.
    #[must_use]
    pub fn class(self) -> &'static str {
        match self {
            Cause::Memory => "c-memory",
            Cause::Crash => "c-crash",
            Cause::Signal => "c-signal",
            Cause::Clean => "c-clean",
            Cause::Health => "c-health",
            Cause::Port => "c-port",
            Cause::Host => "c-host",
            Cause::Operator => "c-operator",
            Cause::Unknown => "c-unknown",
        }
    }

    /// What a legend calls it.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Cause::Memory => "out of memory",
            Cause::Crash => "crash exit",
            Cause::Signal => "signal",
            Cause::Clean => "clean exit",
            Cause::Health => "health check",
            Cause::Port => "port closed",
            Cause::Host => "host or runtime",
            Cause::Operator => "operator or deploy",
            Cause::Unknown => "unknown",
        }
    }

    /// Its shape about the origin, some nine pixels across.
    #[must_use]
    pub fn shape(self) -> &'static str {
        match self {
            Cause::Memory => "<path d=\"M0-5.5 5.5 0 0 5.5-5.5 0Z\"/>",
            Cause::Crash => "<path class=\"stroke\" d=\"M-4-4 4 4M4-4-4 4\"/>",
            Cause::Signal => "<path d=\"M0-5 5 4H-5Z\"/>",
            Cause::Clean => "<circle r=\"4.4\"/>",
            Cause::Health => "<rect x=\"-4\" y=\"-4\" width=\"8\" height=\"8\"/>",
            Cause::Port => "<circle class=\"hollow\" r=\"3.8\"/>",
            Cause::Host => "<rect x=\"-2\" y=\"-6\" width=\"4\" height=\"12\"/>",
            Cause::Operator => "<path class=\"stroke\" d=\"M-5 0H5M0-5V5\"/>",
            Cause::Unknown => "<rect class=\"hollow dashed\" x=\"-4\" y=\"-4\" width=\"8\" height=\"8\"/>",
        }
    }
}

/// The mark alone, for legends and table cells.
#[must_use]
pub fn mark(cause: Cause) -> Html {
    Html(format!(
        "<svg class=\"mark\" width=\"14\" height=\"14\" viewBox=\"-7 -7 14 14\" aria-hidden=\"true\" focusable=\"false\"><g class=\"{}\">{}</g></svg>",
        cause.class(),
        cause.shape()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_its_own_shape_colour_and_word() {
        let mut shapes: Vec<_> = Cause::ALL.iter().map(|c| (c.shape(), c.class(), c.label())).collect();
        shapes.sort_unstable();
        for pair in shapes.windows(2) {
            assert!(pair[0].0 != pair[1].0 && pair[0].1 != pair[1].1 && pair[0].2 != pair[1].2);
        }
        for c in Cause::ALL {
            crate::wellformed::check(&mark(c).0, true).unwrap();
        }
    }

    #[test]
    fn a_word_of_tomorrow_is_unknown() {
        assert_eq!(Cause::of("eaten by a grue"), Cause::Unknown);
        assert_eq!(Cause::of("own memory ceiling"), Cause::Memory);
    }
}
