//! The why of one host within one query: its subjects judged once, the links between them, and what rests on both. It gathers;
//! each part is reached in a module of its own.

use std::sync::Arc;

use crate::chain::chains;
use crate::differential::{Around, differential};
use crate::host::Host;
use crate::link::histogram::histograms;
use crate::link::pairs::{self, Link, Party};
use crate::pressure;
use crate::process::Subjected;
use crate::report::diagnosis::{
    Chain, Change, Differential, DrillResult, FailingName, HostPressure, LagHistogram, Proof, SubjectPressure,
};
use crate::report::{Objective, Process};
use crate::view::View;
use crate::{change, drills, proof};

/// One host's subjects within one query, each judged.
pub struct Inquiry<'a> {
    name: &'a str,
    host: &'a Host,
    view: &'a View,
    /// Those that the window has anything to say of, by name.
    subjects: Vec<(&'a Arc<str>, Subjected<'a>)>,
    parties: Vec<Party>,
}

/// What the report says of why, of one host or of several.
#[derive(Debug, Default)]
pub struct Why {
    /// Links, strongest first.
    pub links: Vec<Link>,
    /// Pairs beyond those told.
    pub links_untold: u64,
    /// Chains, strongest first.
    pub chains: Vec<Chain>,
    /// Failing names, by client.
    pub names: Vec<FailingName>,
    /// Usual suspects, by subject.
    pub differentials: Vec<Differential>,
    /// Hosts under pressure.
    pub host_pressure: Vec<HostPressure>,
    /// Subjects under pressure.
    pub subject_pressure: Vec<SubjectPressure>,
    /// Changes, oldest first.
    pub changes: Vec<Change>,
    /// What they proved.
    pub proofs: Vec<Proof>,
    /// Drills, oldest first.
    pub drills: Vec<DrillResult>,
}

impl<'a> Inquiry<'a> {
    /// Judges every subject of a host.
    #[must_use]
    pub fn new(name: &'a str, host: &'a Host, view: &'a View, objective: Objective) -> Self {
        let processes = host.subjects.iter().filter(|(_, s)| s.is_process());
        let judged = processes.map(|(subject, s)| (subject, Subjected::new(view, subject, s, objective)));
        let subjects: Vec<_> = judged.filter(|(_, s)| s.concerns()).collect();
        let parties = subjects.iter().map(|(subject, s)| party(host, subject, s)).collect();
        Inquiry { name, host, view, subjects, parties }
    }

    /// Each subject's figures, by name.
    pub fn processes(&self) -> impl Iterator<Item = Process> {
        self.subjects.iter().map(|(_, s)| s.process(self.name, &self.host.timeline))
    }

    /// The whole why of the host.
    #[must_use]
    pub fn why(&self) -> Why {
        let (links, links_untold) = pairs::links(self.name, &self.parties);
        let mut why = Why { links, links_untold, ..Why::default() };
        let kernel = pressure::kernel_watched(self.view);
        why.host_pressure.extend(pressure::host(self.name, self.host, self.view, &self.subjects, &kernel));
        let subjects = self.subjects.iter();
        why.subject_pressure.extend(subjects.filter_map(|(subject, s)| {
            pressure::subject((self.name, subject), self.host.subjects.get(*subject)?, s, self.view, &kernel)
        }));
        for (client, names) in &self.host.names {
            why.names.extend(names.told(client, self.name, self.view, &self.host.timeline));
        }
        for (victim, (subject, judged)) in self.parties.iter().zip(&self.subjects) {
            let Some(facts) = self.host.subjects.get(*subject) else { continue };
            // Without a restart there is nothing to explain.
            let names = self.host.names.get(*subject).filter(|_| judged.restarts().next().is_some());
            let failures = names.map(|n| n.failures(self.view, &self.host.timeline));
            if let Some(failures) = failures.as_deref().filter(|_| !victim.onsets.is_empty()) {
                let host = (self.name, self.host);
                why.chains.extend(chains(host, victim, &self.parties, &why.links, failures));
            }
            let around =
                Around { links: &why.links, chains: &why.chains, failures, pressure: &why.subject_pressure };
            why.differentials.extend(differential((self.name, subject), self.view, facts, judged, around));
        }
        let changes = change::changes(self.name, self.host, self.view);
        why.proofs = proof::proofs(self.name, self.view, &self.parties, &why.links, &changes);
        why.changes = changes.into_iter().map(|(_, c)| c).collect();
        why.drills = drills::drills(self.name, self.host, self.view);
        why
    }

    /// When deaths came around a subject's restarts, for those of its links that are worth a picture.
    #[must_use]
    pub fn lag_histograms(&self, subject: &str, links: &[Link]) -> Vec<LagHistogram> {
        let victim = self.parties.iter().find(|p| p.name == subject);
        victim.map_or_else(Vec::new, |v| histograms(v, &self.parties, links))
    }
}

fn party(host: &Host, subject: &Arc<str>, judged: &Subjected<'_>) -> Party {
    Party {
        name: subject.to_string(),
        service: host.subjects.get(subject).and_then(|s| s.latest().service),
        observed: judged.observed().clone(),
        onsets: judged.onsets(),
        deaths: judged.deaths(),
    }
}

impl Why {
    /// Takes another host's in.
    pub fn merge(&mut self, other: Why) {
        self.links.extend(other.links);
        self.links_untold += other.links_untold;
        self.chains.extend(other.chains);
        self.names.extend(other.names);
        self.differentials.extend(other.differentials);
        self.host_pressure.extend(other.host_pressure);
        self.subject_pressure.extend(other.subject_pressure);
        self.changes.extend(other.changes);
        self.proofs.extend(other.proofs);
        self.drills.extend(other.drills);
    }
}
