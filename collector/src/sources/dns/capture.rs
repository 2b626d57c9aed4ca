//! The packet socket that hears a container's DNS: opened inside its network namespace, filtered by the kernel, read without
//! blocking. A transport: knows no DNS.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use linchpin_data::clock::Stamp;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, recvmsg,
    setsockopt, socket, sockopt,
};
use nix::sys::time::TimeSpec;
use tokio::io::unix::AsyncFd;

use super::filter;
use super::netns::{self, Key};
use crate::witness::sockopt::{attach_filter, packets_dropped, set_receive_buffer};

/// Bytes of packets that may wait for us; some hundreds of DNS packets.
const BUFFER: i32 = 1 << 20;
/// linux/if_packet.h and linux/if_arp.h.
const OUTGOING: u8 = 4;
const LOOPBACK: u16 = 772;

/// A packet as it was heard.
#[derive(Clone, Copy, Debug)]
pub struct Heard {
    /// How many bytes of it were kept.
    pub len: usize,
    /// Whether it came from inside the namespace: on its way out, or on the loopback.
    pub ours: bool,
    /// When, by boot time in nanoseconds: the kernel's own stamp.
    pub boot_ns: u64,
}

/// An open packet socket in one namespace.
#[derive(Debug)]
pub struct Capture {
    socket: Option<AsyncFd<OwnedFd>>,
}

/// A filtered packet socket in the namespace of the calling thread.
fn open_here() -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let fd = socket(AddressFamily::Packet, SockType::Datagram, flags, SockProtocol::EthAll)?;
    attach_filter(fd.as_fd(), &filter::program())?;
    set_receive_buffer(fd.as_fd(), BUFFER)?;
    setsockopt(&fd, sockopt::ReceiveTimestampns, &true)?;
    Ok(fd)
}

impl Capture {
    /// Opens one in the network namespace of `pid`, which must be `key`.
    ///
    /// # Errors
    /// The process is gone, or we may not (CAP_SYS_ADMIN to enter, CAP_NET_RAW for the socket).
    pub async fn open(proc: &Path, pid: u32, key: Key) -> io::Result<Capture> {
        let fd = netns::within(proc, pid, key, open_here).await?;
        Ok(Capture { socket: Some(crate::readiness::readable(fd)?) })
    }

    /// Whether we may open one at all, by opening one where we are; and where that is.
    ///
    /// # Errors
    /// We may not.
    pub async fn try_here() -> io::Result<Key> {
        Ok(netns::at_home(open_here).await?.1)
    }

    /// Resolves when there is something to hear.
    ///
    /// # Errors
    /// The socket is broken.
    pub async fn readable(&self) -> io::Result<()> {
        let Some(socket) = &self.socket else { return Err(io::ErrorKind::NotConnected.into()) };
        // Readiness is cleared by `hear`, when it finds nothing.
        socket.readable().await?.retain_ready();
        Ok(())
    }

    /// The next packet into `buffer`; none when nothing waits. `now` is both clocks, just read.
    ///
    /// # Errors
    /// The socket is broken.
    pub fn hear(&self, buffer: &mut [u8], now: Stamp) -> io::Result<Option<Heard>> {
        let Some(socket) = &self.socket else { return Err(io::ErrorKind::NotConnected.into()) };
        let got = socket.try_io(tokio::io::Interest::READABLE, |fd| Ok(receive(fd, buffer, now)?));
        match got {
            Ok(heard) => Ok(Some(heard)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// How many packets were dropped since the last time because we were late.
    pub fn dropped(&self) -> u64 {
        self.socket.as_ref().and_then(|s| packets_dropped(s.get_ref().as_fd()).ok()).map_or(0, u64::from)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // The kernel waits for all its readers when a packet socket is closed: not on a thread of the runtime.
        if let (Some(socket), Ok(runtime)) = (self.socket.take(), tokio::runtime::Handle::try_current()) {
            let fd = socket.into_inner();
            runtime.spawn_blocking(move || drop(fd));
        }
    }
}

fn receive(fd: &OwnedFd, buffer: &mut [u8], now: Stamp) -> Result<Heard, Errno> {
    let mut control = nix::cmsg_space!(TimeSpec);
    let mut into = [IoSliceMut::new(buffer)];
    let got = recvmsg::<LinkAddr>(fd.as_raw_fd(), &mut into, Some(&mut control), MsgFlags::MSG_DONTWAIT)?;
    let stamp = got.cmsgs()?.find_map(|c| match c {
        ControlMessageOwned::ScmTimestampns(t) => {
            Some(t.tv_sec().saturating_mul(1_000_000_000).saturating_add(t.tv_nsec()))
        }
        _ => None,
    });
    // The stamp is of the wall clock; how long ago it was is taken off the boot clock. A step in between shows as nonsense.
    let age = stamp.map_or(0, |s| now.at.0.saturating_sub(s)).clamp(0, 10_000_000_000).unsigned_abs();
    let ours = got.address.is_some_and(|a| a.pkttype() == OUTGOING || a.hatype() == LOOPBACK);
    Ok(Heard { len: got.bytes, ours, boot_ns: now.boot_ns.saturating_sub(age) })
}
