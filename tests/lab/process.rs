//! Programs that the lab starts: run to their end with their output, or kept and ended with their guard.

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// Runs a program to its end.
pub fn try_run(words: &[&str]) -> Output {
    Command::new(words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|e| panic!("{words:?}: {e}; tests/run installs what the lab needs"))
}

/// Runs a program that must succeed; its standard output without the last line feed.
pub fn run(words: &[&str]) -> String {
    let out = try_run(words);
    assert!(out.status.success(), "{words:?}: {}: {}", out.status, String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).trim_end().to_string()
}

/// A program that runs beside the test and ends with it.
pub struct Running(Child);

impl Running {
    /// Starts it with its output going to `log`. The kernel ends it too should the test be killed.
    pub fn start(words: &[&str], log: &Path) -> Running {
        let out = std::fs::File::options().create(true).append(true).open(log).unwrap();
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "TERM"])
            .args(words)
            .stdin(Stdio::null())
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .spawn()
            .unwrap_or_else(|e| panic!("setpriv … {words:?}: {e}"));
        Running(child)
    }

    /// Its process id (setpriv has become the program itself).
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().unwrap()
    }

    /// Asks it to end; kills it after `patience`.
    pub fn end(&mut self, patience: Duration) -> Option<ExitStatus> {
        if self.ended().is_none() {
            try_run(&["kill", "-TERM", &self.pid().to_string()]);
        }
        let status = wait_for(patience, || self.ended());
        if status.is_none() {
            self.kill();
        }
        status
    }

    /// Ends it with SIGKILL.
    pub fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            self.end(Duration::from_secs(10));
        }
    }
}

/// What `look` finds, as soon as it finds it, within `patience`.
pub fn wait_for<T>(patience: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let until = Instant::now() + patience;
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if Instant::now() > until {
            return None;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Lets real time pass.
pub fn pass(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}
