//! Holds the promises against what the daemon was seen to do.
//!
//! After every step the new observations are looked at one by one, beside the truth of that
//! moment; every hundred steps and at the end everything is scanned. What is found is a
//! [`Violation`] with the number of the promise; the simulation prints it with its seed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::observed::{DeleteCalled, Observed, Seen};
use super::outside::Outside;
use super::{Leftovers, Machine, SimJob};
use crate::invariants::{Snapshot, Violation, check_budget, check_job, check_rows, scan};
use crate::model::{
    End, Event, Instance, InstanceId, Job, JobId, MachineName, Offer, OfferEnd, OfferStage, PoolId,
    PoolSpec, Reason, RunnerName, State, Subject, Timestamp, WarrantKind, What, is_due,
};
use crate::registry::Registry;

/// Remembers what single observations cannot tell.
#[derive(Default)]
pub struct Checker {
    broken: Vec<Violation>,
    names: BTreeSet<RunnerName>,
    /// Machines written off as never made or gone; nothing may run there afterwards.
    written_off: BTreeMap<MachineName, InstanceId>,
    retires: BTreeMap<PoolId, Vec<Timestamp>>,
    limits: BTreeMap<PoolId, u32>,
    budgets: BTreeMap<PoolId, u32>,
    permits: BTreeMap<PoolId, u32>,
    tombstones: BTreeSet<JobId>,
    orphan_after: Duration,
    steps: u64,
}

impl Checker {
    /// Makes a checker for these pools, whose delivered offers may be asked about at that age.
    pub fn new(pools: &[PoolSpec], orphan_after: Duration) -> Self {
        let mut checker = Self { orphan_after, ..Self::default() };
        for pool in pools {
            checker.limits.insert(pool.id.clone(), pool.max);
            checker.budgets.insert(pool.id.clone(), pool.policy.retire_budget);
            checker.permits.insert(pool.id.clone(), pool.policy.start_permits);
        }
        checker
    }

    /// Returns what was found broken.
    pub fn broken(&self) -> &[Violation] {
        &self.broken
    }

    /// Looks at one step: what was newly seen, and now and then at everything.
    pub fn look(&mut self, seen: &[Observed], truth: &Outside, registry: Option<&Registry>) {
        for observed in seen {
            self.look_at(observed, truth, registry);
        }
        self.steps += 1;
        if self.steps.is_multiple_of(100) {
            self.scan(truth, registry);
        }
    }

    /// Scans everything. The board is looked at only once every pool has adopted its rows.
    pub fn scan(&mut self, truth: &Outside, registry: Option<&Registry>) {
        let settled = registry.filter(|registry| is_settled(registry, &self.limits));
        let snapshot = Snapshot {
            rows: truth.records.live_rows().map(|row| &**row).collect(),
            registry: settled,
            jobs: truth.records.open_jobs().map(|job| &**job).collect(),
            tombstones: &self.tombstones,
            limits: &self.limits,
            quarantined: truth.records.quarantined(),
        };
        self.broken.extend(scan(&snapshot));
        for (pool, times) in &self.retires {
            let budget = self.budgets.get(pool).copied().unwrap_or(u32::MAX);
            self.broken.extend(check_budget(pool, times, budget));
        }
        self.retires.clear();
    }

    /// Demands that a world brought to rest holds nothing any more.
    pub fn at_the_end(&mut self, truth: &Outside, registry: Option<&Registry>, left: &Leftovers) {
        for machine in &left.machines {
            self.demand(false, 22, machine, || "is left behind".into());
        }
        for runner in &left.registrations {
            self.demand(false, 17, runner, || "is still registered".into());
        }
        for (id, state) in &left.rows {
            self.demand(false, 3, id, || format!("never came to its end: {state}"));
        }
        for job in &left.jobs {
            self.demand(false, 13, job, || "was never served".into());
        }
        for open in truth.records.open_jobs() {
            let over = truth.forge.jobs.get(&open.id.number).is_none_or(SimJob::is_over);
            self.demand(!over, 13, &open.id, || {
                format!("is over at the forge and still {:?} here", open.state())
            });
        }
        let unhandled = truth.records.unhandled_count();
        self.demand(unhandled == 0, 28, &"inbox", || format!("holds {unhandled} deliveries"));
        if let Some(registry) = registry {
            let shown = registry.len();
            self.demand(shown == 0 || !left.rows.is_empty(), 2, &"board", || {
                format!("shows {shown} instances that are gone")
            });
            let counted = registry.violations();
            self.demand(counted == 0, 1, &"daemon", || {
                format!("counted {counted} violations by itself")
            });
        }
    }

    fn look_at(&mut self, observed: &Observed, truth: &Outside, registry: Option<&Registry>) {
        match &observed.what {
            Seen::Saved { before, after, epoch, .. } => {
                self.demand(*epoch == truth.records.epoch(), 1, &after.id, || {
                    format!("saved under epoch {epoch}")
                });
                self.broken.extend(check_rows(before.as_deref(), after));
                self.saved(before.as_deref(), after, truth, registry);
            }
            Seen::JobsSaved { jobs, tombstones, .. } => {
                for (before, after) in jobs {
                    if let Some(before) = before {
                        self.requeued(before, after, truth);
                    }
                    self.broken.extend(check_job(before.as_deref(), after));
                }
                self.tombstones.extend(tombstones.iter().cloned());
            }
            Seen::CreateCalled { machine, again, committed, instance, .. } => {
                self.demand(!again, 17, machine, || "was ordered twice".into());
                self.demand(*committed, 17, machine, || "was ordered before the commit".into());
                self.paced(instance.as_ref(), truth);
            }
            Seen::Appeared { machine, times } => {
                self.demand(*times == 1, 17, machine, || format!("came to exist {times} times"));
            }
            Seen::DeleteCalled(call) => self.deleted(call),
            Seen::Minted { name, .. } => {
                let fresh = self.names.insert(name.clone());
                self.demand(fresh, 17, name, || "was minted under a used name".into());
            }
            Seen::HandedOut { instance, delivered, .. } => {
                self.demand(*delivered, 16, instance, || {
                    "was handed a JIT config without a durable delivery".into()
                });
            }
            Seen::JobStarted { machine, job, .. } => {
                let gone = self.written_off.get(machine).cloned();
                self.demand(gone.is_none(), 18, machine, || {
                    format!("runs job {job} though `{gone:?}` wrote it off")
                });
            }
            // Whether a job was killed is judged at the delete call, where the warrant is known.
            Seen::JobOver { .. }
            | Seen::PoolSaved(_)
            | Seen::SaveRefused { .. }
            | Seen::MachineEnded { .. }
            | Seen::MachineGone { .. }
            | Seen::NameTaken(_)
            | Seen::Deregister { .. }
            | Seen::Started { .. }
            | Seen::Crashed(_) => {}
        }
    }

    fn saved(
        &mut self,
        before: Option<&Instance>,
        after: &Instance,
        truth: &Outside,
        registry: Option<&Registry>,
    ) {
        if let Some(registry) = registry {
            // The step may have gone on to the end of this life.
            let over = truth.records.row(&after.id).is_none_or(|row| row.state == State::Deleted);
            let owned = registry.holds(&after.id) || over;
            self.demand(owned, 2, &after.id, || "was saved without an entry".into());
        }
        let newly = |state| after.state == state && before.is_none_or(|row| row.state != state);
        if before.is_some_and(|row| row.end.is_none())
            && let Some(End::Gone { .. }) = &after.end
        {
            let there = truth.machines.anywhere(&after.machine).is_some_and(Machine::exists);
            self.demand(!there, 18, &after.id, || "was called gone while it was there".into());
        }
        if newly(State::Ended)
            && matches!(after.end, Some(End::Gone { .. } | End::NotCreated { .. }))
        {
            self.written_off.insert(after.machine.clone(), after.id.clone());
        }
        if newly(State::Retiring)
            && let Some(removal) = &after.removal
            && matches!(removal.reason, Reason::Surplus | Reason::Revision | Reason::Lifetime)
        {
            self.retires.entry(after.pool.clone()).or_default().push(after.since);
        }
    }

    /// A delivered offer is put back only once it was old enough to be asked about, its instance is
    /// over, or its delivery was in doubt: anything sooner is an answer about another attempt.
    fn requeued(&mut self, before: &Job, after: &Job, truth: &Outside) {
        let (Some(old), Offer::Ended { why: OfferEnd::Requeued, at }) =
            (before.open_offer(), &after.offer)
        else {
            return;
        };
        // One whose record was lost is over as far as anyone knows, also if it was adopted since.
        let living = truth
            .records
            .row(&old.instance)
            .is_some_and(|row| !row.state.is_over() && row.created_at <= old.since);
        let young = !is_due(old.since, self.orphan_after, *at);
        let delivered = old.stage == OfferStage::Delivered;
        // Unless its owner has had it asked about at once, because the runner might never start.
        let instance = Subject::Instance(old.instance.clone());
        let mut timeline = truth.records.timeline(&instance);
        let doubted = |event: &Event| matches!(&event.what, What::DeliveryInDoubt(job, _) if *job == after.id);
        let is_early = young && !timeline.any(doubted);
        self.demand(!(delivered && living && is_early), 11, &after.id, || {
            format!("offer {} was ended by an answer about an earlier one", old.generation)
        });
    }

    fn deleted(&mut self, call: &DeleteCalled) {
        let machine = &call.machine;
        self.demand(!call.is_wrongful(), 5, machine, || {
            format!("was deleted under job {:?}{:?}: {call:?}", call.working, call.assigned)
        });
        self.demand(call.instance.is_some(), 4, machine, || "was deleted by a non-owner".into());
        self.demand(call.warrant.is_some(), 4, machine, || "was deleted without a warrant".into());
        self.demand(call.state == Some(State::Deleting), 14, machine, || {
            format!("was deleted while its row is {:?}", call.state)
        });
        self.demand(call.has_exit_record, 14, machine, || "was deleted before its record".into());
        let claimed = call.warrant == Some(WarrantKind::Operator);
        self.demand(call.forced || !claimed, 30, machine, || {
            "was forced, and no operator asked for it".into()
        });
        let unforced = call.warrant != Some(WarrantKind::Operator);
        // One that comes after it was written off as never made has no registration: it is not
        // deleted because of the doubt.
        let only_doubt = call.doubt
            && !call.over
            && !call.never_made
            && call.warrant == Some(WarrantKind::OwnEnd);
        self.demand(!(unforced && only_doubt), 24, machine, || "was deleted on doubt".into());
    }

    /// No more machines of a pool start at once than it has permits.
    fn paced(&mut self, instance: Option<&InstanceId>, truth: &Outside) {
        let Some(row) = instance.and_then(|id| truth.records.row(id)) else { return };
        let starting = truth
            .records
            .live_rows()
            .filter(|other| other.pool == row.pool)
            .filter(|other| matches!(other.state, State::Creating | State::Starting))
            .count();
        let permits = self.permits.get(&row.pool).copied().unwrap_or(u32::MAX);
        let held = u32::try_from(starting).unwrap_or(u32::MAX);
        self.demand(held <= permits, 26, &row.pool, || {
            format!("has {held} machines starting, may have {permits}")
        });
    }

    fn demand(
        &mut self,
        holds: bool,
        number: u8,
        about: &dyn std::fmt::Display,
        text: impl FnOnce() -> String,
    ) {
        if !holds {
            self.broken.push(Violation { number, about: about.to_string(), text: text() });
        }
    }
}

/// Returns whether every pool has adopted its rows since the last start.
fn is_settled(registry: &Registry, pools: &BTreeMap<PoolId, u32>) -> bool {
    let shown = registry.pools();
    pools.keys().all(|pool| shown.iter().any(|view| view.id == *pool))
}
