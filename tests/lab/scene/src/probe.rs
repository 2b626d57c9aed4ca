//! The ground truth: a non-blocking connect to each address every millisecond, each try given up after 50 ms, so that a
//! SYN sent into a vanished namespace never delays the next. Tries are judged in the order of their starts: an outage is from
//! the start of the first try that failed to the start of the first that succeeded again.
//!
//! `probe --log FILE [--soon DIR] NAME=ADDR:PORT …` writes one JSON line for each closed outage, for the first success (`up`), for an outage
//! still open at the end, and at the end how late it was itself.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::mem::{size_of, zeroed};
use std::net::SocketAddrV4;

use crate::{Args, clock, fail};

const EVERY_NS: u64 = 1_000_000;
const GIVE_UP_NS: u64 = 50_000_000;
/// With `--soon DIR`, a target that is well and not announced is tried only this often, lest ten targets take a whole core;
/// from `DIR/NAME.soon` on, and until it has been well again for [`CALM_NS`], every millisecond as ever.
const CALM_EVERY_NS: u64 = 20_000_000;
const CALM_NS: u64 = 300_000_000;

#[derive(Clone, Copy, PartialEq)]
enum Outcome {
    Pending,
    Accepted,
    Refused,
    Unanswered,
}

struct Try {
    fd: i32,
    boot: u64,
    wall: u64,
    outcome: Outcome,
}

#[derive(Clone, Copy)]
struct Moment {
    boot: u64,
    wall: u64,
}

struct Outage {
    began: Moment,
    last_ok: u64,
    last_fail: u64,
    refused: u64,
    unanswered: u64,
}

struct Target {
    name: String,
    addr: SocketAddrV4,
    tries: VecDeque<Try>,
    last_ok: Option<u64>,
    outage: Option<Outage>,
    accepted: u64,
    /// The file that announces an outage.
    soon: Option<std::path::PathBuf>,
    /// While well and unannounced: when to try next.
    calm: Option<u64>,
    /// Start of the first try that succeeded after the last outage.
    up_again: u64,
}

/// Probes until SIGTERM.
pub fn run(args: &Args) {
    clock::heed_term();
    let path = args.text("log").unwrap_or_else(|| fail("probe needs --log"));
    let mut log = File::create(path).unwrap_or_else(|e| fail(&format!("{path}: {e}")));
    let mut targets: Vec<Target> = args.rest.iter().map(|word| Target::read(word)).collect();
    for target in targets.iter_mut().filter(|_| args.text("soon").is_some()) {
        target.soon =
            args.text("soon").map(|dir| std::path::Path::new(dir).join(format!("{}.soon", target.name)));
    }
    // SAFETY: a plain call without pointers. Before its peers, or its lateness would be taken for theirs; if refused, it is
    // merely later, and says so.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -10) };
    let (mut due, mut worst) = (clock::boot(), 0);
    while !clock::ending() {
        let now = clock::boot();
        if now < due {
            let rest = libc::timespec { tv_sec: 0, tv_nsec: (due - now) as libc::c_long };
            // SAFETY: `rest` is a valid timespec, the remaining time is not asked for.
            unsafe { libc::nanosleep(&rest, std::ptr::null_mut()) };
        }
        let now = clock::boot();
        worst = worst.max(now.saturating_sub(due));
        due = (due + EVERY_NS).max(now.saturating_sub(EVERY_NS));
        for target in &mut targets {
            if target.wants(now) {
                target.start();
            }
            target.settle(&mut log);
        }
    }
    for target in &targets {
        if let Some(o) = &target.outage {
            say(&mut log, &format!("{{\"name\":\"{}\",\"event\":\"open\",{}}}", target.name, o.fields()));
        }
    }
    say(&mut log, &format!("{{\"event\":\"end\",\"worst_late_ns\":{worst}}}"));
}

fn say(log: &mut File, line: &str) {
    if let Err(e) = writeln!(log, "{line}") {
        fail(&format!("the log: {e}"));
    }
}

impl Outage {
    fn fields(&self) -> String {
        format!(
            "\"down_boot_ns\":{},\"down_wall_ns\":{},\"last_ok_boot_ns\":{},\"last_fail_boot_ns\":{},\"refused\":{},\"unanswered\":{}",
            self.began.boot, self.began.wall, self.last_ok, self.last_fail, self.refused, self.unanswered
        )
    }
}

impl Target {
    fn read(word: &str) -> Target {
        let parsed =
            word.split_once('=').and_then(|(name, addr)| Some((name.to_owned(), addr.parse().ok()?)));
        let (name, addr) = parsed.unwrap_or_else(|| fail(&format!("{word:?}: NAME=ADDR:PORT expected")));
        Target {
            name,
            addr,
            tries: VecDeque::new(),
            last_ok: None,
            outage: None,
            accepted: 0,
            soon: None,
            calm: None,
            up_again: 0,
        }
    }

    /// Whether it is to be tried now.
    fn wants(&mut self, now: u64) -> bool {
        let Some(soon) = &self.soon else { return true };
        if let Some(next) = self.calm {
            if now < next {
                return false;
            }
            self.calm = (!soon.exists()).then_some(now + CALM_EVERY_NS);
            return true;
        }
        let well = self.outage.is_none() && self.up_again > 0 && now > self.up_again + CALM_NS;
        if well && self.tries.is_empty() {
            // The announcement is used up; one that was never made is none.
            let _ = std::fs::remove_file(soon);
            self.calm = Some(now + CALM_EVERY_NS);
            self.up_again = 0;
        }
        true
    }

    fn start(&mut self) {
        let (wall, boot) = (clock::wall(), clock::boot());
        // SAFETY: socket has no pointers; sockaddr_in is plain data of the size that is told; errno is the thread's own.
        let (fd, outcome) = unsafe {
            let fd =
                libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0);
            if fd < 0 {
                fail(&format!("socket: {}", std::io::Error::last_os_error()));
            }
            let mut addr: libc::sockaddr_in = zeroed();
            addr.sin_family = libc::AF_INET as libc::sa_family_t;
            addr.sin_port = self.addr.port().to_be();
            addr.sin_addr.s_addr = u32::from_ne_bytes(self.addr.ip().octets());
            let size = size_of::<libc::sockaddr_in>() as libc::socklen_t;
            match libc::connect(fd, (&raw const addr).cast(), size) {
                0 => (fd, Outcome::Accepted),
                _ if *libc::__errno_location() == libc::EINPROGRESS => (fd, Outcome::Pending),
                _ => (fd, Outcome::Refused),
            }
        };
        self.tries.push_back(Try { fd, boot, wall, outcome });
    }

    fn settle(&mut self, log: &mut File) {
        for i in 0..self.tries.len() {
            if self.tries[i].outcome == Outcome::Pending {
                self.tries[i].outcome = look(&self.tries[i]);
            }
        }
        while self.tries.front().is_some_and(|t| t.outcome != Outcome::Pending) {
            if let Some(t) = self.tries.pop_front() {
                hang_up(t.fd);
                self.judge(&t, log);
            }
        }
    }

    fn judge(&mut self, t: &Try, log: &mut File) {
        if t.outcome == Outcome::Accepted {
            self.accepted += 1;
            if self.last_ok.is_none() {
                self.up_again = t.boot;
                let name = &self.name;
                say(
                    log,
                    &format!(
                        "{{\"name\":\"{name}\",\"event\":\"up\",\"up_boot_ns\":{},\"up_wall_ns\":{}}}",
                        t.boot, t.wall
                    ),
                );
            }
            if let Some(o) = self.outage.take() {
                self.up_again = t.boot;
                let (name, fields) = (&self.name, o.fields());
                say(
                    log,
                    &format!(
                        "{{\"name\":\"{name}\",\"event\":\"outage\",{fields},\"up_boot_ns\":{},\"up_wall_ns\":{}}}",
                        t.boot, t.wall
                    ),
                );
            }
            self.last_ok = Some(t.boot);
        } else if let Some(last_ok) = self.last_ok {
            let o = self.outage.get_or_insert(Outage {
                began: Moment { boot: t.boot, wall: t.wall },
                last_ok,
                last_fail: t.boot,
                refused: 0,
                unanswered: 0,
            });
            o.last_fail = t.boot;
            match t.outcome {
                Outcome::Refused => o.refused += 1,
                _ => o.unanswered += 1,
            }
        }
    }
}

/// How a try stands.
fn look(t: &Try) -> Outcome {
    let mut p = libc::pollfd { fd: t.fd, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one valid pollfd, no waiting; getsockopt is given a c_int and its size.
    unsafe {
        if libc::poll(&mut p, 1, 0) == 1 {
            let (mut error, mut size) = (0 as libc::c_int, size_of::<libc::c_int>() as libc::socklen_t);
            libc::getsockopt(t.fd, libc::SOL_SOCKET, libc::SO_ERROR, (&raw mut error).cast(), &mut size);
            return if error == 0 { Outcome::Accepted } else { Outcome::Refused };
        }
    }
    if clock::boot() - t.boot > GIVE_UP_NS { Outcome::Unanswered } else { Outcome::Pending }
}

/// Closes with a reset, so that no port waits for two minutes.
fn hang_up(fd: i32) {
    let hard = libc::linger { l_onoff: 1, l_linger: 0 };
    // SAFETY: the option's value is a linger of the size that is told; the descriptor is ours and closed once.
    unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const hard).cast(),
            size_of::<libc::linger>() as u32,
        );
        libc::close(fd);
    }
}
