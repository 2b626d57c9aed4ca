//! A container's nameservers, read off its own resolv.conf: opened below its root so that no link of its making leads out of
//! it, bounded, and parsed by a pure function.

use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{Mode, SFlag, fstat};

/// How many nameservers a resolver asks (resolv.conf(5), MAXNS).
const MOST: usize = 3;
/// How much of the file is read, in bytes.
const LONGEST: u64 = 16 * 1024;

/// The nameservers in the text of a resolv.conf, in order, at most three. Zones of link-local addresses are left off.
#[must_use]
pub fn parse(text: &str) -> Vec<IpAddr> {
    let servers = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        (words.next()? == "nameserver").then(|| words.next()?.split('%').next()?.parse().ok())?
    });
    servers.take(MOST).collect()
}

/// Those of the container whose main process is `pid`.
///
/// # Errors
/// The process is gone, the file is not there, is no regular file, or leads out of its root; or the kernel (before 5.6) can not keep
/// it from doing so.
pub fn of(proc: &Path, pid: u32) -> io::Result<Vec<IpAddr>> {
    let root = File::open(proc.join(pid.to_string()).join("root"))?;
    // NONBLOCK: a pipe in its place must not hold us.
    let how = OpenHow::new()
        .flags(OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY)
        .mode(Mode::empty())
        .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    let fd = openat2(&root, "etc/resolv.conf", how)?;
    if SFlag::from_bits_truncate(fstat(&fd)?.st_mode) & SFlag::S_IFMT != SFlag::S_IFREG {
        return Err(Errno::EINVAL.into());
    }
    let mut text = Vec::new();
    File::from(fd).take(LONGEST).read_to_end(&mut text)?;
    Ok(parse(&String::from_utf8_lossy(&text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nameservers_in_order() {
        let text = "# x\nsearch example.test\nnameserver 127.0.0.11\n\tnameserver  2001:db8::1 \nnameserver fe80::1%eth0\nnameserver 192.0.2.4\noptions ndots:0";
        let servers: Vec<String> = parse(text).iter().map(ToString::to_string).collect();
        assert_eq!(servers, ["127.0.0.11", "2001:db8::1", "fe80::1"]);
        for none in ["", "nameserver", "nameserver x", "nameservers 192.0.2.1", "#nameserver 192.0.2.1"] {
            assert!(parse(none).is_empty(), "{none}");
        }
    }

    /// A stand-in for /proc with one process whose root is a folder of ours.
    fn stage(make: impl FnOnce(&Path)) -> (tempfile::TempDir, io::Result<Vec<IpAddr>>) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("secret"), "nameserver 192.0.2.66").unwrap();
        let root = dir.path().join("7/root");
        std::fs::create_dir_all(root.join("etc")).unwrap();
        make(&root);
        let got = of(dir.path(), 7);
        (dir, got)
    }

    #[test]
    fn links_stay_inside_and_other_things_are_refused() {
        let conf = |root: &Path| root.join("etc/resolv.conf");
        let (_d, plain) = stage(|r| std::fs::write(conf(r), "nameserver 192.0.2.1").unwrap());
        assert_eq!(plain.unwrap(), ["192.0.2.1".parse::<IpAddr>().unwrap()]);
        let (_d, inside) = stage(|r| {
            std::fs::write(r.join("real"), "nameserver 192.0.2.2").unwrap();
            std::os::unix::fs::symlink("/real", conf(r)).unwrap();
        });
        assert_eq!(inside.unwrap(), ["192.0.2.2".parse::<IpAddr>().unwrap()]);
        let (_d, out) = stage(|r| std::os::unix::fs::symlink("../../../secret", conf(r)).unwrap());
        assert!(out.is_err());
        let (_d, folder) = stage(|r| std::fs::create_dir(conf(r)).unwrap());
        assert!(folder.is_err());
        let (_d, pipe) = stage(|r| nix::unistd::mkfifo(&conf(r), Mode::S_IRUSR).unwrap());
        assert!(pipe.is_err());
        let (_d, long) =
            stage(|r| std::fs::write(conf(r), "#".repeat(1 << 20) + "\nnameserver 192.0.2.3").unwrap());
        assert!(long.unwrap().is_empty());
        assert!(of(Path::new("/nonexistent"), 7).is_err());
    }

    proptest! {
        #[test]
        fn any_text_gives_three_at_most(text: String) {
            prop_assert!(parse(&text).len() <= MOST);
        }
    }
}
