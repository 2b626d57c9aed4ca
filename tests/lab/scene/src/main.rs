//! Plays the lab's scenes inside containers (`server`, `supervise`, `pause`) and measures the truth about them from
//! outside Linchpin (`probe`). One static binary without dependencies but libc; the lab imports it as an image. It judges
//! nothing: the harness in `tests/lab/` compares its log with the agent's answers.

#![allow(clippy::disallowed_methods)] // The truth is told by the machine's own clocks.

mod clock;
mod probe;
mod server;

use std::collections::HashMap;
use std::process::exit;

/// Flags of the form `--name value`, and the rest.
pub struct Args {
    flags: HashMap<String, String>,
    /// What is no flag, in order.
    pub rest: Vec<String>,
}

impl Args {
    fn read(mut words: impl Iterator<Item = String>) -> Args {
        let (mut flags, mut rest) = (HashMap::new(), Vec::new());
        while let Some(word) = words.next() {
            match word.strip_prefix("--") {
                Some(name) => {
                    let value = words.next().unwrap_or_else(|| fail(&format!("--{name} needs a value")));
                    flags.insert(name.to_owned(), value);
                }
                None => rest.push(word),
            }
        }
        Args { flags, rest }
    }

    /// The text of a flag.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.flags.get(name).map(String::as_str)
    }

    /// The number of a flag.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.text(name).map(|v| v.parse().unwrap_or_else(|_| fail(&format!("--{name} {v}: not a number"))))
    }
}

/// Ends the program with a complaint.
pub fn fail(why: &str) -> ! {
    eprintln!("scene: {why}");
    exit(2)
}

fn main() {
    let mut words = std::env::args().skip(1);
    let role = words.next().unwrap_or_default();
    let args = Args::read(words);
    match role.as_str() {
        "server" => server::serve(&args),
        "supervise" => server::supervise(&args),
        "pause" => server::pause(),
        "eat" => server::eat(&args),
        "probe" => probe::run(&args),
        other => fail(&format!("unknown role {other:?}: server, supervise, pause, eat or probe")),
    }
}
