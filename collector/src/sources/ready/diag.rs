//! The kernel's socket diagnostics (netlink, linux/sock_diag.h and inet_diag.h): which TCP sockets listen in a network
//! namespace, and the news that a listening socket was destroyed. One socket, made inside the namespace, does both and
//! keeps seeing that namespace from anywhere. A filter keeps the ends of mere connections from waking anybody.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};

use netlink_sys::{Socket, SocketAddr};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::ports::Listener;
use crate::witness::sockopt::{Instruction, attach_filter, bpf};

/// NETLINK_SOCK_DIAG (linux/netlink.h).
const NETLINK_SOCK_DIAG: isize = 4;
/// SOCK_DIAG_BY_FAMILY: the type of requests, replies and news alike.
const BY_FAMILY: u16 = 20;
/// NLM_F_REQUEST | NLM_F_DUMP.
const DUMP: u16 = 0x301;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;
/// The set of states that is TCP_LISTEN alone.
const LISTENING: u32 = 1 << 10;
/// SKNLGRP_INET_TCP_DESTROY and SKNLGRP_INET6_TCP_DESTROY.
const GROUPS: [u32; 2] = [1, 3];
const HEADER: usize = 16;
/// Lengths of inet_diag_req_v2 and inet_diag_msg.
const REQUEST: usize = 56;
const MESSAGE: usize = 72;
/// How long the kernel may take over the next part of a reply; it has it ready but under memory pressure.
const REPLY_MS: u16 = 100;

/// What one message of a datagram says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// A socket that listens, in reply to the request of that number.
    Listens(u32, Listener),
    /// The reply to the request of that number is complete.
    Done(u32),
    /// The request of that number failed with an errno.
    Failed(u32, i32),
    /// A socket without a peer was destroyed: it listened on that port.
    Closed(u16),
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// Reads a datagram of one or more messages. What is cut, foreign or of no interest is passed over. Pure; takes any bytes.
#[must_use]
pub fn parse(datagram: &[u8]) -> Vec<Said> {
    let mut out = Vec::new();
    let mut rest = datagram;
    while let Some(length) = array(rest, 0).map(u32::from_ne_bytes).and_then(|n| usize::try_from(n).ok()) {
        let Some(message) = rest.get(..length).filter(|m| m.len() >= HEADER) else { break };
        out.extend(parse_message(message));
        // Messages are aligned to four bytes.
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    out
}

fn parse_message(message: &[u8]) -> Option<Said> {
    let kind = u16::from_ne_bytes(array(message, 4)?);
    let number = u32::from_ne_bytes(array(message, 8)?);
    let body = message.get(HEADER..)?;
    match kind {
        NLMSG_DONE => Some(Said::Done(number)),
        NLMSG_ERROR => Some(Said::Failed(number, i32::from_ne_bytes(array(body, 0)?).wrapping_neg())),
        BY_FAMILY if body.len() >= MESSAGE => {
            let (family, state) = (*body.first()?, *body.get(1)?);
            let port = u16::from_be_bytes(array(body, 4)?);
            let peer = u16::from_be_bytes(array(body, 6)?);
            if number == 0 {
                return (peer == 0 && port != 0).then_some(Said::Closed(port));
            }
            let address = match family {
                AF_INET => IpAddr::V4(Ipv4Addr::from(array::<4>(body, 8)?)),
                AF_INET6 => IpAddr::V6(Ipv6Addr::from(array::<16>(body, 8)?)),
                _ => return None,
            };
            let inode = u32::from_ne_bytes(array(body, 68)?).into();
            (state == 10).then_some(Said::Listens(number, Listener { address, port, inode }))
        }
        _ => None,
    }
}

/// The request for all listening TCP sockets of a family: nlmsghdr, inet_diag_req_v2.
fn request(family: u8, number: u32) -> [u8; HEADER + REQUEST] {
    let mut m = [0u8; HEADER + REQUEST];
    let mut put = |at: usize, bytes: &[u8]| m[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &((HEADER + REQUEST) as u32).to_ne_bytes());
    put(4, &BY_FAMILY.to_ne_bytes());
    put(6, &DUMP.to_ne_bytes());
    put(8, &number.to_ne_bytes());
    put(HEADER, &[family, IPPROTO_TCP]);
    put(HEADER + 4, &LISTENING.to_ne_bytes());
    m
}

/// Passes replies (whose number is not 0), and of the news only what had a port and no peer.
fn filter() -> [Instruction; 8] {
    [
        bpf::load32(8),
        bpf::if_is(0, 0, 4),
        bpf::load16(HEADER as u32 + 6),
        bpf::if_is(0, 0, 3),
        bpf::load16(HEADER as u32 + 4),
        bpf::if_is(0, 1, 0),
        bpf::pass(),
        bpf::drop(),
    ]
}

/// The diagnostics of one namespace.
pub struct Diag {
    socket: Socket,
    number: u32,
    hears: bool,
}

impl Diag {
    /// Opens the diagnostics of the namespace that the calling thread is in now.
    ///
    /// # Errors
    /// The kernel has no socket diagnostics, or refuses them. That it refuses the news alone is no error: see [`Diag::hears`].
    pub fn open() -> io::Result<Diag> {
        let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
        socket.set_non_blocking(true)?;
        attach_filter(socket.as_fd(), &filter())?;
        socket.bind(&SocketAddr::new(0, 0))?;
        let hears = GROUPS.iter().all(|g| socket.add_membership(*g).is_ok());
        Ok(Diag { socket, number: 0, hears })
    }

    /// Whether the kernel tells of closed ports here (it takes CAP_NET_ADMIN in the namespace).
    #[must_use]
    pub fn hears(&self) -> bool {
        self.hears
    }

    /// All sockets that listen now. Ports that closed meanwhile are handed to `closed`.
    ///
    /// # Errors
    /// The kernel refuses, does not answer, or had to drop part of the answer (ENOBUFS).
    pub fn listening(&mut self, buffer: &mut [u8], closed: &mut dyn FnMut(u16)) -> io::Result<Vec<Listener>> {
        let mut out = Vec::new();
        for family in [AF_INET, AF_INET6] {
            self.number = self.number.wrapping_add(1).max(1);
            self.socket.send_to(&request(family, self.number), &SocketAddr::new(0, 0), 0)?;
            self.collect(&mut out, buffer, closed)?;
        }
        Ok(out)
    }

    fn collect(
        &self,
        out: &mut Vec<Listener>,
        buffer: &mut [u8],
        closed: &mut dyn FnMut(u16),
    ) -> io::Result<()> {
        loop {
            let Some(datagram) = self.receive(buffer)? else {
                let mut fds = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
                if poll(&mut fds, PollTimeout::from(REPLY_MS))? == 0 {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                continue;
            };
            for said in parse(datagram) {
                match said {
                    Said::Listens(number, listener) if number == self.number => out.push(listener),
                    Said::Done(number) if number == self.number => return Ok(()),
                    // A kernel without IPv6 diagnostics: nothing of that family is seen.
                    Said::Failed(number, libc::ENOENT) if number == self.number => return Ok(()),
                    Said::Failed(number, errno) if number == self.number => {
                        return Err(io::Error::from_raw_os_error(errno));
                    }
                    Said::Closed(port) => closed(port),
                    // What is left of a reply that was given up.
                    _ => {}
                }
            }
        }
    }

    /// Hands all news that waits to `closed`.
    ///
    /// # Errors
    /// The kernel had to drop news (ENOBUFS): look anew at what listens.
    pub fn news(&self, buffer: &mut [u8], closed: &mut dyn FnMut(u16)) -> io::Result<()> {
        while let Some(datagram) = self.receive(buffer)? {
            for said in parse(datagram) {
                if let Said::Closed(port) = said {
                    closed(port);
                }
            }
        }
        Ok(())
    }

    /// One datagram of the kernel's, if one waits.
    fn receive<'b>(&self, buffer: &'b mut [u8]) -> io::Result<Option<&'b [u8]>> {
        match self.socket.recv_from(&mut &mut *buffer, libc::MSG_DONTWAIT) {
            Ok((n, from)) if from.port_number() == 0 => Ok(buffer.get(..n)),
            Ok(_) => Ok(Some(&[])),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(Some(&[])),
            Err(e) => Err(e),
        }
    }
}

impl AsFd for Diag {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::TcpListener;

    /// A message as the kernel sends it: nlmsghdr, inet_diag_msg.
    fn message(
        number: u32,
        family: u8,
        state: u8,
        port: u16,
        peer: u16,
        address: &[u8],
        inode: u32,
    ) -> Vec<u8> {
        let mut m = vec![0u8; HEADER + MESSAGE];
        m[..4].copy_from_slice(&88u32.to_ne_bytes());
        m[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
        m[8..12].copy_from_slice(&number.to_ne_bytes());
        m[16] = family;
        m[17] = state;
        m[20..22].copy_from_slice(&port.to_be_bytes());
        m[22..24].copy_from_slice(&peer.to_be_bytes());
        m[24..24 + address.len()].copy_from_slice(address);
        m[84..88].copy_from_slice(&inode.to_ne_bytes());
        m
    }

    #[test]
    fn reads_replies_and_news() {
        let v4 = Listener { address: "172.17.0.2".parse().unwrap(), port: 8080, inode: 77 };
        let v6 = Listener { address: "::".parse().unwrap(), port: 443, inode: 78 };
        let mut done = message(5, 0, 0, 0, 0, &[], 0);
        done[4..6].copy_from_slice(&NLMSG_DONE.to_ne_bytes());
        let mut refused = message(6, 0, 0, 0, 0, &[], 0);
        refused[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
        refused[16..20].copy_from_slice(&(-1i32).to_ne_bytes());
        let cases = [
            (message(5, AF_INET, 10, 8080, 0, &[172, 17, 0, 2], 77), vec![Said::Listens(5, v4)]),
            (message(5, AF_INET6, 10, 443, 0, &[0; 16], 78), vec![Said::Listens(5, v6)]),
            (message(5, AF_INET, 1, 8080, 999, &[172, 17, 0, 2], 77), vec![]),
            (message(5, 1, 10, 8080, 0, &[], 77), vec![]),
            (message(0, AF_INET, 7, 8080, 0, &[], 0), vec![Said::Closed(8080)]),
            (message(0, AF_INET, 7, 8080, 999, &[], 0), vec![]),
            (message(0, AF_INET, 7, 0, 0, &[], 0), vec![]),
            (done.clone(), vec![Said::Done(5)]),
            (refused, vec![Said::Failed(6, 1)]),
            (
                [message(5, AF_INET, 10, 8080, 0, &[172, 17, 0, 2], 77), done].concat(),
                vec![Said::Listens(5, v4), Said::Done(5)],
            ),
        ];
        for (bytes, want) in cases {
            assert_eq!(parse(&bytes), want);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn cut_messages_end_the_reading(cut in 0usize..176, length in any::<u32>()) {
            let mut two = [message(5, AF_INET, 10, 1, 0, &[1, 2, 3, 4], 1), message(0, AF_INET, 7, 2, 0, &[], 0)].concat();
            prop_assert_eq!(parse(&two[..cut]).len(), cut / 88);
            two[..4].copy_from_slice(&length.to_ne_bytes());
            let _ = parse(&two);
        }
    }

    /// On the kernel that runs the test: a listening socket is found, and its end is told where the kernel tells it.
    #[test]
    fn the_kernel_tells_what_listens_and_what_closed() {
        let mut diag = Diag::open().expect("socket diagnostics are in every kernel we know");
        let mut buffer = vec![0u8; 65_536];
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let other = TcpListener::bind("[::1]:0").unwrap();
        let ports = [socket.local_addr().unwrap().port(), other.local_addr().unwrap().port()];
        let found = diag.listening(&mut buffer, &mut |_| {}).unwrap();
        for port in ports {
            assert!(found.iter().any(|l| l.port == port && l.inode > 0), "{port} in {found:?}");
        }
        // A connection that comes and goes is not told.
        let client = std::net::TcpStream::connect(("127.0.0.1", ports[0])).unwrap();
        drop((client, socket, other));
        let mut closed = Vec::new();
        while diag.hears() && ports.iter().any(|p| !closed.contains(p)) {
            let mut fds = [PollFd::new(diag.as_fd(), PollFlags::POLLIN)];
            assert!(poll(&mut fds, PollTimeout::from(20_000u16)).unwrap() > 0, "told: {closed:?}");
            diag.news(&mut buffer, &mut |p| closed.push(p)).unwrap();
        }
        let found = diag.listening(&mut buffer, &mut |_| {}).unwrap();
        assert!(!found.iter().any(|l| ports.contains(&l.port)));
    }
}
