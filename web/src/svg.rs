//! Pictures, drawn on the server: pure functions from figures to SVG text. Every picture has a title and a description;
//! whoever shows one puts a table beside it that says the same. Colours and strokes are classes of the style sheet
//! (the content policy forbids inline styles). Widths are percentages, so that text and marks keep their size from
//! 390 px to paper.

mod budget;
mod cause;
mod coverage;
mod lags;
mod lanes;
mod ruler;
mod spark;

pub use budget::{BudgetLine, budget_line};
pub use cause::{Cause, mark};
pub use coverage::{Strip, coverage};
pub use lags::{lag_histogram, lag_rows};
pub use lanes::{LanePicture, axis, lane};
pub use ruler::{Ruler, position, ruler, ruler_axis};
pub use spark::sparkline;

use std::fmt::Write;

use crate::markup::{Html, escape};

/// Wraps shapes into an SVG of full width and `height` pixels, with its title and description.
fn figure(class: &str, height: u32, title: &str, desc: &str, body: &str) -> Html {
    let mut out = String::with_capacity(body.len() + 256);
    let _ = write!(
        out,
        "<svg class=\"{class}\" width=\"100%\" height=\"{height}\" role=\"img\" xmlns=\"http://www.w3.org/2000/svg\"><title>{}</title><desc>{}</desc>{body}</svg>",
        escape(title),
        escape(desc)
    );
    Html(out)
}

/// A share, 0 to 1, as a percentage for an attribute; what is no number is 0.
fn pct(share: f64) -> String {
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    format!("{:.3}%", share * 100.0)
}

/// The patterns that other pictures refer to: hatching for where nobody watched. Once a page.
#[must_use]
pub fn patterns() -> Html {
    Html(
        "<svg class=\"patterns\" width=\"0\" height=\"0\" aria-hidden=\"true\" focusable=\"false\"><defs>\
         <pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
         <rect class=\"hatch-ground\" width=\"6\" height=\"6\"/><line class=\"hatch-line\" x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\"/></pattern>\
         </defs></svg>"
            .into(),
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A small checker: every element closed in order, attributes quoted and told once, text escaped.
    pub(crate) fn well_formed(svg: &str) -> Result<(), String> {
        crate::wellformed::check(svg, true)
    }

    #[test]
    fn figures_escape_their_words() {
        let svg = figure("x", 10, "<script>alert(1)</script>", "a & \"b\"", "<line x1=\"0\"/>");
        well_formed(&svg.0).unwrap();
        assert!(!svg.0.contains("<script"));
    }

    #[test]
    fn patterns_are_well_formed() {
        well_formed(&patterns().0).unwrap();
    }

    #[test]
    fn shares_never_leave_the_picture() {
        assert_eq!(pct(f64::NAN), "0.000%");
        assert_eq!(pct(7.0), "100.000%");
        assert_eq!(pct(-7.0), "0.000%");
    }
}
