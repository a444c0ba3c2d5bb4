//! What happens to machines from outside: lost hosts, doubt, and other people's hands.
//!
//! Machines that resist their deletion, and providers that do not answer at all, belong here too.

use std::future::pending;
use std::sync::Arc;

use super::{Hand, SimProvider, Stage};
use crate::model::{HostName, MachineName, PoolSpec, Stamp};
use crate::ports::{CreateOrder, Deletion, Jit};
use crate::testing::happening::Happening;
use crate::testing::outside::Outside;
use crate::testing::script::{Death, Resists};

impl Outside {
    /// Loses a host: its machines are dead, or only out of sight.
    pub(in crate::testing) fn lose_host(&mut self, host: &HostName) {
        self.touch();
        self.log("host lost", host.as_str(), 0);
        let on_it: Vec<u64> = self
            .machines
            .existing()
            .filter(|machine| machine.host == *host && machine.is_alive())
            .map(|machine| machine.number)
            .collect();
        let dead = self.dice.hits(6_000);
        for number in on_it {
            if let Some(machine) = self.machines.machines.get_mut(&number) {
                machine.doubt = true;
            }
            let wait = self.dice.between(60_000, 480_000);
            if dead {
                self.die(number, Death::NodeLost);
                self.later(wait, Happening::Surface(number));
            } else {
                self.later(wait, Happening::Clear(number));
            }
            self.tell(number);
        }
    }

    /// Takes a host away for good: what ran there is dead, and the provider will never know.
    pub(in crate::testing) fn take_host(&mut self, host: &HostName) {
        self.log("host taken", host.as_str(), 0);
        let on_it: Vec<u64> = self
            .machines
            .existing()
            .filter(|machine| machine.host == *host)
            .map(|machine| machine.number)
            .collect();
        for number in on_it {
            if let Some(machine) = self.machines.machines.get_mut(&number) {
                machine.doubt = true;
            }
            self.die(number, Death::NodeLost);
            self.tell(number);
        }
    }

    /// Lets a lost machine show its end, or nothing any more.
    pub(in crate::testing) fn surface(&mut self, number: u64) {
        self.touch();
        if self.dice.hits(5_000) {
            self.remove_machine(number);
        } else {
            self.clear(number);
        }
    }

    /// Puts the provider in doubt about a machine that is well.
    pub(in crate::testing) fn doubt(&mut self, number: u64) {
        let wait = self.dice.between(10_000, 300_000);
        let Some(machine) = self.machines.machines.get_mut(&number) else { return };
        if machine.is_alive() && !machine.doubt {
            machine.doubt = true;
            self.tell(number);
            self.later(wait, Happening::Clear(number));
        }
    }

    pub(in crate::testing) fn clear(&mut self, number: u64) {
        self.touch();
        if let Some(machine) = self.machines.machines.get_mut(&number) {
            machine.doubt = false;
            self.tell(number);
        }
    }

    /// Puts a machine there that no create call made: an orphan, or a stranger's.
    pub fn plant(&mut self, pool: &Arc<PoolSpec>, name: &str, stamp: Stamp) {
        self.plant_with(pool, name, stamp, None);
    }

    /// Puts a machine there with the JIT config it was made with; returns its number.
    pub(in crate::testing) fn plant_with(
        &mut self,
        pool: &Arc<PoolSpec>,
        name: &str,
        stamp: Stamp,
        jit: Option<Jit>,
    ) -> Option<u64> {
        let provider = self.machines.index_of(&pool.provider)?;
        let order = CreateOrder {
            name: MachineName::new(name),
            stamp,
            machine: pool.machine.clone(),
            pool: Arc::clone(pool),
            avoid: Vec::new(),
            attempt: 1,
            jit,
            slot: crate::ports::CreateSlot::default(),
        };
        let number = self.order_machine(provider, &order, 0);
        self.appear(number);
        Some(number)
    }

    /// Lets a stranger delete a machine.
    pub fn delete_from_outside(&mut self, name: &MachineName) {
        let Some(number) = self.machines.anywhere(name).map(|machine| machine.number) else {
            return;
        };
        if let Some(machine) = self.machines.machines.get_mut(&number) {
            machine.leaving = true;
        }
        self.log("deleted by others", name.as_str(), 0);
        self.tell(number);
        let wait = self.dice.between(2_000, 30_000);
        self.later(wait, Happening::ExternalDeparture(number));
    }

    /// Ends a machine in the very moment a stranger deletes it; it stays there, over and
    /// leaving, until we delete it too.
    pub(in crate::testing) fn end_leaving(&mut self, name: &MachineName, death: Death) {
        let Some(number) = self.machines.anywhere(name).map(|machine| machine.number) else {
            return;
        };
        if let Some(machine) = self.machines.machines.get_mut(&number) {
            machine.leaving = true;
        }
        self.log("deleted by others", name.as_str(), 0);
        self.die(number, death);
    }

    /// Ends the grace of a stranger's deletion.
    pub(in crate::testing) fn external_departure(&mut self, number: u64) {
        self.touch();
        self.die(number, Death::Terminated);
        let linger = self.dice.below(10_000);
        self.later(linger, Happening::Depart(number));
    }

    /// Tells the watcher how a machine is, if the watch works.
    pub(in crate::testing) fn tell(&mut self, number: u64) {
        let watched = self
            .machines
            .machines
            .get(&number)
            .is_some_and(|machine| self.machines.sinks.contains_key(&machine.provider));
        let swallowed =
            self.machines.machines.get(&number).is_some_and(|it| self.swallows(it.provider));
        let lost = self.faults.provider.watch_lost;
        if !watched || swallowed || self.strikes(lost, "change not told") {
            return;
        }
        let wait = self.watch_wait();
        self.later(wait, Happening::Tell(number));
    }

    pub(super) fn tell_missing(&mut self, provider: usize, machine: MachineName) {
        if !self.machines.sinks.contains_key(&provider)
            || self.swallows(provider)
            || self.strikes(self.faults.provider.watch_lost, "change not told")
        {
            return;
        }
        let wait = self.watch_wait();
        self.later(wait, Happening::TellMissing { provider, machine });
    }

    fn watch_wait(&mut self) -> u64 {
        let late = self.strikes(self.faults.provider.watch_late, "change told late");
        if late { self.dice.between(5_000, 120_000) } else { self.dice.below(100) }
    }

    pub(super) fn machine_name(&self, number: u64) -> MachineName {
        self.machines
            .machines
            .get(&number)
            .map_or_else(|| MachineName::new("?"), |machine| machine.name.clone())
    }

    /// Returns whether nothing lives in a machine any more.
    pub(super) fn is_over(&self, number: u64) -> bool {
        self.machines.machines.get(&number).is_some_and(|it| matches!(it.stage, Stage::Over(_)))
    }
}

impl SimProvider {
    /// Never returns while the provider swallows every call.
    pub(super) async fn swallow(&self) {
        let index = self.index;
        let swallowed = self
            .shared
            .call(|outside| {
                let swallowed = outside.swallows(index);
                if swallowed {
                    outside.count("provider call swallowed");
                }
                swallowed
            })
            .await;
        if swallowed {
            pending::<()>().await;
        }
    }
}

impl Outside {
    /// Returns whether a provider swallows every call now.
    pub(super) fn swallows(&self, provider: usize) -> bool {
        let until = self
            .machines
            .providers
            .get(provider)
            .and_then(|(id, _)| self.script.swallowing.get(id));
        until.is_some_and(|until| *until > self.now())
    }

    /// Lets a machine outlive its deletion; returns nothing where no answer ever comes.
    pub(super) fn resist(&mut self, number: u64, hand: Hand, how: Resists) -> Option<Deletion> {
        self.count("deletion resisted");
        match how {
            Resists::Hangs => return None,
            Resists::Lies => {}
            Resists::Lingers => self.begin_leaving(number, hand),
        }
        Some(Deletion::Accepted)
    }
}
