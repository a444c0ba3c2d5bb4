//! What each happening does: to the truth at once, to the daemon through its ports.
//!
//! Below: what scenarios ask for, namely what the forge tells, when it answers, and whom it refuses.

use std::sync::Arc;
use std::time::Duration;

use super::World;
use crate::model::{JobFact, Labels, MachineName, MachineView, Place, Scope};
use crate::ports::MachineSink;
use crate::testing::clock::millis;
use crate::testing::forge::Delivery;
use crate::testing::happening::{Happening, OperatorAction};
use crate::testing::outside::Outside;
use crate::testing::provider::Stage;

/// What is left to do once the truth has changed and is locked again.
#[expect(clippy::large_enum_variant, reason = "it lives for one call; a box would cost more")]
pub(super) enum Then {
    Nothing,
    Deliver(Box<Delivery>),
    /// A machine asks for work.
    Poll(u64),
    /// The supervisor of a machine reports.
    Report(u64, Option<u64>),
    /// A watcher is told of a machine.
    Seen(Arc<dyn MachineSink>, MachineView),
    /// A watcher is told of a missing machine.
    Missed(Arc<dyn MachineSink>, MachineName),
    OperatorAction(OperatorAction),
    Start,
}

impl World {
    pub(super) fn apply(&mut self, what: Happening) {
        let then = self.outside().happen(what);
        match then {
            Then::Nothing => {}
            Then::Deliver(delivery) => self.deliver(*delivery),
            Then::Poll(machine) => self.poll(machine),
            Then::Report(machine, challenge) => self.report(machine, challenge),
            Then::Seen(sink, view) => sink.seen(view),
            Then::Missed(sink, machine) => sink.missed(machine),
            Then::OperatorAction(action) => self.action(action),
            Then::Start => self.start_daemon(),
        }
    }
}

impl Outside {
    fn happen(&mut self, what: Happening) -> Then {
        match what {
            Happening::Arrival => self.arrival(),
            Happening::Release(job) => self.release_job(job),
            Happening::Deliver(delivery) => return Then::Deliver(delivery),
            Happening::Match => self.match_jobs(),
            Happening::PickUp { job, attempt } => self.pick_up(job, attempt),
            Happening::Unassign { job, attempt } => self.unassign(job, attempt),
            Happening::CancelAssigned { job, attempt } => self.cancel_assigned(job, attempt),
            Happening::CancelJob(job) => self.cancel_job(job),
            Happening::JobLost(job) => self.job_lost(job),
            Happening::GiveBack(job) => self.give_back(job),
            Happening::Fade(runner) => self.fade(runner),
            Happening::Appear(machine) => self.appear(machine),
            Happening::Up(machine) => self.up(machine),
            Happening::Poll(machine) => return Then::Poll(machine),
            Happening::Report { machine, challenge } => return Then::Report(machine, challenge),
            Happening::Dismissed(machine) => self.dismissed(machine),
            Happening::WorkEnds { machine, job } => self.work_ends(machine, job),
            Happening::Die(machine, death) => self.die(machine, death),
            Happening::DieWorking { machine, job, death } => self.die_working(machine, job, death),
            Happening::Depart(machine) => self.depart(machine),
            Happening::ExternalDeparture(machine) => self.external_departure(machine),
            Happening::Doubt(machine) => self.doubt(machine),
            Happening::Clear(machine) => self.clear(machine),
            Happening::Surface(machine) => self.surface(machine),
            Happening::HostLost(host) => self.lose_host(&host),
            Happening::Tell(machine) => return self.notices(machine),
            Happening::TellMissing { provider, machine } => {
                let sink = self.machines.sinks.get(&provider).map(Arc::clone);
                return sink.map_or(Then::Nothing, |sink| Then::Missed(sink, machine));
            }
            Happening::Begin(episode) => self.begin_episode(episode),
            Happening::Heal(episode) => self.heal_episode(episode),
            Happening::LearnEnd { job, conclusion } => self.learn_end(job, conclusion),
            Happening::Operator(action) => return Then::OperatorAction(action),
            Happening::Restart => return Then::Start,
        }
        Then::Nothing
    }

    fn notices(&mut self, number: u64) -> Then {
        let Some(view) = self.show(number) else { return Then::Nothing };
        let provider = self.machines.machines.get(&number).map(|machine| machine.provider);
        match provider.and_then(|provider| self.machines.sinks.get(&provider)) {
            Some(sink) => Then::Seen(Arc::clone(sink), view),
            None => Then::Nothing,
        }
    }

    /// Clears up behind a dead daemon, and plans the next one.
    pub(super) fn after_crash(&mut self) {
        self.forget_crash();
        self.draw_lost_record();
        self.draw_unreadable_row();
        self.machines.sinks.clear();
        let waiting: Vec<u64> = self
            .machines
            .machines
            .values_mut()
            .filter_map(|machine| {
                let asked = std::mem::take(&mut machine.asking);
                (asked && machine.stage == Stage::Polling).then_some(machine.number)
            })
            .collect();
        for machine in waiting {
            let wait = self.dice.between(500, 5_000);
            self.later(wait, Happening::Poll(machine));
        }
        self.resume_reports();
        let downtime = self.dice.skewed(500, 300_000);
        self.later(downtime, Happening::Restart);
    }
}

impl World {
    /// Queues a job of any repository for these labels that runs so long.
    pub fn queue_at(&self, owner: &str, name: &str, labels: &[&str], runs: Duration) -> u64 {
        let place = Place { owner: owner.into(), repository: name.into(), enterprise: None };
        self.outside().queue_job(place, Labels::from_iter(labels), millis(runs))
    }

    /// Delivers a fact of a job once more, under a delivery of its own; it may be long past.
    pub fn tell_again(&self, job: u64, fact: JobFact) {
        self.outside().tell_fact(job, fact);
    }

    /// Lets the next reading of a job come so late; it says what was true when it was asked for.
    pub fn read_late(&self, job: u64, late: Duration) {
        self.outside().script.late_readings.insert(job, millis(late));
    }

    /// Returns whether a late reading of a job is still to be asked for.
    pub fn is_unread(&self, job: u64) -> bool {
        self.outside().script.late_readings.contains_key(&job)
    }

    /// Lets the forge refuse every mint of a scope.
    pub fn refuse_mints(&self, scope: &Scope) {
        self.outside().script.refused_scopes.insert(scope.clone());
    }

    /// Lets the forge mint for a scope again.
    pub fn accept_mints(&self, scope: &Scope) {
        self.outside().script.refused_scopes.remove(scope);
    }

    /// Loses the next JIT configs on their way to the machines that asked.
    pub fn lose_dispatches(&self, count: u32) {
        self.outside().script.lost_dispatches += count;
    }

    /// Crashes the daemon as soon as the next delivery is durable, before anybody heard of it.
    pub fn crash_at_delivery(&self) {
        self.outside().script.crash_at_delivery = true;
    }
}
