//! One life of a container's main process, as its listening ports tell it: pure. What is polled and what the kernel says
//! comes in with its moments; out come the facts `ready` and `unready`, and when to look again. Where the ports are read
//! is [`super::watch`]'s.

use std::collections::{BTreeMap, BTreeSet};

use linchpin_data::clock::Stamp;

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
/// How long a closed port waits to be told: if the main process ends meanwhile, the container ended, and its port with it.
pub const HOLD_NS: u64 = 50 * MS;
/// How long a state must last to be learned, and how long the rest of the learned ports is waited for.
pub const STABLE_NS: u64 = 10 * S;
/// From here on the kernel hands out ports by itself (net.ipv4.ip_local_port_range as it comes): another one each time.
const EPHEMERAL: u16 = 32_768;
/// The kernel's news of a closed port comes within this time.
pub const NEWS_NS: u64 = MS;

/// When something was seen: it happened in (`after`, `at`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The last moment at which it had not happened yet.
    pub after: Stamp,
    /// The moment at which it had.
    pub at: Stamp,
    /// Found by looking again and again; else told by the kernel.
    pub polled: bool,
}

impl Seen {
    /// How finely the moment is known, in milliseconds.
    #[must_use]
    pub fn resolution_ms(&self) -> f64 {
        self.at.boot_ns.saturating_sub(self.after.boot_ns) as f64 / MS as f64
    }
}

/// A fact to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It accepts again; the port is the last one that came.
    Ready(u16, Seen),
    /// It stopped accepting on that port while its main process lived.
    Unready(u16, Seen),
}

/// The ports that a subject listens on while it is well.
pub type Ports = BTreeSet<u16>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Started; not ready yet.
    Starting,
    /// All needed ports listen, since that boot time.
    Well(u64),
    /// A needed port closed while the main process lived.
    Out,
}

/// One life. All times in nanoseconds of CLOCK_BOOTTIME.
#[derive(Debug)]
pub struct Life {
    phase: Phase,
    /// What listens now, and since when.
    open: BTreeMap<u16, Seen>,
    /// What must listen for it to be ready.
    needed: Ports,
    /// What the pace of looking counts from: the start, or the last loss.
    since: u64,
    /// When the last look began.
    looked: Stamp,
    /// Found running: what listens at the first look is how it is when well.
    adopted: Option<Adopted>,
    held: Vec<Told>,
    hold_until: u64,
}

/// How a process that already ran was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adopted {
    /// As far as is known it was well all the time.
    Well,
    /// It was down when last seen, at this moment: that it listens now is news.
    WasDown(Stamp),
}

impl Life {
    /// A life that begins at `at`.
    #[must_use]
    pub fn started(at: Stamp) -> Life {
        Life {
            phase: Phase::Starting,
            open: BTreeMap::new(),
            needed: Ports::new(),
            since: at.boot_ns,
            looked: at,
            adopted: None,
            held: Vec::new(),
            hold_until: 0,
        }
    }

    /// A life that began at `at` and is found running.
    #[must_use]
    pub fn adopted(at: Stamp, how: Adopted) -> Life {
        Life { adopted: Some(how), ..Life::started(at) }
    }

    /// Whether `port` is among those that listened at the last look.
    #[must_use]
    pub fn listens(&self, port: u16) -> bool {
        self.open.contains_key(&port)
    }

    /// Whether a needed port is closed while the main process lives.
    #[must_use]
    pub fn is_out(&self) -> bool {
        self.phase == Phase::Out
    }

    /// Takes in a look at what listens, from `before` to `at`. `closed`: ports that the kernel said were closed since the
    /// last look, with the moment. A port that is closed by one socket and still held by another is open.
    pub fn look(&mut self, listening: &Ports, before: Stamp, at: Stamp, closed: &BTreeMap<u16, Stamp>) {
        let after = match self.adopted {
            Some(Adopted::WasDown(seen)) => seen,
            _ => self.looked,
        };
        self.looked = before;
        let gone: Vec<u16> = self.open.keys().filter(|p| !listening.contains(p)).copied().collect();
        for port in gone {
            self.open.remove(&port);
            let seen = closed.get(&port).map_or(Seen { after, at, polled: true }, |told| Seen {
                after: Stamp {
                    at: told.at.plus_ns(-(NEWS_NS as i64)),
                    boot_ns: told.boot_ns.saturating_sub(NEWS_NS),
                },
                at: *told,
                polled: false,
            });
            self.lost(port, seen);
        }
        for port in listening {
            self.open.entry(*port).or_insert(Seen { after, at, polled: true });
        }
    }

    fn lost(&mut self, port: u16, seen: Seen) {
        if matches!(self.phase, Phase::Well(_)) && self.needed.contains(&port) {
            self.phase = Phase::Out;
            self.since = seen.at.boot_ns;
            self.hold_until = seen.at.boot_ns.saturating_add(HOLD_NS);
            self.held.push(Told::Unready(port, seen));
        }
    }

    /// Judges what was looked at against the ports learned of the subject, at boot time `now`. Gives the ports to learn anew.
    #[must_use]
    pub fn settle(&mut self, learned: Option<&Ports>, now: u64) -> Option<Ports> {
        match (self.phase, self.adopted.take()) {
            (Phase::Starting, Some(how)) => self.settle_adopted(how, learned, now),
            (Phase::Starting, None) => self.settle_start(learned, now),
            (Phase::Out, _) => {
                if let Some((port, seen)) = self.last_of(&self.needed) {
                    self.ready(port, seen, now);
                }
                None
            }
            (Phase::Well(since), _) => {
                if now.saturating_sub(since) < STABLE_NS {
                    return None;
                }
                let lasting = |s: &Seen| now.saturating_sub(s.at.boot_ns) >= STABLE_NS;
                let stable =
                    learnable(self.open.iter().filter(|(_, s)| lasting(s)).map(|(p, _)| *p).collect());
                if stable.is_empty() || learned == Some(&stable) {
                    return None;
                }
                self.needed.clone_from(&stable);
                Some(stable)
            }
        }
    }

    fn settle_adopted(&mut self, how: Adopted, learned: Option<&Ports>, now: u64) -> Option<Ports> {
        let found = learnable(self.open.keys().copied().collect());
        if found.is_empty() {
            return None;
        }
        let partly = learned.is_some_and(|l| !l.is_subset(&found));
        if how != Adopted::Well && partly {
            return self.settle_start(learned, now);
        }
        self.needed.clone_from(&found);
        if let (Adopted::WasDown(_), Some((port, seen))) = (how, self.last_of(&found)) {
            self.ready(port, seen, now);
        }
        self.phase = Phase::Well(now);
        Some(found)
    }

    fn settle_start(&mut self, learned: Option<&Ports>, now: u64) -> Option<Ports> {
        let open = || learnable(self.open.keys().copied().collect());
        let Some(learned) = learned.filter(|l| !l.is_empty()) else {
            let first =
                self.open.iter().min_by_key(|(port, s)| (s.at.boot_ns, **port)).map(|(p, s)| (*p, *s));
            if let Some((port, seen)) = first {
                self.needed = open();
                self.ready(port, seen, now);
            }
            return None;
        };
        if let Some((port, seen)) = self.last_of(learned) {
            self.needed.clone_from(learned);
            self.ready(port, seen, now);
            return None;
        }
        // Another set than before: given time to become complete, then taken as it is.
        let there = open();
        let (port, seen) = self.last_of(&there)?;
        if now.saturating_sub(seen.at.boot_ns) < STABLE_NS {
            return None;
        }
        self.needed.clone_from(&there);
        self.ready(port, seen, now);
        Some(there)
    }

    /// The last of `ports` that came, if all are there and there are any.
    fn last_of(&self, ports: &Ports) -> Option<(u16, Seen)> {
        let there: Option<Vec<_>> = ports.iter().map(|p| self.open.get(p).map(|s| (*p, *s))).collect();
        there?.into_iter().max_by_key(|(port, s)| (s.at.boot_ns, *port))
    }

    fn ready(&mut self, port: u16, seen: Seen, now: u64) {
        self.phase = Phase::Well(now);
        self.held.push(Told::Ready(port, seen));
    }

    /// When held facts may be told, if there are any.
    #[must_use]
    pub fn due(&self) -> Option<u64> {
        (!self.held.is_empty()).then_some(self.hold_until)
    }

    /// The facts to be told at boot time `now`; at the agent's end all of them. What waits stays.
    pub fn tell(&mut self, now: u64, ending: bool) -> Vec<Told> {
        if ending || self.due().is_some_and(|due| due <= now) {
            std::mem::take(&mut self.held)
        } else {
            Vec::new()
        }
    }

    /// The main process ended at boot time `ended`: a port that closed within [`HOLD_NS`] before was its end, no fact of its own.
    pub fn ended(&mut self, ended: u64) -> Vec<Told> {
        let held = std::mem::take(&mut self.held);
        if ended < self.hold_until { Vec::new() } else { held }
    }

    /// When to look again, in boot time. `learned`: whether the subject is known to listen; `hears`: whether the kernel
    /// tells of closed ports, so that there is nothing to look for while all is well.
    #[must_use]
    pub fn next_look(&self, learned: bool, hears: bool) -> u64 {
        let looked = self.looked.boot_ns;
        let lasted = looked.saturating_sub(self.since);
        let pause = match self.phase {
            Phase::Well(since) if hears => {
                // To learn once it is stable, and once more; then only in case that something was not told.
                let lasted = looked.saturating_sub(since);
                let next = [STABLE_NS, 6 * STABLE_NS].into_iter().find(|n| *n > lasted);
                return next
                    .map_or(looked.saturating_add(600 * S), |n| since.saturating_add(n).saturating_add(MS));
            }
            Phase::Well(since) => (looked.saturating_sub(since) / 50).clamp(20 * MS, S),
            Phase::Starting | Phase::Out => match lasted {
                n if n < 300 * MS => 2 * MS,
                n if n < 2 * S => 5 * MS,
                n if n < 30 * S => 20 * MS,
                n if n < 300 * S => 250 * MS,
                _ if learned || self.phase == Phase::Out => S,
                // It may never listen: more and more rarely.
                n => (n / 20).clamp(S, 60 * S),
            },
        };
        looked.saturating_add(pause)
    }

    /// Looking begins anew at the first pace: the process itself was started only now.
    pub fn hurry(&mut self, since: u64) {
        if self.phase == Phase::Starting {
            self.since = self.since.max(since);
        }
    }
}

/// Ports that are another one each time are learned only where there is no other.
fn learnable(ports: Ports) -> Ports {
    let fixed: Ports = ports.range(..EPHEMERAL).copied().collect();
    if fixed.is_empty() { ports } else { fixed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linchpin_data::Timestamp;
    use proptest::prelude::*;

    fn stamp(ms: u64) -> Stamp {
        Stamp { at: Timestamp(i64::try_from(ms * MS).unwrap()), boot_ns: ms * MS }
    }

    fn ports(ports: &[u16]) -> Ports {
        ports.iter().copied().collect()
    }

    fn polled(after: u64, at: u64) -> Seen {
        Seen { after: stamp(after), at: stamp(at), polled: true }
    }

    /// A life and what was learned of its subject, looked at in whole milliseconds.
    struct Scene {
        life: Life,
        learned: Option<Ports>,
    }

    impl Scene {
        fn look(&mut self, ms: u64, open: &[u16], closed: &[(u16, u64)]) -> Vec<Told> {
            let closed = closed.iter().map(|(p, ms)| (*p, stamp(*ms))).collect();
            self.life.look(&ports(open), stamp(ms), stamp(ms), &closed);
            if let Some(new) = self.life.settle(self.learned.as_ref(), ms * MS) {
                self.learned = Some(new);
            }
            self.life.tell(ms * MS, false)
        }
    }

    fn started(learned: Option<&[u16]>) -> Scene {
        Scene { life: Life::started(stamp(0)), learned: learned.map(ports) }
    }

    fn well(open: &[u16]) -> Scene {
        let mut scene = Scene { life: Life::adopted(stamp(0), Adopted::Well), learned: None };
        assert_eq!(scene.look(10, open, &[]), []);
        assert_eq!(scene.learned, Some(ports(open)));
        scene
    }

    #[test]
    fn the_first_port_of_an_unknown_subject_is_readiness() {
        let mut s = started(None);
        assert_eq!(s.look(2, &[], &[]), []);
        assert_eq!(s.look(4, &[80], &[]), [Told::Ready(80, polled(2, 4))]);
        assert_eq!(s.look(6, &[80, 443], &[]), []);
        assert_eq!(s.look(20_000, &[80, 443], &[]), []);
        assert_eq!(s.learned, Some(ports(&[80, 443])));
    }

    #[test]
    fn all_learned_ports_must_be_back() {
        let mut s = started(Some(&[80, 443]));
        assert_eq!(s.look(4, &[80, 9000], &[]), []);
        assert_eq!(s.look(6, &[80, 443], &[]), [Told::Ready(443, polled(4, 6))]);
    }

    #[test]
    fn what_is_there_after_ten_seconds_is_readiness_with_its_own_moment() {
        let mut s = started(Some(&[80, 443]));
        assert_eq!(s.look(4, &[80], &[]), []);
        assert_eq!(s.look(9_000, &[80], &[]), []);
        assert_eq!(s.look(10_100, &[80], &[]), [Told::Ready(80, polled(0, 4))]);
        assert_eq!(s.learned, Some(ports(&[80])));
    }

    #[test]
    fn a_port_that_closes_and_comes_back_is_an_outage() {
        let mut s = well(&[80, 443]);
        assert_eq!(s.look(5_000, &[443], &[(80, 4_999)]), [], "held: the container may be ending");
        assert_eq!(s.life.due(), Some(5_049 * MS));
        assert_eq!(s.look(5_040, &[443, 80], &[]), []);
        let lost = Seen { after: stamp(4_998), at: stamp(4_999), polled: false };
        let both = [Told::Unready(80, lost), Told::Ready(80, polled(5_000, 5_040))];
        assert_eq!(s.look(5_060, &[443, 80], &[]), both);
    }

    #[test]
    fn a_port_that_closes_as_its_process_ends_is_no_fact_of_its_own() {
        let mut s = well(&[80]);
        assert_eq!(s.look(5_000, &[], &[(80, 4_999)]), []);
        assert_eq!(s.life.ended(5_003 * MS), []);
        assert_eq!(s.life.tell(6_000 * MS, true), []);
        let mut s = well(&[80]);
        assert_eq!(s.look(5_000, &[], &[(80, 4_999)]), []);
        assert_eq!(s.life.ended(7_000 * MS).len(), 1, "it drained for two seconds: the port was closed");
    }

    #[test]
    fn one_of_two_sockets_on_a_port_may_close() {
        let mut s = well(&[80]);
        assert_eq!(s.look(5_000, &[80], &[(80, 4_999)]), []);
        assert!(!s.life.is_out());
        assert_eq!(s.life.due(), None);
    }

    #[test]
    fn ports_that_were_never_needed_may_close() {
        let mut s = well(&[80]);
        assert_eq!(s.look(5_000, &[80, 40_000], &[]), []);
        assert_eq!(s.look(20_000, &[80, 40_000], &[]), []);
        assert_eq!(s.look(20_001, &[80], &[(40_000, 20_001)]), []);
        assert!(!s.life.is_out());
    }

    #[test]
    fn nothing_held_is_lost_at_the_end() {
        let mut s = well(&[80]);
        assert_eq!(s.look(5_000, &[], &[(80, 4_999)]), []);
        assert_eq!(s.life.tell(5_001 * MS, true).len(), 1);
    }

    #[test]
    fn found_down_and_now_up_is_told_with_the_whole_gap() {
        let how = Adopted::WasDown(stamp(1_000));
        let mut s = Scene { life: Life::adopted(stamp(60_000), how), learned: None };
        assert_eq!(s.look(60_000, &[80], &[]), [Told::Ready(80, polled(1_000, 60_000))]);
    }

    #[test]
    fn looks_are_dense_at_first_and_rare_while_well() {
        let mut s = started(None);
        let pause =
            |s: &Scene, learned, hears| (s.life.next_look(learned, hears) - s.life.looked.boot_ns) / MS;
        for (ms, want) in [
            (10, 2),
            (300, 5),
            (1_999, 5),
            (2_000, 20),
            (30_000, 250),
            (300_000, 15_000),
            (9_999_000, 60_000),
        ] {
            s.look(ms, &[], &[]);
            assert_eq!(pause(&s, false, true), want, "{ms}");
        }
        assert_eq!(pause(&s, true, true), 1_000);
        let mut s = well(&[80]);
        for (ms, want) in [(1_010, 9_001), (10_011, 50_000), (60_011, 600_000)] {
            s.look(ms, &[80], &[]);
            assert_eq!(pause(&s, true, true), want, "{ms}");
        }
        assert_eq!(pause(&s, true, false), 1_000, "nobody tells: looked at");
    }

    proptest! {
        /// Whatever opens and closes: facts alternate, in the order of their moments.
        #[test]
        fn facts_alternate(looks in prop::collection::vec((1u64..3_000, 0u8..8), 1..60), known in any::<bool>()) {
            let mut s = started(known.then_some(&[1, 2]));
            let (mut ms, mut told) = (0, Vec::new());
            for (pause, set) in looks {
                ms += pause;
                let open: Vec<u16> = (0..3).filter(|bit| set & (1 << bit) != 0).map(|bit| bit + 1).collect();
                told.extend(s.look(ms, &open, &[]));
            }
            told.extend(s.life.tell(ms * MS, true));
            for (n, fact) in told.iter().enumerate() {
                prop_assert_eq!(matches!(fact, Told::Ready(..)), n % 2 == 0, "{:?}", told);
            }
            let at = |t: &Told| match t { Told::Ready(_, s) | Told::Unready(_, s) => s.at.boot_ns };
            prop_assert!(told.windows(2).all(|w| at(&w[0]) <= at(&w[1])), "{:?}", told);
        }
    }
}
