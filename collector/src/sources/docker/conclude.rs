//! What inspect proves after time in which nobody watched: exits, starts and restarts that were not told, each counted
//! once. Pure; called when the replay of events is done and everything is inspected.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use linchpin_data::clock::Stamp;
use linchpin_data::event::{Exited, RestartsMissed};
use linchpin_data::{Fact, Timestamp};

use super::inspect::Facts;
use super::tracker::{Out, RUNTIME_RESOLUTION_MS, Told, Tracked, Tracker, stamp_of};
use crate::roster::Change;
use crate::witness::Exits;

impl Tracker {
    /// Compares what is known with what inspect says of all containers there are, and tells what must have happened in
    /// between. `listed` are the ids that the runtime listed, `inspected` what it said of each and when it was asked, `at` the moment at which the list was asked for.
    pub fn conclude(
        &mut self,
        listed: &HashSet<Arc<str>>,
        inspected: &HashMap<Arc<str>, (Facts, Stamp)>,
        at: Stamp,
        exits: &Exits,
    ) {
        let before: HashSet<Arc<str>> = self.by_id.keys().cloned().collect();
        let mut ids: Vec<_> = inspected.iter().collect();
        // The speaker of a subject last: what is told last of it stands.
        ids.sort_by_key(|(_, (f, _))| (f.running, f.started_at));
        for (id, (facts, asked)) in &ids {
            // An event that came after the question knows more than the answer.
            if self.by_id.get(*id).is_some_and(|t| t.turned_at.is_some_and(|turned| turned >= asked.at)) {
                continue;
            }
            let at = *asked;
            if before.contains(*id) {
                self.conclude_known(id, facts, at, exits);
            } else {
                self.conclude_new(id, facts, at);
            }
        }
        self.conclude_gone(listed, at);
        for (id, _) in ids {
            self.describe(id, at, false);
        }
    }

    /// A container that nobody had told of. Another one under its subject means a re-creation that was not seen.
    fn conclude_new(&mut self, id: &Arc<str>, facts: &Facts, at: Stamp) {
        let subject = facts.identity.subject.clone();
        let old = self.by_id.iter().find(|(other, t)| {
            *other != id && t.identity.subject == subject && t.facts.is_none() && t.gone.is_none()
        });
        if let Some((old_id, old)) = old.map(|(i, t)| (i.clone(), t.clone()))
            && facts.running
        {
            self.adopt(id, facts, at);
            // Its own restarts count, and its first start where the old one had still run.
            let count = facts.restart_count.unwrap_or(0) + u64::from(old.running);
            if count > 0 {
                self.tell_missed(id, count, old.last_known, at);
            }
            self.by_id.remove(&old_id);
            return;
        }
        self.adopt(id, facts, at);
    }

    fn adopt(&mut self, id: &Arc<str>, facts: &Facts, at: Stamp) {
        let t = self
            .by_id
            .entry(id.clone())
            .or_insert_with(|| Tracked::new(facts.identity.clone(), facts.name.clone(), at.at));
        t.identity = facts.identity.clone();
        t.name.clone_from(&facts.name);
        t.facts = Some(facts.clone());
        if t.gone.is_some() || t.start_untold || t.pending.is_some() {
            return;
        }
        t.running = facts.running;
        t.pid = facts.pid;
        t.count(facts.restart_count);
        t.run_started_at = facts.started_at;
        t.run_at = t.run_at.max(facts.started_at);
        if !facts.running {
            t.exit_at = t.exit_at.max(facts.finished_at);
        }
        t.health = facts.health;
        t.last_known = at.at;
        let entry = t.container(id);
        self.outs.push(Out::Roster(Box::new(entry), Change::Described));
    }

    fn conclude_known(&mut self, id: &Arc<str>, facts: &Facts, at: Stamp, exits: &Exits) {
        let Some(t) = self.by_id.get(id).cloned() else { return };
        if t.gone.is_some() || t.start_untold || t.pending.is_some() {
            return;
        }
        let started = facts.started_at;
        // The same run, if its very StartedAt is known; else one that began after the last word on the present run is new.
        let new_run = match (t.run_started_at, started) {
            (Some(known), Some(s)) => s != known && t.run_at.is_none_or(|at| s > at || known > s),
            (None, Some(s)) => t.run_at.is_none_or(|at| s > at) && t.exit_at.is_none_or(|x| s > x),
            (_, None) => false,
        };
        let Some(known) = self.by_id.get_mut(id) else { return };
        known.facts = Some(facts.clone());
        let rise = known.count(facts.restart_count);
        // The exit that a container is waiting after is in the counter already, and is told as an exit.
        let ended = !facts.running && (t.running || new_run);
        let missed = rise.saturating_sub(u64::from(ended && facts.restarting));
        // Its run ended and it ran again: once at least, whatever the counter says (an operator's start takes it to 0).
        let missed = if t.running && new_run { missed.max(1) } else { missed };
        if missed > 0 {
            self.tell_missed(id, missed, t.last_known, at);
        }
        // The exit was told and the start was not.
        if new_run && !t.running {
            self.tell_found_start(id, facts, at);
        }
        if ended {
            let run = t.pid.filter(|_| !new_run).map(|p| (p, t.run_at));
            self.tell_found_exit(id, facts, t.last_known, run, at, exits);
        }
        if (new_run || ended)
            && let Some(t) = self.by_id.get_mut(id)
        {
            t.oom = false;
            t.operator.started();
        }
        self.adopt(id, facts, at);
        if missed > 0 {
            self.describe(id, at, true);
        }
    }

    /// Tells that the runtime counts more restarts than are known of.
    pub(super) fn tell_missed(&mut self, id: &Arc<str>, count: u64, since: Timestamp, at: Stamp) {
        let Some(t) = self.by_id.get(id) else { return };
        let since = since.min(at.at);
        let fact = RestartsMissed {
            count: Some(count),
            since: Some(since),
            last_finished_at: t.facts.as_ref().and_then(|f| f.finished_at),
            last_started_at: t.facts.as_ref().and_then(|f| f.started_at),
        };
        let subject = t.identity.subject.clone();
        self.outs.push(Out::Tell(Told { stamp: at, after: Some(since), subject, fact: fact.into() }));
    }

    fn tell_found_start(&mut self, id: &Arc<str>, facts: &Facts, at: Stamp) {
        let Some(t) = self.by_id.get_mut(id) else { return };
        t.run_at = facts.started_at;
        t.run_started_at = facts.started_at;
        t.pid = facts.pid;
        t.running = facts.running;
        t.start_untold = true;
        self.tell_start(id, at);
    }

    /// An exit in time that nobody watched. Who asked for it is not known; the kernel may know the moment.
    fn tell_found_exit(
        &mut self,
        id: &Arc<str>,
        facts: &Facts,
        last_known: Timestamp,
        run: Option<(u32, Option<Timestamp>)>,
        at: Stamp,
        exits: &Exits,
    ) {
        let not_before = |run_at: Option<Timestamp>| {
            run_at.map_or(0, |r| stamp_of(r, at).boot_ns.saturating_sub(2_000_000_000))
        };
        let kernel = run.and_then(|(pid, run_at)| exits.get(pid, not_before(run_at)));
        let began = facts.started_at;
        let finished = facts.finished_at.filter(|f| *f <= at.at && began.is_none_or(|b| *f >= b));
        let (stamp, after, resolution) = match (kernel, finished) {
            (Some(k), _) => {
                let back = i128::from(k.boot_ns) - i128::from(at.boot_ns);
                let wall = at.at.plus_ns(i64::try_from(back).unwrap_or(0));
                (Stamp { at: wall, boot_ns: k.boot_ns }, None, 1.0)
            }
            (None, Some(f)) => (stamp_of(f, at), Some(last_known.min(f)), RUNTIME_RESOLUTION_MS),
            (None, None) => (at, Some(last_known), at.at.seconds_since(last_known).max(0.0) * 1000.0),
        };
        let signal = match kernel {
            Some(k) => k.signal.map(i64::from),
            None => facts.exit_code.filter(|c| (129..=192).contains(c)).map(|c| c - 128),
        };
        let fact: Fact = Exited {
            instance: Some(id.to_string()),
            exit_code: facts.exit_code,
            signal,
            oom_killed: Some(facts.oom_killed),
            by_operator: None,
            action: None,
            resolution_ms: Some(resolution),
            runtime_at: facts.finished_at,
        }
        .into();
        let subject = facts.identity.subject.clone();
        self.outs.push(Out::Tell(Told { stamp, after, subject, fact }));
        if let Some(t) = self.by_id.get_mut(id) {
            t.exit_at = t.exit_at.max(facts.finished_at).max(Some(stamp.at));
            t.running = false;
        }
        if let Some(t) = self.by_id.get(id) {
            let entry = t.container(id);
            self.outs.push(Out::Roster(Box::new(entry), Change::Exited));
        }
    }

    /// Containers that the runtime lists no more.
    fn conclude_gone(&mut self, listed: &HashSet<Arc<str>>, at: Stamp) {
        // One that came into being after the list is not gone: it was met by an event.
        let gone: Vec<Arc<str>> = self
            .by_id
            .iter()
            .filter(|(id, t)| {
                !listed.contains(*id) && t.gone.is_none() && t.pending.is_none() && t.last_known < at.at
            })
            .map(|(id, _)| id.clone())
            .collect();
        for id in gone {
            let Some(mut t) = self.by_id.remove(&id) else { continue };
            let subject = t.identity.subject.clone();
            t.running = false;
            t.gone = Some((at, 0));
            let entry = t.container(&id);
            self.outs.push(Out::Roster(Box::new(entry), Change::Removed));
            if !self.by_id.values().any(|t| t.identity.subject == subject && t.gone.is_none()) {
                self.tell_removed(&subject, &id, at);
            }
        }
    }
}
