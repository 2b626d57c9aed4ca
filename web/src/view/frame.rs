//! What stands around every page: where one is, which range is shown, what it holds for.

use crate::assets;
use crate::markup::{Html, visible};
use crate::range::{RANGES, Range};
use crate::svg;

/// A link of a menu.
#[derive(Clone, Debug)]
pub struct Link {
    /// Where it leads.
    pub href: String,
    /// What it says.
    pub text: &'static str,
    /// Whether it is where one is.
    pub here: bool,
}

/// The frame of a page.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The document's title.
    pub title: String,
    /// The main menu.
    pub menu: Vec<Link>,
    /// The ranges; empty where a page has none.
    pub ranges: Vec<Link>,
    /// The version.
    pub version: &'static str,
    /// This host.
    pub host: String,
    /// Whether the page follows the changes.
    pub live: bool,
    /// How many events the figures know, where the page follows.
    pub at: u64,
    /// Style sheet.
    pub css: &'static str,
    /// Script.
    pub js: &'static str,
    /// Icon.
    pub icon: &'static str,
    /// What the pictures refer to.
    pub patterns: Html,
}

impl Frame {
    /// The same, for a page whose figures know of `at` events.
    #[must_use]
    pub fn knowing(mut self, at: u64) -> Self {
        self.at = at;
        self
    }

    /// A frame titled `title` for the page at `path`. With a range the page offers others.
    #[must_use]
    pub fn new(
        title: &str,
        path: &str,
        range: Option<&Range>,
        host: &str,
        version: &'static str,
        live: bool,
    ) -> Self {
        let keep = range.map_or(String::new(), Range::query);
        let menu =
            [("/", "Overview"), ("/ceiling", "Ceiling"), ("/events", "Events"), ("/sources", "Sources")]
                .map(|(to, text)| Link {
                    href: if to == "/ceiling" { to.into() } else { format!("{to}{keep}") },
                    text,
                    here: to == path,
                })
                .to_vec();
        let ranges = range.map_or(Vec::new(), |r| {
            let plain = r.from.is_none() && r.to.is_none();
            RANGES
                .iter()
                .map(|(word, text, _)| Link {
                    href: format!("{path}?range={word}"),
                    text,
                    here: r.last.is_some_and(|l| l.0 == *word),
                })
                .chain(std::iter::once(Link {
                    href: path.to_string(),
                    text: "all",
                    here: r.last.is_none() && plain,
                }))
                .collect()
        });
        Frame {
            title: visible(title, 120),
            menu,
            ranges,
            version,
            host: visible(host, 64),
            live,
            at: 0,
            css: assets::css_href(),
            js: assets::js_href(),
            icon: assets::icon_href(),
            patterns: svg::patterns(),
        }
    }
}
