//! Calls to the outside, one each, with a deadline. Whatever happens, an answer comes back.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::Answer;
use super::call::Call;
use crate::jobs::ToLedger;
use crate::mail::ActorRef;
use crate::model::{ExitReport, HostName, Instance, JobId, PoolSpec, Sighting, Stamp, Timestamp};
use crate::ports::{
    Controller, CreateError, CreateOrder, Forge, ForgeError, MachineRef, MintError, MintOrder,
    Provider, ProviderError, Records, RunnerRef,
};

/// How long a look or a call to the forge may take.
const LOOK: Duration = Duration::from_mins(1);
/// How long a delete may take before it is asked for again.
const DELETE: Duration = Duration::from_mins(10);
/// How long the ledger may take.
const LEDGER: Duration = Duration::from_secs(10);

/// Holds what a call needs; a snapshot, so that the owner's row may move on.
#[derive(Clone)]
pub(super) struct Effect {
    pub(super) row: Arc<Instance>,
    pub(super) spec: Arc<PoolSpec>,
    pub(super) controller: Arc<Controller>,
    pub(super) provider: Arc<dyn Provider>,
    pub(super) forge: Arc<dyn Forge>,
    pub(super) records: Arc<dyn Records>,
    pub(super) ledger: ActorRef<ToLedger>,
    pub(super) avoid: Vec<HostName>,
    pub(super) begun: Timestamp,
}

impl Effect {
    /// Makes the call and returns its answer, or the answer that stands for none.
    pub(super) async fn run(self, call: Call) -> Answer {
        let machine = MachineRef { name: self.row.machine.clone(), uid: self.row.uid.clone() };
        let scope = &self.row.scope;
        let begun = self.begun;
        match call {
            Call::Create { jit } => self.create(jit).await,
            Call::Mint(name) => {
                let order = MintOrder {
                    scope: scope.clone(),
                    name,
                    labels: self.spec.labels.clone(),
                    group: self.spec.runner_group.clone(),
                };
                let answer = timeout(LOOK, self.forge.mint(order)).await;
                Answer::Minted(
                    answer.unwrap_or_else(|_| Err(MintError::Unanswered { why: late(LOOK) })),
                )
            }
            Call::Deregister(id) => {
                let answer = timeout(LOOK, self.forge.deregister(scope, id)).await;
                let no_answer = || Err(ForgeError::Later { after: None, why: late(LOOK) });
                Answer::Deregistered(answer.unwrap_or_else(|_| no_answer()))
            }
            Call::LookRunner(name, id) => {
                let who = RunnerRef { name, id };
                let seen = timeout(LOOK, self.forge.runner(scope, &who)).await;
                Answer::Runner { begun, seen: seen.unwrap_or_else(|_| unknown()) }
            }
            Call::LookRunners => {
                let seen = timeout(LOOK, self.forge.runner_of(scope, &machine.name)).await;
                Answer::Runner { begun, seen: seen.unwrap_or_else(|_| unknown()) }
            }
            Call::LookMachine => {
                let seen = timeout(LOOK, self.provider.read(&machine)).await;
                Answer::Machine { begun, seen: seen.unwrap_or_else(|_| unknown()) }
            }
            Call::LookWork(name) => {
                let who = RunnerRef { name, id: None };
                let seen = timeout(LOOK, self.forge.work_of(scope, &who)).await;
                Answer::Work { begun, seen: seen.unwrap_or_else(|_| unknown()) }
            }
            Call::LookJob(job) => self.look_job(&job).await,
            Call::ExitReport { want_tail } => {
                let patience = self.spec.policy.postmortem_timeout;
                let gathered =
                    timeout(patience, self.provider.exit_report(&machine, want_tail)).await;
                Answer::ExitReport(
                    gathered.unwrap_or_else(|_| ExitReport::unavailable(late(patience))),
                )
            }
            Call::Delete(grace) => {
                let answer = timeout(DELETE, self.provider.delete(&machine, grace)).await;
                let no_answer = || Err(ProviderError::Later { after: None, why: late(DELETE) });
                Answer::Deleted(answer.unwrap_or_else(|_| no_answer()))
            }
            Call::AskDelivery(job, generation) => {
                let instance = self.row.id.clone();
                let ask = |reply| ToLedger::Deliver { job, instance, generation, reply };
                Answer::Delivery { generation, allowed: self.ledger.ask(ask, LEDGER).await }
            }
            Call::AskOpen(job, generation) => {
                let instance = self.row.id.clone();
                let ask = |reply| ToLedger::IsOpen { job, instance, generation, reply };
                Answer::OfferOpen { generation, open: self.ledger.ask(ask, LEDGER).await }
            }
        }
    }

    async fn create(&self, jit: Option<crate::ports::Jit>) -> Answer {
        let name = self.row.machine.clone();
        let order = CreateOrder {
            name: name.clone(),
            stamp: Stamp {
                controller: Some(self.controller.id.clone()),
                holder: Some(self.controller.holder.clone()),
                pool: Some(self.row.pool.clone()),
                instance: Some(self.row.id.clone()),
            },
            machine: self.spec.machine.clone(),
            pool: Arc::clone(&self.spec),
            avoid: self.avoid.clone(),
            attempt: self.row.mints,
            jit,
        };
        let patience = self.spec.policy.create_settle;
        let answer = timeout(patience, self.provider.create(order)).await;
        let no_answer = || Err(CreateError::Unanswered { machine: name, why: late(patience) });
        Answer::Created(answer.unwrap_or_else(|_| no_answer()))
    }

    async fn look_job(&self, job: &JobId) -> Answer {
        let patience = self.spec.policy.postmortem_timeout;
        let look = async {
            match self.records.job(job).await {
                Ok(Some(known)) => self.forge.job(job, &known.place, known.run).await,
                Ok(None) => Sighting::Unknown("the job is not on record".into()),
                Err(error) => Sighting::Unknown(error.to_string()),
            }
        };
        Answer::Job(timeout(patience, look).await.unwrap_or_else(|_| unknown()))
    }
}

fn late(patience: Duration) -> String {
    format!("no answer in {} s", patience.as_secs())
}

fn unknown<T>() -> Sighting<T> {
    Sighting::Unknown(late(LOOK))
}
