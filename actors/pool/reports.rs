//! The picture a pool has of its instances, from their reports and from what it asked of them.
//!
//! An instance is counted from the moment its owner is started, before its first report, so
//! that two plans in a row never make the same instance twice. Whoever was asked to go counts
//! as going until it says otherwise or has said nothing for a minute.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::plan::Tally;
use super::{Demand, Outcome, Report};
use crate::instance::is_unnamed;
use crate::jobs::Accepts;
use crate::model::{
    Instance, InstanceId, PoolSpec, Revision, State, StateCounts, Timestamp, Urgency, after, is_due,
};
use crate::mutants::{self, Mutant};
use crate::registry::PoolView;

/// How long an instance may take to answer a wish by a report.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);

#[derive(Clone, Debug, Default)]
pub(crate) struct Reports {
    by_instance: BTreeMap<InstanceId, Report>,
    /// Rows the pool began with whose machines nobody has looked at since.
    unlooked: BTreeSet<InstanceId>,
    /// Who was asked to go, and when, and has not reported since.
    asked: BTreeMap<InstanceId, Timestamp>,
    /// Whether the rows were read.
    read: bool,
}

impl Reports {
    /// Notes the rows a pool begins with. A row in `pending_create` needs no look: nothing
    /// was ever ordered for it.
    pub(crate) fn began_with(&mut self, rows: &[Instance]) {
        self.read = true;
        for row in rows {
            if row.state != State::PendingCreate {
                self.unlooked.insert(row.id.clone());
            }
            self.expect(of_row(row));
        }
    }

    /// Counts an instance whose owner is being started.
    pub(crate) fn expect(&mut self, report: Report) {
        self.asked.remove(&report.id);
        self.by_instance.insert(report.id.clone(), report);
    }

    /// Takes a report; returns what it newly says about the pool's health.
    pub(crate) fn hear(&mut self, mut report: Report) -> Option<Outcome> {
        if mutants::is(Mutant::SlotFreedTwice) && report.state == State::Deleting {
            report.occupies = false;
        }
        self.asked.remove(&report.id);
        if report.looked {
            self.unlooked.remove(&report.id);
        }
        let earlier = self.by_instance.get(&report.id).and_then(|known| known.outcome);
        let news = report.outcome.filter(|outcome| Some(*outcome) != earlier);
        self.by_instance.insert(report.id.clone(), report);
        news
    }

    /// Notes that an instance was asked to go.
    pub(crate) fn ask(&mut self, id: &InstanceId, now: Timestamp) {
        if let Some(report) = self.by_instance.get_mut(id) {
            report.removal = Some(Urgency::Retire);
            self.asked.insert(id.clone(), now);
        }
    }

    /// Counts those back in who were asked to go and never said that they would.
    pub(crate) fn lapse(&mut self, now: Timestamp) {
        let reports = &mut self.by_instance;
        self.asked.retain(|id, at| {
            let waits = !is_due(*at, REQUEST_TIMEOUT, now);
            if !waits && let Some(report) = reports.get_mut(id) {
                report.removal = None;
            }
            waits
        });
    }

    /// Returns when somebody's silence is over.
    pub(crate) fn next_lapse(&self) -> Option<Timestamp> {
        self.asked.values().map(|at| after(*at, REQUEST_TIMEOUT)).min()
    }

    /// Strikes an instance off: nothing is left of it.
    pub(crate) fn forget(&mut self, id: &InstanceId) {
        self.by_instance.remove(id);
        self.unlooked.remove(id);
        self.asked.remove(id);
    }

    /// Returns what each instance last said.
    pub(crate) fn reports(&self) -> &BTreeMap<InstanceId, Report> {
        &self.by_instance
    }

    /// Returns what an instance last said.
    pub(crate) fn get(&self, id: &InstanceId) -> Option<&Report> {
        self.by_instance.get(id)
    }

    /// Returns whether every row the pool began with was looked at, so that it may create.
    pub(crate) fn is_settled(&self) -> bool {
        self.read && self.unlooked.is_empty()
    }

    /// Returns whether the rows were read and nobody is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.read && self.by_instance.is_empty()
    }

    /// Returns whether the pool takes more work; `held` is a breaker that admits nobody now.
    pub(crate) fn accepts(&self, spec: &PoolSpec, draining: bool, held: bool) -> Accepts {
        let tally = Tally::of(&self.by_instance);
        if draining {
            Accepts::Draining
        } else if held {
            Accepts::Broken
        } else if tally.occupying >= spec.max && tally.free == 0 {
            Accepts::Full
        } else {
            Accepts::Work
        }
    }

    /// Shows the pool to the board.
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
        }
    }
}

/// Returns what a stored row says before its owner speaks.
pub(crate) fn of_row(row: &Instance) -> Report {
    Report {
        id: row.id.clone(),
        state: row.state,
        since: row.since,
        born: row.created_at,
        removal: row.removal.as_ref().map(|removal| removal.urgency),
        revision: row.revision.clone(),
        host: row.host.clone(),
        registered: Report::is_registered(&row.registration),
        occupies: row.occupies(),
        wants: None,
        looked: false,
        stuck: false,
        unnamed: is_unnamed(row),
        // Only what happens from now on is news.
        outcome: match (row.ready_at, row.state) {
            (Some(_), _) => Some(Outcome::Ready),
            (None, State::Ended | State::PendingDelete | State::Deleting | State::Deleted) => {
                Some(Outcome::Failed)
            }
            (
                None,
                State::PendingCreate
                | State::Creating
                | State::Starting
                | State::Idle
                | State::Reserved
                | State::Busy
                | State::Retiring,
            ) => None,
        },
    }
}

/// Returns what is known of an instance that is only a wish.
pub(crate) fn of_new(id: InstanceId, revision: Revision, now: Timestamp) -> Report {
    Report {
        id,
        state: State::PendingCreate,
        since: now,
        born: now,
        removal: None,
        revision,
        host: None,
        registered: false,
        occupies: true,
        wants: None,
        looked: true,
        stuck: false,
        unnamed: false,
        outcome: None,
    }
}

/// Returns what is known of a machine that was found: it is there, and it shall go.
pub(crate) fn of_adopted(id: InstanceId, revision: Revision, now: Timestamp) -> Report {
    Report { state: State::Starting, removal: Some(Urgency::Retire), ..of_new(id, revision, now) }
}

#[cfg(test)]
mod tests;
