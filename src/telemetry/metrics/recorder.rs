//! Counts events of the chronicle; only the leader counts, so that no event is counted twice.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use async_trait::async_trait;
use ostler_actors::model::{
    Event, Instance, InstanceId, Job, JobFact, JobId, OfferEnd, PoolId, State, Subject, Timestamp,
    VerdictClass, What, elapsed,
};
use ostler_actors::ports::Records;
use ostler_actors::registry::Registry;

use super::labels::{CauseLabel, DeathLabels, MoveLabels, PoolLabel};
use super::{ByPool, Metrics};
use crate::ports::Sequenced;
use crate::ports::{Stage, Status};
use crate::telemetry::chronicle::Listener;

/// Why an offer may end unserved.
pub(super) const CAUSES: [&str; 6] =
    ["refused", "lapsed", "requeued", "displaced", "instance_ended", "not_fetched"];
/// How many jobs of a pool may wait for a create to be matched with.
const MAX_WAITING_JOBS: usize = 1000;

pub struct Recorder {
    metrics: Arc<Metrics>,
    board: Arc<Registry>,
    records: Arc<dyn Records>,
    status: Arc<Status>,
    /// Instances that are not gone.
    known: BTreeMap<InstanceId, InstanceProgress>,
    /// Jobs that no create was matched with, by pool, in order.
    waiting: BTreeMap<PoolId, VecDeque<(JobId, Timestamp)>>,
    /// Jobs whose offer ended unserved, since then.
    stranded: BTreeMap<JobId, Timestamp>,
}

/// What was counted of an instance already.
#[derive(Default)]
struct InstanceProgress {
    /// When the job was heard of that its create is matched with.
    heard: Option<Timestamp>,
    created: bool,
    ready: bool,
    deleting: Option<Timestamp>,
}

impl Recorder {
    /// Creates a recorder that has counted nothing.
    pub fn new(
        metrics: Arc<Metrics>,
        board: Arc<Registry>,
        records: Arc<dyn Records>,
        status: Arc<Status>,
    ) -> Self {
        let (known, waiting, stranded) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { metrics, board, records, status, known, waiting, stranded }
    }

    async fn of_instance(&mut self, id: &InstanceId, event: &Event) {
        let row = match self.board.instance(id) {
            Some(row) => Some(row),
            None => self.records.instance(id).await.ok().flatten().map(Arc::new),
        };
        let pool = row.as_ref().map_or_else(|| "unknown".to_owned(), |row| row.pool.to_string());
        if let What::Moved { from, to, .. } = &event.what {
            let labels = MoveLabels { pool: pool.clone(), from: from.as_str(), to: to.as_str() };
            self.metrics.transitions.get_or_create(&labels).inc();
            self.moved(id, *to, event.at, row.as_deref());
        } else if let Some(verdict) = event.what.settled_verdict() {
            self.died(id, pool, verdict).await;
        } else if let (What::Respawned { .. }, Some(row)) = (&event.what, row.as_deref()) {
            // What happened before the restart is not counted again.
            let known = self.known.entry(id.clone()).or_default();
            (known.created, known.ready) = (row.seen_at.is_some(), row.ready_at.is_some());
        }
    }

    fn moved(&mut self, id: &InstanceId, to: State, at: Timestamp, row: Option<&Instance>) {
        if to == State::Deleted {
            let known = self.known.remove(id).unwrap_or_default();
            if let (Some(began), Some(row)) = (known.deleting, row) {
                observe(&self.metrics.delete, &row.pool, began, at);
            }
            return;
        }
        let Some(row) = row else { return };
        if to == State::Creating && row.create_called_at.is_none_or(|called| called >= at) {
            let heard = self.waiting.get_mut(&row.pool).and_then(VecDeque::pop_front);
            self.known.entry(id.clone()).or_default().heard = heard.map(|(_, heard)| heard);
        }
        let known = self.known.entry(id.clone()).or_default();
        if let (Some(heard), Some(called)) = (known.heard, row.create_called_at) {
            observe(&self.metrics.webhook_to_create, &row.pool, heard, called);
            known.heard = None;
        }
        if let (false, Some(called), Some(seen)) =
            (known.created, row.create_called_at, row.seen_at)
        {
            observe(&self.metrics.create, &row.pool, called, seen);
            known.created = true;
        }
        // A runner that was given a job at once was never seen idle; its work proves it ready.
        let ready = row.ready_at.or_else(|| (to == State::Busy).then_some(at));
        if let (false, Some(seen), Some(ready)) = (known.ready, row.seen_at, ready) {
            observe(&self.metrics.boot, &row.pool, seen, ready);
            observe(&self.metrics.ready, &row.pool, row.created_at, ready);
            known.ready = true;
        }
        if to == State::Deleting {
            known.deleting = Some(at);
        }
    }

    async fn died(&self, id: &InstanceId, pool: String, verdict: VerdictClass) {
        let record = self.records.exit(id).await.ok().flatten();
        let fault = record.map_or(verdict.usual_fault(), |record| record.verdict.fault).as_str();
        let labels = DeathLabels { pool, verdict: verdict.as_str(), fault };
        self.metrics.deaths.get_or_create(&labels).inc();
    }

    async fn of_job(&mut self, id: &JobId, event: &Event) {
        if let What::Routed(pool) = &event.what {
            let line = self.waiting.entry(pool.clone()).or_default();
            let heard = self.board.job(id).map_or(event.at, |job| job.heard_at);
            if line.len() < MAX_WAITING_JOBS && !line.iter().any(|(waits, _)| waits == id) {
                line.push_back((id.clone(), heard));
            }
        } else if let What::ExecutingOn(_) = &event.what {
            self.found(id, event.at);
            if let Some(job) = self.job(id).await
                && let (Some(pool), Some(run)) = (&job.pool, &job.execution)
            {
                observe(&self.metrics.queue, pool, job.queued_at, run.since);
            }
            self.forget(id);
        } else if let What::OfferedTo(_) = &event.what {
            self.found(id, event.at);
        } else if let What::Unoffered { why, .. } = &event.what {
            self.unserved(id, *why, event.last_at);
        } else if let What::JobReported(JobFact::Completed(_)) = &event.what {
            if let Some(job) = self.job(id).await
                && let (Some(pool), Some(run), Some(over)) =
                    (&job.pool, &job.execution, job.over_at)
            {
                observe(&self.metrics.run, pool, run.since, over);
            }
            self.forget(id);
        } else if let What::Closed(_) = &event.what {
            self.forget(id);
        }
    }

    fn unserved(&mut self, id: &JobId, why: OfferEnd, at: Timestamp) {
        let cause = match why {
            OfferEnd::Refused => CAUSES[0],
            OfferEnd::Lapsed => CAUSES[1],
            OfferEnd::Requeued => CAUSES[2],
            OfferEnd::Displaced => CAUSES[3],
            OfferEnd::InstanceEnded => CAUSES[4],
            OfferEnd::NotFetched => CAUSES[5],
            OfferEnd::TakenElsewhere | OfferEnd::Executed | OfferEnd::JobOver => return,
        };
        self.metrics.requeued.get_or_create(&CauseLabel { cause }).inc();
        self.stranded.insert(id.clone(), at);
    }

    /// Records that a job is no longer stranded.
    fn found(&mut self, id: &JobId, at: Timestamp) {
        let pool = self.board.job(id).and_then(|job| job.pool.clone());
        if let (Some(since), Some(pool)) = (self.stranded.remove(id), pool) {
            observe(&self.metrics.stranded, &pool, since, at);
        }
    }

    fn forget(&mut self, id: &JobId) {
        self.stranded.remove(id);
        for line in self.waiting.values_mut() {
            line.retain(|(waits, _)| waits != id);
        }
    }

    async fn job(&self, id: &JobId) -> Option<Arc<Job>> {
        match self.board.job(id) {
            Some(job) => Some(job),
            None => self.records.job(id).await.ok().flatten().map(Arc::new),
        }
    }
}

fn observe(histogram: &ByPool, pool: &PoolId, from: Timestamp, to: Timestamp) {
    let label = PoolLabel::of(pool.as_str());
    histogram.get_or_create(&label).observe(elapsed(from, to).as_secs_f64());
}

#[async_trait]
impl Listener for Recorder {
    async fn on_event(&mut self, event: &Sequenced) {
        if !matches!(self.status.shown().stage, Stage::Leading | Stage::Stopping) {
            return;
        }
        match &event.event.subject {
            Subject::Instance(id) => self.of_instance(id, &event.event).await,
            Subject::Job(id) => self.of_job(id, &event.event).await,
            Subject::Pool(_) => {}
        }
    }
}
