//! Where jobs run: the forge's proof, and what it means for what was promised.
//!
//! The forge gives any runner any job whose labels fit. So the execution of B on the
//! instance that was offered A binds B there and frees A, in one transaction; and a job
//! that runs elsewhere frees the instance it was offered to.

use super::change::Act;
use super::facts::Source;
use super::ledger::Ledger;
use crate::model::{
    Execution, InstanceId, Job, JobId, OfferEnd, OfferStage, RunnerName, Timestamp, What,
};

impl Ledger {
    /// Returns whose runner a name is; a job's own holder is known by the form of the name.
    pub(super) fn whose(&self, job: &Job, name: &RunnerName) -> Option<InstanceId> {
        let holder = job.holder().filter(|holder| name.is_of(holder.as_str()));
        self.instances.named(name).or_else(|| holder.cloned())
    }

    /// Binds a job to the instance it is proven to run on, and frees what that was promised.
    pub(super) fn execute(&mut self, id: &JobId, instance: &InstanceId, now: Timestamp) {
        self.begin(id, now);
        let Some(job) = self.job(id) else { return };
        let (generation, before) = (job.generation, job.execution.clone());
        let offered = job.open_offer().map(|offer| offer.instance.clone());
        let pool = self.instances.pool_of(instance).cloned();
        self.amend(id, now, |job| {
            job.execution = Some(Execution { instance: instance.clone(), since: now });
            job.pool = pool.or(job.pool.take());
        });
        self.note(id, What::ExecutingOn(instance.clone()), now);
        // It is told first: an instance that only hears of its offer's end calls itself idle.
        self.act(Act::ShowExecution { instance: instance.clone(), job: id.clone() });
        match offered {
            Some(offered) if offered == *instance => self.end_offer(id, OfferEnd::Executed, now),
            Some(_) => self.end_offer(id, OfferEnd::TakenElsewhere, now),
            None => {}
        }
        if let Some(before) = before.filter(|before| before.instance != *instance) {
            self.tell_end(before.instance, id, generation, OfferEnd::TakenElsewhere);
        }
        for displaced in self.offers_to(instance) {
            self.end_offer(&displaced, OfferEnd::Displaced, now);
        }
        self.instances.leave(instance);
        if self.instances.is_over(instance) {
            self.act(Act::AskForge(id.clone()));
        }
    }

    /// Frees an instance whose job runs on a runner it does not answer to.
    pub(super) fn runs_elsewhere(
        &mut self,
        id: &JobId,
        named: bool,
        source: Source,
        now: Timestamp,
    ) {
        let Some(job) = self.job(id) else { return };
        // After a restart an instance may not have told its names yet.
        let denied = |instance: &InstanceId| {
            named && (source == Source::Direct || self.instances.has_answered(instance))
        };
        if let Some(offer) = job.open_offer() {
            // Without its JIT config the instance cannot be the one.
            if offer.stage == OfferStage::Offered || denied(&offer.instance) {
                self.end_offer(id, OfferEnd::TakenElsewhere, now);
            }
        } else if let Some(run) = job.execution.clone()
            && source == Source::Direct
            && denied(&run.instance)
        {
            let generation = job.generation;
            self.amend(id, now, |job| job.execution = None);
            let (instance, why) = (run.instance, OfferEnd::TakenElsewhere);
            self.note(id, What::Unoffered { instance: instance.clone(), why }, now);
            self.tell_end(instance, id, generation, why);
        }
    }
}
