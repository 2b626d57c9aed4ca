//! The kernel's process-events connector (netlink, linux/cn_proc.h) as the filler of [`Exits`]: one thread that sleeps until
//! a process or a thread ends. A socket filter keeps forks and execs from waking it. Needs CAP_NET_ADMIN and
//! the host's own pid and user namespace; without them it is inactive and says why.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use linchpin_data::clock::{SharedClock, suspended_ns};
use netlink_sys::{Socket, SocketAddr};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use tokio::sync::{oneshot, watch};

use super::dying::Dying;
use super::sockopt::{Instruction, attach_filter, bpf, set_receive_buffer};
use super::{Exit, Exits};

/// NETLINK_CONNECTOR (linux/netlink.h).
const NETLINK_CONNECTOR: isize = 11;
/// CN_IDX_PROC and CN_VAL_PROC (linux/connector.h).
const CN_IDX_PROC: u32 = 1;
const CN_VAL_PROC: u32 = 1;
/// PROC_CN_MCAST_LISTEN (linux/cn_proc.h).
const LISTEN: u32 = 1;
/// PROC_EVENT_NONE: the answer to our request to listen.
const EVENT_NONE: u32 = 0;
/// PROC_EVENT_EXIT.
const EVENT_EXIT: u32 = 0x8000_0000;
/// Length of nlmsghdr and of cn_msg, which stand before the proc_event.
const NLMSG_HEADER: usize = 16;
const CN_HEADER: usize = 20;
const EVENT_AT: usize = NLMSG_HEADER + CN_HEADER;
/// Room for some ten thousand exits between two looks.
const BUFFER_BYTES: i32 = 4 << 20;
/// How long the kernel may take to answer that we listen. It answers at once where it answers at all.
const ANSWER_MS: u16 = 500;
/// Wait before another try after the socket broke.
const RETRY: Duration = Duration::from_secs(5);
/// What to do where it is refused.
const GRANT: &str =
    "run in the host's pid namespace with CAP_NET_ADMIN (docker: --pid host --net host --cap-add NET_ADMIN)";

/// What the connector said in one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// Our request to listen was taken (0) or refused (an errno).
    Answer(u32),
    /// The first thread of a process ended; its `boot_ns` is still the kernel's monotonic time.
    Ended(Exit),
    /// Another thread of the process `group` ended, at `at` of the kernel's monotonic time.
    Thread {
        /// The process.
        group: u32,
        /// When.
        at: u64,
    },
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_ne_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at.checked_add(8)?)?.try_into().ok().map(u64::from_ne_bytes)
}

/// Reads one datagram of the connector: nlmsghdr, cn_msg, proc_event. `None` for anything but an answer and an exit. Pure;
/// takes any bytes.
#[must_use]
pub fn parse(datagram: &[u8]) -> Option<Said> {
    let length = usize::try_from(u32_at(datagram, 0)?).ok()?;
    let message = datagram.get(..length)?;
    if u32_at(message, NLMSG_HEADER)? != CN_IDX_PROC || u32_at(message, NLMSG_HEADER + 4)? != CN_VAL_PROC {
        return None;
    }
    let event = message.get(EVENT_AT..)?;
    // what, cpu, timestamp_ns, then the fields of the kind of event
    match u32_at(event, 0)? {
        EVENT_NONE => Some(Said::Answer(u32_at(event, 16)?)),
        EVENT_EXIT => {
            let (pid, group, status) = (u32_at(event, 16)?, u32_at(event, 20)?, u32_at(event, 24)?);
            let (signal, code) = (status & 0x7f, (status >> 8) & 0xff);
            let at = u64_at(event, 8)?;
            Some(if pid == group {
                Said::Ended(Exit {
                    pid,
                    boot_ns: at,
                    code: (signal == 0).then_some(code.cast_signed()),
                    signal: (signal != 0).then_some(signal.cast_signed()),
                })
            } else {
                Said::Thread { group, at }
            })
        }
        _ => None,
    }
}

/// The request to listen: nlmsghdr, cn_msg, one enum.
fn request() -> [u8; EVENT_AT + 4] {
    let mut m = [0u8; EVENT_AT + 4];
    let mut put = |at: usize, bytes: &[u8]| m[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &(EVENT_AT as u32 + 4).to_ne_bytes());
    put(4, &3u16.to_ne_bytes()); // NLMSG_DONE
    put(16, &CN_IDX_PROC.to_ne_bytes());
    put(20, &CN_VAL_PROC.to_ne_bytes());
    put(32, &4u16.to_ne_bytes()); // length of what follows
    put(EVENT_AT, &LISTEN.to_ne_bytes());
    m
}

/// Passes the answer to our request and exits, of threads too: a process has ended when its last thread has.
fn filter() -> [Instruction; 5] {
    [
        bpf::load32(EVENT_AT as u32),
        bpf::if_is(EVENT_NONE.to_be(), 1, 0),
        bpf::if_is(EVENT_EXIT.to_be(), 0, 1),
        bpf::pass(),
        bpf::drop(),
    ]
}

/// Opens the connector and waits until the kernel says that we listen.
///
/// # Errors
/// What was tried, what the kernel said and what would grant it, in words.
fn open() -> Result<Socket, String> {
    let said = |what: &str, e: &dyn std::fmt::Display| format!("{what}: {e}; {GRANT}");
    let mut socket =
        Socket::new(NETLINK_CONNECTOR).map_err(|e| said("open the process-events connector", &e))?;
    attach_filter(socket.as_fd(), &filter()).map_err(|e| said("filter the process-events connector", &e))?;
    // A small buffer only makes an overrun likelier, and overruns are counted.
    let _ = set_receive_buffer(socket.as_fd(), BUFFER_BYTES);
    socket
        .bind(&SocketAddr::new(0, CN_IDX_PROC))
        .map_err(|e| said("join the process-events connector", &e))?;
    socket.send(&request(), 0).map_err(|e| said("ask the process-events connector to listen", &e))?;
    let mut buffer = [0u8; 4096];
    loop {
        if !wait_readable(&[socket.as_fd()], PollTimeout::from(ANSWER_MS))
            .map_err(|e| said("wait for the connector", &e))?[0]
        {
            return Err(format!("the process-events connector does not answer; {GRANT}"));
        }
        match receive(&socket, &mut buffer) {
            Ok(Some(Said::Answer(0))) => return Ok(socket),
            Ok(Some(Said::Answer(errno))) => {
                return Err(said(
                    "listen to process events",
                    &io::Error::from_raw_os_error(errno.cast_signed()),
                ));
            }
            Ok(_) => {}
            Err(e) => return Err(said("read the process-events connector", &e)),
        }
    }
}

/// Whether this process may listen to process events here; nothing stays open.
///
/// # Errors
/// What is missing and what would grant it.
pub fn probe() -> Result<(), String> {
    open().map(drop)
}

/// One message from the kernel itself; `None` for any other sender or meaning.
fn receive(socket: &Socket, buffer: &mut [u8]) -> io::Result<Option<Said>> {
    let (n, from) = socket.recv_from(&mut &mut *buffer, nix::libc::MSG_DONTWAIT)?;
    Ok(if from.port_number() == 0 { buffer.get(..n).and_then(parse) } else { None })
}

/// Waits until one of `fds` can be read; says which can.
fn wait_readable(fds: &[BorrowedFd<'_>], limit: PollTimeout) -> io::Result<Vec<bool>> {
    let mut polled: Vec<_> = fds.iter().map(|fd| PollFd::new(*fd, PollFlags::POLLIN)).collect();
    loop {
        match poll(&mut polled, limit) {
            Ok(_) => return Ok(polled.iter().map(|p| p.revents().is_some_and(|r| !r.is_empty())).collect()),
            Err(nix::errno::Errno::EINTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Reads exits until `stop` becomes readable.
fn read(
    exits: &Exits,
    proc: &Path,
    clock: &SharedClock,
    stop: &EventFd,
    ready: &mut bool,
) -> Result<(), String> {
    let socket = open()?;
    exits.set_active(clock.now().boot_ns);
    *ready = true;
    let mut buffer = [0u8; 4096];
    let mut dying = Dying::default();
    loop {
        let readable = wait_readable(&[socket.as_fd(), stop.as_fd()], dying.pause(clock.now().boot_ns))
            .map_err(|e| format!("wait for exits: {e}"))?;
        if readable[1] {
            return Ok(());
        }
        dying.look(proc, clock.now().boot_ns, |exit| exits.record(exit));
        if !readable[0] {
            continue;
        }
        match receive(&socket, &mut buffer) {
            Ok(Some(Said::Ended(exit))) => {
                let exit = Exit { boot_ns: exit.boot_ns.saturating_add(suspended_ns()), ..exit };
                if let Some(exit) = dying.meet(proc, exit) {
                    exits.record(exit);
                }
            }
            Ok(Some(Said::Thread { group, at })) => {
                let at = at.saturating_add(suspended_ns());
                dying.thread(group, at);
                exits.extend(group, at);
            }
            Ok(_) => {}
            Err(e) if e.raw_os_error() == Some(nix::libc::ENOBUFS) => exits.set_overrun(clock.now().boot_ns),
            Err(e) if matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
            Err(e) => return Err(format!("read process events: {e}")),
        }
    }
}

/// Resolves when the agent ends; a supervisor that is gone is an end too.
async fn over(shutdown: &mut watch::Receiver<bool>) {
    let _ = shutdown.wait_for(|end| *end).await;
}

/// Fills `exits` until the shutdown, from a thread of its own. Where the kernel refuses, that is said in
/// [`Exits::why_inactive`] and not tried again; a socket that broke is opened anew.
pub async fn fill(exits: Arc<Exits>, proc: PathBuf, clock: SharedClock, mut shutdown: watch::Receiver<bool>) {
    loop {
        let stop = match EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK) {
            Ok(fd) => Arc::new(fd),
            Err(e) => return exits.set_inactive(&format!("make an eventfd: {e}")),
        };
        let (done, mut ended) = oneshot::channel();
        let (to, at, time, end) = (exits.clone(), proc.clone(), clock.clone(), stop.clone());
        let thread = std::thread::Builder::new().name("exits".into()).spawn(move || {
            super::priority::raise_thread();
            let mut ready = false;
            let result = read(&to, &at, &time, &end, &mut ready);
            // The other side is gone only when the runtime is: nobody is left to tell.
            let _ = done.send((result, ready));
        });
        if let Err(e) = thread {
            return exits.set_inactive(&format!("start a thread: {e}"));
        }
        let end = tokio::select! {
            end = &mut ended => Some(end),
            () = over(&mut shutdown) => None,
        };
        let Some(end) = end else {
            // A full counter means that it is signalled already.
            let _ = stop.write(1);
            let _ = ended.await;
            return exits.set_inactive("agent stopped");
        };
        let (result, was_ready) = end.unwrap_or((Err("the thread of the exits ended".into()), true));
        let why = result.err().unwrap_or_default();
        exits.set_inactive(&why);
        if !was_ready {
            return tracing::info!(%why, "process exits are not told by the kernel; the runtime's later word is used");
        }
        tracing::warn!(%why, "the process-events connector broke; opened again soon");
        tokio::select! {
            () = tokio::time::sleep(RETRY) => {}
            () = over(&mut shutdown) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linchpin_data::clock::{Clock, SystemClock};
    use proptest::prelude::*;

    /// A datagram as the kernel sends it: what, pid, tgid, wait status (or errno), at monotonic 5 s.
    fn datagram(what: u32, pid: u32, group: u32, status: u32) -> Vec<u8> {
        let mut m = Vec::new();
        for word in [76u32, 3, 0, 0, CN_IDX_PROC, CN_VAL_PROC, 1, 0] {
            m.extend(word.to_ne_bytes());
        }
        m.extend(40u16.to_ne_bytes());
        m.extend([0; 2]);
        m.extend(what.to_ne_bytes());
        m.extend(0u32.to_ne_bytes());
        m.extend(5_000_000_000u64.to_ne_bytes());
        for word in [pid, group, status, 17, 1, 1] {
            m.extend(word.to_ne_bytes());
        }
        m
    }

    fn ended(code: Option<i32>, signal: Option<i32>) -> Option<Said> {
        Some(Said::Ended(Exit { pid: 42, boot_ns: 5_000_000_000, code, signal }))
    }

    #[test]
    fn reads_ends_of_processes_and_nothing_else() {
        let cases: [(Vec<u8>, Option<Said>); 9] = [
            (datagram(EVENT_EXIT, 42, 42, 3 << 8), ended(Some(3), None)),
            (datagram(EVENT_EXIT, 42, 42, 0), ended(Some(0), None)),
            (datagram(EVENT_EXIT, 42, 42, 9), ended(None, Some(9))),
            (datagram(EVENT_EXIT, 42, 42, 0x80 | 11), ended(None, Some(11))),
            (datagram(EVENT_EXIT, 43, 42, 0), Some(Said::Thread { group: 42, at: 5_000_000_000 })),
            (datagram(1, 42, 42, 0), None),
            (datagram(EVENT_NONE, 0, 0, 0), Some(Said::Answer(0))),
            (datagram(EVENT_NONE, 1, 0, 0), Some(Said::Answer(1))),
            (Vec::new(), None),
        ];
        for (bytes, want) in cases {
            assert_eq!(parse(&bytes), want, "{bytes:?}");
        }
    }

    #[test]
    fn a_cut_or_foreign_message_is_none() {
        let whole = datagram(EVENT_EXIT, 42, 42, 0);
        for n in 0..whole.len() {
            assert_eq!(parse(&whole[..n]), None, "cut to {n} bytes");
        }
        let mut foreign = whole;
        foreign[NLMSG_HEADER] = 9;
        assert_eq!(parse(&foreign), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..120), length in 0u32..120) {
            let _ = parse(&bytes);
            if bytes.len() >= 24 {
                bytes[..4].copy_from_slice(&length.to_ne_bytes());
                bytes[16..20].copy_from_slice(&CN_IDX_PROC.to_ne_bytes());
                bytes[20..24].copy_from_slice(&CN_VAL_PROC.to_ne_bytes());
                let _ = parse(&bytes);
            }
        }
    }

    /// On the kernel that runs the test: either it tells the exit of a child, or it is said why not.
    #[tokio::test]
    async fn the_kernel_tells_of_a_child_or_says_why_not() {
        let (exits, clock) = (Arc::new(Exits::default()), SystemClock);
        let (end, shutdown) = watch::channel(false);
        let filling = tokio::spawn(fill(exits.clone(), "/proc".into(), Arc::new(clock), shutdown));
        while !exits.active() && exits.why_inactive().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if exits.active() {
            let before = clock.now().boot_ns;
            let mut child = std::process::Command::new("/bin/sh").args(["-c", "exit 7"]).spawn().unwrap();
            let exit =
                exits.wait(child.id(), before, Duration::from_secs(20)).await.expect("the exit is told");
            child.wait().unwrap();
            assert_eq!((exit.code, exit.signal), (Some(7), None));
            assert!(exit.boot_ns > before && exit.boot_ns <= clock.now().boot_ns, "{exit:?} after {before}");
            let mut child = std::process::Command::new("/bin/sh").args(["-c", "kill -9 $$"]).spawn().unwrap();
            let exit =
                exits.wait(child.id(), before, Duration::from_secs(20)).await.expect("the exit is told");
            child.wait().unwrap();
            assert_eq!((exit.code, exit.signal), (None, Some(9)));
        } else {
            assert!(exits.why_inactive().contains("CAP_NET_ADMIN"), "{}", exits.why_inactive());
        }
        end.send(true).unwrap();
        filling.await.unwrap();
        assert!(!exits.active());
    }
}
