//! One container's lookups, from packets to events: hears, matches, judges, and tells. Bounded: [`RATE`] packets a second are
//! read, what the kernel drops meanwhile is counted and told, and nothing is concluded from what was not heard.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use linchpin_data::Event;
use linchpin_data::event::{DnsFailure, DnsOk, Tally};
use tokio::sync::watch;

use super::capture::Capture;
use super::decode;
use super::filter::SNAP;
use super::judge::{Judge, Told};
use super::known::{Known, OwnPorts};
use super::matching::{Lookup, Matcher};
use crate::source::SourceContext;

/// How many packets a second are read of one container.
const RATE: u32 = 2_000;
const SECOND: u64 = 1_000_000_000;
/// How long a tally covers while there is traffic.
const TALLY: u64 = 60 * SECOND;
/// How much later than it is due a timeout is concluded: what was heard in time may not have been read yet.
const GRACE: u64 = SECOND / 20;

/// The judge of one client, kept over its restarts.
pub type SharedJudge = Arc<Mutex<Judge>>;

/// Locks it.
pub fn lock(judge: &SharedJudge) -> MutexGuard<'_, Judge> {
    judge.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An event of what the judge told, by a witness (`capture` or `canary`).
#[must_use]
pub fn event(cx: &SourceContext, subject: &str, by: &str, told: Told) -> Event {
    let ms = |ns: u64| Some((ns / 1000) as f64 / 1000.0);
    match told {
        Told::Failure { name, kind, outcome, resolver, took, at, count } => {
            let fact = DnsFailure {
                name: Some(name),
                outcome: Some(outcome.into()),
                resolver: Some(resolver.to_string()),
                took_ms: ms(took),
                by: Some(by.into()),
                record: Some(kind.text().into()),
                count: (count > 1).then_some(count),
                ..DnsFailure::default()
            };
            cx.event_at(cx.stamp_of_boot(at), subject, fact)
        }
        Told::Recovered { name, resolver, took, at, since, failures } => {
            let fact = DnsOk {
                name: Some(name),
                resolver: Some(resolver.to_string()),
                took_ms: ms(took),
                by: Some(by.into()),
                since: Some(cx.stamp_of_boot(since).at),
                failures: Some(failures),
            };
            cx.event_at(cx.stamp_of_boot(at), subject, fact)
        }
    }
}

/// What a watch works with.
pub struct Watch {
    /// The source's context.
    pub cx: SourceContext,
    /// Whose lookups they are.
    pub subject: Arc<str>,
    /// The client's judge.
    pub judge: SharedJudge,
    /// Names of containers.
    pub known: Arc<Known>,
    /// Where our own questions leave.
    pub own: Arc<OwnPorts>,
    /// Becomes true when the container has ended, or the source shall.
    pub stop: watch::Receiver<bool>,
}

/// What one run keeps.
#[derive(Default)]
struct State {
    matcher: Matcher,
    /// Since when traffic is tallied; none while there is none.
    since: Option<u64>,
    /// Packets read in the second that began then.
    second: u64,
    read: u32,
    dropped: u64,
}

impl Watch {
    /// Watches until the container ends or the socket breaks.
    ///
    /// # Errors
    /// The socket broke.
    pub async fn run(mut self, capture: Capture) -> std::io::Result<()> {
        let mut state = State::default();
        let ended = loop {
            if let Err(e) = self.hear(&capture, &mut state).await {
                break Err(e);
            }
            let now = self.cx.clock.now().boot_ns;
            self.conclude(&capture, &mut state, now).await;
            let paused = state.read >= RATE;
            let due = if paused { Some(state.second + SECOND) } else { self.deadline(&state, now) };
            let wait = due.map_or(Duration::from_secs(3600), |d| Duration::from_nanos(d.saturating_sub(now)));
            tokio::select! {
                _ = self.stop.wait_for(|stop| *stop) => break Ok(()),
                r = capture.readable(), if !paused => if let Err(e) = r { break Err(e) },
                () = tokio::time::sleep(wait) => {}
            }
        };
        // What was heard before the end counts.
        state.read = 0;
        let _ = self.hear(&capture, &mut state).await;
        let told = lock(&self.judge).end();
        self.tell(told).await;
        self.tally(&capture, &mut state, self.cx.clock.now().boot_ns).await;
        ended
    }

    fn deadline(&self, state: &State, now: u64) -> Option<u64> {
        let timeout = state.matcher.deadline().map(|d| d + GRACE);
        let settled = lock(&self.judge).deadline(now);
        [timeout, settled, state.since.map(|s| s + TALLY)].into_iter().flatten().min()
    }

    /// Takes in what waits, as far as the rate allows.
    async fn hear(&self, capture: &Capture, state: &mut State) -> std::io::Result<()> {
        let mut buffer = [0; SNAP as usize];
        let now = self.cx.clock.now();
        if now.boot_ns >= state.second.saturating_add(SECOND) {
            (state.second, state.read) = (now.boot_ns, 0);
        }
        while state.read < RATE {
            let Some(heard) = capture.hear(&mut buffer, now)? else { break };
            state.read += 1;
            let bytes = buffer.get(..heard.len).unwrap_or_default();
            let Some(message) = decode::packet(bytes) else { continue };
            let muted = message.reply.is_none() && self.own.contains(message.from.port(), heard.boot_ns);
            state.since = state.since.or(Some(now.boot_ns));
            if let Some(lookup) = state.matcher.see(message, heard.boot_ns, heard.ours, muted) {
                self.take(lookup).await;
            }
        }
        Ok(())
    }

    async fn take(&self, lookup: Lookup) {
        let known = self.known.contains(&lookup.name);
        let told = lock(&self.judge).take(lookup, known);
        self.tell(told).await;
    }

    /// What time alone brings: timeouts, failures that have settled, the minute's tally.
    async fn conclude(&self, capture: &Capture, state: &mut State, now: u64) {
        if state.matcher.deadline().is_some_and(|d| d + GRACE <= now) {
            self.count_dropped(capture, state);
            for lookup in state.matcher.expire(now.saturating_sub(GRACE)) {
                self.take(lookup).await;
            }
        }
        let told = lock(&self.judge).settle(now, &state.matcher);
        self.tell(told).await;
        if state.since.is_some_and(|since| since + TALLY <= now) {
            self.tally(capture, state, now).await;
        }
    }

    /// An answer may be among what was dropped: what is under way is not followed any more.
    fn count_dropped(&self, capture: &Capture, state: &mut State) {
        let dropped = capture.dropped();
        if dropped > 0 {
            state.dropped += dropped;
            state.matcher.forget();
        }
    }

    async fn tally(&self, capture: &Capture, state: &mut State, now: u64) {
        self.count_dropped(capture, state);
        let counts = state.matcher.take_counts();
        let failed = lock(&self.judge).take_failed();
        if let Some(since) = state.since.take()
            && counts.asked + counts.answered + failed > 0
        {
            let fact = Tally {
                of: Some("dns".into()),
                window_s: Some((now.saturating_sub(since) / 1_000_000) as f64 / 1000.0),
                asked: Some(counts.asked),
                answered: Some(counts.answered),
                failed: Some(failed),
            };
            self.cx.emit(self.cx.event(&self.subject, fact)).await;
        }
        let lost = std::mem::take(&mut state.dropped) + counts.unfollowed;
        if lost > 0 {
            let detail = format!(
                "more DNS traffic than is read ({RATE} packets a second, {} questions under way); questions under way then are not judged",
                super::matching::OPEN
            );
            self.cx.emit(self.cx.issue(&self.subject, "dropped", lost, detail, "")).await;
        }
    }

    async fn tell(&self, told: Vec<Told>) {
        for t in told {
            self.cx.emit(event(&self.cx, &self.subject, "capture", t)).await;
        }
    }
}
