//! Main processes of containers by pid, remembered a little beyond their end: the kernel's line about a process can be
//! read after the runtime has said that it is gone. No longer, because pids are used again.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use crate::roster::{Change, Container, Roster};

/// How long after its end a main process is still remembered, in nanoseconds.
const LINGER_NS: u64 = 5_000_000_000;
/// How many are remembered.
const REMEMBERED: usize = 8192;

/// Main processes as the roster tells of them.
pub struct Mains {
    changes: Receiver<Change>,
    by_pid: HashMap<u32, Main>,
}

struct Main {
    id: Arc<str>,
    subject: Arc<str>,
    ended_at: Option<u64>,
}

impl Mains {
    /// Those of now; the roster is followed from here on.
    pub fn new(roster: &Roster) -> Self {
        let mut mains = Mains { changes: roster.subscribe(), by_pid: HashMap::new() };
        mains.reread(roster);
        mains
    }

    fn reread(&mut self, roster: &Roster) {
        roster.all().iter().for_each(|c| self.runs(c));
    }

    fn runs(&mut self, c: &Container) {
        let (Some(pid), true) = (c.pid, c.running) else { return };
        if self.by_pid.len() < REMEMBERED {
            self.by_pid.insert(pid, Main { id: c.id.clone(), subject: c.subject.clone(), ended_at: None });
        }
    }

    /// Waits for the roster's next word; [`Mains::take`] takes it in. Never comes once the roster is gone.
    pub async fn changed(&mut self) -> Result<Change, u64> {
        match self.changes.recv().await {
            Ok(change) => Ok(change),
            Err(RecvError::Lagged(n)) => Err(n),
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }

    /// Takes in a change, or (`Err`) that some were missed. `now` in nanoseconds of boot time.
    pub fn take(&mut self, change: Result<Change, u64>, roster: &Roster, now: u64) {
        match change {
            Ok(Change::Started(c) | Change::Described(c)) => self.runs(&c),
            Ok(Change::Exited(c) | Change::Removed(c)) => {
                let ended = self.by_pid.values_mut().filter(|m| m.id == c.id && m.ended_at.is_none());
                ended.for_each(|m| m.ended_at = Some(now));
            }
            Err(_) => {
                let all = roster.all();
                let lives =
                    |pid: u32, m: &Main| all.iter().any(|c| c.id == m.id && c.running && c.pid == Some(pid));
                for (pid, main) in &mut self.by_pid {
                    if main.ended_at.is_none() && !lives(*pid, main) {
                        main.ended_at = Some(now);
                    }
                }
                self.reread(roster);
            }
        }
        self.by_pid.retain(|_, m| m.ended_at.is_none_or(|at| now.saturating_sub(at) <= LINGER_NS));
    }

    /// Takes in all that has been told by now.
    pub fn follow(&mut self, roster: &Roster, now: u64) {
        loop {
            match self.changes.try_recv() {
                Ok(change) => self.take(Ok(change), roster, now),
                Err(TryRecvError::Lagged(n)) => self.take(Err(n), roster, now),
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        self.by_pid.retain(|_, m| m.ended_at.is_none_or(|at| now.saturating_sub(at) <= LINGER_NS));
    }

    /// The subject whose main process `pid` is, or was until just now.
    pub fn get(&self, pid: u64) -> Option<Arc<str>> {
        self.by_pid.get(&u32::try_from(pid).ok()?).map(|m| m.subject.clone())
    }
}

/// Waits until the roster tells of a container whose main process is `pid`. Ends only then.
pub async fn told(mut changes: Receiver<Change>, pid: u64) -> Option<Arc<str>> {
    loop {
        match changes.recv().await {
            Ok(Change::Started(c) | Change::Described(c)) if c.pid.is_some_and(|p| u64::from(p) == pid) => {
                return Some(c.subject);
            }
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pid_is_forgotten_soon_after_its_end() {
        let roster = Roster::default();
        let c = Container {
            id: "a".into(),
            subject: "docker:a".into(),
            pid: Some(7),
            running: true,
            ..Container::default()
        };
        let mut mains = Mains::new(&roster);
        assert_eq!(mains.get(7), None);
        roster.put(c.clone(), Change::Started);
        mains.follow(&roster, 0);
        assert_eq!(mains.get(7).as_deref(), Some("docker:a"));
        roster.put(Container { pid: None, running: false, ..c.clone() }, Change::Exited);
        mains.follow(&roster, 1_000_000_000);
        assert_eq!(mains.get(7).as_deref(), Some("docker:a"));
        mains.follow(&roster, 7_000_000_000);
        assert_eq!(mains.get(7), None);
        // More changes at once than are kept: the roster is read anew.
        for _ in 0..10_000 {
            roster.put(c.clone(), Change::Described);
        }
        mains.follow(&roster, 8_000_000_000);
        assert_eq!(mains.get(7).as_deref(), Some("docker:a"));
    }
}
