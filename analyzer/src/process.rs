//! One subject's figures within one query: which times down count, what they add up to, and each as an episode with its
//! evidence.

use std::collections::BTreeMap;

use linchpin_data::{Span, Timestamp, Windows};

use crate::cause::{Case, Notes, Verdict, judge};
use crate::ceiling::{interval, quantile};
use crate::episode::{Down, Ended};
use crate::fact::{Exit, Fact, Kill, What};
use crate::kills::Kills;
use crate::report::{Death, Episode, Objective, Process, Recovery, Trend};
use crate::subject::Subject;
use crate::timeline::Timeline;
use crate::view::View;
use crate::{budget, rate, sentence, trend};

/// How many parts a sparkline has.
const BINS: usize = 60;

/// One subject within one query.
pub struct Subjected<'a> {
    view: &'a View,
    name: &'a str,
    subject: &'a Subject,
    objective: Objective,
    kills: Kills,
    /// When it was expected and watched, as far back as anything is known.
    known: Windows,
    /// That within the window.
    observed: Windows,
    downs: Vec<Judged<'a>>,
}

/// One restart as it was judged.
pub struct Restart<'a> {
    /// When its main process ended, on the axis.
    pub at: Timestamp,
    /// The exit.
    pub fact: &'a Fact,
    /// How it ended.
    pub exit: &'a Exit,
    /// Its cause.
    pub cause: &'static str,
    /// Whether an operator asked for it.
    pub by_operator: bool,
    /// Whether it counts against the budget.
    pub counted: bool,
}

/// One time down, judged.
struct Judged<'a> {
    index: usize,
    down: &'a Down,
    span: Span,
    verdict: Verdict,
    /// Whether its kind counts at all (an operator's may not).
    charged: bool,
    /// Whether it began in observed time within the window.
    counted: bool,
}

impl Judged<'_> {
    fn restart(&self) -> bool {
        self.down.exit.is_some()
    }
}

impl<'a> Subjected<'a> {
    /// Judges every time down of a subject.
    #[must_use]
    pub fn new(view: &'a View, name: &'a str, subject: &'a Subject, objective: Objective) -> Self {
        let known = known(view, name, subject);
        let observed = known.clip(view.window);
        let kills = Kills::of(subject);
        let mut downs = Vec::with_capacity(subject.episodes().downs().len());
        for (index, down) in subject.episodes().downs().iter().enumerate() {
            let from = subject.axis(down.began);
            if from > view.end {
                break;
            }
            let to = down.end.map_or(view.end, |(i, _)| subject.axis(i)).min(view.end);
            let verdict = judge(Case { view, name, subject, kills: &kills, index, down }, &mut Notes::none());
            let at = subject.axis(down.exit.unwrap_or(down.began));
            downs.push(Judged {
                index,
                down,
                span: Span::new(from, to),
                charged: !verdict.by_operator || objective.operator_counts,
                counted: view.seen(&observed, at),
                verdict,
            });
        }
        Subjected { view, name, subject, objective, kills, known, observed, downs }
    }

    /// Whether the window has anything to say of it: it was expected in it, or something of it happened.
    #[must_use]
    pub fn concerns(&self) -> bool {
        let w = self.view.window;
        self.subject.episodes().expected().iter().any(|e| {
            let to = e.to.map_or(Timestamp::MAX, |i| self.subject.axis(i));
            self.subject.axis(e.from) <= w.to && to >= w.from
        }) || self.kills_within().next().is_some()
    }

    /// Downtime of some of its times down, within what is known.
    fn down(&self, which: impl Fn(&Judged<'_>) -> bool) -> Windows {
        Windows::from_spans(self.downs.iter().filter(|d| which(d)).map(|d| d.span)).and(&self.known)
    }

    /// Its figures.
    #[must_use]
    pub fn process(&self, host: &str, timeline: &Timeline) -> Process {
        let window = self.view.window;
        let observed_seconds = self.observed.seconds();
        let charged = self.down(|d| d.charged);
        let downtime = charged.clip(window).seconds();
        let all = self.down(|_| true).clip(window).seconds();
        let operator = self.down(|d| d.verdict.by_operator).clip(window).seconds();
        let restarts = self.count(|d| d.restart() && d.charged);
        let per_hour = rate::per_hour(restarts, observed_seconds);
        let ceiling = (observed_seconds > 0.0).then(|| 1.0 - downtime / observed_seconds);
        let latest = self.subject.latest();
        let mut shown = self.downs.iter().filter(|d| self.shown(d));
        Process {
            subject: self.name.into(),
            host: host.into(),
            service: latest.service,
            image: latest.image,
            restarts,
            operator_restarts: self.count(|d| d.restart() && d.verdict.by_operator),
            outages: self.count(|d| self.outage(d.down) && d.charged),
            restarts_per_hour: per_hour.map(|r| r.0),
            restarts_per_hour_ci: per_hour.map(|r| r.1),
            downtime_seconds: downtime,
            downtime_lower_bound: shown.clone().any(|d| d.charged && lower_bound(d.down)),
            operator_downtime_seconds: operator,
            up_seconds: (observed_seconds - all).max(0.0),
            unknown_seconds: (window.seconds() - observed_seconds).max(0.0),
            observed_seconds,
            ceiling,
            ceiling_ci: ceiling
                .map(|c| interval(c, self.subject.downtime_quantiles(&self.lengths()), observed_seconds)),
            recovery_seconds: self.recovery(),
            budget: budget::budget(self.objective, &self.known, &charged, window),
            hostnames: latest.hostnames,
            causes: self.causes(),
            oom_kills: self.kills_within().map(|w| w.count).sum(),
            last_down_at: shown
                .next_back()
                .and_then(|d| self.subject.fact(d.down.began))
                .map(|f| f.moment.at),
            state: self.state().into(),
            runtime_restart_count: latest.restart_count,
            restarts_missed: self.missed(),
            trend: self.trend(),
            sparkline: self.sparkline(),
            memory: self.subject.samples.last(timeline).map(|mut m| {
                m.limit_bytes = m.limit_bytes.or(latest.memory_limit);
                m
            }),
        }
    }

    /// When its restarts could be seen, within the window.
    #[must_use]
    pub fn observed(&self) -> &Windows {
        &self.observed
    }

    /// When its restarts began, in observed time, sorted; those that an operator asked for left out.
    #[must_use]
    pub fn onsets(&self) -> Vec<Timestamp> {
        let own = self.downs.iter().filter(|d| d.counted && !d.verdict.by_operator);
        own.filter_map(|d| d.down.exit).map(|i| self.subject.axis(i)).collect()
    }

    /// Every death in the window, sorted, and whether an operator asked for it: exits, at the earlier of exit and kernel kill, and
    /// kills that ended no container.
    #[must_use]
    pub fn deaths(&self) -> Vec<(Timestamp, bool)> {
        let exits = self.downs.iter().filter_map(|d| {
            let exit = self.subject.axis(d.down.exit?);
            let kill = self.kills.of_down(d.index).map(|k| self.subject.axis(k.fact)).min();
            Some((kill.map_or(exit, |k| k.min(exit)), d.verdict.by_operator))
        });
        let children = self.kills.witnesses.iter().filter(|k| k.down.is_none() && k.count > 0);
        let children = children.map(|k| (self.subject.axis(k.fact), false));
        let mut all: Vec<_> = exits.chain(children).filter(|(t, _)| self.view.inside(*t)).collect();
        all.sort_unstable();
        all
    }

    /// Its restarts in observed time, in order, an operator's included.
    pub fn restarts(&self) -> impl Iterator<Item = Restart<'_>> {
        self.downs.iter().filter(|d| d.counted).filter_map(|d| {
            let fact = self.subject.fact(d.down.exit?)?;
            let What::Exited(exit) = &fact.what else { return None };
            Some(Restart {
                at: fact.axis,
                fact,
                exit,
                cause: d.verdict.cause,
                by_operator: d.verdict.by_operator,
                counted: d.charged,
            })
        })
    }

    fn count(&self, which: impl Fn(&Judged<'_>) -> bool) -> u64 {
        self.downs.iter().filter(|d| d.counted && which(d)).count() as u64
    }

    /// Whether a time down touches the window.
    fn shown(&self, d: &Judged<'_>) -> bool {
        let w = self.view.window;
        d.span.from <= w.to && d.span.to >= w.from
    }

    /// Whether it lived all the while.
    fn outage(&self, down: &Down) -> bool {
        let began = self.subject.fact(down.began);
        down.exit.is_none() && began.is_some_and(|f| matches!(f.what, What::Unready { .. }))
    }

    /// The observed lengths of what counts, in seconds.
    fn lengths(&self) -> Vec<f64> {
        let charged = self.downs.iter().filter(|d| d.charged && self.shown(d));
        charged.map(|d| self.observed.clip(d.span).seconds()).filter(|s| *s > 0.0).collect()
    }

    fn recovery(&self) -> Option<Recovery> {
        let closed = |d: &&Judged<'_>| {
            d.counted
                && d.charged
                && d.restart()
                && matches!(d.down.end, Some((i, Ended::Ready | Ended::Started)) if self.subject.axis(i) <= self.view.window.to)
                // With unobserved time inside, its length is nobody's measurement.
                && self.known.gaps(d.span).is_empty()
        };
        let (mut seconds, mut lower_bounds, mut resolution) = (Vec::new(), 0, None::<u64>);
        for d in self.downs.iter().filter(closed) {
            seconds.push(d.span.seconds());
            lower_bounds += u64::from(lower_bound(d.down));
            resolution = resolution.max(self.resolution(d.down));
        }
        seconds.sort_unstable_by(f64::total_cmp);
        Some(Recovery {
            max: *seconds.last()?,
            mean: seconds.iter().sum::<f64>() / seconds.len() as f64,
            median: quantile(&seconds, 0.5),
            p95: quantile(&seconds, 0.95),
            episodes: seconds.len() as u64,
            lower_bounds,
            resolution_ms: resolution.map(|us| us as f64 / 1000.0),
        })
    }

    /// How finely a length is known, in microseconds: its begin and its end add up.
    fn resolution(&self, down: &Down) -> Option<u64> {
        let of = |i: usize| match &self.subject.fact(i)?.what {
            What::Exited(e) => e.resolution_us,
            What::Ready { resolution_us, .. } | What::Unready { resolution_us, .. } => *resolution_us,
            _ => None,
        };
        let (a, b) = (of(down.began), down.end.and_then(|(i, _)| of(i)));
        if a.is_none() && b.is_none() { None } else { Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))) }
    }

    fn causes(&self) -> BTreeMap<String, u64> {
        let mut causes = BTreeMap::new();
        for d in self.downs.iter().filter(|d| d.counted) {
            *causes.entry(d.verdict.cause.to_string()).or_insert(0) += 1;
        }
        causes
    }

    fn within(&self, fact: usize) -> bool {
        let (at, w) = (self.subject.axis(fact), self.view.window);
        w.contains(at) || (self.view.closed && at == self.view.end.min(w.to))
    }

    fn kills_within(&self) -> impl Iterator<Item = &crate::kills::Counted> {
        self.kills.witnesses.iter().filter(|w| self.within(w.fact))
    }

    fn missed(&self) -> u64 {
        let facts = self.subject.facts().iter().enumerate();
        let counts = facts.filter(|(i, _)| self.within(*i)).map(|(_, f)| match f.what {
            What::Missed { count } => count,
            _ => 0,
        });
        counts.fold(0, u64::saturating_add)
    }

    fn state(&self) -> &'static str {
        let to = self.view.window.to;
        let expected = self.subject.episodes().expected();
        let Some(e) = expected.iter().rev().find(|e| self.subject.axis(e.from) <= to) else {
            return "unknown";
        };
        if e.to.is_some_and(|i| self.subject.axis(i) <= to) {
            return "gone";
        }
        let watching = self.view.watch(self.name).is_some_and(|w| {
            let i = w.windows.spans().partition_point(|s| s.to < to);
            w.windows.spans().get(i).is_some_and(|s| s.from <= to)
        });
        if !watching {
            return "unknown";
        }
        match self.downs.iter().rev().find(|d| d.span.from <= to) {
            Some(d) if d.down.end.is_none_or(|(i, _)| self.subject.axis(i) > to) => {
                if d.verdict.by_operator {
                    "stopped"
                } else {
                    "down"
                }
            }
            _ => "up",
        }
    }

    fn trend(&self) -> Option<Trend> {
        let own = self.downs.iter().filter(|d| d.counted && d.charged && d.restart());
        let onsets = own.map(|d| (self.subject.axis(d.down.exit.unwrap_or(d.down.began)), 1));
        trend::hourly(self.view.window, &self.observed, onsets)
    }

    /// Kernel OOM kills within the window: when, how many, and whether the machine had run out rather than its own cgroup.
    pub fn oom_kills(&self) -> impl Iterator<Item = (Timestamp, u64, &Kill)> {
        self.kills_within().filter(|k| k.count > 0).filter_map(|k| match &self.subject.fact(k.fact)?.what {
            What::Oom(kill) => Some((self.subject.axis(k.fact), k.count, &**kill)),
            _ => None,
        })
    }

    fn sparkline(&self) -> Vec<Option<u32>> {
        let w = self.view.window;
        let total = w.ns();
        let edge = |i: usize| w.from.plus_ns((total * i as i128 / BINS as i128) as i64);
        let mut bins: Vec<Option<u32>> = (0..BINS)
            .map(|i| (!self.observed.clip(Span::new(edge(i), edge(i + 1))).is_empty()).then_some(0))
            .collect();
        if total == 0 {
            return bins;
        }
        let exits = self.downs.iter().filter(|d| d.counted && d.restart()).filter_map(|d| d.down.exit);
        let children = self.kills_within().filter(|k| k.down.is_none()).map(|k| (k.fact, k.count));
        for (fact, n) in exits.map(|i| (i, 1)).chain(children) {
            let into = Span::new(w.from, self.subject.axis(fact)).ns() * BINS as i128 / total;
            if let Some(Some(bin)) = bins.get_mut((into as usize).min(BINS - 1)) {
                *bin = bin.saturating_add(u32::try_from(n).unwrap_or(u32::MAX));
            }
        }
        bins
    }

    /// Its times down that touch the window, newest first, with their evidence.
    #[must_use]
    pub fn episodes(&self) -> Vec<Episode> {
        self.downs.iter().rev().filter(|d| self.shown(d)).filter_map(|d| self.episode(d)).collect()
    }

    fn episode(&self, d: &Judged<'_>) -> Option<Episode> {
        let (view, subject, down) = (self.view, self.subject, d.down);
        let began = subject.fact(down.began)?;
        let mut notes = Notes::taken();
        judge(Case { view, name: self.name, subject, kills: &self.kills, index: d.index, down }, &mut notes);
        let exit = down.exit.and_then(|i| match &subject.fact(i)?.what {
            What::Exited(e) => Some(e),
            _ => None,
        });
        let end = down.end.filter(|(i, _)| subject.axis(*i) <= view.window.to.max(d.span.from));
        let to = if end.is_some() { d.span.to } else { d.span.to.min(view.window.to) };
        let recovered = end.filter(|(_, how)| matches!(how, Ended::Ready | Ended::Started));
        Some(Episode {
            id: began.id(),
            sort: if self.outage(down) { "outage" } else { "restart" }.into(),
            down_at: began.moment.at,
            ready_at: recovered.and_then(|(i, _)| subject.fact(i)).map(|f| f.moment.at),
            seconds: Span::new(d.span.from, to).seconds(),
            lower_bound: end.is_some() && lower_bound(down),
            open: end.is_none(),
            resolution_ms: self.resolution(down).map(|us| us as f64 / 1000.0),
            cause: d.verdict.cause.into(),
            by_operator: d.verdict.by_operator,
            counted: d.counted && d.charged,
            exit_code: exit.and_then(|e| e.code),
            signal: exit.and_then(|e| e.signal.or_else(|| sentence::signal_of_code(e.code))),
            evidence: notes.finish(),
        })
    }

    /// Kills within the window that ended nothing, newest first.
    #[must_use]
    pub fn other_deaths(&self) -> Vec<Death> {
        let ended_nothing = |k: &&crate::kills::Counted| k.down.is_none() && k.count > 0;
        let mut all: Vec<Death> = self
            .kills_within()
            .filter(ended_nothing)
            .filter_map(|k| {
                let f = self.subject.fact(k.fact)?;
                let What::Oom(kill) = &f.what else { return None };
                Some(Death { id: f.id(), at: f.moment.at, text: sentence::kill(kill) })
            })
            .collect();
        all.reverse();
        all
    }

    /// Its times down within the window on the time axis, for lanes.
    #[must_use]
    pub fn lane(&self) -> Vec<(Timestamp, Timestamp, String)> {
        let w = self.view.window;
        let shown = self.downs.iter().filter(|d| self.shown(d));
        shown
            .map(|d| {
                let (from, to) = (d.span.from.max(w.from), d.span.to.min(w.to));
                (self.view.wall(from), self.view.wall(to), d.verdict.cause.to_string())
            })
            .collect()
    }
}

fn lower_bound(down: &Down) -> bool {
    matches!(down.end, Some((_, Ended::Started)))
}

/// When a subject was both expected and watched.
fn known(view: &View, name: &str, subject: &Subject) -> Windows {
    let Some(watch) = view.watch(name) else { return Windows::new() };
    let expected = subject.episodes().expected().iter().map(|e| {
        let from = view.begin(subject.axis(e.from), &watch.windows);
        Span::new(from, e.to.map_or(view.end, |i| subject.axis(i)).min(view.end))
    });
    Windows::from_spans(expected).and(&watch.windows)
}
