//! Making and deleting machines.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Hand, Kind, Machine, SimProvider, Stage};
use crate::model::{End, HostName, MachineView, RunnerId, WarrantKind};
use crate::ports::{
    CreateError, CreateOrder, CreateSlot, CreateSlots, Deletion, Grace, Jit, MachineRef, Provider,
    ProviderCapabilities, ProviderError,
};
use crate::testing::clock::millis;
use crate::testing::happening::Happening;
use crate::testing::observed::{DeleteCalled, Seen};
use crate::testing::outside::{Outside, sleep_millis};
use crate::testing::script::{CreatePlan, DeletePlan, Fate};

/// Tells how a create will be answered, and when.
struct Answer {
    wait: Option<u64>,
    made: Option<u64>,
    no_machine: NoMachine,
    why: &'static str,
}

/// Tells what a create that answers without a machine says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NoMachine {
    /// Nothing was made.
    Refused,
    /// It was refused, and nothing is vouched for.
    Failed,
    /// Nothing at all.
    Unanswered,
}

#[async_trait]
impl Provider for SimProvider {
    async fn create(&self, order: CreateOrder) -> Result<MachineView, CreateError> {
        self.swallow().await;
        let machine = order.name.clone();
        let index = self.index;
        let answer = self.shared.call(|outside| outside.create(index, &order)).await;
        match answer.wait {
            Some(wait) => sleep_millis(wait).await,
            None => return std::future::pending().await,
        }
        let view = self.shared.call(|outside| outside.created(answer.made)).await;
        self.shared.answer("create", |faults| faults.provider.panics).await;
        let why = answer.why.into();
        match view {
            Some(view) => Ok(view),
            None => Err(match answer.no_machine {
                NoMachine::Refused => CreateError::Refused { machine, why },
                NoMachine::Failed => CreateError::Failed { machine, why },
                NoMachine::Unanswered => CreateError::Unanswered { machine, why },
            }),
        }
    }

    async fn delete(&self, machine: &MachineRef, grace: Grace) -> Result<Deletion, ProviderError> {
        self.swallow().await;
        let index = self.index;
        let answered = self.shared.call(|outside| outside.delete(index, machine, grace)).await;
        let Some((wait, answer)) = answered else { return std::future::pending().await };
        sleep_millis(wait).await;
        self.shared.answer("delete", |faults| faults.provider.panics).await;
        answer
    }

    fn capabilities(&self) -> ProviderCapabilities {
        let kind = self.shared.lock().machines.providers.get(self.index).map(|(_, kind)| *kind);
        let limited = kind == Some(Kind::Blind);
        ProviderCapabilities {
            create_slots: limited.then(|| Arc::new(self.clone()) as Arc<dyn CreateSlots>),
            ..ProviderCapabilities::default()
        }
    }
}

#[async_trait]
impl CreateSlots for SimProvider {
    async fn take(&self) -> CreateSlot {
        let slot = Arc::clone(&self.slots).acquire_owned().await;
        self.shared.answer("await slot", |faults| faults.provider.panics).await;
        slot.map_or_else(|_| CreateSlot::default(), CreateSlot::held)
    }
}

impl Outside {
    fn create(&mut self, provider: usize, order: &CreateOrder) -> Answer {
        self.observe_create(provider, order);
        let wait = self.provider_wait() + self.dice.skewed(100, 10_000);
        if self.machines.named(provider, &order.name).is_some() {
            let why = "a machine of that name exists";
            return Answer { wait: Some(wait), made: None, no_machine: NoMachine::Unanswered, why };
        }
        let plan = if self.is_full(provider) {
            CreatePlan::Refused
        } else {
            self.create_plan(millis(order.pool.policy.create_settle))
        };
        let comes = match plan {
            CreatePlan::Good | CreatePlan::Lost => Some(wait),
            CreatePlan::RefusedComes(after) | CreatePlan::FailedComes(after) => Some(after),
            CreatePlan::Hangs(after) => after,
            CreatePlan::Refused | CreatePlan::Failed | CreatePlan::Vain => None,
        };
        let made = comes.map(|after| self.order_machine(provider, order, after));
        let answer = |wait, no_machine, why| Answer { wait, made: None, no_machine, why };
        let answer = match plan {
            CreatePlan::Good => Answer { made, ..answer(Some(wait), NoMachine::Unanswered, "") },
            CreatePlan::Refused => answer(Some(wait), NoMachine::Refused, "quota"),
            CreatePlan::Failed => answer(Some(wait), NoMachine::Failed, "no such flavor"),
            CreatePlan::FailedComes(_) => answer(Some(wait), NoMachine::Failed, "exit code 1"),
            CreatePlan::RefusedComes(_) => answer(Some(wait), NoMachine::Unanswered, "500"),
            CreatePlan::Lost | CreatePlan::Vain => {
                answer(Some(30_000), NoMachine::Unanswered, "timeout")
            }
            CreatePlan::Hangs(_) => answer(None, NoMachine::Unanswered, ""),
        };
        let rate = self.faults.store.crash_effect;
        self.may_crash(rate, "crash after a create");
        answer
    }

    fn observe_create(&mut self, provider: usize, order: &CreateOrder) {
        let times = self.machines.ordered.entry(order.name.clone()).or_default();
        *times += 1;
        let again = *times > 1;
        self.log("create", order.name.as_str(), u64::from(again));
        let row = order.stamp.instance.as_ref().and_then(|id| self.records.row(id));
        let seen = Seen::CreateCalled {
            instance: order.stamp.instance.clone(),
            machine: order.name.clone(),
            provider: self.provider_id(provider),
            again,
            state: row.map(|row| row.state),
            committed: row.is_some_and(|row| row.create_called_at.is_some()),
        };
        self.observe(seen);
    }

    fn create_plan(&mut self, settle: u64) -> CreatePlan {
        if let Some(plan) = self.script.creates.pop_front().or(self.script.every_create) {
            return plan;
        }
        let soon = self.dice.skewed(1_000, settle / 2);
        if self.strikes(self.faults.provider.create_refused, "create refused") {
            // A provider that vouches for nothing says the same words.
            if self.dice.hits(5_000) { CreatePlan::Refused } else { CreatePlan::Failed }
        } else if self.strikes(self.faults.provider.create_refused_comes, "refused, comes anyway") {
            self.comes_anyway(soon)
        } else if self.strikes(self.faults.provider.create_lost, "create answer lost") {
            CreatePlan::Lost
        } else if self.strikes(self.faults.provider.create_vain, "create in vain") {
            CreatePlan::Vain
        } else if self.strikes(self.faults.provider.create_hangs, "create hangs") {
            let comes = self.dice.hits(5_000);
            CreatePlan::Hangs(comes.then_some(soon))
        } else if self.strikes(self.faults.provider.create_too_late, "machine too late") {
            let late = settle + self.dice.between(1_000, 900_000);
            if self.dice.hits(5_000) {
                self.comes_anyway(late)
            } else {
                CreatePlan::Hangs(Some(late))
            }
        } else {
            CreatePlan::Good
        }
    }

    /// Answers with an error of either kind, and lets the machine come.
    fn comes_anyway(&mut self, after: u64) -> CreatePlan {
        if self.dice.hits(5_000) {
            CreatePlan::RefusedComes(after)
        } else {
            CreatePlan::FailedComes(after)
        }
    }

    /// Returns whether a provider has no room for one more machine.
    fn is_full(&self, provider: usize) -> bool {
        let held = || self.machines.machines.values().filter(|it| it.provider == provider).count();
        self.script.room.is_some_and(|room| held() >= room)
    }

    /// Chooses a host at random, one that is not to be avoided if there is one; a sick one
    /// looks empty and is preferred.
    fn choose_host(&mut self, provider: usize, avoid: &[HostName]) -> HostName {
        let hosts = self.hosts.max(1);
        if let Some(host) = self.crowded_host(provider) {
            return host;
        }
        let drawn = self.dice.below(hosts);
        let named = |host| HostName::new(format!("host-{provider}-{host}"));
        let mut around = (drawn..hosts).chain(0..drawn).map(named);
        let is_dark =
            |host: &HostName| self.script.dark_hosts.contains(host) || !self.host_lives(host);
        let host = around
            .clone()
            .find(|host| !avoid.contains(host) && !is_dark(host))
            .or_else(|| around.find(|host| !is_dark(host)))
            .unwrap_or_else(|| named(drawn));
        match self.script.sick_hosts.first().cloned() {
            Some(sick) if !avoid.contains(&sick) && self.dice.hits(5_000) => sick,
            Some(_) | None => host,
        }
    }

    /// Decides how a machine on this host lives.
    fn fate_on(&mut self, host: &HostName) -> Fate {
        if self.script.sick_hosts.contains(host) {
            return Fate::NeverBoots;
        }
        let planned = self.script.fates.pop_front();
        planned.or_else(|| self.script.every_machine.clone()).unwrap_or(Fate::Good)
    }

    pub(super) fn order_machine(
        &mut self,
        provider: usize,
        order: &CreateOrder,
        after: u64,
    ) -> u64 {
        self.machines.last += 1;
        let number = self.machines.last;
        let kind = self.machines.providers.get(provider).map_or(Kind::Blind, |(_, kind)| *kind);
        let host = self.choose_host(provider, &order.avoid);
        let machine = Machine {
            number,
            provider,
            name: order.name.clone(),
            uid: format!("u{number}"),
            kind,
            binding: order.pool.binding,
            stamp: order.stamp.clone(),
            fate: self.fate_on(&host),
            host,
            jit: order.jit.as_ref().and_then(runner_of),
            runner: None,
            stage: Stage::Ordered,
            worker: None,
            began: false,
            leaving: false,
            doubt: false,
            since: 0,
            asking: false,
            stuck: None,
            lied: false,
            delete_lies: 0,
        };
        self.machines.names.insert((provider, machine.name.clone()), number);
        self.machines.machines.insert(number, machine);
        self.later(after, Happening::Appear(number));
        number
    }

    fn created(&mut self, made: Option<u64>) -> Option<MachineView> {
        let number = made?;
        self.appear(number);
        self.machines.machines.get(&number).map(|machine| machine.view(false))
    }

    /// Deletes a machine; returns nothing where no answer ever comes.
    fn delete(
        &mut self,
        provider: usize,
        target: &MachineRef,
        grace: Grace,
    ) -> Option<(u64, Result<Deletion, ProviderError>)> {
        let wait = self.provider_wait();
        let hand = self.observe_delete(provider, target);
        let found =
            self.find(provider, target).map(|machine| (machine.number, machine.delete_lies));
        let Some((number, lies)) = found else {
            return Some((wait, Ok(Deletion::NotFound)));
        };
        match self.script.resisting.get(&target.name).copied() {
            Some(how) => self.resist(number, hand, how).map(|deletion| (wait, Ok(deletion))),
            None => Some(self.delete_found(number, lies, hand, (wait, grace))),
        }
    }

    fn delete_found(
        &mut self,
        number: u64,
        lies: u8,
        hand: Hand,
        (wait, grace): (u64, Grace),
    ) -> (u64, Result<Deletion, ProviderError>) {
        let later = |why: &str| ProviderError::Later { after: None, why: why.into() };
        match self.delete_plan(lies) {
            DeletePlan::Fails => return (wait, Err(later("503"))),
            DeletePlan::Lies => {
                if let Some(machine) = self.machines.machines.get_mut(&number) {
                    machine.delete_lies += 1;
                }
                return (wait, Ok(Deletion::Accepted));
            }
            DeletePlan::Good(linger) => self.begin_departure(number, hand, linger, grace),
            DeletePlan::Lost => {
                self.begin_departure(number, hand, 1_000, grace);
                let rate = self.faults.store.crash_effect;
                self.may_crash(rate, "crash after a delete");
                return (20_000, Err(later("timeout")));
            }
        }
        let rate = self.faults.store.crash_effect;
        self.may_crash(rate, "crash after a delete");
        (wait, Ok(Deletion::Accepted))
    }

    fn delete_plan(&mut self, lies: u8) -> DeletePlan {
        if let Some(plan) = self.script.deletes.pop_front() {
            return plan;
        }
        if self.strikes(self.faults.provider.delete_fails, "delete fails") {
            DeletePlan::Fails
        } else if self.strikes(self.faults.provider.delete_lost, "delete answer lost") {
            DeletePlan::Lost
        } else if lies < 2 && self.strikes(self.faults.provider.delete_lies, "delete lies") {
            DeletePlan::Lies
        } else {
            DeletePlan::Good(self.dice.skewed(0, 30_000))
        }
    }

    fn begin_departure(&mut self, number: u64, hand: Hand, linger: u64, grace: Grace) {
        self.begin_leaving(number, hand);
        let linger = if grace == Grace::Zero { 0 } else { linger };
        self.later(linger, Happening::Depart(number));
    }

    /// Ends what lives in a machine and marks it as leaving.
    pub(super) fn begin_leaving(&mut self, number: u64, hand: Hand) {
        let over = self.is_over(number);
        self.cut_off(number, hand);
        if let Some(machine) = self.machines.machines.get_mut(&number) {
            machine.leaving = true;
            if !over {
                machine.stage = Stage::Hollow;
            }
        }
        self.tell(number);
    }

    fn observe_delete(&mut self, provider: usize, target: &MachineRef) -> Hand {
        let machine = self.find(provider, target);
        let id = self.provider_id(provider);
        let row = self.records.owner(&id, &target.name);
        let assigned = machine
            .filter(|machine| self.agent_listens(machine.number))
            .and_then(|machine| machine.runner)
            .and_then(|runner| self.work_at(runner).1);
        let warrant: Option<WarrantKind> =
            row.and_then(|row| row.warrant.as_ref()).map(|warrant| warrant.kind);
        let called = DeleteCalled {
            machine: target.name.clone(),
            provider: id,
            exists: machine.is_some(),
            over: machine.is_some_and(|machine| matches!(machine.stage, Stage::Over(_))),
            working: machine.and_then(|machine| machine.worker),
            assigned,
            never_made: row.is_some_and(|row| matches!(row.end, Some(End::NotCreated { .. }))),
            doubt: machine.is_some_and(|machine| machine.doubt),
            instance: row.map(|row| row.id.clone()),
            state: row.map(|row| row.state),
            warrant,
            forced: row.is_some_and(|row| self.forced.contains(&row.id)),
            has_exit_record: row.is_some_and(|row| self.records.has_exit(&row.id)),
            since: row.map(|row| row.since),
        };
        let hand = if called.is_wrongful() { Hand::Wrongful } else { Hand::Ours };
        self.log("delete", target.name.as_str(), u64::from(hand == Hand::Wrongful));
        self.observe(Seen::DeleteCalled(Box::new(called)));
        hand
    }
}

/// Returns the registration a JIT config is for.
pub(in crate::testing) fn runner_of(jit: &Jit) -> Option<RunnerId> {
    jit.reveal().strip_prefix("jit:").and_then(|id| id.parse().ok()).map(RunnerId)
}
