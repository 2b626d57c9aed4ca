//! Three socket options that no safe crate of ours offers: a classic BPF filter on what a socket receives, a receive
//! buffer beyond the system's limit, and how much a packet socket had to drop. The only unsafe code of the witnesses on sockets; the filters
//! themselves are built where they are used.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::libc;

/// One instruction of classic BPF.
pub type Instruction = libc::sock_filter;

/// Instructions of classic BPF, as far as our filters use them (linux/filter.h). Loads read network byte order.
pub mod bpf {
    use super::Instruction;

    const fn op(code: u16, jt: u8, jf: u8, k: u32) -> Instruction {
        Instruction { code, jt, jf, k }
    }
    /// A := the 32 bits at `offset`; a packet too short is dropped.
    #[must_use]
    pub const fn load32(offset: u32) -> Instruction {
        op(0x20, 0, 0, offset)
    }
    /// A := the 16 bits at `offset`; a packet too short is dropped.
    #[must_use]
    pub const fn load16(offset: u32) -> Instruction {
        op(0x28, 0, 0, offset)
    }
    /// If A = `k`, skip `then` instructions, else skip `otherwise`.
    #[must_use]
    pub const fn if_is(k: u32, then: u8, otherwise: u8) -> Instruction {
        op(0x15, then, otherwise, k)
    }
    /// Let the packet through.
    #[must_use]
    pub const fn pass() -> Instruction {
        op(0x06, 0, 0, u32::MAX)
    }
    /// Drop the packet before it wakes anybody.
    #[must_use]
    pub const fn drop() -> Instruction {
        op(0x06, 0, 0, 0)
    }
}

/// Attaches a filter: the socket receives only what passes it.
///
/// # Errors
/// The kernel's refusal (a malformed program, or no memory for it).
pub fn attach_filter(socket: BorrowedFd<'_>, program: &[Instruction]) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidInput, "a socket filter of more than 65535 instructions")
    })?;
    let prog = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    // SAFETY: `prog` and the instructions it points to live through the call, `len` is their true number, and the kernel
    // copies and checks them without writing; the option's length is that of the struct passed.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const prog).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets the receive buffer to `bytes`, beyond the system's limit where we may, else up to it.
///
/// # Errors
/// Neither was possible.
pub fn set_receive_buffer(socket: BorrowedFd<'_>, bytes: i32) -> io::Result<()> {
    let set = |option| {
        // SAFETY: both options take one int; the pointer is to a live i32 (int on every Linux target) and the length is its.
        unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                option,
                (&raw const bytes).cast(),
                size_of::<i32>() as libc::socklen_t,
            )
        }
    };
    if set(libc::SO_RCVBUFFORCE) == 0 || set(libc::SO_RCVBUF) == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// How many packets a packet socket had to drop since the last call, because nobody read them in time (linux/if_packet.h,
/// PACKET_STATISTICS: the kernel starts counting anew with each call).
///
/// # Errors
/// The socket is not a packet socket.
pub fn packets_dropped(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut stats = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    let mut len = size_of::<libc::tpacket_stats>() as libc::socklen_t;
    // SAFETY: the pointers are to a live struct and to its length; the kernel writes at most that many bytes into it, and
    // any bit pattern is a valid tpacket_stats (two unsigned ints).
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut stats).cast(),
            &raw mut len,
        )
    };
    if done == 0 { Ok(stats.tp_drops) } else { Err(io::Error::last_os_error()) }
}
