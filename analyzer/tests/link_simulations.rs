//! How often the links are wrong, by simulation: a thousand histories of three hours with fifty suspects for each kind, from fixed
//! seeds. One history is one report: every pair of the victim is judged together.

use linchpin_analyzer::link::pair::Verdict;
use linchpin_analyzer::link::pairs::{Party, links};
use linchpin_data::{Span, Timestamp, Windows};

const HISTORIES: u64 = 1_000;
const SUSPECTS: usize = 50;
const LENGTH: f64 = 3.0 * 3600.0;

/// xorshift64* (Vigna 2016), seeded: the same histories on every machine.
struct Dice(u64);

impl Dice {
    fn new(kind: u64, history: u64) -> Self {
        let mut d = Dice((kind << 32 | history).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            d.unit();
        }
        d
    }

    /// Uniform in [0, 1).
    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn between(&mut self, from: f64, to: f64) -> f64 {
        from + (to - from) * self.unit()
    }

    fn whole(&mut self, from: usize, to: usize) -> usize {
        self.between(from as f64, to as f64 + 1.0) as usize
    }

    /// Anywhere in the history.
    fn anywhere(&mut self) -> f64 {
        self.between(0.0, LENGTH - 1.0)
    }

    /// `n` moments, each in one of the bursts that begin at `begins` and last `length` seconds.
    fn bursty(&mut self, n: usize, begins: &[f64], length: f64) -> Vec<f64> {
        let mut one = || {
            let i = self.whole(0, begins.len() - 1);
            begins[i] + self.between(0.0, length)
        };
        (0..n).map(|_| one()).collect()
    }

    fn bursts(&mut self, n: usize, length: f64) -> Vec<f64> {
        (0..n).map(|_| self.between(0.0, LENGTH - length - 1.0)).collect()
    }
}

fn moments(mut seconds: Vec<f64>) -> Vec<Timestamp> {
    seconds.sort_by(f64::total_cmp);
    seconds.into_iter().map(|s| Timestamp((s * 1e9) as i64)).collect()
}

fn party(name: String, onsets: Vec<f64>, deaths: Vec<f64>) -> Party {
    let observed = Windows::from_spans([Span::new(Timestamp(0), Timestamp((LENGTH * 1e9) as i64))]);
    let deaths = moments(deaths).into_iter().map(|t| (t, false)).collect();
    Party { name, service: None, observed, onsets: moments(onsets), deaths }
}

fn verdicts(victim: Vec<f64>, suspects: Vec<Vec<f64>>) -> Vec<(String, Verdict)> {
    let mut parties = vec![party("victim".into(), victim, Vec::new())];
    parties.extend(suspects.into_iter().enumerate().map(|(i, d)| party(format!("s{i}"), Vec::new(), d)));
    let (told, more) = links("h", &parties);
    assert_eq!((told.len(), more), (SUSPECTS, 0));
    told.into_iter().map(|l| (l.suspect, l.verdict)).collect()
}

/// In how many of a thousand histories anything is called linked.
fn false_alarms(kind: u64, history: impl Fn(&mut Dice) -> (Vec<f64>, Vec<Vec<f64>>)) -> (u64, u64) {
    let (mut linked, mut together) = (0, 0);
    for h in 0..HISTORIES {
        let (victim, suspects) = history(&mut Dice::new(kind, h));
        let told = verdicts(victim, suspects);
        linked += u64::from(told.iter().any(|(_, v)| *v == Verdict::Linked));
        together += u64::from(told.iter().any(|(_, v)| *v == Verdict::Together));
    }
    (linked, together)
}

fn check(what: &str, (linked, together): (u64, u64), most: u64) {
    println!(
        "{what}: {linked} of {HISTORIES} histories hold a false link ({together} a common cause); at most {most} may"
    );
    assert!(linked <= most, "{what}: {linked} of {HISTORIES}");
}

#[test]
fn independent_deaths_are_not_linked() {
    let told = false_alarms(1, |d| {
        let n = d.whole(6, 48);
        let victim = (0..n).map(|_| d.anywhere()).collect();
        let suspects = (0..SUSPECTS).map(|_| {
            let m = d.whole(3, 60);
            (0..m).map(|_| d.anywhere()).collect()
        });
        (victim, suspects.collect())
    });
    check("independent", told, 5);
}

#[test]
fn bursts_of_ones_own_are_not_linked() {
    let told = false_alarms(2, |d| {
        let mut one = |from: usize, to: usize| {
            let (n, count, length) = (d.whole(from, to), d.whole(2, 12), d.between(30.0, 300.0));
            let begins = d.bursts(count, length);
            d.bursty(n, &begins, length)
        };
        (one(6, 48), (0..SUSPECTS).map(|_| one(3, 60)).collect())
    });
    check("bursty, each by itself", told, 5);
}

/// Eight bursts an hour that all subjects share; four of five deaths fall into them and the rest anywhere. The fewer the bursts and the
/// more deaths in each, the less the jitter of 60 s can tell: with half as many bursts and up to 60 deaths a subject, 12 histories
/// of a thousand hold a false link where bursts last 90 s, and 400 where they last 30 s.
fn shared(kind: u64, length: f64) -> (u64, u64) {
    false_alarms(kind, |d| {
        let begins = d.bursts(24, length);
        let mut one = |from: usize, to: usize| {
            let n = d.whole(from, to);
            let outside = (0..n).filter(|_| d.unit() < 0.2).count();
            let mut all = d.bursty(n - outside, &begins, length);
            all.extend((0..outside).map(|_| d.anywhere()));
            all
        };
        (one(6, 30), (0..SUSPECTS).map(|_| one(3, 40)).collect())
    })
}

#[test]
fn bursts_that_all_share_are_seldom_called_links() {
    check("all sharing bursts of 90 s", shared(3, 90.0), 20);
    check("all sharing bursts of 30 s", shared(4, 30.0), 130);
}

/// Of a thousand histories with one true suspect, in how many it is found: `follow` of `restarts` come shortly after a kill of it.
fn found(kind: u64, restarts: usize, follow: usize) -> u64 {
    (0..HISTORIES)
        .filter(|h| {
            let mut d = Dice::new(kind, *h);
            let m = d.whole(20, 60);
            let kills: Vec<f64> = (0..m).map(|_| d.anywhere()).collect();
            let mut victim: Vec<f64> = kills[..follow].iter().map(|k| k + d.between(0.3, 2.5)).collect();
            victim.extend((follow..restarts).map(|_| d.anywhere()));
            let mut suspects = vec![kills];
            suspects.extend((1..SUSPECTS).map(|_| {
                let m = d.whole(3, 60);
                (0..m).map(|_| d.anywhere()).collect()
            }));
            verdicts(victim, suspects).contains(&("s0".into(), Verdict::Linked))
        })
        .count() as u64
}

#[test]
fn true_links_are_found() {
    for (kind, restarts, follow) in [(5, 6, 5), (6, 20, 7)] {
        let n = found(kind, restarts, follow);
        println!(
            "{follow} of {restarts} restarts truly follow: found in {n} of {HISTORIES} histories; at least 950 must be"
        );
        assert!(n >= 950, "{follow} of {restarts}: {n}");
    }
}
