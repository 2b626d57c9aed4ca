//! What inspect answers about a container becomes its start's details, its description and the roster's entry. Pure.

use std::sync::Arc;

use linchpin_data::Timestamp;
use linchpin_data::clock::Stamp;

use super::inspect::{Facts, differ};
use super::tracker::{Out, Told, Tracked, Tracker, Why, stamp_of};
use crate::roster::{Change, Container};
use crate::witness::Exits;

/// How long the making of a container may take, in nanoseconds.
const MAKING_NS: i64 = 60_000_000_000;

impl Tracker {
    /// Takes in what inspect says of a container; none where it is not there any more or could not be asked.
    pub fn inspected(&mut self, id: &Arc<str>, why: Why, facts: Option<Facts>, now: Stamp, exits: &Exits) {
        if matches!(why, Why::Started(_)) {
            self.settle_before_start(id, now, exits);
        }
        if let Why::Ended(at) = why {
            if let Some(p) = self.by_id.get_mut(id).and_then(|t| t.pending.as_mut()) {
                p.finished(at, facts.and_then(|f| f.finished_at));
            }
            self.settle(now, exits);
            return;
        }
        let Some(facts) = facts else {
            if let Why::Started(at) = why
                && self.by_id.get(id).is_some_and(|t| t.run_at == Some(at))
            {
                self.put_started(id, false);
                self.tell_start(id, now);
            }
            return;
        };
        let t = self
            .by_id
            .entry(id.clone())
            .or_insert_with(|| Tracked::new(facts.identity.clone(), facts.name.clone(), now.at));
        if t.gone.is_some() {
            return;
        }
        t.name.clone_from(&facts.name);
        let of_run = facts.running && t.running && t.pending.is_none();
        let had_pid = t.pid;
        let mut missed = None;
        // A run that began after the one that was told is not this one: its own start is still to come.
        if of_run && t.run_at.is_none_or(|at| facts.started_at.is_none_or(|s| s <= at)) {
            t.pid = facts.pid;
            t.run_started_at = facts.started_at;
            t.health = t.health.or(facts.health);
            let since = t.exit_at.unwrap_or(t.last_known);
            missed = Some((t.count(facts.restart_count), since)).filter(|(count, _)| *count > 0);
        }
        let old = std::mem::replace(&mut t.identity, facts.identity.clone());
        let (renamed, was_told) = (old.subject != facts.identity.subject, t.told.is_some());
        t.facts = Some(facts);
        if renamed && was_told {
            t.told = None;
            if !self.another(id, &old.subject, false) {
                self.tell_removed(&old.subject, id, now);
            }
        }
        if let Some((count, since)) = missed {
            self.tell_missed(id, count, since, now);
        }
        let Some(t) = self.by_id.get(id) else { return };
        if let Why::Started(at) = why
            && t.run_at == Some(at)
        {
            let known = had_pid.is_some() && had_pid == t.pid;
            if t.running {
                self.put_started(id, known);
            }
            self.tell_start(id, now);
        } else {
            self.outs.push(Out::Roster(Box::new(t.container(id)), Change::Described));
        }
        self.describe(id, now, false);
    }

    fn put_started(&mut self, id: &Arc<str>, already: bool) {
        if let Some(t) = self.by_id.get(id) {
            let change: fn(Container) -> Change = if already { Change::Described } else { Change::Started };
            self.outs.push(Out::Roster(Box::new(t.container(id)), change));
        }
    }

    /// Tells the facts, if they differ from what was told, or in any case. While another container of the same subject
    /// runs, one that does not run has no say: a re-creation makes the new one first.
    pub(super) fn describe(&mut self, id: &Arc<str>, now: Stamp, in_any_case: bool) {
        let Some(t) = self.by_id.get(id) else { return };
        let Some(facts) = &t.facts else { return };
        let mut described = facts.described();
        described.running = Some(t.running);
        described.pid = t.pid.filter(|_| t.running).map(u64::from);
        let news = t.told.as_ref().is_none_or(|told| differ(told, &described));
        if !(news || in_any_case) || (!t.running && self.another(id, &t.identity.subject, true)) {
            return;
        }
        let subject = t.identity.subject.clone();
        // A container that never ran is described as of its making: its start may be told later than this answer and with
        // an earlier time, and must not look like an end in between.
        let fresh = |made: &Timestamp| (0..MAKING_NS).contains(&now.at.0.saturating_sub(made.0));
        let made = facts.created_at.filter(|_| !t.running && t.run_at.is_none()).filter(fresh);
        // Nor while another of its subject still ran.
        let others = self.by_id.iter().filter(|(o, other)| *o != id && other.identity.subject == subject);
        let before = others.filter_map(|(_, other)| other.exit_at).max().map(|exit| exit.plus_ns(1));
        let stamp = made.map_or(now, |made| stamp_of(before.map_or(made, |b| b.max(made)), now));
        if let Some(t) = self.by_id.get_mut(id) {
            t.told = Some(described.clone());
        }
        self.outs.push(Out::Tell(Told { stamp, after: None, subject, fact: described.into() }));
    }
}
