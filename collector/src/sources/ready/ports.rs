//! Which TCP sockets listen, from the kernel's text table (/proc/PID/net/tcp and tcp6), and whose they are. The way
//! without privileges; [`super::diag`] asks the kernel directly where it may. Pure parsers, and two bounded reads of /proc.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use super::netns::{Key, is_in};

/// One listening TCP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Listener {
    /// The address bound to; unspecified for all.
    pub address: IpAddr,
    /// The port bound to.
    pub port: u16,
    /// The socket's inode, by which its owners are found; 0 where nobody owns it any more.
    pub inode: u64,
}

/// Docker's resolver, which the engine puts into each namespace of a user-defined network: not the container's.
const ENGINE_RESOLVER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 11));
/// State LISTEN in the text table.
const LISTEN: &str = "0A";
/// Longest table read, in bytes: some 100,000 sockets.
const TABLE_LIMIT: u64 = 16 << 20;
/// Most processes and descriptors looked at for one container.
const OWNER_LIMIT: usize = 65_536;

impl Listener {
    /// Whether it is the container's own, and not put there by its engine.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.address != ENGINE_RESOLVER
    }
}

/// Reads `/proc/net/tcp` or `tcp6`. Lines that are no listening socket, or that are malformed, are passed over.
pub fn parse_table(text: &str) -> impl Iterator<Item = Listener> + '_ {
    text.lines().filter_map(parse_line)
}

/// `sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode …`, addresses as hex words in host order.
fn parse_line(line: &str) -> Option<Listener> {
    let mut fields = line.split_ascii_whitespace();
    let (address, port) = fields.nth(1)?.split_once(':')?;
    if fields.nth(1)? != LISTEN {
        return None;
    }
    let inode = fields.nth(5)?.parse().ok()?;
    Some(Listener { address: parse_address(address)?, port: u16::from_str_radix(port, 16).ok()?, inode })
}

fn parse_address(hex: &str) -> Option<IpAddr> {
    let word = |at: usize| Some(u32::from_str_radix(hex.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    match hex.len() {
        8 => Some(IpAddr::V4(Ipv4Addr::from(word(0)?))),
        32 => {
            let mut bytes = [0u8; 16];
            for (n, chunk) in bytes.chunks_exact_mut(4).enumerate() {
                chunk.copy_from_slice(&word(n * 8)?);
            }
            Some(IpAddr::V6(Ipv6Addr::from(bytes)))
        }
        _ => None,
    }
}

/// The listening sockets of the namespace that process `pid` is in, as the text tables tell.
///
/// # Errors
/// The process is gone, or its tables can not be read.
pub fn read_tables(proc: &Path, pid: u32) -> std::io::Result<Vec<Listener>> {
    use std::io::Read;
    let mut out = Vec::new();
    for table in ["tcp", "tcp6"] {
        let file = match std::fs::File::open(proc.join(format!("{pid}/net/{table}"))) {
            Ok(f) => f,
            // A kernel without IPv6 has no second table.
            Err(e) if table == "tcp6" && e.kind() == std::io::ErrorKind::NotFound => continue,
            Err(e) => return Err(e),
        };
        let mut text = String::new();
        file.take(TABLE_LIMIT).read_to_string(&mut text)?;
        out.extend(parse_table(&text));
    }
    Ok(out)
}

/// The listening sockets of a namespace, from the tables of the first of `pids` that is in it before and after they are read:
/// a container's first processes begin in the engine's namespace, whose ports are not the container's.
#[must_use]
pub fn read_from_within(proc: &Path, key: Key, mut pids: impl Iterator<Item = u32>) -> Option<Vec<Listener>> {
    pids.find_map(|pid| {
        let tables = is_in(proc, pid, key).then(|| read_tables(proc, pid).ok())??;
        is_in(proc, pid, key).then_some(tables)
    })
}

/// The socket inode in the target of a descriptor's link, `socket:[12345]`.
fn socket_inode(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// The inodes of all sockets that `pids` hold. Processes that ended meanwhile, or that may not be looked at, add none.
#[must_use]
pub fn sockets_of(proc: &Path, pids: &[u32]) -> HashSet<u64> {
    let mut out = HashSet::new();
    let mut left = OWNER_LIMIT;
    for pid in pids {
        let Ok(links) = std::fs::read_dir(proc.join(format!("{pid}/fd"))) else { continue };
        for link in links.flatten() {
            left = left.saturating_sub(1);
            if left == 0 {
                return out;
            }
            let target = std::fs::read_link(link.path());
            out.extend(target.ok().as_ref().and_then(|t| t.to_str()).and_then(socket_inode));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TCP: &str = include_str!("../../../tests/fixtures/ready/tcp.txt");
    const TCP6: &str = include_str!("../../../tests/fixtures/ready/tcp6.txt");

    fn at(address: &str, port: u16, inode: u64) -> Listener {
        Listener { address: address.parse().unwrap(), port, inode }
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn reads_listening_sockets_alone() {
        let got: Vec<_> = parse_table(TCP).collect();
        assert_eq!(
            got,
            [at("0.0.0.0", 8080, 31337), at("127.0.0.11", 41921, 31338), at("127.0.0.1", 80, u64::MAX)]
        );
        assert_eq!(
            got.iter().filter(|l| l.is_own()).count(),
            2,
            "the engine's resolver is not the container's"
        );
        assert_eq!(parse_table(TCP6).collect::<Vec<_>>(), [at("::", 80, 777), at("::1", 443, 778)]);
    }

    #[test]
    fn malformed_lines_are_passed_over() {
        for line in [
            "",
            "   0:",
            "   0: 00000000:1F90 00000000:0000 0A",
            "   0: 00000000 00000000:0000 0A 0:0 0:0 0 0 0 5 1",
            "   0: 0000000:1F90 00000000:0000 0A 0:0 0:0 0 0 0 5 1",
            "   0: 00000000:1F901 00000000:0000 0A 0:0 0:0 0 0 0 5 1",
            "   0: ÄÄÄÄ:1F90 00000000:0000 0A 0:0 0:0 0 0 0 5 1",
            "   0: 00000000:1F90 00000000:0000 0A 0:0 0:0 0 0 0 -5 1",
        ] {
            assert_eq!(parse_table(line).count(), 0, "{line:?}");
        }
    }

    #[test]
    fn finds_the_sockets_of_processes() {
        assert_eq!(socket_inode("socket:[77]"), Some(77));
        for link in ["socket:[]", "socket:[7", "/dev/null", "anon_inode:[eventpoll]", "socket:[-1]"] {
            assert_eq!(socket_inode(link), None, "{link}");
        }
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("5/fd")).unwrap();
        for (name, target) in [("0", "/dev/null"), ("3", "socket:[77]"), ("4", "socket:[78]")] {
            std::os::unix::fs::symlink(target, root.path().join("5/fd").join(name)).unwrap();
        }
        assert_eq!(sockets_of(root.path(), &[4, 5]), HashSet::from([77, 78]));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "\\PC{0,200}", words in "( *[0-9A-F:]{0,40}){0,14}") {
            let _ = parse_table(&text).count();
            let _ = parse_table(&words).count();
        }

        #[test]
        fn what_the_kernel_prints_is_what_is_read(ip in any::<u32>(), port in any::<u16>(), inode in any::<u64>()) {
            let address = Ipv4Addr::from(ip);
            let hex = u32::from_ne_bytes(address.octets());
            let line = format!("  0: {hex:08X}:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 {inode} 1");
            prop_assert_eq!(parse_table(&line).collect::<Vec<_>>(), [Listener { address: address.into(), port, inode }]);
        }
    }

    #[test]
    fn tables_are_read_only_from_within_the_namespace() {
        let root = tempfile::tempdir().unwrap();
        let line = |port: u16| {
            format!("  sl local rem st\n 0: 00000000:{port:04X} 00000000:0000 0A 0:0 0:0 0 0 0 7 1\n")
        };
        // One in the engine's namespace, one in the container's, one that is gone.
        for (pid, port) in [(10, 7420), (11, 80)] {
            std::fs::create_dir_all(root.path().join(format!("{pid}/ns"))).unwrap();
            std::fs::create_dir_all(root.path().join(format!("{pid}/net"))).unwrap();
            std::fs::write(root.path().join(format!("{pid}/ns/net")), "").unwrap();
            std::fs::write(root.path().join(format!("{pid}/net/tcp")), line(port)).unwrap();
        }
        let key = super::super::netns::key_of(root.path(), 11).unwrap();
        let ports = |pids: &[u32]| {
            let found = read_from_within(root.path(), key, pids.iter().copied());
            found.map(|l| l.iter().map(|l| l.port).collect::<Vec<_>>())
        };
        assert_eq!(ports(&[12, 10, 11]), Some(vec![80]));
        assert_eq!(ports(&[12, 10]), None, "nobody is in it: nothing is known, and not that nothing listens");
    }
}
