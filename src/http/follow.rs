//! What HTTP learns from the chronicle: events for readers, waits for the page, leaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use ostler_actors::model::{Event, Job, JobId, Subject, What, elapsed};
use tokio::task::JoinHandle;
use tracing::warn;

use super::AppState;
use crate::ports::{JobQuery, Page, Sequenced};
use crate::telemetry::chronicle::{self, Listener};

/// How often the totals are told.
const TOTALS: Duration = Duration::from_secs(1);
/// How many of the latest jobs tell how long jobs waited before we began.
const LATELY: u32 = 1000;

/// Counts instances that operators struck off: what is left of them has no owner.
#[derive(Debug, Default)]
pub(super) struct Forgotten(AtomicU64);

impl Forgotten {
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The tasks that follow the events for HTTP; they end when this is dropped.
pub struct Following(Vec<JoinHandle<()>>);

impl Drop for Following {
    fn drop(&mut self) {
        for task in &self.0 {
            task.abort();
        }
    }
}

impl AppState {
    /// Begins to follow the events, for readers, the page and the other listeners, and to tell
    /// people what they should know.
    pub fn follow(
        &self,
        others: Vec<Box<dyn Listener>>,
        telling: impl Future<Output = ()> + Send + 'static,
    ) -> Following {
        let mut listeners: Vec<Box<dyn Listener>> = vec![Box::new(Ear(self.clone()))];
        listeners.extend(others);
        let (app_state, history) = (self.clone(), Arc::clone(&self.history));
        let registry = Arc::clone(&self.registry);
        let following = tokio::spawn(async move {
            app_state.recall().await;
            chronicle::follow(history, registry, listeners).await;
        });
        let totals = tokio::spawn(tell_totals(self.clone()));
        Following(vec![following, totals, tokio::spawn(telling)])
    }

    /// Learns from the records what happened before we began.
    async fn recall(&self) {
        match self.history.forgotten().await {
            Ok(count) => self.forgotten.0.store(count, Ordering::Relaxed),
            Err(why) => warn!("instances struck off earlier are not counted: {why}"),
        }
        let page = Page { limit: LATELY, cursor: None };
        match self.history.jobs(&JobQuery::default(), &page).await {
            Ok(jobs) => jobs.items.iter().for_each(|job| self.record_wait(job)),
            Err(why) => warn!("waits of the last hour are not known: {why}"),
        }
    }

    /// Notes how long a job waited that has begun.
    fn record_wait(&self, job: &Job) {
        if let (Some(pool), Some(run)) = (&job.pool, &job.execution) {
            self.waits.record(pool, run.since, elapsed(job.queued_at, run.since));
        }
    }

    /// Returns a job as it is on the board, or else in the records.
    async fn job(&self, id: &JobId) -> Option<Arc<Job>> {
        if let Some(job) = self.registry.job(id) {
            return Some(job);
        }
        self.records.job(id).await.ok().flatten().map(Arc::new)
    }
}

/// Listens for HTTP.
struct Ear(AppState);

#[async_trait]
impl Listener for Ear {
    async fn on_event(&mut self, event: &Sequenced) {
        self.0.event_stream.tell(event);
        let Event { subject, what, count, .. } = &event.event;
        if let (Subject::Instance(_), What::Forgotten, 1) = (subject, what, count) {
            self.0.forgotten.0.fetch_add(1, Ordering::Relaxed);
        }
        if let (Subject::Job(id), What::ExecutingOn(_)) = (subject, what)
            && let Some(job) = self.0.job(id).await
        {
            self.0.record_wait(&job);
        }
    }
}

/// Tells readers the totals when they change, at most once a second.
async fn tell_totals(app_state: AppState) {
    let mut ticks = tokio::time::interval(TOTALS);
    let mut told = None;
    loop {
        ticks.tick().await;
        if !app_state.event_stream.is_read() {
            told = None;
            continue;
        }
        let totals = app_state.totals();
        if told.as_ref() != Some(&totals) {
            app_state.event_stream.show(&totals);
            told = Some(totals);
        }
    }
}
