//! The optional HTTP probe of a container, where people ask for it by label or setting: a GET each 100 ms after a start until
//! the first 2xx or 3xx answer, each 5 s after. Asks only what stands on this host's loopback or in private address space;
//! follows no redirect, and reads no more than the status line. Parsers are pure; nothing of a reply is kept.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use linchpin_data::clock::Stamp;
use linchpin_data::event::{Ready, Unready};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::{AbortHandle, JoinSet};

use super::process::Process;
use crate::roster::{Change, Container};
use crate::source::SourceContext;

/// Pause between two requests while an answer is waited for, and while all is well.
const WAITING: Duration = Duration::from_millis(100);
const WELL: Duration = Duration::from_secs(5);
/// After this many failures in a row the pause grows, up to [`WELL`].
const PATIENCE: u32 = 600;
/// Longest time for one request, and most bytes read of its answer.
const LIMIT: Duration = Duration::from_secs(1);
const REPLY: u64 = 256;
/// Longest probe taken, and most containers probed.
const PROBE_LENGTH: usize = 512;
const PROBES: usize = 256;

/// What to ask: whom, and for which path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Where to connect.
    pub to: SocketAddr,
    /// The path, with its leading slash.
    pub path: String,
}

/// Whether an address is this host's own or in private space: nobody else is ever asked.
fn is_near(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_private(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unique_local(),
    }
}

/// Reads a probe (`:8080/healthz`, `/healthz` on port 80, or `http://ADDRESS[:PORT]/PATH`) for a container at `address`.
///
/// # Errors
/// What is wrong with it, in words.
pub fn target(probe: &str, address: Option<IpAddr>) -> Result<Target, String> {
    if probe.len() > PROBE_LENGTH || !probe.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(format!("a probe is at most {PROBE_LENGTH} printable ASCII characters without blanks"));
    }
    let (authority, path) = match probe.strip_prefix("http://") {
        Some(url) => url.split_once('/').unwrap_or((url, "")),
        None => probe.split_once('/').ok_or("a probe has a path, such as :8080/healthz")?,
    };
    let port = |text: &str| {
        text.parse::<u16>().ok().filter(|p| *p > 0).ok_or("the probe's port is not a number from 1 to 65535")
    };
    let to = if authority.is_empty() || authority.starts_with(':') {
        let ip = address.unwrap_or(IpAddr::from([127, 0, 0, 1]));
        SocketAddr::new(ip, authority.strip_prefix(':').map_or(Ok(80), port)?)
    } else {
        let local = authority.replacen("localhost", "127.0.0.1", 1);
        local
            .parse()
            .or_else(|_| local.parse().map(|ip| SocketAddr::new(ip, 80)))
            .map_err(|_| "a probe is :PORT/PATH or http://ADDRESS:PORT/PATH; names are not looked up, https is not spoken")?
    };
    if !is_near(to.ip()) {
        return Err(format!("{} is neither this host's loopback nor a private address: not asked", to.ip()));
    }
    Ok(Target { to, path: format!("/{path}") })
}

/// The status in the first line of an answer, `HTTP/1.x NNN …`.
#[must_use]
pub fn status(reply: &[u8]) -> Option<u16> {
    let rest = reply.strip_prefix(b"HTTP/1.")?.get(1..)?.strip_prefix(b" ")?;
    let digits = rest.get(..3).filter(|d| d.iter().all(u8::is_ascii_digit))?;
    if rest.get(3).is_some_and(|b| !matches!(b, b' ' | b'\r' | b'\n')) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Asks once: whether the answer is 2xx or 3xx.
pub async fn ask(target: &Target) -> bool {
    let talk = async {
        let mut stream = TcpStream::connect(target.to).await.ok()?;
        let Target { to, path } = target;
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {to}\r\nUser-Agent: linchpin\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let (mut reply, mut part) = (Vec::new(), stream.take(REPLY));
        while reply.len() < "HTTP/1.1 200\r".len() && part.read_buf(&mut reply).await.ok()? > 0 {}
        status(&reply)
    };
    tokio::time::timeout(LIMIT, talk).await.ok().flatten().is_some_and(|s| (200..400).contains(&s))
}

/// Probes one container until it is aborted. `found`: it ran when we came, so that a first good answer is no news.
async fn probe(cx: SourceContext, container: Container, target: Target, found: bool) {
    let mut well: Option<bool> = None;
    let (mut last, mut failures): (Stamp, u32) = (cx.clock.now(), 0);
    loop {
        let before = cx.clock.now();
        let good = ask(&target).await;
        let at = cx.clock.now();
        let news = match (well, good) {
            (None, true) => !found,
            (Some(was), is) => was != is,
            // Not ready yet after a start is no loss.
            (None, false) => false,
        };
        failures = if good { 0 } else { failures.saturating_add(1) };
        well = if good { Some(true) } else { well.map(|_| false) };
        if news {
            let (instance, by) = (Some(container.id.to_string()), Some("http".to_string()));
            let resolution_ms = Some(at.boot_ns.saturating_sub(last.boot_ns) as f64 / 1e6);
            let port = Some(target.to.port().into());
            let mut event = if good {
                cx.event_at(at, &container.subject, Ready { instance, by, resolution_ms, port })
            } else {
                cx.event_at(at, &container.subject, Unready { instance, by, resolution_ms, port })
            };
            event.after = Some(last.at);
            if !cx.emit(event).await {
                return;
            }
        }
        last = before;
        tokio::time::sleep(if good || failures > PATIENCE { WELL } else { WAITING }).await;
    }
}

/// The probes that run, by container id.
struct Probes {
    cx: SourceContext,
    tasks: JoinSet<()>,
    running: HashMap<Arc<str>, (Option<u32>, AbortHandle)>,
    /// CLOCK_BOOTTIME in nanoseconds since which probes run: a process older than that was found running.
    begun: u64,
}

impl Probes {
    async fn begin(&mut self, c: &Container) {
        let wish = c.probe.clone().or_else(|| self.cx.settings.probes.get(&*c.name).cloned());
        let Some(wish) = wish.filter(|_| c.running) else { return };
        if self.running.get(&c.id).is_some_and(|(pid, _)| *pid == c.pid) {
            return;
        }
        self.end(&c.id);
        if self.running.len() >= PROBES {
            let detail =
                format!("more than {PROBES} containers ask for an HTTP probe; this one is not probed");
            self.cx.emit(self.cx.issue(&c.subject, "dropped", 1, detail, "")).await;
            return;
        }
        let process = c.pid.and_then(|pid| Process::read(&self.cx.roots.proc, pid));
        let found = process.is_none_or(|p| p.started < self.begun);
        match target(&wish, c.address) {
            Ok(target) => {
                let task = self.tasks.spawn(probe(self.cx.clone(), c.clone(), target, found));
                self.running.insert(c.id.clone(), (c.pid, task));
            }
            Err(why) => {
                self.cx
                    .emit(self.cx.issue(&c.subject, "unreadable", 1, format!("HTTP probe: {why}"), &wish))
                    .await;
            }
        }
    }

    fn end(&mut self, id: &str) {
        if let Some((_, task)) = self.running.remove(id) {
            task.abort();
        }
    }

    async fn all(&mut self) {
        for c in self.cx.roster.all() {
            self.begin(&c).await;
        }
    }
}

/// Probes what asks for it until the shutdown. Costs nothing where nobody asks.
pub async fn run(cx: SourceContext) {
    let mut changes = cx.roster.subscribe();
    let mut probes = Probes {
        cx: cx.clone(),
        tasks: JoinSet::new(),
        running: HashMap::new(),
        begun: cx.clock.now().boot_ns,
    };
    probes.all().await;
    loop {
        tokio::select! {
            () = cx.ended() => return,
            Some(_) = probes.tasks.join_next(), if !probes.tasks.is_empty() => {}
            change = changes.recv() => match change {
                Ok(Change::Started(c) | Change::Described(c)) => probes.begin(&c).await,
                Ok(Change::Exited(c) | Change::Removed(c)) => probes.end(&c.id),
                Err(RecvError::Lagged(_)) => probes.all().await,
                Err(RecvError::Closed) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tokio::net::TcpListener;

    #[test]
    fn probes_are_read_and_only_near_addresses_asked() {
        let own = Some("172.17.0.2".parse().unwrap());
        let read = |probe: &str| target(probe, own).map(|t| (t.to.to_string(), t.path));
        for (probe, to, path) in [
            (":8080/healthz", "172.17.0.2:8080", "/healthz"),
            ("/", "172.17.0.2:80", "/"),
            (":8080/a/b?c=http://x", "172.17.0.2:8080", "/a/b?c=http://x"),
            ("http://127.0.0.1:9000/x", "127.0.0.1:9000", "/x"),
            ("http://localhost:9000", "127.0.0.1:9000", "/"),
            ("http://[::1]:9000/x", "[::1]:9000", "/x"),
            ("http://10.0.0.5/x", "10.0.0.5:80", "/x"),
            ("http://:81/x", "172.17.0.2:81", "/x"),
        ] {
            assert_eq!(read(probe), Ok((to.into(), path.into())), "{probe}");
        }
        for probe in [
            "",
            "8080",
            ":8080",
            ":0/x",
            ":65536/x",
            "http://8.8.8.8/x",
            "http://169.254.169.254/latest",
            "https://10.0.0.5/",
            "http://example.test/x",
            ":80/x\r\nX: y",
            ":80/ä",
            "http://user@10.0.0.5/x",
        ] {
            assert!(read(probe).is_err(), "{probe}: {:?}", read(probe));
        }
        assert!(read(&format!(":80/{}", "x".repeat(PROBE_LENGTH))).is_err());
        assert_eq!(target("/x", None).unwrap().to.to_string(), "127.0.0.1:80");
    }

    #[test]
    fn statuses_are_read() {
        for (reply, want) in [
            (&b"HTTP/1.1 200 OK\r\n"[..], Some(200)),
            (b"HTTP/1.0 503", Some(503)),
            (b"HTTP/1.1 302\r\n", Some(302)),
            (b"HTTP/1.1 2000 OK", None),
            (b"HTTP/1.1 20", None),
            (b"HTTP/2 200", None),
            (b"SSH-2.0-OpenSSH", None),
            (b"", None),
        ] {
            assert_eq!(status(reply), want, "{reply:?}");
        }
    }

    proptest! {
        #[test]
        fn anything_is_read_without_a_panic(text in "\\PC{0,80}", bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(t) = target(&text, None) {
                prop_assert!(is_near(t.to.ip()) && t.path.starts_with('/'));
            }
            let _ = status(&bytes);
        }
    }

    /// A server that gives each reply in turn, then closes.
    async fn serve(replies: &'static [&'static [u8]]) -> Target {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = listener.local_addr().unwrap();
        tokio::spawn(async move {
            for reply in replies {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0u8; 1024];
                let n = stream.read(&mut request).await.unwrap();
                assert!(request[..n].starts_with(b"GET /healthz HTTP/1.1\r\n"));
                stream.write_all(reply).await.unwrap();
            }
        });
        Target { to, path: "/healthz".into() }
    }

    #[tokio::test]
    async fn only_good_answers_are_good() {
        let target = serve(&[
            b"HTTP/1.1 204 No Content\r\n\r\n",
            b"HTTP/1.1 302 Found\r\nLocation: http://8.8.8.8/\r\n\r\n",
            b"HTTP/1.1 500 No\r\n\r\n",
            b"",
            b"nonsense that is long enough",
        ])
        .await;
        for want in [true, true, false, false, false] {
            assert_eq!(ask(&target).await, want);
        }
        assert!(!ask(&target).await, "nobody listens any more");
    }
}
