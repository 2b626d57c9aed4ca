//! A sign of life beside the journal, so that an agent which was cut off (kill -9, power) can say when it next starts how
//! long it had really watched. Rewritten every few seconds, in place: losing it costs accuracy, not truth.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use linchpin_data::clock::Stamp;
use linchpin_data::event::WatchStopped;
use linchpin_data::{Event, Fact, Timestamp};

/// How often it is rewritten: how much a gap may begin too early.
pub const PERIOD: Duration = Duration::from_secs(5);

/// The file.
pub struct Alive {
    path: PathBuf,
    boot_id: String,
}

/// Sources that said that they watch and never said that they stopped.
#[derive(Debug, Default)]
pub struct OpenWatches {
    sources: BTreeSet<String>,
    last: Option<(Timestamp, Option<u64>, Option<std::sync::Arc<str>>)>,
}

impl OpenWatches {
    /// Takes in one event of the journal, in its order.
    pub fn fold(&mut self, event: &Event) {
        self.last = Some((event.at, event.boot_ns, event.boot_id.clone()));
        match &event.fact {
            Fact::WatchStarted(f) => self.sources.extend(f.source.clone()),
            Fact::WatchStopped(f) => {
                if let Some(source) = &f.source {
                    self.sources.remove(source);
                }
            }
            _ => {}
        }
    }
}

impl Alive {
    /// The file of the journal in `dir`.
    pub fn new(dir: &Path, boot_id: &str) -> Self {
        Alive { path: dir.join("ALIVE"), boot_id: boot_id.into() }
    }

    /// Says that the agent lives at `now`.
    pub fn touch(&self, now: Stamp) {
        let text = format!("{} {} {}\n", now.at.0, now.boot_ns, self.boot_id);
        if let Err(e) = fs::write(&self.path, text) {
            tracing::debug!(path = %self.path.display(), error = %e, "the sign of life could not be written");
        }
    }

    /// For each source that the last run left open: when it must have stopped, at the last sign of life.
    pub fn cut_off(&self, host: &str, open: &OpenWatches) -> Vec<Event> {
        let Some((at, boot_ns, boot_id)) = self.last_sign(open) else { return Vec::new() };
        open.sources
            .iter()
            .map(|source| {
                let fact = WatchStopped {
                    source: Some(source.clone()),
                    reason: Some("the agent was cut off".into()),
                };
                let mut event = Event::new(at, host, "host:", fact);
                event.boot_ns = boot_ns;
                event.boot_id.clone_from(&boot_id);
                event
            })
            .collect()
    }

    /// The later of the file's moment and the journal's last event.
    fn last_sign(&self, open: &OpenWatches) -> Option<(Timestamp, Option<u64>, Option<std::sync::Arc<str>>)> {
        let last = open.last.clone()?;
        let Some((at, boot_ns, boot_id)) = fs::read_to_string(&self.path).ok().as_deref().and_then(parse)
        else {
            return Some(last);
        };
        // Within one boot the boot clock decides, which never steps.
        let later = match (&last.2, last.1) {
            (Some(b), Some(ns)) if **b == *boot_id => boot_ns > ns,
            _ => at > last.0,
        };
        Some(if later { (at, Some(boot_ns), Some(boot_id.as_str().into())) } else { last })
    }
}

fn parse(text: &str) -> Option<(Timestamp, u64, String)> {
    let mut words = text.split_whitespace();
    let at = Timestamp(words.next()?.parse().ok()?);
    let boot_ns = words.next()?.parse().ok()?;
    Some((at, boot_ns, words.next()?.chars().take(64).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use linchpin_data::event::WatchStarted;

    fn watch(at: i64, source: &str) -> Event {
        let fact = WatchStarted { source: Some(source.into()), ..WatchStarted::default() };
        let mut e = Event::new(Timestamp(at), "h", "host:", fact);
        (e.boot_ns, e.boot_id) = (Some(at.unsigned_abs()), Some("b".into()));
        e
    }

    #[test]
    fn what_was_left_open_ends_at_the_last_sign_of_life() {
        let dir = tempfile::tempdir().unwrap();
        let alive = Alive::new(dir.path(), "b");
        let mut open = OpenWatches::default();
        assert!(alive.cut_off("h", &open).is_empty());
        open.fold(&watch(10, "docker"));
        open.fold(&watch(11, "host"));
        open.fold(&Event::new(
            Timestamp(12),
            "h",
            "host:",
            WatchStopped { source: Some("host".into()), reason: None },
        ));
        assert_eq!(alive.cut_off("h", &open)[0].at, Timestamp(12), "without the file, the last event");
        alive.touch(Stamp { at: Timestamp(99), boot_ns: 99 });
        let told = alive.cut_off("h", &open);
        assert_eq!(told.len(), 1);
        assert_eq!((told[0].at, told[0].boot_ns), (Timestamp(99), Some(99)));
        fs::write(dir.path().join("ALIVE"), "\u{0}garbage").unwrap();
        assert_eq!(alive.cut_off("h", &open)[0].at, Timestamp(12));
    }
}
