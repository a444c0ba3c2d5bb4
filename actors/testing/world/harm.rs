//! More words for scenarios: harm done to machines and their providers, and what came of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::World;
use crate::fleet::ToFleet;
use crate::model::{HostCondition, HostName, InstanceId, MachineName, ProviderId, RunnerName};
use crate::testing::clock::millis;
use crate::testing::happening::{Happening, OperatorAction};
use crate::testing::script::{Death, Resists};

impl World {
    /// Lets a machine outlive every deletion until it is allowed to go.
    pub fn resist_deletion(&self, machine: &MachineName, how: Resists) {
        self.outside().script.resisting.insert(machine.clone(), how);
    }

    /// Lets a machine go at its next deletion.
    pub fn allow_deletion(&self, machine: &MachineName) {
        self.outside().script.resisting.remove(machine);
    }

    /// Lets a provider swallow every call for so long: no answer, no refusal, no effect, and
    /// nothing told to the watcher.
    pub fn swallow_calls(&self, provider: &ProviderId, time: Duration) {
        let mut outside = self.outside();
        let until = outside.now() + millis(time);
        outside.script.swallowing.insert(provider.clone(), until);
    }

    /// Lets the next calls of this name have their effect and panic over the answer.
    pub fn panic_in(&self, call: &'static str, times: u32) {
        self.outside().script.panicking.insert(call, times);
    }

    /// Lets the end of a job name no runner.
    pub fn end_nameless(&self, job: u64) {
        self.outside().script.nameless.insert(job);
    }

    /// Lets the log of a machine end with these words.
    pub fn write_log(&self, machine: &MachineName, words: &str) {
        self.outside().script.logs.insert(machine.clone(), words.into());
    }

    /// Takes the host of a machine away for good: what ran there is dead, and the provider
    /// stays in doubt for ever.
    pub fn take_host_of(&self, machine: &MachineName) {
        let mut outside = self.outside();
        let host = outside.machines.anywhere(machine).map(|machine| machine.host.clone());
        if let Some(host) = host {
            outside.take_host(&host);
        }
    }

    /// Lets only so many registrations a minute go out; more wait.
    pub fn pace_mints(&self, per_minute: u64) {
        self.outside().script.mints_per_minute = Some(per_minute);
    }

    /// Lets the poller of a machine fall silent: it neither asks nor hears.
    pub fn mute_poller(&self, machine: &MachineName) {
        self.outside().script.mute_pollers.insert(machine.clone());
    }

    /// Cuts a host off: its pollers fall silent, nothing new is placed there, and the provider says
    /// that it does not answer.
    pub fn darken_host(&self, host: &HostName) {
        {
            let mut outside = self.outside();
            let on_it: Vec<MachineName> = outside
                .machines
                .existing()
                .filter(|machine| machine.host == *host)
                .map(|machine| machine.name.clone())
                .collect();
            outside.script.mute_pollers.extend(on_it);
            outside.script.dark_hosts.insert(host.clone());
        }
        self.tell_dark_hosts();
    }

    /// Tells the daemon which hosts do not answer, as the provider's watch does.
    pub(super) fn tell_dark_hosts(&self) {
        let dark = self.outside().script.dark_hosts.clone();
        if dark.is_empty() {
            return;
        }
        let unreachable = dark.into_iter().map(|host| (host, HostCondition::Unreachable));
        let hosts: Arc<BTreeMap<_, _>> = Arc::new(unreachable.collect());
        for (provider, _) in &self.plan.providers {
            let (provider, hosts) = (provider.clone(), Arc::clone(&hosts));
            self.say(ToFleet::Hosts { provider, hosts });
        }
    }

    /// Ends a machine in the very moment a stranger deletes it: over and leaving at once.
    pub fn end_leaving(&self, machine: &MachineName, death: Death) {
        self.outside().end_leaving(machine, death);
    }

    /// Lets an administrator remove a registration at the forge; its agent does not notice.
    pub fn unregister(&self, runner: &RunnerName) {
        self.outside().unregister_unnoticed(runner);
    }

    /// Lets the forge put a running job back in line whose machine went away, without a notice.
    pub fn give_back(&self, job: u64) {
        let mut outside = self.outside();
        outside.forget(|what| matches!(what, Happening::JobLost(lost) if *lost == job));
        outside.give_back(job);
    }

    /// Crashes the daemon and loses the record of an instance, as a backup does that was made
    /// before it.
    pub fn lose_record(&mut self, id: &InstanceId) {
        self.crash(Duration::from_secs(5));
        self.outside().records.lose(id);
    }

    /// Crashes the daemon, and lets it not decode the row of an instance until the next crash.
    pub fn break_row(&mut self, id: &InstanceId) {
        self.crash(Duration::from_secs(5));
        self.outside().records.quarantine(id.clone());
    }

    /// Lets an operator force an instance.
    pub fn force(&mut self, instance: &InstanceId) {
        self.action(OperatorAction::Force(instance.clone()));
    }

    /// Returns the job whose worker is alive on a machine.
    pub fn working(&self, machine: &MachineName) -> Option<u64> {
        self.outside().machines.anywhere(machine).and_then(|machine| machine.worker)
    }

    /// Returns whether a machine exists.
    pub fn exists(&self, machine: &MachineName) -> bool {
        self.outside().machines.anywhere(machine).is_some_and(crate::testing::Machine::exists)
    }

    /// Returns whether a job ran once and came to its end on a machine that lived to see it.
    pub fn was_spared(&self, job: u64) -> bool {
        let outside = self.outside();
        outside
            .forge
            .jobs
            .get(&job)
            .is_some_and(|job| job.is_over() && job.starts == 1 && !job.lost)
    }

    /// Returns how often a fault was injected.
    pub fn injected(&self, fault: &str) -> u64 {
        self.outside().injected.get(fault).copied().unwrap_or_default()
    }
}
