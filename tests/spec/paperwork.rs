//! Words for stories about jobs: what the records say of them, and what was seen of them.

use std::time::Duration;

use ostler_actors::model::{
    InstanceId, Job, JobId, JobState, MachineName, OfferStage, OpenOffer, RunnerName, Subject, What,
};
use ostler_actors::testing::{Moment, Seen, SimJob, Watched};

use super::story::Tell as _;

/// Words about jobs; each fails the test with a sentence.
pub(super) trait Paperwork {
    /// Returns our name for a job.
    fn id(&self, job: u64) -> JobId;

    /// Returns a job's row.
    fn job(&self, job: u64) -> Option<Job>;

    /// Returns a job's derived state, if it has a row.
    fn job_state(&self, job: u64) -> Option<JobState>;

    /// Returns whether the forge's `completed` of a job is remembered.
    fn is_buried(&self, job: u64) -> bool;

    /// Returns a job as it is at the forge.
    fn at_forge(&self, job: u64) -> SimJob;

    /// Returns the offer of a job that stands.
    fn offer(&self, job: u64) -> Option<OpenOffer>;

    /// Returns whom a job is proven to run on.
    fn executor(&self, job: u64) -> Option<InstanceId>;

    /// Returns what was told of a job, in order.
    fn reported_of(&self, job: u64) -> Vec<What>;

    /// Returns every row of a job that was saved, in order, with the moment of its save.
    fn saved(&self, job: u64) -> Vec<(Moment, Job)>;

    /// Returns where a job's worker started, in order.
    fn started(&self, job: u64) -> Vec<(Moment, MachineName)>;

    /// Returns how often something was seen.
    fn count(&self, is_it: impl Fn(&Seen) -> bool) -> usize;

    /// Returns the names that were minted, in order.
    fn minted(&self) -> Vec<RunnerName>;

    /// Returns how often a fault struck.
    fn struck(&self, fault: &str) -> u64;

    /// Lets time pass until a job's offer is delivered and the runner made for it listens.
    async fn delivered(&mut self, job: u64, wait_limit: Duration) -> InstanceId;

    /// Lets time pass until a job is proven to run.
    async fn running(&mut self, job: u64, wait_limit: Duration) -> InstanceId;

    /// Lets time pass until jobs are over at the forge.
    async fn over(&mut self, jobs: &[u64], wait_limit: Duration);
}

impl Paperwork for Watched {
    fn id(&self, job: u64) -> JobId {
        self.outside().forge.job_id(job)
    }

    fn job(&self, job: u64) -> Option<Job> {
        let id = self.id(job);
        self.outside().records.job(&id).map(|job| Job::clone(job))
    }

    fn job_state(&self, job: u64) -> Option<JobState> {
        self.job(job).map(|job| job.state())
    }

    fn is_buried(&self, job: u64) -> bool {
        let id = self.id(job);
        self.outside().records.is_tombstone(&id)
    }

    fn at_forge(&self, job: u64) -> SimJob {
        self.outside().forge.jobs.get(&job).cloned().expect("a job of this number")
    }

    fn offer(&self, job: u64) -> Option<OpenOffer> {
        self.job(job).and_then(|job| job.open_offer().cloned())
    }

    fn executor(&self, job: u64) -> Option<InstanceId> {
        self.job(job).and_then(|job| job.execution).map(|run| run.instance)
    }

    fn reported_of(&self, job: u64) -> Vec<What> {
        let subject = Subject::Job(self.id(job));
        self.outside().records.timeline(&subject).map(|event| event.what.clone()).collect()
    }

    fn saved(&self, job: u64) -> Vec<(Moment, Job)> {
        let id = self.id(job);
        let mut rows = Vec::new();
        for seen in self.history() {
            if let Seen::JobsSaved { jobs, .. } = &seen.what {
                let of_it = jobs.iter().filter(|(_, after)| after.id == id);
                rows.extend(of_it.map(|(_, after)| (seen.at, Job::clone(after))));
            }
        }
        rows
    }

    fn started(&self, job: u64) -> Vec<(Moment, MachineName)> {
        let mut starts = Vec::new();
        for seen in self.history() {
            if let Seen::JobStarted { job: started, machine, .. } = &seen.what
                && *started == job
            {
                starts.push((seen.at, machine.clone()));
            }
        }
        starts
    }

    fn count(&self, is_it: impl Fn(&Seen) -> bool) -> usize {
        self.history().iter().filter(|seen| is_it(&seen.what)).count()
    }

    fn minted(&self) -> Vec<RunnerName> {
        let mut names = Vec::new();
        for seen in self.history() {
            if let Seen::Minted { name, .. } = &seen.what {
                names.push(name.clone());
            }
        }
        names
    }

    fn struck(&self, fault: &str) -> u64 {
        self.outside().injected.get(fault).copied().unwrap_or_default()
    }

    async fn delivered(&mut self, job: u64, wait_limit: Duration) -> InstanceId {
        let listens = |world: &Self| {
            let offer = world.offer(job).filter(|offer| offer.stage == OfferStage::Delivered)?;
            let outside = world.outside();
            let machine = outside.machines.anywhere(&MachineName::new(offer.instance.as_str()))?;
            machine.runner.is_some().then_some(offer.instance)
        };
        self.wait_for("a delivered offer", wait_limit, |world| listens(world).is_some()).await;
        listens(self).expect("an offer that has just been seen")
    }

    async fn running(&mut self, job: u64, wait_limit: Duration) -> InstanceId {
        self.wait_for("an execution", wait_limit, |world| world.executor(job).is_some()).await;
        self.executor(job).expect("an execution that has just been seen")
    }

    async fn over(&mut self, jobs: &[u64], wait_limit: Duration) {
        let all = |world: &Self| jobs.iter().all(|job| world.is_over(*job));
        self.wait_for("the end of its jobs", wait_limit, all).await;
    }
}

/// Returns the machine that an instance was made with.
pub(super) fn machine(id: &InstanceId) -> MachineName {
    MachineName::new(id.as_str())
}
