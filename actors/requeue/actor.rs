//! The shell of the requeue actor: search the records, ask the forge, pass the answers on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use tokio::task::AbortHandle;
use tracing::{debug, warn};

use super::ToRequeue;
use super::questions::Questions;
use super::unserved::{AskReason, JobQuestion, find, question};
use crate::base::Base;
use crate::calls::answered;
use crate::fleet::{FleetPart, ToFleet};
use crate::jobs::{JobFinding, ToLedger};
use crate::mail::{ActorRef, Mailbox};
use crate::model::{ForgeId, InstanceId, Job, JobId, Sighting, State, Timestamp};
use crate::ports::{Roster, StoreError};
use crate::settings::RequeueSettings;
use crate::supervise::{Envelope, ExitNotifier, StopGuard, mailbox};

/// How long the forge may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Holds what the requeue actor is connected to.
pub(crate) struct RequeueStart {
    pub(crate) actor_ref: ActorRef<ToRequeue>,
    pub(crate) fleet: ActorRef<ToFleet>,
    pub(crate) ledger: ActorRef<ToLedger>,
    pub(crate) base: Base,
    pub(crate) rosters: BTreeMap<ForgeId, Arc<dyn Roster>>,
    pub(crate) settings: RequeueSettings,
}

/// Starts the requeue actor; its exit is reported to the fleet as `Died`.
pub(crate) fn start(start: RequeueStart) -> StopGuard {
    let actor_ref = start.actor_ref.clone();
    let mailbox = mailbox(RequeueActor::new(start).start());
    actor_ref.install(mailbox.clone());
    StopGuard::new(move || {
        let _ = mailbox.tell(ToRequeue::Halt);
    })
}

struct RequeueActor {
    links: RequeueStart,
    /// The search of the records that is under way.
    search: Option<AbortHandle>,
    questions: Questions,
    effects: Vec<AbortHandle>,
    _exit_notifier: ExitNotifier,
}

impl RequeueActor {
    fn new(links: RequeueStart) -> Self {
        let fleet = links.fleet.clone();
        let exit_notifier = ExitNotifier::new(move |panicked| {
            let _ = fleet.tell(ToFleet::Died { part: FleetPart::Requeue, panicked });
        });
        Self {
            links,
            search: None,
            questions: Questions::default(),
            effects: Vec::new(),
            _exit_notifier: exit_notifier,
        }
    }

    /// Searches the records, unless the last search is still going on. Questions of the last one
    /// may still wait: a job that has lost its runner since must not wait for them.
    fn search(&mut self, ctx: &mut Context<Self>) {
        if self.search.as_ref().is_some_and(|search| !search.is_finished()) {
            return;
        }
        let (base, settings) = (self.links.base.clone(), self.links.settings.clone());
        let home: Mailbox<ToRequeue> = mailbox(ctx.address());
        let search = self.run(async move {
            match search(&base, &settings).await {
                Ok(found) => {
                    let _ = home.tell(ToRequeue::Found(found));
                }
                Err(why) => {
                    warn!("unserved jobs: search failed: {why}; next attempt at the next tick");
                }
            }
        });
        self.search = Some(search);
    }

    /// Asks about one job as soon as there is room.
    fn ask_about(&mut self, job: JobId, why: AskReason, ctx: &mut Context<Self>) {
        let base = self.links.base.clone();
        let home: Mailbox<ToRequeue> = mailbox(ctx.address());
        self.run(async move {
            match base.records.job(&job).await {
                Ok(row) => {
                    if let Some(asked) = row.and_then(|row| question(&row, why)) {
                        let _ = home.tell(ToRequeue::Asked(asked));
                    }
                }
                // The next search finds it.
                Err(error) => {
                    warn!(job.id = %job, "job {job}: read failed, not asked about: {error}");
                }
            }
        });
    }

    /// Asks as many as may be under way.
    fn ask(&mut self, ctx: &mut Context<Self>) {
        while let Some(question) = self.questions.begin() {
            let over = QuestionGuard { home: mailbox(ctx.address()), job: question.job.clone() };
            let roster = self.links.rosters.get(&question.job.forge).cloned();
            let ledger = self.links.ledger.clone();
            let begun = self.links.base.clock.now();
            self.run(async move {
                let _over = over;
                let finding = ask_forge(roster, question, begun).await;
                let _ = ledger.tell(ToLedger::Finding(finding));
            });
        }
    }

    fn run(&mut self, effect: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let effect = self.links.base.spawner.spawn(Box::pin(effect));
        self.effects.retain(|effect| !effect.is_finished());
        self.effects.push(effect.clone());
        effect
    }
}

impl Actor for RequeueActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(self.links.settings.tick, Self::search);
    }
}

impl Handler<Envelope<ToRequeue>> for RequeueActor {
    type Result = ();

    fn handle(&mut self, Envelope(message): Envelope<ToRequeue>, ctx: &mut Self::Context) {
        match message {
            ToRequeue::Ask(job, why) => self.ask_about(job, why, ctx),
            ToRequeue::Tick => self.search(ctx),
            ToRequeue::Asked(question) => {
                self.questions.enqueue(question);
                self.ask(ctx);
            }
            ToRequeue::Found(found) => {
                for question in found {
                    self.questions.found(question);
                }
                self.ask(ctx);
            }
            ToRequeue::Answered(job) => {
                self.questions.over(&job);
                self.ask(ctx);
            }
            ToRequeue::Halt => ctx.stop(),
        }
    }
}

impl Drop for RequeueActor {
    fn drop(&mut self) {
        for effect in &self.effects {
            effect.abort();
        }
    }
}

/// Tells the actor that a question is over, also when the answer never comes.
struct QuestionGuard {
    home: Mailbox<ToRequeue>,
    job: JobId,
}

impl Drop for QuestionGuard {
    fn drop(&mut self) {
        let _ = self.home.tell(ToRequeue::Answered(self.job.clone()));
    }
}

/// Reads the open jobs and, if one is offered or runs, the instances.
async fn search(base: &Base, settings: &RequeueSettings) -> Result<Vec<JobQuestion>, StoreError> {
    let jobs = base.records.open_jobs().await?;
    let mut live: BTreeMap<InstanceId, State> = BTreeMap::new();
    if jobs.iter().any(|job| Job::holder(job).is_some()) {
        let rows = base.records.live_instances(None).await?;
        live.extend(rows.into_iter().map(|row| (row.id, row.state)));
    }
    let found = find(&jobs, &live, base.clock.now(), settings);
    debug!(open = jobs.len(), asked = found.len(), "searched for unserved jobs");
    Ok(found)
}

/// Asks the forge one question.
async fn ask_forge(
    roster: Option<Arc<dyn Roster>>,
    asked: JobQuestion,
    begun: Timestamp,
) -> JobFinding {
    let seen = match roster {
        Some(roster) => {
            let answer = roster.job(&asked.job, &asked.place, asked.run);
            answered(ANSWER_TIMEOUT, answer).await.unwrap_or_else(Sighting::Unknown)
        }
        None => Sighting::Unknown(format!("forge `{}` is not configured", asked.job.forge)),
    };
    let JobQuestion { job, instance, generation, .. } = asked;
    JobFinding { job, instance, generation, begun, seen }
}
