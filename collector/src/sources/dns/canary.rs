//! Names asked for on a period on a container's behalf, from inside its network namespace and of its own nameservers, where
//! people want it: a proxy that looks up seldom is then known to fail before it asks. Off unless configured.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use linchpin_data::event::Tally;
use tokio::net::UdpSocket;
use tokio::sync::watch;

use super::decode::{self, Kind, Reply};
use super::judge::Judge;
use super::known::OwnPorts;
use super::matching::{End, Lookup, Matcher, TIMEOUT};
use super::netns::{self, Key};
use super::{resolv, watch::event};
use crate::source::SourceContext;

/// How many names are asked for on behalf of one container.
const NAMES: usize = 32;
/// The shortest period.
const SHORTEST: Duration = Duration::from_secs(1);
const MINUTE: u64 = 60_000_000_000;

/// What a canary works with.
pub struct Canary {
    /// The source's context.
    pub cx: SourceContext,
    /// On whose behalf.
    pub subject: Arc<str>,
    /// Its main process.
    pub pid: u32,
    /// The network namespace that is in.
    pub namespace: Key,
    /// The names.
    pub names: Vec<String>,
    /// Where our questions are noted, so that they are not taken for the container's.
    pub own: Arc<OwnPorts>,
    /// Becomes true when the container has ended, or the source shall.
    pub stop: watch::Receiver<bool>,
}

impl Canary {
    /// Asks until the container ends.
    pub async fn run(mut self) {
        self.names.truncate(NAMES);
        let period = self.cx.settings.names.canary_period.max(SHORTEST);
        let (mut judge, nothing) = (Judge::default(), Matcher::default());
        let (mut since, mut asked, mut answered) = (self.cx.clock.now().boot_ns, 0, 0);
        let mut told_unreadable = false;
        loop {
            match resolv::of(&self.cx.roots.proc, self.pid) {
                Ok(servers) => {
                    let lookups = join_all(self.names.iter().map(|name| self.look_up(name, &servers))).await;
                    for lookup in lookups.into_iter().flatten() {
                        asked += 1;
                        answered += u64::from(matches!(lookup.end, End::Replied(_)));
                        self.tell(judge.take(lookup, true)).await;
                    }
                    // One question a name: nothing is under way that could excuse a failure.
                    self.tell(judge.end()).await;
                    self.tell(judge.settle(self.cx.clock.now().boot_ns, &nothing)).await;
                }
                Err(e) if !told_unreadable => {
                    told_unreadable = true;
                    let detail = format!(
                        "reading its nameservers (etc/resolv.conf below the root of process {}): {e}; its names are not asked for",
                        self.pid
                    );
                    self.cx.emit(self.cx.issue(&self.subject, "unreadable", 1, detail, "")).await;
                }
                Err(_) => {}
            }
            let now = self.cx.clock.now().boot_ns;
            if now >= since + MINUTE && asked > 0 {
                let fact = Tally {
                    of: Some("canary".into()),
                    window_s: Some(((now - since) / 1_000_000) as f64 / 1000.0),
                    asked: Some(asked),
                    answered: Some(answered),
                    failed: Some(judge.take_failed()),
                };
                self.cx.emit(self.cx.event(&self.subject, fact)).await;
                (since, asked, answered) = (now, 0, 0);
            }
            tokio::select! {
                _ = self.stop.wait_for(|stop| *stop) => return,
                () = tokio::time::sleep(period) => {}
            }
        }
    }

    async fn tell(&self, told: Vec<super::judge::Told>) {
        for t in told {
            self.cx.emit(event(&self.cx, &self.subject, "canary", t)).await;
        }
    }

    /// As a resolver does it: one server after the other, the next where the last is silent; IPv6 where there is no IPv4.
    async fn look_up(&self, name: &str, servers: &[IpAddr]) -> Option<Lookup> {
        let mut last = None;
        for server in servers {
            for kind in [Kind::A, Kind::Aaaa] {
                // A socket that can not be made says nothing of the name: the container has gone, or we may not.
                last = Some(self.ask(name, kind, *server).await.ok()?);
                if !last.as_ref().is_some_and(|l| l.end == End::Replied(Reply::NoData)) {
                    break;
                }
            }
            if last.as_ref().is_some_and(|l| matches!(l.end, End::Replied(_))) {
                break;
            }
        }
        last
    }

    async fn ask(&self, name: &str, kind: Kind, server: IpAddr) -> io::Result<Lookup> {
        let any: SocketAddr = if server.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
        let make = move || {
            let socket = std::net::UdpSocket::bind(any)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let socket = netns::within(&self.cx.roots.proc, self.pid, self.namespace, make).await?;
        let socket = UdpSocket::from_std(socket)?;
        socket.connect((server, 53)).await?;
        let asked = self.cx.clock.now().boot_ns;
        self.own.add(socket.local_addr()?.port(), asked);
        // No secret: an answer is taken from this server to this port only.
        let id = (asked / 1000) as u16;
        let query = question(id, name, kind).ok_or(io::ErrorKind::InvalidInput)?;
        let answer = async {
            socket.send(&query).await?;
            let mut buffer = [0; 4096];
            loop {
                let len = socket.recv(&mut buffer).await?;
                let m = decode::message(buffer.get(..len).unwrap_or_default());
                if let Some(reply) = m.filter(|m| m.id == id && m.kind == kind).and_then(|m| m.reply) {
                    return io::Result::Ok(reply);
                }
            }
        };
        let limit = Duration::from_nanos(TIMEOUT);
        // A server that refuses the port is as silent as one that does not answer.
        let end = match tokio::time::timeout(limit, answer).await {
            Ok(Ok(reply)) => End::Replied(reply),
            Ok(Err(_)) | Err(_) => End::TimedOut,
        };
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        Ok(Lookup { name, kind, resolver: server, asked, ended: self.cx.clock.now().boot_ns, end })
    }
}

/// The bytes of a question (RFC 1035, section 4); none for what is no name.
#[must_use]
pub fn question(id: u16, name: &str, kind: Kind) -> Option<Vec<u8>> {
    let kind: u16 = match kind {
        Kind::A => 1,
        Kind::Aaaa => 28,
        Kind::Srv => 33,
        Kind::Other(other) => other,
    };
    // One question, recursion desired.
    let mut out = id.to_be_bytes().to_vec();
    out.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    let name = name.trim_end_matches('.');
    for label in name.split('.') {
        let len = u8::try_from(label.len()).ok().filter(|len| (1..=63).contains(len))?;
        out.push(len);
        out.extend(label.as_bytes());
    }
    out.push(0);
    out.extend(kind.to_be_bytes());
    out.extend([0, 1]);
    (name.len() <= 253).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_question_is_what_it_asks() {
        let m = decode::message(&question(7, "Backend.example.test.", Kind::Aaaa).unwrap()).unwrap();
        assert_eq!((m.id, m.name.as_str(), m.kind, m.reply), (7, "backend.example.test", Kind::Aaaa, None));
        for bad in ["", ".", "a..b", &"x".repeat(64), &"abc.".repeat(80)] {
            assert_eq!(question(7, bad, Kind::A), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_name_gives_a_question_or_none(name: String, id: u16) {
            if let Some(bytes) = question(id, &name, Kind::A) {
                prop_assert!(bytes.len() <= 12 + 255 + 4);
            }
        }
    }
}
