//! How the outside reaches the daemon: webhooks, machines that ask for work, operators.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::World;
use crate::fleet::ToFleet;
use crate::instance::Dispatch;
use crate::mail::Reply;
use crate::model::{InstanceId, PoolSpec, RequestedBy, Revision, Urgency};
use crate::ports::Inbox as _;
use crate::testing::forge::Delivery;
use crate::testing::happening::{Happening, OperatorAction};
use crate::testing::observed::Seen;
use crate::testing::outside::Outside;
use crate::testing::provider::{Stage, runner_of};
use crate::testing::script::Death;
use crate::testing::store::SimStore;

/// How long a machine waits for an answer before it asks again.
const LONG_POLL: Duration = Duration::from_mins(1);

impl World {
    /// Delivers a webhook: durable first, then told. A daemon that is down misses it.
    pub(super) fn deliver(&mut self, delivery: Delivery) {
        let Some(life) = &self.life else {
            self.outside().missed(delivery);
            return;
        };
        let (shared, fleet) = (Arc::clone(&self.shared), life.fleet.clone());
        life.tasks.spawn_local(async move {
            let Delivery { id, mut notice } = delivery;
            let store = SimStore::new(Arc::clone(&shared));
            let accepted = store.accept(id.clone(), notice.clone()).await;
            if accepted.is_ok() {
                notice.delivery = Some(id);
                fleet.tell(ToFleet::Notice(notice)).ok();
            } else {
                shared.call(|outside| outside.redeliver(Delivery { id, notice })).await;
            }
        });
    }

    /// Lets a machine ask for work.
    pub(super) fn poll(&mut self, number: u64) {
        let instance = {
            let mut outside = self.outside();
            let outside = &mut *outside;
            let Some(machine) = outside.machines.machines.get_mut(&number) else { return };
            let mute = outside.script.mute_pollers.contains(&machine.name);
            let asks =
                machine.stage == Stage::Polling && !machine.leaving && !machine.asking && !mute;
            let host = machine.host.clone();
            if asks && outside.is_cut_off(&host) {
                outside.count_only("poller silent");
                return;
            }
            let Some(machine) = outside.machines.machines.get_mut(&number) else { return };
            let Some(instance) = machine.stamp.instance.clone().filter(|_| asks) else { return };
            machine.asking = self.life.is_some();
            instance
        };
        let Some(life) = &self.life else {
            self.outside().later(5_000, Happening::Poll(number));
            return;
        };
        let (shared, fleet) = (Arc::clone(&self.shared), life.fleet.clone());
        life.tasks.spawn_local(async move {
            let (reply, answer) = Reply::channel();
            let ask = ToFleet::Dispatch { instance: instance.clone(), acknowledges: true, reply };
            fleet.tell(ask).ok();
            let answer = timeout(LONG_POLL, answer).await.ok().and_then(Result::ok);
            let has_work =
                shared.call(|outside| outside.dispatched(number, &instance, answer)).await;
            if has_work {
                fleet.tell(ToFleet::Acknowledged(instance)).ok();
            }
        });
    }

    /// Does what an operator does, if there is a daemon to do it to.
    pub(super) fn action(&mut self, action: OperatorAction) {
        if !matches!(action, OperatorAction::Delete(_) | OperatorAction::Roll(_)) {
            self.outside().touch();
        }
        if self.life.is_none() {
            // Operators try again when it is up, in the order in which they tried first.
            if !matches!(action, OperatorAction::Stop) {
                self.put_off.push(action);
            }
            return;
        }
        match action {
            OperatorAction::Delete(instance) => self.ask_to_go(instance, Urgency::Delete),
            OperatorAction::Force(instance) => self.ask_to_go(instance, Urgency::Force),
            OperatorAction::Drain { pool, drained } => self.ask_to_drain(pool, drained),
            OperatorAction::Roll(pool) => {
                let now = self.now();
                if let Some(spec) = self.plan.pools.get_mut(pool) {
                    spec.revision = Revision::new(format!("r{now}"));
                }
                self.say(ToFleet::Apply(self.configured()));
            }
            OperatorAction::Relabel { pool, labels } => {
                let now = self.now();
                if let Some(spec) = self.plan.pools.get_mut(pool) {
                    spec.labels = labels;
                    spec.revision = Revision::new(format!("r{now}"));
                }
                self.outside().pools = self.plan.pools.iter().cloned().map(Arc::new).collect();
                self.outside().touch();
                self.say(ToFleet::Apply(self.configured()));
            }
            OperatorAction::Remove(pool) => {
                let spec = self.plan.pools.get(pool).map(|spec| spec.id.clone());
                if let Some(id) = spec.filter(|_| !self.outside().faults.is_calm()) {
                    self.outside().removed_pools.insert(id);
                    self.say(ToFleet::Apply(self.configured()));
                }
            }
            OperatorAction::Restore(pool) => {
                let spec = self.plan.pools.get(pool).map(|spec| spec.id.clone());
                if spec.is_some_and(|id| self.outside().removed_pools.remove(&id)) {
                    self.put_back(pool);
                }
            }
            OperatorAction::Restart => {
                self.say(ToFleet::Shutdown(Reply::discard()));
                self.outside().later(10_000, Happening::Operator(OperatorAction::Stop));
            }
            OperatorAction::Stop => self.outside().crash("orderly stop"),
        }
    }

    /// Returns the pools that the config names now.
    pub(super) fn configured(&self) -> Vec<PoolSpec> {
        let outside = self.outside();
        let named = |spec: &&PoolSpec| !outside.removed_pools.contains(&spec.id);
        self.plan.pools.iter().filter(named).cloned().collect()
    }

    /// Puts every pool back that the config has lost.
    pub(super) fn put_all_back(&self) {
        let removed = std::mem::take(&mut self.outside().removed_pools);
        for (number, spec) in self.plan.pools.iter().enumerate() {
            if removed.contains(&spec.id) {
                self.put_back(number);
            }
        }
    }

    /// Loads the config with a pool that it had lost. An operator who drained it meanwhile has had no
    /// chance to resume it.
    fn put_back(&self, pool: usize) {
        self.say(ToFleet::Apply(self.configured()));
        self.ask_to_drain(pool, false);
    }

    /// Drains or resumes a pool. An operator who gets no answer, because the daemon crashed or the fleet
    /// panicked over it, asks the next one again.
    fn ask_to_drain(&self, pool: usize, drained: bool) {
        let (Some(spec), Some(life)) = (self.plan.pools.get(pool), &self.life) else { return };
        self.outside().unanswered.insert(pool, drained);
        let (id, fleet) = (spec.id.clone(), life.fleet.clone());
        let shared = Arc::clone(&self.shared);
        life.tasks.spawn_local(async move {
            // Until it is answered, or another request for this pool arrives.
            while shared.lock().unanswered.get(&pool) == Some(&drained) {
                let (reply, answer) = Reply::channel();
                let who = "operator".into();
                fleet.tell(ToFleet::Drain { pool: id.clone(), drained, who, reply }).ok();
                if answer.await.is_ok() {
                    let unanswered = &mut shared.lock().unanswered;
                    if unanswered.get(&pool) == Some(&drained) {
                        unanswered.remove(&pool);
                    }
                    return;
                }
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
        });
    }

    /// Returns what operators try again with a new daemon: first what the last one did not
    /// answer, then what they wanted while there was none.
    pub(super) fn tries_again(&mut self) -> Vec<OperatorAction> {
        let unanswered = std::mem::take(&mut self.outside().unanswered);
        let again =
            unanswered.into_iter().map(|(pool, drained)| OperatorAction::Drain { pool, drained });
        again.chain(std::mem::take(&mut self.put_off)).collect()
    }

    /// Asks for an instance to go, as an operator does.
    pub fn ask_to_go(&self, instance: InstanceId, urgency: Urgency) {
        let by = RequestedBy { who: "operator".into(), why: "simulated".into() };
        self.say(ToFleet::Retire { instance, urgency, by, reply: Reply::discard() });
    }

    /// Says something to the daemon, if it lives.
    pub fn say(&self, message: ToFleet) {
        if let ToFleet::Retire { instance, urgency: Urgency::Force, .. } = &message {
            self.outside().forced.insert(instance.clone());
        }
        if let Some(life) = &self.life {
            life.fleet.tell(message).ok();
        }
    }
}

impl Outside {
    /// Brings a delivery again that met no daemon, or gives it up.
    fn missed(&mut self, delivery: Delivery) {
        if self.dice.hits(5_000) {
            self.redeliver(delivery);
        } else {
            self.count("delivery given up");
        }
    }

    /// Brings a delivery again that was refused: it may be durable all the same.
    fn redeliver(&mut self, delivery: Delivery) {
        let wait = self.dice.between(30_000, 1_800_000);
        self.later(wait, Happening::Deliver(Box::new(delivery)));
    }

    /// Gives a machine the answer to its question; returns whether it has work now.
    fn dispatched(&mut self, number: u64, instance: &InstanceId, answer: Option<Dispatch>) -> bool {
        let Some(machine) = self.machines.machines.get_mut(&number) else { return false };
        machine.asking = false;
        let mute = self.script.mute_pollers.contains(&machine.name);
        let host = machine.host.clone();
        if machine.stage != Stage::Polling || machine.leaving || mute {
            return false;
        }
        if self.is_cut_off(&host) {
            return false;
        }
        match answer {
            None => self.later(5_000, Happening::Poll(number)),
            Some(Dispatch::Wait) => self.later(1_000, Happening::Poll(number)),
            Some(Dispatch::Leave) => self.later(1_000, Happening::Die(number, Death::Clean)),
            Some(Dispatch::Work(_))
                if self.script.loses_dispatch()
                    || self.strikes(self.faults.provider.dispatch_lost, "dispatch answer lost") =>
            {
                self.log("dispatch lost", instance.as_str(), 0);
                self.later(2_000, Happening::Poll(number));
            }
            Some(Dispatch::Work(jit)) => {
                let runner = runner_of(&jit);
                let registered = runner
                    .and_then(|runner| self.forge.runners.get(&runner))
                    .is_some_and(|runner| runner.registered);
                let delivered = self.records.was_delivered(instance);
                self.log("handed out", instance.as_str(), u64::from(delivered));
                let instance = instance.clone();
                self.observe(Seen::HandedOut { instance, delivered, registered });
                match runner {
                    Some(runner) => self.connect(number, runner),
                    None => self.die(number, Death::RunnerError),
                }
                return true;
            }
        }
        false
    }
}
