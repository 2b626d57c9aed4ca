//! The ground truth: starts the scene's prober beside the server (in its network namespace, or on its bridge) and reads
//! its log. Says how finely it knows what it says.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::engine::{Engine, scene};
use crate::process::{Running, wait_for};

/// One time an address did not accept.
#[derive(Clone, Debug, Deserialize)]
pub struct Outage {
    /// Start of the first try that failed; wall clock, nanoseconds.
    pub down_wall_ns: i64,
    /// The same by CLOCK_BOOTTIME.
    pub down_boot_ns: i64,
    /// Start of the first try that succeeded again; 0 while open.
    #[serde(default)]
    pub up_wall_ns: i64,
    /// The same by CLOCK_BOOTTIME.
    #[serde(default)]
    pub up_boot_ns: i64,
    /// Start of the last try that had succeeded.
    pub last_ok_boot_ns: i64,
    /// Start of the last try that failed.
    pub last_fail_boot_ns: i64,
    /// Tries that were refused.
    pub refused: u64,
    /// Tries that were not answered within 50 ms.
    pub unanswered: u64,
}

impl Outage {
    /// How long, in milliseconds.
    pub fn ms(&self) -> f64 {
        (self.up_boot_ns - self.down_boot_ns) as f64 / 1e6
    }

    /// How much the prober may be wrong about the length, in milliseconds: it knows each end only between two tries.
    pub fn doubt_ms(&self) -> f64 {
        ((self.down_boot_ns - self.last_ok_boot_ns) + (self.up_boot_ns - self.last_fail_boot_ns)) as f64 / 1e6
    }

    /// A connect that a full queue or a late prober lost is none: an outage refuses, or is silent for long.
    fn is_real(&self) -> bool {
        self.refused > 0 || self.unanswered > 300
    }
}

#[derive(Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Line {
    Up {
        name: String,
    },
    Outage {
        name: String,
        #[serde(flatten)]
        outage: Outage,
    },
    Open {
        name: String,
        #[serde(flatten)]
        outage: Outage,
    },
    End {
        worst_late_ns: u64,
    },
}

/// A prober at work.
pub struct Prober {
    running: Running,
    log: PathBuf,
}

impl Prober {
    /// Probes `targets` (name, address:port) from the host's namespace, or from that of the process `inside`.
    pub fn start(engine: &Engine, inside: Option<&str>, targets: &[(&str, &str)]) -> Prober {
        Prober::with(engine, inside, targets, &[])
    }

    /// As [`Prober::start`], for many targets: each is tried every millisecond only from `NAME.soon` in the shared directory
    /// on, until it is well again.
    pub fn announced(engine: &Engine, inside: Option<&str>, targets: &[(&str, &str)]) -> Prober {
        Prober::with(engine, inside, targets, &["--soon", &engine.shared().display().to_string()])
    }

    fn with(engine: &Engine, inside: Option<&str>, targets: &[(&str, &str)], options: &[&str]) -> Prober {
        let n = std::fs::read_dir(engine.dir()).unwrap().count();
        let log = engine.dir().join(format!("truth-{n}.jsonl"));
        let (path, program) = (log.display().to_string(), scene().display().to_string());
        let targets: Vec<String> = targets.iter().map(|(name, addr)| format!("{name}={addr}")).collect();
        let net = inside.map(|pid| format!("--net=/proc/{pid}/ns/net"));
        let mut words: Vec<&str> = net.as_ref().map(|net| vec!["nsenter", net]).unwrap_or_default();
        words.extend([program.as_str(), "probe", "--log", &path]);
        words.extend(options);
        words.extend(targets.iter().map(String::as_str));
        let running = Running::start(&words, &log.with_extension("err"));
        let prober = Prober { running, log };
        assert!(
            wait_for(Duration::from_secs(5), || prober.log.exists().then_some(())).is_some(),
            "the prober starts"
        );
        prober
    }

    fn lines(&self) -> Vec<Line> {
        let text = std::fs::read_to_string(&self.log).unwrap();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{l}: {e}"))).collect()
    }

    /// Waits until `name` accepted for the first time.
    pub fn wait_up(&self, name: &str) {
        let up = wait_for(Duration::from_secs(30), || {
            self.lines().iter().any(|l| matches!(l, Line::Up { name: n } if n == name)).then_some(())
        });
        assert!(up.is_some(), "{name} never accepted: the scene is broken");
    }

    /// The closed outages of `name`, oldest first.
    pub fn outages(&self, name: &str) -> Vec<Outage> {
        let all = self.lines().into_iter().filter_map(|l| match l {
            Line::Outage { name: n, outage } if n == name && outage.is_real() => Some(outage),
            _ => None,
        });
        all.collect()
    }

    /// Waits until `name` has had `count` closed outages.
    pub fn wait_outages(&self, name: &str, count: usize, patience: Duration) -> Vec<Outage> {
        let found = wait_for(patience, || Some(self.outages(name)).filter(|o| o.len() >= count));
        found.unwrap_or_else(|| {
            panic!("{name}: the prober saw {} outages of {count}", self.outages(name).len())
        })
    }

    /// Ends the prober. Gives an outage of `name` that is still open, and how late it was itself at worst, in milliseconds.
    pub fn end(&mut self, name: &str) -> (Option<Outage>, f64) {
        self.running.end(Duration::from_secs(5));
        let (mut open, mut late) = (None, f64::NAN);
        for line in self.lines() {
            match line {
                Line::Open { name: n, outage } if n == name => open = Some(outage),
                Line::End { worst_late_ns } => late = worst_late_ns as f64 / 1e6,
                _ => {}
            }
        }
        (open, late)
    }
}
