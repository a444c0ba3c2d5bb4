//! What the forge says of jobs: facts only rise, late, doubled and reordered news included.
//!
//! ```text
//! waiting ─▶ queued ─▶ in_progress ─▶ completed (tombstone: nothing comes after)
//!               │            ▲
//!               └─▶ closed ──┘  only an execution reopens what we gave up
//! ```

use super::change::{Act, Change};
use super::demand::Seat;
use super::ledger::Ledger;
use super::routing::{Route, Want};
use crate::model::{
    Asked, Closure, Conclusion, Event, Generation, Job, JobFact, JobId, JobNotice, JobOver, Offer,
    OfferEnd, RunnerName, Subject, Timestamp, What,
};
use crate::mutants::{self, Mutant};

/// Tells how news came: a notice may be late, a direct answer is of now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Notice,
    Direct,
}

impl Ledger {
    /// Hears news of a job from a forge.
    pub(crate) fn notice(&mut self, notice: JobNotice, now: Timestamp) -> Change {
        match &mut self.early {
            Some(early) => early.push(notice),
            None => self.hear(notice, now),
        }
        self.finish(now)
    }

    pub(super) fn hear(&mut self, notice: JobNotice, now: Timestamp) {
        self.change.save.handled.extend(notice.delivery.clone());
        let id = notice.id.clone();
        let waited = self.fact(&id) == Some(&JobFact::Waiting);
        if self.tombstones.holds(&id) || !(self.open.contains_key(&id) || self.admit(&notice, now))
        {
            return;
        }
        // A job that a deployment rule held back is as young as its release.
        let released = waited && notice.fact == JobFact::Queued;
        let queued_at = notice.queued_at.max(if released { now } else { notice.queued_at });
        if self.job(&id).is_some_and(|job| job.queued_at < queued_at) {
            self.amend(&id, now, |job| job.queued_at = queued_at);
        }
        self.raise(&id, notice.fact, notice.runner, Source::Notice, now);
    }

    /// Takes a job in that is not open; returns whether it concerns us.
    fn admit(&mut self, notice: &JobNotice, now: Timestamp) -> bool {
        let id = &notice.id;
        let proves = notice.fact.rank() >= JobFact::InProgress.rank();
        if self.closed.contains_key(id) {
            return proves && self.recall(id, now);
        }
        let ours = self.names_ours(notice);
        if self.is_served_after_all(notice) {
            return self.recall(id, now);
        }
        if let Some(job) = self.unservable.get_mut(id) {
            if notice.fact.rank() > job.fact.rank() {
                job.fact = notice.fact.clone();
                let shown = Act::Show(Box::new(job.clone()));
                self.act(shown);
            }
            return ours && self.recall(id, now);
        }
        let mut job = first_heard(notice, now);
        match self.route(&Want::of(&job)) {
            Route::To(pool) | Route::Held { pool, .. } => job.pool = Some(pool),
            Route::Nobody(_) if ours => {}
            Route::Nobody(why) => {
                self.pass_over(job, notice.fact.clone(), why, now);
                return false;
            }
        }
        self.take_in(job, now);
        if let Some(open) = self.open.get_mut(id) {
            open.route = None;
        }
        if notice.fact == JobFact::Waiting {
            self.note(id, What::JobReported(JobFact::Waiting), now);
        }
        true
    }

    /// Returns whether a job that nobody could serve when it was heard of, held back by its
    /// forge, has a pool by the time it is released.
    fn is_served_after_all(&self, notice: &JobNotice) -> bool {
        let released = notice.fact == JobFact::Queued;
        self.unservable.get(&notice.id).is_some_and(|job| {
            let serves = || !matches!(self.route(&Want::of(job)), Route::Nobody(_));
            released && job.fact == JobFact::Waiting && serves()
        })
    }

    /// Returns whether a notice names a runner of ours that could have taken such a job. Forges
    /// have delivered the events of strangers; a name alone proves nothing, and neither does one
    /// of a pool that has left the config.
    fn names_ours(&self, notice: &JobNotice) -> bool {
        let named = notice.runner.as_ref().and_then(|name| self.instances.named(name));
        let pool = named.as_ref().and_then(|id| self.instances.pool_of(id));
        pool.and_then(|pool| self.homes.get(pool))
            .is_some_and(|home| home.forge == notice.id.forge && home.scope.covers(&notice.place))
    }

    /// Remembers a job that no pool serves, and says so; it gets no row.
    fn pass_over(&mut self, job: Job, fact: JobFact, why: String, now: Timestamp) {
        if fact.is_over() {
            return;
        }
        let subject = Subject::Job(job.id.clone());
        let what = What::Unserved(why);
        self.act(Act::Announce(Event { subject, seq: 0, at: now, last_at: now, count: 1, what }));
        let job = Job { fact, ..job };
        self.act(Act::Show(Box::new(job.clone())));
        if let Some(forgotten) = self.unservable.keep(job) {
            self.act(Act::Hide(forgotten));
        }
    }

    /// Counts a job that was put aside among the open ones again.
    pub(super) fn recall(&mut self, id: &JobId, now: Timestamp) -> bool {
        let aside = self.closed.remove(id).or_else(|| self.unservable.take(id));
        let found = aside.is_some();
        if let Some(job) = aside {
            self.take_in(job, now);
        }
        found
    }

    /// Lets a fact rise.
    pub(super) fn raise(
        &mut self,
        id: &JobId,
        fact: JobFact,
        runner: Option<RunnerName>,
        source: Source,
        now: Timestamp,
    ) {
        match fact {
            JobFact::Waiting => {}
            JobFact::Queued => {
                if self.fact(id) == Some(&JobFact::Waiting) {
                    self.amend(id, now, |job| {
                        job.fact = JobFact::Queued;
                        // One that was held back is queued since it got leave, not since its birth.
                        if job.heard_at < now {
                            job.queued_at = now;
                        }
                    });
                    self.note(id, What::JobReported(JobFact::Queued), now);
                    self.assign(id, Seat::Fresh, now);
                }
            }
            JobFact::InProgress => self.progress(id, runner.as_ref(), source, now),
            JobFact::Completed(conclusion) => self.complete(id, &conclusion, runner, now),
        }
    }

    /// Learns that a job runs, here or elsewhere.
    fn progress(
        &mut self,
        id: &JobId,
        runner: Option<&RunnerName>,
        source: Source,
        now: Timestamp,
    ) {
        self.begin(id, now);
        let Some(job) = self.job(id) else { return };
        let proven = job.execution.as_ref().map(|run| run.instance.clone());
        let claimed = runner.and_then(|name| self.whose(job, name));
        let is_news = source == Source::Direct || proven.is_none();
        if runner.is_some() && runner != job.runner.as_ref() && is_news {
            self.amend(id, now, |job| job.runner = runner.cloned());
        }
        match (claimed, proven) {
            (Some(claimed), Some(proven)) if claimed == proven => {}
            // Two runners of ours by hearsay: only the forge can tell which came last.
            (Some(_), Some(_)) if source == Source::Notice => self.act(Act::AskForge(id.clone())),
            (Some(claimed), _) => self.execute(id, &claimed, now),
            (None, _) => self.runs_elsewhere(id, runner.is_some(), source, now),
        }
    }

    /// Lets the fact rise to `in_progress`, and reopens what was given up.
    pub(super) fn begin(&mut self, id: &JobId, now: Timestamp) {
        let Some(job) = self.job(id) else { return };
        let (closed, risen) = (job.closed.is_some(), job.fact.rank() < JobFact::InProgress.rank());
        if closed {
            self.amend(id, now, |job| (job.closed, job.over_at) = (None, None));
            self.note(id, What::Reopened, now);
        }
        if risen {
            self.amend(id, now, |job| job.fact = JobFact::InProgress);
            self.note(id, What::JobReported(JobFact::InProgress), now);
        }
    }

    /// Learns that a job is over: nothing comes after.
    fn complete(
        &mut self,
        id: &JobId,
        conclusion: &Conclusion,
        runner: Option<RunnerName>,
        now: Timestamp,
    ) {
        let Some(job) = self.job(id) else { return };
        let ran = job.execution.as_ref().map(|run| run.instance.clone());
        let named = runner.as_ref().and_then(|name| self.whose(job, name));
        let offered = job.open_offer().map(|offer| offer.instance.clone());
        if runner.is_some() {
            self.amend(id, now, |job| job.runner = runner);
        }
        if let Some(named) = &named
            && Some(named) != ran.as_ref()
        {
            self.execute(id, named, now);
        }
        let fact = JobFact::Completed(conclusion.clone());
        self.amend(id, now, |job| {
            (job.fact, job.closed, job.over_at) = (fact.clone(), None, Some(now));
        });
        self.note(id, What::JobReported(fact), now);
        self.end_offer(id, OfferEnd::JobOver, now);
        let over = |names_us| JobOver {
            job: id.clone(),
            conclusion: Some(conclusion.clone()),
            names_us,
            at: now,
        };
        if let Some(instance) = ran.filter(|ran| Some(ran) != named.as_ref()) {
            self.act(Act::ShowJobOver { instance, over: over(false) });
        }
        if let Some(instance) = named {
            self.act(Act::ShowJobOver { instance, over: over(true) });
        } else if let Some(instance) = offered
            && mutants::is(Mutant::CompletionByOfferedJob)
        {
            self.act(Act::ShowJobOver { instance, over: over(true) });
        }
        self.let_go(id);
        self.tombstones.bury(id, now);
        self.change.save.tombstones.push((id.clone(), now));
    }

    /// Gives a job up that the forge never called completed.
    pub(super) fn close(&mut self, id: &JobId, why: Closure, now: Timestamp) {
        let Some(job) = self.job(id) else { return };
        let (ran, generation) = (job.execution.clone(), job.generation);
        self.amend(id, now, |job| {
            (job.closed, job.over_at, job.execution) = (Some(why), Some(now), None);
        });
        self.note(id, What::Closed(why), now);
        self.end_offer(id, OfferEnd::JobOver, now);
        if let Some(run) = ran {
            self.tell_end(run.instance, id, generation, OfferEnd::JobOver);
        }
        if let Some(job) = self.let_go(id) {
            self.closed.insert(id.clone(), job);
        }
    }
}

/// Makes the record of a job that was never heard of.
fn first_heard(notice: &JobNotice, now: Timestamp) -> Job {
    Job {
        id: notice.id.clone(),
        place: notice.place.clone(),
        run: notice.run,
        name: notice.name.clone(),
        url: notice.url.clone(),
        labels: notice.labels.clone(),
        fact: JobFact::Waiting,
        pool: None,
        offer: Offer::None,
        generation: Generation::default(),
        execution: None,
        closed: None,
        queued_at: notice.queued_at,
        heard_at: now,
        over_at: None,
        runner: None,
        asked: Asked::default(),
        events: 0,
    }
}
