//! What the lives of a pool's instances came to, and what follows from it.
//!
//! ```text
//!   report ─► served ────────► proven: lives that began before it say nothing any more
//!         └─► failed ─grace──► counted against the revision, or against its host alone
//!                  │                └─ three of them: the breaker opens
//!                  └─ a late proof takes the count back
//! ```
//!
//! Lives are compared by when they began. A life that serves, or is idle and healthy for
//! [`HEALTHY_AFTER`], refutes the failures of those that began before it and of no other: a warm
//! runner of yesterday does not prove that runners start today. A life that left with exit 0 waits
//! for the notice of a job before it counts, and so does one that told nothing; it holds its start
//! permit meanwhile, so that waiting costs no registration.
//!
//! After a failure that nothing refuted, lives that have proven nothing keep their start permits
//! also while they are idle: what cannot serve is not created faster than it fails.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::InstanceReport;
use super::breaker::Breaker;
use super::hosts::Hosts;
use crate::model::{
    Failure, HostName, Instance, InstanceId, LifeOutcome, Revision, State, Timestamp, after, is_due,
};
use crate::registry::PoolFailure;

/// How many failures that nothing refuted open the breaker.
const FAILURES_TO_OPEN: usize = 3;
/// How long an instance must be idle to prove that its kind can be.
const HEALTHY_AFTER: Duration = Duration::from_mins(10);
/// How long a proof may take that takes a failure back.
const LATE_PROOF: Duration = Duration::from_mins(30);
/// How many failed lives are remembered for that.
const MAX_FAILED_LIVES: usize = 1024;

/// Remembers what lives came to.
#[derive(Clone, Debug)]
pub(crate) struct Lives {
    revision: Revision,
    breaker: Breaker,
    hosts: Hosts,
    /// When each life got its start permit.
    began: BTreeMap<InstanceId, Timestamp>,
    /// Failed lives that a notice may still explain, and until when.
    pending: BTreeMap<InstanceId, (Timestamp, FailedLife)>,
    failed: BTreeMap<InstanceId, FailedLife>,
    /// Lives that were over before this supervisor began.
    past: BTreeSet<InstanceId>,
    /// When the life began that last proved that the present revision works.
    proven: Option<Timestamp>,
    /// How many failed since, and the last of them.
    failures: u32,
    /// When the first of them began.
    failing_since: Option<Timestamp>,
    last: Option<(InstanceId, Timestamp, Failure)>,
}

#[derive(Clone, Debug)]
struct FailedLife {
    began: Timestamp,
    /// When it counted.
    at: Timestamp,
    host: Option<HostName>,
    /// Whether it is of the present revision.
    present: bool,
    failure: Failure,
}

impl Lives {
    /// Begins for a pool whose breaker was opened then.
    pub(crate) fn new(revision: Revision, breaker_open: Option<Timestamp>, now: Timestamp) -> Self {
        Self {
            revision,
            breaker: Breaker::restored(breaker_open, now),
            hosts: Hosts::default(),
            began: BTreeMap::new(),
            pending: BTreeMap::new(),
            failed: BTreeMap::new(),
            past: BTreeSet::new(),
            proven: None,
            failures: 0,
            failing_since: None,
            last: None,
        }
    }

    /// Takes over the rows that a pool starts with: what was over does not count again, and what
    /// began after the breaker opened is its probe.
    pub(crate) fn restore(&mut self, rows: &[Instance]) {
        let open_since = self.breaker.open_since();
        for row in rows {
            if row.state.is_terminating() {
                self.past.insert(row.id.clone());
            } else if row.state != State::PendingCreate
                && open_since.is_some_and(|since| row.created_at > since)
            {
                self.breaker.adopt_probe(&row.id);
            }
        }
    }

    /// Forgets what says nothing about another revision, and lets it begin.
    pub(crate) fn new_revision(&mut self, revision: Revision) {
        self.revision = revision;
        self.breaker.close();
        self.hosts.new_revision();
        for life in self.failed.values_mut().chain(self.pending.values_mut().map(|(_, it)| it)) {
            life.present = false;
        }
        self.proven = None;
        self.forget_failures();
    }

    /// Takes that an instance got its start permit.
    pub(crate) fn began(&mut self, id: &InstanceId, now: Timestamp) {
        self.breaker.began(id);
        self.began.insert(id.clone(), now);
    }

    /// Takes what an instance reports.
    pub(crate) fn report(&mut self, report: &InstanceReport, now: Timestamp) {
        match (&report.host, report.state.is_over()) {
            (Some(host), false) => self.hosts.seen(&report.id, host, now),
            (Some(_) | None, _) => self.hosts.left(&report.id, now),
        }
        match &report.outcome {
            Some(LifeOutcome::Served) => {
                let began = self.begin_of(report);
                self.works(
                    &report.id,
                    began,
                    report.host.as_ref(),
                    report.revision == self.revision,
                );
            }
            Some(LifeOutcome::Failed(failure)) => self.has_failed(report, failure, now),
            // It was asked to go after it failed, or because of it.
            Some(LifeOutcome::Unneeded) => {}
            // It is alive after all.
            None => self.take_back(&report.id),
        }
    }

    /// Takes that a job was proven to run on an instance, which may be long gone; returns whether
    /// that says anything new.
    pub(crate) fn proven_late(&mut self, id: &InstanceId) -> bool {
        let Some(life) = self.known_failure(id).cloned() else { return false };
        self.works(id, life.began, life.host.as_ref(), life.present);
        true
    }

    /// Takes that nothing is left of an instance.
    pub(crate) fn gone(&mut self, id: &InstanceId, now: Timestamp) {
        self.hosts.left(id, now);
        self.breaker.came_to_nothing(id, now);
        self.began.remove(id);
        self.past.remove(id);
    }

    /// Judges what time has decided: before anything is created.
    pub(crate) fn tick(&mut self, reports: &BTreeMap<InstanceId, InstanceReport>, now: Timestamp) {
        let due: Vec<InstanceId> = self
            .pending
            .iter()
            .filter(|(_, (until, _))| *until <= now)
            .map(|(id, _)| id.clone())
            .collect();
        for id in due {
            if let Some((_, life)) = self.pending.remove(&id) {
                self.count(&id, life, now);
            }
        }
        if self.is_untroubled() {
            return;
        }
        for report in reports.values() {
            if self.is_healthy_idle(report) && is_due(report.since, HEALTHY_AFTER, now) {
                let began = self.begin_of(report);
                self.works(&report.id, began, report.host.as_ref(), true);
            } else if report.stuck {
                self.breaker.came_to_nothing(&report.id, now);
            }
        }
        if self.breaker.open_since().is_none() && self.unrefuted() >= FAILURES_TO_OPEN {
            self.breaker.open(now);
        }
        self.failed.retain(|_, life| !is_due(life.at, LATE_PROOF, now));
    }

    /// Returns when time alone will decide something.
    pub(crate) fn next_tick(
        &self,
        reports: &BTreeMap<InstanceId, InstanceReport>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let pending = self.pending.values().map(|(until, _)| *until);
        let troubled = !self.is_untroubled();
        let healthy = reports
            .values()
            .filter(|report| troubled && self.is_healthy_idle(report))
            .map(|report| after(report.since, HEALTHY_AFTER))
            .filter(|at| *at > now);
        let probe = self.breaker.probe_at().filter(|at| *at > now);
        pending.chain(healthy).chain(probe).min()
    }

    /// Returns how many may be created now: any number, one probe, or none.
    pub(crate) fn admits(&self, now: Timestamp) -> u32 {
        self.breaker.admits(now)
    }

    /// Returns since when creation is held, if it is.
    pub(crate) fn held_since(&self) -> Option<Timestamp> {
        self.breaker.open_since()
    }

    /// Returns which of these lives hold a start permit though they start no more, and how many.
    pub(crate) fn unproven(&self, reports: &BTreeMap<InstanceId, InstanceReport>) -> Unproven {
        let doubted = self.breaker.open_since().is_none() && self.unrefuted() > 0;
        let is_unproven = |report: &InstanceReport| match report.state {
            State::Idle | State::Reserved => {
                doubted
                    && report.revision == self.revision
                    && report.removal.is_none()
                    && Some(self.begin_of(report)) > self.proven
            }
            // Its verdict is still to come.
            State::Ended => report.outcome.is_none() && report.removal.is_none(),
            State::PendingCreate
            | State::Creating
            | State::Starting
            | State::Busy
            | State::Retiring
            | State::PendingDelete
            | State::Deleting
            | State::Deleted => false,
        };
        let mut ids: BTreeSet<InstanceId> = self.pending.keys().cloned().collect();
        ids.extend(reports.values().filter(|report| is_unproven(report)).map(|it| it.id.clone()));
        Unproven(ids)
    }

    /// Returns what the registry shows, if the last lives failed.
    pub(crate) fn view(&self) -> Option<PoolFailure> {
        let (instance, at, failure) = self.last.as_ref()?;
        Some(PoolFailure {
            failures: self.failures,
            since: self.failing_since.unwrap_or(*at),
            instance: instance.clone(),
            at: *at,
            failure: failure.clone(),
            next_probe: self.breaker.probe_at(),
        })
    }

    /// Returns why the breaker is open or closed, for people.
    pub(crate) fn why(&self) -> String {
        match (self.breaker.open_since(), &self.last) {
            (Some(_), Some((instance, _, failure))) => format!(
                "{} lives failed without one that served; the last, `{instance}`, at stage {} ({}): {}",
                self.failures, failure.stage, failure.class, failure.error
            ),
            (Some(_), None) => "lives failed before this daemon started".into(),
            (None, _) => "an instance works, or the pool was edited".into(),
        }
    }

    /// Returns when the last life of the present revision began that works.
    pub(crate) fn proven(&self) -> Option<Timestamp> {
        self.proven
    }

    pub(crate) fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    fn has_failed(&mut self, report: &InstanceReport, failure: &Failure, now: Timestamp) {
        let id = &report.id;
        if self.past.contains(id) {
            return;
        }
        if let Some(known) = self.failed.get_mut(id) {
            // Its verdict says more than was known when it counted.
            known.failure = failure.clone();
            if let Some((_, _, last)) = self.last.as_mut().filter(|(last, ..)| last == id) {
                *last = failure.clone();
            }
            return;
        }
        let life = FailedLife {
            began: self.begin_of(report),
            at: now,
            host: report.host.clone(),
            present: report.revision == self.revision,
            failure: failure.clone(),
        };
        if failure.provisional {
            let until = self.pending.get(id).map_or(after(now, failure.grace()), |(at, _)| *at);
            self.pending.insert(id.clone(), (until, life));
        } else {
            self.pending.remove(id);
            self.count(id, life, now);
        }
    }

    fn count(&mut self, id: &InstanceId, life: FailedLife, now: Timestamp) {
        if let Some(host) = &life.host {
            self.hosts.failed(host, life.began, now);
        }
        let open_since = self.breaker.open_since();
        let is_news = self.breaker.is_probe(id)
            || open_since.is_none_or(|since| life.began > since)
            || self.last.is_none();
        self.breaker.came_to_nothing(id, now);
        if life.present {
            self.failures = self.failures.saturating_add(1);
            let since = self.failing_since.map_or(life.began, |since| since.min(life.began));
            self.failing_since = Some(since);
            if is_news {
                self.last = Some((id.clone(), now, life.failure.clone()));
            }
        }
        self.failed.insert(id.clone(), FailedLife { at: now, ..life });
        if self.failed.len() > MAX_FAILED_LIVES {
            let oldest = self.failed.iter().min_by_key(|(_, life)| life.at);
            if let Some(oldest) = oldest.map(|(id, _)| id.clone()) {
                self.failed.remove(&oldest);
            }
        }
    }

    /// Takes that a life works: a job ran there, or it is healthy.
    fn works(&mut self, id: &InstanceId, began: Timestamp, host: Option<&HostName>, present: bool) {
        let open_since = self.breaker.open_since();
        let is_probe = self.breaker.is_probe(id);
        self.take_back(id);
        if let Some(host) = host {
            self.hosts.served(host, began, present);
        }
        if !present {
            return;
        }
        self.proven = self.proven.max(Some(began));
        if open_since.is_some_and(|since| is_probe || began > since) {
            self.breaker.close();
        }
        if self.breaker.open_since().is_none() && self.unrefuted() == 0 {
            self.forget_failures();
        }
    }

    /// Takes the failure of a life back that lives, or served after all.
    fn take_back(&mut self, id: &InstanceId) {
        self.pending.remove(id);
        let Some(life) = self.failed.remove(id) else { return };
        if let Some(host) = &life.host {
            self.hosts.take_back(host);
        }
        if !life.present {
            return;
        }
        self.failures = self.failures.saturating_sub(1);
        // It would not have opened without it.
        if self.unrefuted() < FAILURES_TO_OPEN {
            let opened_on_it = self.breaker.open_since().is_some_and(|since| life.at <= since);
            if opened_on_it {
                self.breaker.close();
            }
        }
        if self.unrefuted() == 0 && self.breaker.open_since().is_none() {
            self.forget_failures();
        }
    }

    fn forget_failures(&mut self) {
        (self.failures, self.failing_since, self.last) = (0, None, None);
    }

    fn known_failure(&self, id: &InstanceId) -> Option<&FailedLife> {
        self.failed.get(id).or_else(|| self.pending.get(id).map(|(_, life)| life))
    }

    /// Returns how many failures count against the pool: of the present revision, begun after the
    /// last life that works, and not those of a host that alone is to blame.
    fn unrefuted(&self) -> usize {
        self.failed
            .values()
            .filter(|life| life.present && Some(life.began) > self.proven)
            .filter(|life| !life.host.as_ref().is_some_and(|host| self.hosts.is_to_blame(host)))
            .count()
    }

    fn is_untroubled(&self) -> bool {
        self.failed.is_empty() && self.last.is_none() && self.breaker.open_since().is_none()
    }

    fn is_healthy_idle(&self, report: &InstanceReport) -> bool {
        report.state == State::Idle
            && report.removal.is_none()
            && report.outcome.is_none()
            && report.revision == self.revision
    }

    fn begin_of(&self, report: &InstanceReport) -> Timestamp {
        self.began.get(&report.id).copied().unwrap_or(report.created_at)
    }
}

/// Lives that hold a start permit though they start no more.
pub(crate) struct Unproven(BTreeSet<InstanceId>);

impl Unproven {
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests;
