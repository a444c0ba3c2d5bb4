//! The calls to the outside, one for each effect, with a deadline. An outcome always comes back: a call
//! that is late, panics or is lost with its task is answered by what stands for no answer.
//!
//! [`Capabilities`] are the doing halves of the ports: only this folder can open them, so machines
//! are created and deleted, runners registered and removed, and instance rows written by owners
//! alone.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::task::AbortHandle;

use super::ToInstance;
use super::actor::Links;
use super::effect::{Effect, EffectOutcome, EffectToken, PostedEffect};
use crate::calls::answered;
use crate::jobs::ToLedger;
use crate::mail::{ActorRef, Mailbox};
use crate::model::{
    ForgeId, HostName, Instance, JobId, JobReading, PoolSpec, ProviderId, RunnerName, Sighting,
    Stamp, Timestamp,
};
use crate::mutants::{self, Mutant};
use crate::ports::{
    Controller, CreateOrder, CreateSlot, Forge, Handover, InstanceRows, Jit, MachineRef, MintError,
    MintGate, MintOrder, Minted, Provider, Records, RunnerRef, Seal,
};

/// How long a read or a call to the forge may take.
const READ_TIMEOUT: Duration = Duration::from_mins(1);
/// How long a registration may wait for the forge's budget before it is given up, to be tried again.
const MINT_QUEUE_TIMEOUT: Duration = Duration::from_mins(15);
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

    /// Returns whether the provider limits how many creates run at once.
    pub(super) fn has_create_slots(&self, row: &Instance) -> bool {
        self.providers.get(&row.provider).is_some_and(|it| it.capabilities().create_slots.is_some())
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
    gate: MintGate,
}

impl EffectRunner {
    /// Returns nothing where the provider or the forge is not configured any more.
    pub(super) fn new(
        links: &Links,
        row: &Arc<Instance>,
        avoid: &[HostName],
        begun: Timestamp,
        gate: MintGate,
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
            gate,
        })
    }

    /// Makes the call and returns its outcome, or the outcome that stands for no answer.
    pub(super) async fn run(self, effect: Effect) -> EffectOutcome {
        let limit = self.limit(&effect);
        match answered(limit, self.call(effect.clone())).await {
            Ok(outcome) => outcome,
            Err(why) => effect.unanswered(&self.row.machine, self.begun, why),
        }
    }

    /// Returns how long the call may take.
    fn limit(&self, effect: &Effect) -> Duration {
        let policy = &self.spec.policy;
        match effect {
            Effect::Create { .. } | Effect::AwaitSlot => policy.create_settle,
            Effect::Mint(_)
            | Effect::Deregister(_)
            | Effect::ReadRunner(..)
            | Effect::FindRunner
            | Effect::ReadMachine
            | Effect::FindWork(_) => READ_TIMEOUT,
            Effect::ReadJob(_) | Effect::GatherExitReport { .. } => policy.postmortem_timeout,
            Effect::Delete(_) => DELETE_TIMEOUT,
            Effect::ConfirmDelivery(..) | Effect::ConfirmOffer(..) => LEDGER_TIMEOUT,
        }
    }

    async fn call(&self, effect: Effect) -> EffectOutcome {
        let machine = MachineRef { name: self.row.machine.clone(), uid: self.row.uid.clone() };
        let scope = &self.row.scope;
        let begun = self.begun;
        match effect {
            Effect::Create { jit, slot } => {
                EffectOutcome::Created(self.provider.create(self.create_order(jit, slot)).await)
            }
            Effect::AwaitSlot => {
                let slots = self.provider.capabilities().create_slots;
                EffectOutcome::Slot(Ok(match slots {
                    Some(slots) => slots.take().await,
                    None => CreateSlot::default(),
                }))
            }
            Effect::Mint(name) => EffectOutcome::Minted(self.mint(name).await),
            Effect::Deregister(id) => {
                EffectOutcome::Deregistered(self.forge.deregister(scope, id).await)
            }
            Effect::ReadRunner(name, id) => {
                let seen = self.forge.runner(scope, &RunnerRef { name, id }).await;
                EffectOutcome::Runner { begun, seen }
            }
            Effect::FindRunner => {
                let seen = self.forge.runner_of(scope, &machine.name).await;
                EffectOutcome::Runner { begun, seen }
            }
            Effect::ReadMachine => {
                let seen = self.provider.read(&machine).await;
                EffectOutcome::Machine { begun, seen }
            }
            Effect::FindWork(name) => {
                let seen = self.forge.work_of(scope, &RunnerRef { name, id: None }).await;
                EffectOutcome::Work { begun, seen }
            }
            Effect::ReadJob(job) => EffectOutcome::Job(self.read_job(&job).await),
            Effect::GatherExitReport { want_tail } => {
                EffectOutcome::ExitReport(self.provider.exit_report(&machine, want_tail).await)
            }
            Effect::Delete(grace) => {
                EffectOutcome::Deleted(self.provider.delete(&machine, grace).await)
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

    /// Registers a runner, unless that is given up before it was sent. The forge's time counts from
    /// then on: a registration may wait for its budget for longer than for its answer.
    async fn mint(&self, name: RunnerName) -> Result<Minted, MintError> {
        let gate = &self.gate;
        let order = MintOrder {
            scope: self.row.scope.clone(),
            name,
            labels: self.spec.labels.clone(),
            group: self.spec.runner_group.clone(),
            gate: gate.clone(),
        };
        let not_sent = |why: &str| Err(MintError::Later { after: None, why: why.into() });
        let mut answer = self.forge.mint(order);
        let queued = tokio::time::sleep(MINT_QUEUE_TIMEOUT);
        let (mut queued, mut settled) = (pin!(queued), pin!(gate.settled()));
        // First the wait for the budget: it ends with the call, with the reason for it, or in time.
        let early = poll_fn(|cx| {
            if let Poll::Ready(answer) = answer.as_mut().poll(cx) {
                return Poll::Ready(Some(answer));
            }
            if queued.as_mut().poll(cx).is_ready() {
                gate.give_up();
            }
            settled.as_mut().poll(cx).map(|()| None)
        });
        match early.await {
            Some(answer) => answer,
            None if gate.give_up() => not_sent("it was given up before it was sent"),
            None => answered(READ_TIMEOUT, answer)
                .await
                .unwrap_or_else(|why| Err(MintError::Unanswered { why })),
        }
    }

    fn create_order(&self, jit: Option<Jit>, slot: CreateSlot) -> CreateOrder {
        CreateOrder {
            name: self.row.machine.clone(),
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
            slot,
        }
    }

    async fn read_job(&self, job: &JobId) -> Sighting<JobReading> {
        match self.records.job(job).await {
            Ok(Some(known)) => self.forge.job(job, &known.place, known.run).await,
            Ok(None) => Sighting::Unknown("the job is not on record".into()),
            Err(error) => Sighting::Unknown(error.to_string()),
        }
    }
}

/// Owes an owner the outcome of an effect. Dropped without one, by a task that is aborted, lost, or
/// panics outside the call, it answers that none came: no state waits for an answer that cannot come.
pub(super) struct OwedOutcome {
    owner: Mailbox<ToInstance>,
    token: EffectToken,
    /// What stands for the outcome, until the real one is there.
    substitute: Option<EffectOutcome>,
}

impl OwedOutcome {
    pub(super) fn new(
        owner: Mailbox<ToInstance>,
        posted: &PostedEffect,
        runner: &EffectRunner,
    ) -> Self {
        let why = "the call was given up".to_owned();
        let substitute = posted.effect.unanswered(&runner.row.machine, runner.begun, why);
        Self { owner, token: posted.token, substitute: Some(substitute) }
    }

    /// Sends the outcome.
    pub(super) fn settle(mut self, outcome: EffectOutcome) {
        self.substitute = Some(outcome);
    }
}

impl Drop for OwedOutcome {
    fn drop(&mut self) {
        if mutants::is(Mutant::EffectWithoutAnswer) && std::thread::panicking() {
            return;
        }
        if let Some(outcome) = self.substitute.take() {
            // An owner that is gone has no use for it.
            let _: Result<(), _> = self.owner.tell(ToInstance::EffectDone(self.token, outcome));
        }
    }
}
