//! Looking at machines: slow, failing, partial, and wrong about absence at most once running.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Machine, SimProvider, Stage};
use crate::model::{
    ExitFacts, ExitReport, MachineName, MachineView, Observation, ProviderId, Sighting, Tail,
};
use crate::ports::{Inventory, MachineRef, MachineSink, Watching};
use crate::testing::outside::{Outside, sleep_millis};

/// How long a lagging listing lags.
const LAG: u64 = 60_000;

#[async_trait]
impl Inventory for SimProvider {
    async fn list(&self) -> Observation<Vec<MachineView>> {
        self.look("list machines", Outside::list_machines).await
    }

    async fn read(&self, machine: &MachineRef) -> Sighting<MachineView> {
        self.look("read machine", |outside, index| outside.read_machine(index, machine)).await
    }

    async fn exit_report(&self, machine: &MachineRef, want_tail: bool) -> ExitReport {
        self.swallow().await;
        let slow = self.shared.call(Outside::exit_report_wait).await;
        sleep_millis(slow).await;
        let index = self.index;
        let report =
            self.shared.call(|outside| outside.exit_report(index, machine, want_tail)).await;
        self.shared.answer("exit report", |faults| faults.provider.panics).await;
        report
    }

    fn watch(&self, sink: Arc<dyn MachineSink>) -> Watching {
        let (shared, index) = (Arc::clone(&self.shared), self.index);
        shared.lock().machines.sinks.insert(index, Arc::clone(&sink));
        // A later watch of the same provider is not this one's to end.
        Watching::until_dropped(move || {
            let sinks = &mut shared.lock().machines.sinks;
            if sinks.get(&index).is_some_and(|it| Arc::ptr_eq(it, &sink)) {
                sinks.remove(&index);
            }
        })
    }
}

impl SimProvider {
    /// Looks once, somewhere between the question and the answer.
    async fn look<R: Send>(
        &self,
        name: &'static str,
        see: impl FnOnce(&mut Outside, usize) -> R + Send,
    ) -> R {
        self.swallow().await;
        let (before, after) = self
            .shared
            .call(|outside| {
                let wait = outside.provider_wait();
                if outside.dice.hits(5_000) { (wait, 0) } else { (0, wait) }
            })
            .await;
        sleep_millis(before).await;
        let index = self.index;
        let seen = self.shared.call(|outside| see(outside, index)).await;
        sleep_millis(after).await;
        self.shared.answer(name, |faults| faults.provider.panics).await;
        seen
    }
}

impl Outside {
    fn list_machines(&mut self, provider: usize) -> Observation<Vec<MachineView>> {
        self.log("list machines", "", 0);
        if self.strikes(self.faults.provider.list_fails, "machine listing fails") {
            return Observation::Unusable("503".into());
        }
        if self.shows_nothing(provider) {
            return Observation::Complete(Vec::new());
        }
        let now = self.now();
        let scripted = self.script.empty_lists_until > now;
        if scripted || self.strikes(self.faults.provider.list_empty, "machine listing empty") {
            return Observation::Complete(Vec::new());
        }
        let lags = self.strikes(self.faults.provider.list_lags, "machine listing lags");
        let partial = self.strikes(self.faults.provider.list_partial, "machine listing partial");
        let mut views = Vec::new();
        for machine in self.machines.machines.values().filter(|it| it.provider == provider) {
            let young = lags && machine.since + LAG > now;
            let left_out = partial && self.dice.hits(3_000);
            if machine.exists() && !young && !left_out {
                let silent = self.dice.hits(self.faults.provider.witness_silent)
                    || is_silenced(&self.script, machine, now);
                views.push(machine.view(silent));
            }
        }
        if lags {
            let gone =
                self.machines.gone.iter().filter(|(at, of, _)| at + LAG > now && *of == provider);
            views.extend(gone.map(|(_, _, view)| view.clone()));
        }
        Observation::Complete(views)
    }

    fn read_machine(&mut self, provider: usize, target: &MachineRef) -> Sighting<MachineView> {
        self.log("read machine", target.name.as_str(), 0);
        if self.strikes(self.faults.provider.read_fails, "machine read fails") {
            return Sighting::Unknown("timeout".into());
        }
        if self.is_unseen(provider, &target.name) {
            return Sighting::Absent;
        }
        let Some(machine) = self.find(provider, target) else { return Sighting::Absent };
        let (number, lied) = (machine.number, machine.lied);
        let hidden = self.script.hidden_machines.remove(&target.name);
        let rate = self.faults.provider.read_false_absent;
        let untrue = hidden || (!lied && self.strikes(rate, "machine falsely absent"));
        if let Some(machine) = self.machines.machines.get_mut(&number) {
            machine.lied = untrue;
        }
        if untrue {
            return Sighting::Absent;
        }
        match self.show(number) {
            Some(view) => Sighting::Seen(view),
            None => Sighting::Absent,
        }
    }

    /// Returns a machine as a direct look shows it.
    pub(in crate::testing) fn show(&mut self, number: u64) -> Option<MachineView> {
        let now = self.now();
        let silent = self.strikes(self.faults.provider.witness_silent, "witness silent");
        let machine = self.machines.machines.get(&number)?;
        Some(machine.view(silent || is_silenced(&self.script, machine, now)))
    }

    fn exit_report_wait(&mut self) -> u64 {
        if self.strikes(self.faults.provider.exit_report_slow, "remains are slow") {
            return self.dice.between(8_000, 60_000);
        }
        self.provider_wait()
    }

    fn exit_report(&mut self, provider: usize, target: &MachineRef, want_tail: bool) -> ExitReport {
        self.log("remains", target.name.as_str(), 0);
        if self.strikes(self.faults.provider.exit_report_fail, "remains cannot be had") {
            return ExitReport::unavailable("the log is out of reach");
        }
        let Some(machine) = self.find(provider, target) else {
            return ExitReport::unavailable("the machine is gone");
        };
        let exit = match &machine.stage {
            Stage::Over(facts) if *facts != ExitFacts::default() && !machine.doubt => {
                Some(facts.clone())
            }
            Stage::Booting => machine.stuck.map(|word| ExitFacts {
                machine_reason: Some(word.into()),
                ..ExitFacts::default()
            }),
            Stage::Over(_) | Stage::Ordered | Stage::Polling | Stage::Listening | Stage::Hollow => {
                None
            }
        };
        let tail = if machine.doubt {
            Tail::Unavailable("the host does not answer".into())
        } else if want_tail {
            let log = self.script.logs.get(&target.name).cloned();
            Tail::Captured(log.unwrap_or_else(|| "√ Connected to GitHub".into()))
        } else {
            Tail::NotNeeded
        };
        ExitReport { exit, tail, remarks: Vec::new() }
    }

    /// Returns the machine that a reference means, if it exists.
    pub(super) fn find(&self, provider: usize, target: &MachineRef) -> Option<&Machine> {
        let machine = self.machines.named(provider, &target.name)?;
        let same = target.uid.as_ref().is_none_or(|uid| *uid == machine.uid);
        (machine.exists() && same).then_some(machine)
    }

    pub(in crate::testing) fn provider_id(&self, index: usize) -> ProviderId {
        self.machines
            .providers
            .get(index)
            .map_or_else(|| ProviderId::new("unknown"), |(id, _)| id.clone())
    }

    /// Returns how long a call of a provider takes.
    pub(super) fn provider_wait(&mut self) -> u64 {
        if self.strikes(self.faults.provider.slow, "provider is slow") {
            return self.dice.between(1_000, 25_000);
        }
        self.dice.skewed(1, 300)
    }
}

fn is_silenced(script: &crate::testing::Script, machine: &Machine, now: u64) -> bool {
    let until = |name: &MachineName| script.silent_until.get(name).copied();
    until(&machine.name).is_some_and(|until| until > now)
}
