//! Questions and their answers, brought together by client, id, name and kind; five seconds without an answer is a timeout.
//! Pure: time is given. Bounded: beyond [`OPEN`] questions under way, further ones are counted and not followed. Whether a
//! failing lookup means anything is [`super::judge`]'s to say.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use super::decode::{Kind, Message, Reply};

/// How long an answer is waited for, in nanoseconds.
pub const TIMEOUT: u64 = 5_000_000_000;
/// How many questions under way are followed.
pub const OPEN: usize = 4096;

/// How a lookup ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// It was answered.
    Replied(Reply),
    /// It was not, for five seconds.
    TimedOut,
}

/// One question that has come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// The name in lower case, without the last dot.
    pub name: String,
    /// The record type asked for.
    pub kind: Kind,
    /// Who was asked; where it answered, who answered.
    pub resolver: IpAddr,
    /// When it was asked (boot time, nanoseconds).
    pub asked: u64,
    /// When it was answered, or given up (boot time, nanoseconds).
    pub ended: u64,
    /// How it ended.
    pub end: End,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    client: SocketAddr,
    id: u16,
    name: String,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    resolver: IpAddr,
    asked: u64,
    /// Followed, and not told of: our own question.
    muted: bool,
}

/// What was seen since it was last asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Questions.
    pub asked: u64,
    /// Questions that were answered, whatever the answer.
    pub answered: u64,
    /// Questions that were not followed because too many were under way.
    pub unfollowed: u64,
}

/// The questions under way in one network namespace.
#[derive(Debug, Default)]
pub struct Matcher {
    open: HashMap<Key, Open>,
    /// In the order of asking; holds also some that are answered.
    order: VecDeque<(u64, Key)>,
    /// How many questions for a name and kind are under way on the loopback: an embedded resolver asks on from the same
    /// namespace, and its question is not the client's.
    local: HashMap<(String, Kind), usize>,
    counts: Counts,
}

impl Matcher {
    /// Takes in a message seen at `now`. `ours`: it left a process of this namespace (or never left it). `muted`: it is a
    /// question of our own. Gives the lookup that it ends, if it ends one.
    pub fn see(&mut self, message: Message, now: u64, ours: bool, muted: bool) -> Option<Lookup> {
        match message.reply {
            None => {
                if ours {
                    self.ask(message, now, muted);
                }
                None
            }
            Some(reply) => self.answer(message, reply, now),
        }
    }

    fn ask(&mut self, m: Message, now: u64, muted: bool) {
        let beyond = !m.to.ip().is_loopback();
        let same = (m.name, m.kind);
        if beyond && self.local.contains_key(&same) {
            return;
        }
        let key = Key { client: m.from, id: m.id, name: same.0.clone(), kind: m.kind };
        if self.open.contains_key(&key) {
            // Asked again, of the same or the next resolver: it is under way since the first time.
            return;
        }
        self.counts.asked += u64::from(!muted);
        if self.open.len() >= OPEN {
            self.counts.unfollowed += u64::from(!muted);
            return;
        }
        if !beyond {
            *self.local.entry(same).or_default() += 1;
        }
        self.open.insert(key.clone(), Open { resolver: m.to.ip(), asked: now, muted });
        self.order.push_back((now, key));
        // What is answered leaves the order late; it is swept before it can outgrow what is open.
        if self.order.len() > 2 * OPEN {
            let open = &self.open;
            self.order.retain(|(asked, key)| open.get(key).is_some_and(|o| o.asked == *asked));
        }
    }

    fn answer(&mut self, m: Message, reply: Reply, now: u64) -> Option<Lookup> {
        let key = Key { client: m.to, id: m.id, name: m.name, kind: m.kind };
        let open = self.open.remove(&key)?;
        self.closed(&key, open);
        self.counts.answered += u64::from(!open.muted);
        (!open.muted).then(|| Lookup {
            name: key.name,
            kind: key.kind,
            resolver: m.from.ip(),
            asked: open.asked,
            ended: now.max(open.asked),
            end: End::Replied(reply),
        })
    }

    fn closed(&mut self, key: &Key, open: Open) {
        if !open.resolver.is_loopback() {
            return;
        }
        let same = (key.name.clone(), key.kind);
        if let Some(n) = self.local.get_mut(&same) {
            *n -= 1;
            if *n == 0 {
                self.local.remove(&same);
            }
        }
    }

    /// The lookups that have had no answer for five seconds.
    pub fn expire(&mut self, now: u64) -> Vec<Lookup> {
        let mut out = Vec::new();
        while let Some((asked, _)) = self.order.front()
            && asked.saturating_add(TIMEOUT) <= now
        {
            let Some((asked, key)) = self.order.pop_front() else { break };
            let Some(open) = self.open.get(&key).copied().filter(|o| o.asked == asked) else { continue };
            self.open.remove(&key);
            self.closed(&key, open);
            if !open.muted {
                let Key { name, kind, .. } = key;
                let ended = asked + TIMEOUT;
                out.push(Lookup { name, kind, resolver: open.resolver, asked, ended, end: End::TimedOut });
            }
        }
        out
    }

    /// Packets were lost: what is under way may have been answered. None of it is followed any more.
    pub fn forget(&mut self) {
        self.open.clear();
        self.order.clear();
        self.local.clear();
    }

    /// When the next question under way times out, at the earliest.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        (!self.open.is_empty()).then(|| self.order.front().map(|(asked, _)| asked.saturating_add(TIMEOUT)))?
    }

    /// Whether a question is under way that fits: its name, its kind, when it was asked. Not looked for among very many.
    pub fn any_open(&self, fits: impl Fn(&str, Kind, u64) -> bool) -> bool {
        self.open.len() <= 256 && self.open.iter().any(|(k, o)| fits(&k.name, k.kind, o.asked))
    }

    /// What was seen since the last time.
    pub fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }
}

#[cfg(test)]
mod tests {
    use super::super::decode::{self, tests::packets};
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn message(from: &str, to: &str, id: u16, name: &str, reply: Option<Reply>) -> Message {
        Message {
            from: from.parse().unwrap(),
            to: to.parse().unwrap(),
            id,
            name: name.into(),
            kind: Kind::A,
            reply,
        }
    }

    #[test]
    fn real_packets_give_the_clients_lookups_and_not_those_that_the_resolver_passes_on() {
        let mut matcher = Matcher::default();
        let mut now = 0;
        let mut got = Vec::new();
        for (what, bytes) in packets() {
            now += MS;
            let ours = !what.contains("from afar");
            let lookup = matcher.see(decode::packet(&bytes).unwrap(), now, ours, false);
            got.extend(lookup.map(|l| {
                format!(
                    "{} {} {} {}ms {:?}",
                    l.name,
                    l.kind.text(),
                    l.resolver,
                    (l.ended - l.asked) / MS,
                    l.end
                )
            }));
        }
        assert_eq!(
            got,
            [
                "backend.example.test A 127.0.0.11 3ms Replied(NxDomain)",
                "backend A 127.0.0.11 1ms Replied(Records)",
                "backend AAAA 127.0.0.11 1ms Replied(NoData)",
                "backend A 127.0.0.11 3ms Replied(NxDomain)",
                "backend SRV 127.0.0.11 1ms Replied(NxDomain)",
            ]
        );
        assert_eq!(matcher.take_counts(), Counts { asked: 5, answered: 5, unfollowed: 0 });
        assert!(matcher.local.is_empty() && matcher.deadline().is_none());
    }

    #[test]
    fn five_seconds_without_an_answer_is_a_timeout_of_the_first_asking() {
        let mut m = Matcher::default();
        m.see(message("192.0.2.1:4000", "192.0.2.53:53", 7, "a", None), 10, true, false);
        m.see(message("192.0.2.1:4000", "192.0.2.54:53", 7, "a", None), 10 + 2500 * MS, true, false);
        assert_eq!(m.deadline(), Some(10 + TIMEOUT));
        assert!(m.expire(9 + TIMEOUT).is_empty());
        let [late] = &m.expire(10 + TIMEOUT)[..] else { panic!() };
        assert_eq!(
            (late.asked, late.ended, late.end, late.resolver),
            (10, 10 + TIMEOUT, End::TimedOut, "192.0.2.53".parse().unwrap())
        );
        assert_eq!(
            m.see(
                message("192.0.2.53:53", "192.0.2.1:4000", 7, "a", Some(Reply::Records)),
                11 + TIMEOUT,
                false,
                false
            ),
            None
        );
        assert_eq!(m.take_counts(), Counts { asked: 1, answered: 0, unfollowed: 0 });
    }

    #[test]
    fn only_an_answer_to_the_very_question_ends_it() {
        for (to, id, name) in [
            ("192.0.2.1:4001", 7, "a"),
            ("192.0.2.9:4000", 7, "a"),
            ("192.0.2.1:4000", 8, "a"),
            ("192.0.2.1:4000", 7, "b"),
        ] {
            let mut m = Matcher::default();
            m.see(message("192.0.2.1:4000", "192.0.2.53:53", 7, "a", None), 0, true, false);
            assert_eq!(
                m.see(message("192.0.2.53:53", to, id, name, Some(Reply::NxDomain)), 1, false, false),
                None
            );
            assert!(
                m.see(
                    message("192.0.2.53:53", "192.0.2.1:4000", 7, "a", Some(Reply::NxDomain)),
                    2,
                    false,
                    false
                )
                .is_some()
            );
        }
    }

    #[test]
    fn questions_of_others_and_our_own_are_not_told() {
        let mut m = Matcher::default();
        m.see(message("192.0.2.1:4000", "192.0.2.2:53", 7, "a", None), 0, false, false);
        assert_eq!(
            m.see(message("192.0.2.2:53", "192.0.2.1:4000", 7, "a", Some(Reply::NxDomain)), 1, true, false),
            None
        );
        m.see(message("127.0.0.1:4000", "127.0.0.11:999", 7, "a", None), 2, true, true);
        m.see(message("192.0.2.1:4002", "192.0.2.53:53", 7, "a", None), 3, true, false);
        assert_eq!(
            m.see(message("127.0.0.11:53", "127.0.0.1:4000", 7, "a", Some(Reply::NxDomain)), 4, true, false),
            None
        );
        assert!(m.expire(2 * TIMEOUT).is_empty());
        assert_eq!(m.take_counts(), Counts::default());
    }

    #[test]
    fn a_flood_is_counted_and_does_not_grow() {
        let mut m = Matcher::default();
        for n in 0..OPEN as u64 + 10 {
            m.see(
                message("192.0.2.1:4000", "192.0.2.53:53", n as u16, &format!("n{n}"), None),
                n,
                true,
                false,
            );
        }
        assert_eq!(m.take_counts(), Counts { asked: OPEN as u64 + 10, answered: 0, unfollowed: 10 });
        m.forget();
        assert!(m.expire(u64::MAX).is_empty());
        for n in 0..5 * OPEN as u64 {
            m.see(message("127.0.0.1:4000", "127.0.0.11:53", n as u16, "a", None), n, true, false);
            m.see(
                message("127.0.0.11:53", "127.0.0.1:4000", n as u16, "a", Some(Reply::Records)),
                n,
                true,
                false,
            );
        }
        assert!(m.order.len() <= 2 * OPEN + 1 && m.open.is_empty() && m.local.is_empty());
    }

    proptest! {
        #[test]
        fn each_question_ends_once(steps in prop::collection::vec((0u16..6, 0u8..3, any::<bool>(), 0u64..3000), 0..200)) {
            let mut m = Matcher::default();
            let (mut now, mut ended) = (0, 0);
            for (id, name, answer, wait) in steps {
                now += wait * MS;
                ended += m.expire(now).len() as u64;
                let name = format!("n{name}");
                let message = if answer {
                    message("127.0.0.11:53", "127.0.0.1:4000", id, &name, Some(Reply::NxDomain))
                } else {
                    message("127.0.0.1:4000", "127.0.0.11:53", id, &name, None)
                };
                ended += u64::from(m.see(message, now, true, false).is_some());
            }
            ended += m.expire(now + TIMEOUT).len() as u64;
            prop_assert_eq!(ended, m.take_counts().asked);
            prop_assert!(m.local.is_empty() && m.open.is_empty() && m.order.is_empty());
        }
    }
}
