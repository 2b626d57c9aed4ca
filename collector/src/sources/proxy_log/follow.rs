//! One container's log, followed through Docker from a given moment on: a transport. It ends with the container's life, and
//! takes up again where it was when the connection is lost meanwhile.

use std::sync::Arc;
use std::time::Duration;

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::query_parameters::LogsOptionsBuilder;
use futures_util::StreamExt;
use linchpin_data::time::{NS, Timestamp};
use tokio::sync::watch;

use super::lines::Lines;
use super::tell::{RATE, Teller, stamped};
use crate::source::SourceContext;

/// First and longest wait after a lost connection.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LAST_WAIT: Duration = Duration::from_secs(30);
/// How often it is said that lines were not looked at, in nanoseconds.
const MINUTE: i64 = 60 * NS;

/// What one container's log has given, kept over its lives.
#[derive(Debug)]
pub struct Log {
    teller: Teller,
    /// The first moment that has not been read yet.
    next: Timestamp,
    told_skipped: Timestamp,
    /// The engine can not give this log: said once.
    unreadable: bool,
}

impl Log {
    /// A log that is read from `next` on.
    #[must_use]
    pub fn from(next: Timestamp) -> Self {
        Log { teller: Teller::default(), next, told_skipped: next, unreadable: false }
    }
}

/// Whose log it is.
pub struct Follow {
    /// The source's context.
    pub cx: SourceContext,
    /// The engine.
    pub docker: Docker,
    /// The container's id.
    pub id: Arc<str>,
    /// Whose failing lookups they are.
    pub subject: Arc<str>,
    /// Becomes true when the source shall end.
    pub stop: watch::Receiver<bool>,
}

/// Why a stream ended.
enum End {
    /// The log is at its end: the container is not running.
    Whole,
    /// The connection was lost.
    Lost,
    /// The engine has no log of it to give.
    Unreadable(String),
}

impl Follow {
    /// Reads until the log ends, and gives back what is to be kept.
    pub async fn run(mut self, mut log: Log) -> Log {
        let mut wait = FIRST_WAIT;
        log.teller.begin();
        while !log.unreadable {
            let mut stop = self.stop.clone();
            let end = tokio::select! {
                _ = stop.wait_for(|stop| *stop) => break,
                end = self.stream(&mut log) => end,
            };
            self.say_skipped(&mut log, true).await;
            match end {
                End::Whole => break,
                End::Lost => {}
                End::Unreadable(why) => {
                    log.unreadable = true;
                    let detail = format!(
                        "reading the log of container {} through Docker: {why}; use a logging driver that can be read (json-file, local, journald)",
                        self.id
                    );
                    self.cx.emit(self.cx.issue(&self.subject, "unreadable", 1, detail, "")).await;
                    break;
                }
            }
            tokio::select! {
                _ = self.stop.wait_for(|stop| *stop) => break,
                () = tokio::time::sleep(wait) => {}
            }
            wait = (wait * 2).min(LAST_WAIT);
            if !self.cx.roster.get(&self.id).is_some_and(|c| c.running) {
                break;
            }
        }
        log
    }

    async fn stream(&self, log: &mut Log) -> End {
        let since = i32::try_from(log.next.0.div_euclid(NS)).unwrap_or(i32::MAX);
        let options = LogsOptionsBuilder::default()
            .follow(true)
            .stdout(true)
            .stderr(true)
            .timestamps(true)
            .since(since)
            .build();
        let mut stream = std::pin::pin!(self.docker.logs(&self.id, Some(options)));
        // The engine takes whole seconds: what comes again from the second we stopped in is left out by its own moment.
        let from = log.next;
        let (mut out, mut err) = (Lines::default(), Lines::default());
        while let Some(piece) = stream.next().await {
            let (lines, bytes) = match piece {
                Ok(LogOutput::StdErr { message }) => (&mut err, message),
                Ok(
                    LogOutput::StdOut { message }
                    | LogOutput::Console { message }
                    | LogOutput::StdIn { message },
                ) => (&mut out, message),
                Err(e) => return ending(&e),
            };
            for line in lines.push(&bytes) {
                self.line(log, from, &line).await;
            }
        }
        for line in [out.rest(), err.rest()].into_iter().flatten() {
            self.line(log, from, &line).await;
        }
        End::Whole
    }

    async fn line(&self, log: &mut Log, from: Timestamp, line: &str) {
        let Some((at, text)) = stamped(line) else { return };
        if at < from {
            return;
        }
        log.next = log.next.max(at.plus_ns(1));
        if let Some(fact) = log.teller.take(at, text) {
            self.cx.emit(self.cx.event_at(self.cx.stamp_of_wall(at), &self.subject, fact)).await;
        }
        self.say_skipped(log, false).await;
    }

    async fn say_skipped(&self, log: &mut Log, at_end: bool) {
        if !at_end && log.next < log.told_skipped.plus_ns(MINUTE) {
            return;
        }
        log.told_skipped = log.next;
        let skipped = log.teller.take_skipped();
        if skipped > 0 {
            let detail = format!("its log has more than {RATE} lines a second; the rest are not looked at");
            self.cx.emit(self.cx.issue(&self.subject, "dropped", skipped, detail, "")).await;
        }
    }
}

fn ending(e: &bollard::errors::Error) -> End {
    use bollard::errors::Error;
    match e {
        Error::DockerResponseServerError { status_code: 404 | 409, .. } => End::Whole,
        Error::DockerResponseServerError { message, .. } => {
            End::Unreadable(message.chars().take(200).collect())
        }
        // Older engines say it in the stream itself.
        Error::DockerStreamError { error } => End::Unreadable(error.chars().take(200).collect()),
        _ => End::Lost,
    }
}
