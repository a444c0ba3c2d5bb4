//! The calls to the outside, one for each effect, with a deadline. An outcome always comes back.
//!
//! [`Capabilities`] are the doing halves of the ports: only this folder can open them, so machines
//! are created and deleted, runners registered and removed, and instance rows written by owners
//! alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::actor::Links;
use super::effect::{Effect, EffectOutcome, EffectToken};
use crate::jobs::ToLedger;
use crate::mail::ActorRef;
use crate::model::{
    ExitReport, ForgeId, HostName, Instance, JobId, PoolSpec, ProviderId, Sighting, Stamp,
    Timestamp,
};
use crate::ports::{
    Controller, CreateError, CreateOrder, Forge, ForgeError, Handover, InstanceRows, Jit,
    MachineRef, MintError, MintOrder, Provider, ProviderError, Records, RunnerRef, Seal,
};

/// How long a read or a call to the forge may take.
const READ_TIMEOUT: Duration = Duration::from_mins(1);
/// How long a delete may take before it is called again.
const DELETE_TIMEOUT: Duration = Duration::from_mins(10);
/// How long the ledger may take.
const LEDGER_TIMEOUT: Duration = Duration::from_secs(10);

/// The doing halves of provider, forge and store. Anyone may carry them; only `instance/` uses them.
///
/// ```compile_fail,E0616
/// fn reap(capabilities: &ostler_actors::instance::Capabilities) {
///     drop(&capabilities.providers); // private: a reaper cannot reach a machine
/// }
/// ```
#[derive(Clone)]
pub struct Capabilities {
    // Shared: every owner carries them.
    providers: Arc<BTreeMap<ProviderId, Arc<dyn Provider>>>,
    forges: Arc<BTreeMap<ForgeId, Arc<dyn Forge>>>,
    rows: Arc<dyn InstanceRows>,
    seal: Arc<dyn Seal>,
}

impl Capabilities {
    pub fn new(
        providers: BTreeMap<ProviderId, Arc<dyn Provider>>,
        forges: BTreeMap<ForgeId, Arc<dyn Forge>>,
        rows: Arc<dyn InstanceRows>,
        seal: Arc<dyn Seal>,
    ) -> Self {
        Self { providers: Arc::new(providers), forges: Arc::new(forges), rows, seal }
    }

    pub(super) fn rows(&self) -> Arc<dyn InstanceRows> {
        Arc::clone(&self.rows)
    }

    pub(super) fn seal(&self) -> &dyn Seal {
        &*self.seal
    }

    /// Returns how the instance's machine gets its JIT config.
    pub(super) fn handover(&self, row: &Instance) -> Handover {
        self.providers
            .get(&row.provider)
            .map_or(Handover::default(), |it| it.capabilities().handover)
    }

    /// Returns why nothing can be called for the instance at all, if so.
    pub(super) fn cut_off(&self, row: &Instance) -> Option<String> {
        if !self.providers.contains_key(&row.provider) {
            Some(format!("provider `{}` is not configured", row.provider))
        } else if !self.forges.contains_key(&row.forge) {
            Some(format!("forge `{}` is not configured", row.forge))
        } else {
            None
        }
    }
}

/// Effects in flight; they are aborted with their owner, so that a successor is never surprised by
/// its predecessor's next call.
#[derive(Default)]
pub(super) struct RunningEffects(BTreeMap<EffectToken, AbortHandle>);

impl RunningEffects {
    pub(super) fn insert(&mut self, token: EffectToken, handle: AbortHandle) {
        self.0.insert(token, handle);
    }

    pub(super) fn done(&mut self, token: EffectToken) {
        self.0.remove(&token);
    }
}

impl Drop for RunningEffects {
    fn drop(&mut self) {
        for effect in self.0.values() {
            effect.abort();
        }
    }
}

/// Runs one effect, on a snapshot of what it needs, so that the owner's row may move on.
pub(super) struct EffectRunner {
    row: Arc<Instance>,
    spec: Arc<PoolSpec>,
    controller: Arc<Controller>,
    provider: Arc<dyn Provider>,
    forge: Arc<dyn Forge>,
    records: Arc<dyn Records>,
    ledger: ActorRef<ToLedger>,
    avoid: Vec<HostName>,
    begun: Timestamp,
}

impl EffectRunner {
    /// Returns nothing where the provider or the forge is not configured any more.
    pub(super) fn new(
        links: &Links,
        row: &Arc<Instance>,
        avoid: &[HostName],
        begun: Timestamp,
    ) -> Option<Self> {
        let Capabilities { providers, forges, .. } = &links.capabilities;
        Some(Self {
            row: Arc::clone(row),
            spec: Arc::clone(&links.spec),
            controller: Arc::clone(&links.controller),
            provider: Arc::clone(providers.get(&row.provider)?),
            forge: Arc::clone(forges.get(&row.forge)?),
            records: Arc::clone(&links.base.records),
            ledger: links.ledger.clone(),
            avoid: avoid.to_vec(),
            begun,
        })
    }

    /// Makes the call and returns its outcome, or the outcome that stands for no answer.
    pub(super) async fn run(self, effect: Effect) -> EffectOutcome {
        let machine = MachineRef { name: self.row.machine.clone(), uid: self.row.uid.clone() };
        let scope = &self.row.scope;
        let begun = self.begun;
        match effect {
            Effect::Create { jit } => self.create(jit).await,
            Effect::Mint(name) => {
                let order = MintOrder {
                    scope: scope.clone(),
                    name,
                    labels: self.spec.labels.clone(),
                    group: self.spec.runner_group.clone(),
                };
                let answer = timeout(READ_TIMEOUT, self.forge.mint(order)).await;
                let no_answer = || Err(MintError::Unanswered { why: late(READ_TIMEOUT) });
                EffectOutcome::Minted(answer.unwrap_or_else(|_| no_answer()))
            }
            Effect::Deregister(id) => {
                let answer = timeout(READ_TIMEOUT, self.forge.deregister(scope, id)).await;
                let no_answer = || Err(ForgeError::Later { after: None, why: late(READ_TIMEOUT) });
                EffectOutcome::Deregistered(answer.unwrap_or_else(|_| no_answer()))
            }
            Effect::ReadRunner(name, id) => {
                let runner = RunnerRef { name, id };
                let seen = timeout(READ_TIMEOUT, self.forge.runner(scope, &runner)).await;
                EffectOutcome::Runner { begun, seen: seen.unwrap_or_else(|_| unknown()) }
            }
            Effect::FindRunner => {
                let seen = timeout(READ_TIMEOUT, self.forge.runner_of(scope, &machine.name)).await;
                EffectOutcome::Runner { begun, seen: seen.unwrap_or_else(|_| unknown()) }
            }
            Effect::ReadMachine => {
                let seen = timeout(READ_TIMEOUT, self.provider.read(&machine)).await;
                EffectOutcome::Machine { begun, seen: seen.unwrap_or_else(|_| unknown()) }
            }
            Effect::FindWork(name) => {
                let runner = RunnerRef { name, id: None };
                let seen = timeout(READ_TIMEOUT, self.forge.work_of(scope, &runner)).await;
                EffectOutcome::Work { begun, seen: seen.unwrap_or_else(|_| unknown()) }
            }
            Effect::ReadJob(job) => self.read_job(&job).await,
            Effect::GatherExitReport { want_tail } => {
                let limit = self.spec.policy.postmortem_timeout;
                let gathered = timeout(limit, self.provider.exit_report(&machine, want_tail)).await;
                let no_answer = |_| ExitReport::unavailable(late(limit));
                EffectOutcome::ExitReport(gathered.unwrap_or_else(no_answer))
            }
            Effect::Delete(grace) => {
                let answer = timeout(DELETE_TIMEOUT, self.provider.delete(&machine, grace)).await;
                let no_answer =
                    || Err(ProviderError::Later { after: None, why: late(DELETE_TIMEOUT) });
                EffectOutcome::Deleted(answer.unwrap_or_else(|_| no_answer()))
            }
            Effect::ConfirmDelivery(job, generation) => {
                let instance = self.row.id.clone();
                let ask = |reply| ToLedger::Deliver { job, instance, generation, reply };
                let allowed = self.ledger.ask(ask, LEDGER_TIMEOUT).await;
                EffectOutcome::Delivery { generation, allowed }
            }
            Effect::ConfirmOffer(job, generation) => {
                let instance = self.row.id.clone();
                let ask = |reply| ToLedger::IsOpen { job, instance, generation, reply };
                let open = self.ledger.ask(ask, LEDGER_TIMEOUT).await;
                EffectOutcome::OfferOpen { generation, open }
            }
        }
    }

    async fn create(&self, jit: Option<Jit>) -> EffectOutcome {
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
        let limit = self.spec.policy.create_settle;
        let answer = timeout(limit, self.provider.create(order)).await;
        let no_answer = || Err(CreateError::Unanswered { machine: name, why: late(limit) });
        EffectOutcome::Created(answer.unwrap_or_else(|_| no_answer()))
    }

    async fn read_job(&self, job: &JobId) -> EffectOutcome {
        let limit = self.spec.policy.postmortem_timeout;
        let read = async {
            match self.records.job(job).await {
                Ok(Some(known)) => self.forge.job(job, &known.place, known.run).await,
                Ok(None) => Sighting::Unknown("the job is not on record".into()),
                Err(error) => Sighting::Unknown(error.to_string()),
            }
        };
        EffectOutcome::Job(timeout(limit, read).await.unwrap_or_else(|_| unknown()))
    }
}

fn late(limit: Duration) -> String {
    format!("no answer in {} s", limit.as_secs())
}

fn unknown<T>() -> Sighting<T> {
    Sighting::Unknown(late(READ_TIMEOUT))
}
