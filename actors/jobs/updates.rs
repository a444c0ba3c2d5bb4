//! What instances tell of themselves.

use super::change::{Act, Change};
use super::ledger::Ledger;
use super::memory::Answering;
use super::{InstanceChange, InstanceUpdate};
use crate::model::{
    Instance, InstanceId, JobId, JobOver, OfferEnd, OfferStage, PoolId, RunnerName, Timestamp,
    is_due,
};

/// Returns what an instance's row says, as its owner would have told it; a new ledger finds
/// owners who believe that they have told everything.
pub(super) fn testimony(row: &Instance, has_owner: bool) -> Vec<InstanceUpdate> {
    let names = || (1..=row.mints.max(1)).map(|mint| row.runner_name(mint)).collect();
    let mut news = Vec::new();
    if row.state.is_over() {
        news.push(InstanceChange::Ended);
    } else if has_owner {
        news.push(InstanceChange::Answers(names()));
        news.extend(row.is_offerable().then_some(InstanceChange::Offerable));
    }
    let told = |what| InstanceUpdate { id: row.id.clone(), pool: row.pool.clone(), what };
    news.into_iter().map(told).collect()
}

impl Ledger {
    /// Hears news of an instance.
    pub(crate) fn news(&mut self, news: InstanceUpdate, now: Timestamp) -> Change {
        let InstanceUpdate { id, pool, what } = news;
        match what {
            InstanceChange::Answers(names) => self.appeared(&id, &pool, names, now),
            InstanceChange::Offerable => self.instances.wait(&id, &pool),
            InstanceChange::Unavailable | InstanceChange::Working(None) => {
                self.instances.leave(&id);
            }
            InstanceChange::Working(Some(job)) => self.works(&id, &job, now),
            InstanceChange::RunnerLost => self.doubt_runs(&id, now),
            InstanceChange::Ended => self.ended(&id, &pool, now),
            InstanceChange::Deleted => {
                self.ended(&id, &pool, now);
                self.instances.forget(&id);
            }
        }
        self.finish(now)
    }

    /// Says again what a new owner may have missed, and recognises runners by their names.
    fn appeared(&mut self, id: &InstanceId, pool: &PoolId, names: Vec<RunnerName>, now: Timestamp) {
        let recognised: Vec<JobId> =
            names.iter().flat_map(|name| self.index.strangers_of(name)).cloned().collect();
        let runs = self.runs_on(id);
        let answering = self.instances.answers(id, pool, names);
        for job in recognised {
            self.execute(&job, id, now);
        }
        if answering == Answering::Appeared {
            for job in runs {
                self.act(Act::ShowExecution { instance: id.clone(), job });
            }
            for job in self.offers_to(id) {
                self.offer_again(id, job);
            }
        }
    }

    fn offer_again(&mut self, id: &InstanceId, job: JobId) {
        if let Some(offer) = self.offer_of(&job) {
            let delivered = offer.stage == OfferStage::Delivered;
            let (instance, generation) = (id.clone(), offer.generation);
            self.act(Act::Offer { instance, job, generation, delivered });
        }
    }

    /// Learns from the instance itself which job runs on it.
    fn works(&mut self, id: &InstanceId, job: &JobId, now: Timestamp) {
        self.instances.leave(id);
        if self.tombstones.holds(job) {
            // The end was told when it came; this owner has not heard of it.
            let over = JobOver { job: job.clone(), conclusion: None, names_us: false, at: now };
            self.act(Act::ShowJobOver { instance: id.clone(), over });
            return;
        }
        let known = self.open.contains_key(job) || self.recall(job, now);
        let proven = self.runs_on(id).contains(job);
        if known && !proven {
            self.execute(job, id, now);
        }
    }

    /// Has the forge asked about jobs whose runner lost it, unless it has just answered: it may
    /// have given them back to its queue.
    fn doubt_runs(&mut self, id: &InstanceId, now: Timestamp) {
        let patience = self.settings.orphan_after;
        for job in self.runs_on(id) {
            let last = self.job(&job).and_then(|job| job.asked.last_at);
            if last.is_none_or(|last| is_due(last, patience, now)) {
                self.act(Act::AskForge(job));
            }
        }
    }

    /// Frees what was only promised to an instance, and has the rest asked about.
    fn ended(&mut self, id: &InstanceId, pool: &PoolId, now: Timestamp) {
        if !self.instances.end(id, pool) {
            return;
        }
        for job in self.offers_to(id) {
            match self.offer_of(&job).map(|offer| offer.stage) {
                Some(OfferStage::Offered) => self.end_offer(&job, OfferEnd::InstanceEnded, now),
                Some(OfferStage::Delivered) => self.act(Act::AskForge(job)),
                None => {}
            }
        }
        for job in self.runs_on(id) {
            self.act(Act::AskForge(job));
        }
    }
}
