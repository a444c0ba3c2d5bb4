//! What a pool knows of its instances, from their reports and from what it asked of them.
//!
//! An instance is counted from the moment its owner is started, before its first report, so
//! that two plans in a row never create the same instance twice. One that was asked to retire
//! counts as going until it reports otherwise or has not reported for a minute.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::plan::PoolTally;
use super::{Demand, InstanceReport};
use crate::instance::is_unnamed;
use crate::jobs::Accepts;
use crate::model::{
    Instance, InstanceId, LifeOutcome, PoolSpec, Revision, State, StateCounts, Timestamp, Urgency,
    after, is_due,
};
use crate::mutants::{self, Mutant};
use crate::registry::PoolView;

/// After this a pool creates though a row it started with could not be checked. Its place stays held.
const SETTLE_TIMEOUT: Duration = Duration::from_mins(2);
/// How long an instance may take to answer a request to retire by a report.
const RETIRE_REPORT_TIMEOUT: Duration = Duration::from_mins(1);

#[derive(Clone, Debug, Default)]
pub(crate) struct Reports {
    by_instance: BTreeMap<InstanceId, InstanceReport>,
    /// Rows the pool started with whose machines were not checked since.
    unchecked: BTreeSet<InstanceId>,
    /// Instances that were asked to retire, and when, and have not reported since.
    asked: BTreeMap<InstanceId, Timestamp>,
    /// Instances whose rows cannot be decoded: each holds a place until the next start.
    quarantined: BTreeSet<InstanceId>,
    /// When the rows were read.
    read_at: Option<Timestamp>,
}

impl Reports {
    /// Takes over the rows a pool starts with. A row needs no check where no machine can be: its
    /// create was not called, or its machine is known to be gone.
    pub(crate) fn restore(&mut self, rows: &[Instance], now: Timestamp) {
        self.read_at = Some(now);
        for row in rows {
            if row.machine_may_exist() {
                self.unchecked.insert(row.id.clone());
            }
            self.expect(of_row(row));
        }
    }

    /// Counts an instance whose row cannot be decoded.
    pub(crate) fn quarantine(&mut self, id: InstanceId) {
        self.quarantined.insert(id);
    }

    /// Returns how many places are held by rows that cannot be decoded.
    pub(crate) fn quarantined(&self) -> u32 {
        u32::try_from(self.quarantined.len()).unwrap_or(u32::MAX)
    }

    /// Counts an instance whose owner is being started.
    pub(crate) fn expect(&mut self, report: InstanceReport) {
        self.asked.remove(&report.id);
        self.by_instance.insert(report.id.clone(), report);
    }

    /// Takes a report. A life that served stays one that did, whatever its row shows later.
    pub(crate) fn update(&mut self, mut report: InstanceReport) -> &InstanceReport {
        if mutants::is(Mutant::SlotFreedTwice) && report.state == State::Deleting {
            report.occupies = false;
        }
        self.asked.remove(&report.id);
        if report.checked {
            self.unchecked.remove(&report.id);
        }
        let id = report.id.clone();
        let known = self.by_instance.get(&id).and_then(|known| known.outcome.as_ref());
        if known == Some(&LifeOutcome::Served) {
            report.outcome = Some(LifeOutcome::Served);
        }
        self.by_instance.entry(id).insert_entry(report).into_mut()
    }

    /// Remembers that an instance was asked to retire.
    pub(crate) fn asked_to_retire(&mut self, id: &InstanceId, now: Timestamp) {
        if let Some(report) = self.by_instance.get_mut(id) {
            report.removal = Some(Urgency::Retire);
            self.asked.insert(id.clone(), now);
        }
    }

    /// Counts instances back in that were asked to retire and did not report in time, and waits no
    /// longer for rows that could not be checked in time; returns these.
    pub(crate) fn lapse(&mut self, now: Timestamp) -> BTreeSet<InstanceId> {
        let reports = &mut self.by_instance;
        self.asked.retain(|id, at| {
            let waits = !is_due(*at, RETIRE_REPORT_TIMEOUT, now);
            if !waits && let Some(report) = reports.get_mut(id) {
                report.removal = None;
            }
            waits
        });
        if self.settles_at().is_some_and(|at| at <= now) {
            return std::mem::take(&mut self.unchecked);
        }
        BTreeSet::new()
    }

    /// Returns when the next instance is counted back in, or the pool waits no longer for its rows.
    pub(crate) fn next_lapse(&self) -> Option<Timestamp> {
        let asked = self.asked.values().map(|at| after(*at, RETIRE_REPORT_TIMEOUT)).min();
        [asked, self.settles_at()].into_iter().flatten().min()
    }

    /// Returns when the pool waits no longer for rows that were not checked, if it waits for any.
    fn settles_at(&self) -> Option<Timestamp> {
        let read_at = self.read_at.filter(|_| !self.unchecked.is_empty())?;
        Some(after(read_at, SETTLE_TIMEOUT))
    }

    /// Removes an instance that is deleted.
    pub(crate) fn remove(&mut self, id: &InstanceId) {
        self.by_instance.remove(id);
        self.unchecked.remove(id);
        self.asked.remove(id);
    }

    /// Returns what each instance last reported.
    pub(crate) fn reports(&self) -> &BTreeMap<InstanceId, InstanceReport> {
        &self.by_instance
    }

    /// Returns what an instance last reported.
    pub(crate) fn get(&self, id: &InstanceId) -> Option<&InstanceReport> {
        self.by_instance.get(id)
    }

    /// Returns whether the machine of every row the pool started with was checked, or had its time,
    /// so that the pool may create.
    pub(crate) fn is_settled(&self) -> bool {
        self.read_at.is_some() && self.unchecked.is_empty()
    }

    /// Returns whether the rows were read and no instance is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.read_at.is_some() && self.by_instance.is_empty()
    }

    /// Returns whether the pool takes more work; `held` is a breaker that admits none now.
    pub(crate) fn accepts(&self, spec: &PoolSpec, draining: bool, held: bool) -> Accepts {
        let tally = PoolTally::of(&self.by_instance);
        if draining {
            Accepts::Draining
        } else if held {
            Accepts::Broken
        } else if tally.occupying + self.quarantined() >= spec.max && tally.free == 0 {
            Accepts::Full
        } else {
            Accepts::Work
        }
    }

    /// Returns what the registry shows of the pool.
    pub(crate) fn view(
        &self,
        spec: &PoolSpec,
        demand: Demand,
        want: u32,
        draining: bool,
        breaker: Option<Timestamp>,
    ) -> PoolView {
        let mut states = StateCounts::default();
        for report in self.by_instance.values().filter(|report| report.state != State::Deleted) {
            states.add(report.state, 1);
        }
        let stuck = self.by_instance.values().filter(|report| report.stuck).count();
        PoolView {
            id: spec.id.clone(),
            states,
            demand: demand.queued,
            oldest: demand.oldest,
            want,
            max: spec.max,
            draining,
            breaker,
            settled: self.is_settled(),
            stuck: u32::try_from(stuck).unwrap_or(u32::MAX),
            shunned: Vec::new(),
            failing: None,
            proven: None,
            silent: None,
        }
    }
}

/// Returns what a stored row shows before its owner reports.
pub(crate) fn of_row(row: &Instance) -> InstanceReport {
    InstanceReport {
        id: row.id.clone(),
        state: row.state,
        since: row.since,
        created_at: row.created_at,
        removal: row.removal.as_ref().map(|removal| removal.urgency),
        revision: row.revision.clone(),
        host: row.host.clone(),
        registered: row.registration.may_exist(),
        occupies: row.occupies(),
        silent_since: None,
        unreachable: false,
        wants: None,
        checked: false,
        stuck: false,
        unnamed: is_unnamed(row),
        outcome: row.executing.as_ref().map(|_| LifeOutcome::Served),
    }
}

/// Returns what is known of an instance that was just requested.
pub(crate) fn of_new(id: InstanceId, revision: Revision, now: Timestamp) -> InstanceReport {
    InstanceReport {
        id,
        state: State::PendingCreate,
        since: now,
        created_at: now,
        removal: None,
        revision,
        host: None,
        registered: false,
        occupies: true,
        silent_since: None,
        unreachable: false,
        wants: None,
        checked: true,
        stuck: false,
        unnamed: false,
        outcome: None,
    }
}

/// Returns what is known of an adopted machine: it exists, and it is to go.
pub(crate) fn of_adopted(id: InstanceId, revision: Revision, now: Timestamp) -> InstanceReport {
    InstanceReport {
        state: State::Starting,
        removal: Some(Urgency::Retire),
        ..of_new(id, revision, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::fixtures::{at, report, row, spec};

    fn checked(id: &str, state: State) -> InstanceReport {
        InstanceReport { checked: true, ..report(id, state) }
    }

    #[test]
    fn a_pool_is_settled_only_when_its_rows_were_read_and_their_machines_checked() {
        let mut reports = Reports::default();
        assert!(!reports.is_settled(), "nothing was read");
        assert!(!reports.is_empty());
        reports.restore(&[], at(0));
        assert!(reports.is_settled() && reports.is_empty());

        reports.unchecked.insert("a".into());
        reports.update(InstanceReport { checked: false, ..report("a", State::Idle) });
        assert!(!reports.is_settled());
        reports.update(checked("a", State::Idle));
        assert!(reports.is_settled());
    }

    #[test]
    fn a_row_without_a_machine_needs_no_check() {
        let mut reports = Reports::default();
        let gone = Instance { machine_gone_at: Some(at(1)), ..row("gone", State::Deleting) };
        let uncalled = Instance { create_called_at: None, ..row("uncalled", State::Creating) };
        reports.restore(&[gone, uncalled], at(0));
        assert!(reports.is_settled());
        reports.restore(&[row("there", State::Deleting)], at(0));
        assert!(!reports.is_settled());
    }

    #[test]
    fn no_row_holds_the_pool_up_for_longer_than_two_minutes_and_keeps_its_place() {
        let mut reports = Reports::default();
        reports.restore(&[row("there", State::Deleting)], at(10));
        assert_eq!(reports.next_lapse(), Some(at(130)));
        assert!(reports.lapse(at(129)).is_empty() && !reports.is_settled());
        assert_eq!(reports.lapse(at(130)), BTreeSet::from(["there".into()]));
        assert!(reports.is_settled() && reports.next_lapse().is_none());
        assert_eq!(PoolTally::of(reports.reports()).occupying, 1);
    }

    #[test]
    fn a_life_that_served_stays_one_that_did() {
        let mut reports = Reports::default();
        let served =
            InstanceReport { outcome: Some(LifeOutcome::Served), ..report("a", State::Busy) };
        reports.update(served);
        let ended = reports.update(report("a", State::Ended));
        assert_eq!(ended.outcome, Some(LifeOutcome::Served));
    }

    #[test]
    fn an_instance_asked_to_retire_counts_as_going_until_it_reports_or_a_minute_is_over() {
        let mut reports = Reports::default();
        reports.update(checked("a", State::Idle));
        reports.update(checked("b", State::Idle));
        reports.asked_to_retire(&"a".into(), at(0));
        reports.asked_to_retire(&"b".into(), at(0));
        assert_eq!(PoolTally::of(reports.reports()).free, 0);
        reports.update(checked("b", State::Idle));
        reports.lapse(at(59));
        assert_eq!(PoolTally::of(reports.reports()).free, 1, "b reported");
        assert_eq!(reports.next_lapse(), Some(at(60)));
        reports.lapse(at(60));
        assert_eq!(PoolTally::of(reports.reports()).free, 2);
        assert_eq!(reports.next_lapse(), None);
    }

    #[test]
    fn a_pool_reports_why_it_takes_no_more_work() {
        let spec = spec(0, 1);
        let mut reports = Reports::default();
        assert_eq!(reports.accepts(&spec, false, false), Accepts::Work);
        assert_eq!(reports.accepts(&spec, true, true), Accepts::Draining);
        assert_eq!(reports.accepts(&spec, false, true), Accepts::Broken);
        reports.update(checked("a", State::Idle));
        assert_eq!(reports.accepts(&spec, false, false), Accepts::Work, "one is free");
        reports.update(checked("a", State::Deleting));
        assert_eq!(reports.accepts(&spec, false, false), Accepts::Full);
    }
}
