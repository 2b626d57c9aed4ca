//! Who holds each listening port: sockets and the processes that have them open; and whether a port that was handed from
//! one holder to the next was closed in between. When to look is [`super::watch`]'s.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::ports::{Listener, sockets_of};
use super::process::Process;
use crate::witness::Exits;

const MS: u64 = 1_000_000;

/// The sockets that listen on a port, by inode, and the processes that hold them.
#[derive(Default)]
pub struct Holders {
    /// Their inodes.
    pub sockets: BTreeSet<u64>,
    /// Who had one of them open at the last look.
    pub processes: Vec<Process>,
}

/// Notes who holds each port now. Gives back the holders before, of the ports of which none of the sockets is left. `pids`
/// are looked through only where sockets changed.
pub fn held(
    proc: &std::path::Path,
    holders: &mut BTreeMap<u16, Holders>,
    listeners: &[Listener],
    pids: impl FnOnce() -> Vec<u32>,
) -> BTreeMap<u16, Holders> {
    let mut now: BTreeMap<u16, BTreeSet<u64>> = BTreeMap::new();
    for l in listeners {
        now.entry(l.port).or_default().insert(l.inode);
    }
    let changed: Vec<u16> = now
        .iter()
        .filter(|(p, s)| holders.get(p).is_none_or(|h| h.sockets != **s))
        .map(|(p, _)| *p)
        .collect();
    let mut replaced = BTreeMap::new();
    if changed.is_empty() {
        return replaced;
    }
    let owners: Vec<_> = pids().into_iter().map(|pid| (pid, sockets_of(proc, &[pid]))).collect();
    for port in changed {
        let sockets = now.remove(&port).unwrap_or_default();
        let holds = |(_, has): &&(u32, HashSet<u64>)| sockets.iter().any(|s| has.contains(s));
        let processes =
            owners.iter().filter(holds).filter_map(|(pid, _)| Process::read(proc, *pid)).collect();
        let old = holders.remove(&port);
        if let Some(old) = old.filter(|o| o.sockets.is_disjoint(&sockets)) {
            replaced.insert(port, old);
        }
        holders.insert(port, Holders { sockets, processes });
    }
    replaced
}

/// When the old holders of a port had all ended and when the first of the new ones began, if that came after: then nobody
/// held the port in between. A new process that began before (a handover without a gap) gives `None`.
#[must_use]
pub fn succeeded(exits: &Exits, old: &Holders, new: Option<&Holders>) -> Option<(u64, u64)> {
    let ends: Option<Vec<u64>> =
        old.processes.iter().map(|p| exits.get(p.pid, p.started).map(|e| e.boot_ns)).collect();
    let (ended, began) = (ends?.into_iter().max()?, new?.processes.iter().map(|p| p.started).min()?);
    // A start is known to the tick of 10 ms, never late.
    (began.saturating_add(10 * MS) > ended).then_some((ended, began.max(ended)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::witness::Exit;

    fn holders(sockets: &[u64], processes: &[(u32, u64)]) -> Holders {
        let processes = processes.iter().map(|(pid, ms)| Process { pid: *pid, started: ms * MS }).collect();
        Holders { sockets: sockets.iter().copied().collect(), processes }
    }

    #[test]
    fn a_gap_that_nobody_looked_into_is_told_from_a_handover() {
        let exits = Exits::default();
        let old = holders(&[1], &[(10, 1_000)]);
        let new = |ms| holders(&[2], &[(11, ms)]);
        assert_eq!(succeeded(&exits, &old, Some(&new(5_020))), None, "the old holder lives");
        exits.record(Exit { pid: 10, boot_ns: 5_000 * MS, code: Some(1), signal: None });
        assert_eq!(succeeded(&exits, &old, Some(&new(5_020))), Some((5_000 * MS, 5_020 * MS)));
        assert_eq!(
            succeeded(&exits, &old, Some(&new(4_995))),
            Some((5_000 * MS, 5_000 * MS)),
            "within a tick"
        );
        assert_eq!(succeeded(&exits, &old, Some(&new(4_900))), None, "handed over");
        assert_eq!(succeeded(&exits, &old, Some(&holders(&[2], &[]))), None, "nobody knows who");
        assert_eq!(succeeded(&exits, &old, None), None);
        assert_eq!(succeeded(&exits, &holders(&[1], &[]), Some(&new(5_020))), None);
    }

    #[test]
    fn holders_are_replaced_only_when_all_their_sockets_went() {
        let root = tempfile::tempdir().unwrap();
        let listen = |inode| Listener { address: "0.0.0.0".parse().unwrap(), port: 80, inode };
        let mut known = BTreeMap::new();
        assert!(held(root.path(), &mut known, &[listen(1), listen(2)], Vec::new).is_empty());
        assert!(held(root.path(), &mut known, &[listen(2), listen(3)], Vec::new).is_empty());
        assert!(
            held(root.path(), &mut known, &[listen(2), listen(3)], || unreachable!("nothing changed"))
                .is_empty()
        );
        let replaced = held(root.path(), &mut known, &[listen(4)], Vec::new);
        assert_eq!(replaced[&80].sockets, BTreeSet::from([2, 3]));
    }
}
