//! Registering and removing runners.

use std::time::Duration;

use async_trait::async_trait;

use super::SimForge;
use crate::model::{RunnerId, RunnerName, Scope};
use crate::ports::{Deregistered, Forge, ForgeError, Jit, MintError, MintOrder, Minted};
use crate::testing::happening::Happening;
use crate::testing::observed::Seen;
use crate::testing::outside::{Outside, sleep_millis};
use crate::testing::script::MintPlan;

/// How long a registration without a connection is kept.
const DAY: u64 = 24 * 3_600_000;
/// How long a mint waits for its place in the pace; one that would wait longer is refused for now.
const LONGEST_MINT_WAIT_MS: u64 = 10_000;

#[async_trait]
impl Forge for SimForge {
    async fn mint(&self, order: MintOrder) -> Result<Minted, MintError> {
        match self.0.call(Outside::mint_place).await {
            Ok(wait) => sleep_millis(wait).await,
            Err(after) => {
                let why = "more registrations wait than the pace lets through".into();
                return Err(MintError::Later { after: Some(after), why });
            }
        }
        if !order.gate.send() {
            let why = "it is not wanted any more".into();
            return Err(MintError::Later { after: None, why });
        }
        let (wait, answer) = self.0.call(|outside| outside.mint(order)).await;
        sleep_millis(wait).await;
        self.0.answer("mint", |faults| faults.forge.panics).await;
        answer
    }

    async fn deregister(&self, _: &Scope, id: RunnerId) -> Result<Deregistered, ForgeError> {
        let (wait, answer) = self.0.call(|outside| outside.deregister(id)).await;
        sleep_millis(wait).await;
        self.0.answer("deregister", |faults| faults.forge.panics).await;
        answer
    }
}

impl Outside {
    /// Takes a place in the pace of mints, where there is one, as the governor of an adapter does: a
    /// short wait is waited for, a longer one is the caller's to plan and keeps no place.
    fn mint_place(&mut self) -> Result<u64, Duration> {
        let Some(rate) = self.script.mints_per_minute else { return Ok(0) };
        let (now, interval) = (self.now(), 60_000 / rate.max(1));
        let due = self.script.next_mint_at.max(now);
        let wait = (due - now).saturating_sub(interval * (rate / 12));
        if wait > LONGEST_MINT_WAIT_MS {
            let apart = self.chance.below(5_000);
            return Err(Duration::from_millis(wait + apart));
        }
        self.script.next_mint_at = due + interval;
        Ok(wait)
    }

    fn mint(&mut self, order: MintOrder) -> (u64, Result<Minted, MintError>) {
        let wait = self.forge_wait();
        if let Some(after) = self.over_budget(1) {
            let why = "rate limit".into();
            return (wait, Err(MintError::Later { after: Some(after), why }));
        }
        if let Some(why) = self.refuses_token() {
            return (wait, Err(MintError::Refused { why }));
        }
        let plan = if self.script.refused_scopes.contains(&order.scope) {
            self.count("scope refused");
            MintPlan::Refused
        } else {
            self.mint_plan()
        };
        match plan {
            MintPlan::Later => {
                let why = "502".into();
                return (wait, Err(MintError::Later { after: None, why }));
            }
            MintPlan::Refused => {
                return (wait, Err(MintError::Refused { why: "403".into() }));
            }
            MintPlan::Vain => {
                return (30_000, Err(MintError::Unanswered { why: "timeout".into() }));
            }
            MintPlan::Good | MintPlan::Lost | MintPlan::Slow(_) | MintPlan::Taken => {}
        }
        let taken = self.forge.runner_named(&order.name).is_some_and(|runner| runner.registered);
        if taken {
            self.log("name taken", order.name.as_str(), 0);
            self.observe(Seen::NameTaken(order.name.clone()));
            return (wait, Err(MintError::Taken(order.name)));
        }
        let now = self.now();
        let id = self.forge.register(order.name.clone(), order.scope, order.labels, now);
        self.later(DAY, Happening::Fade(id));
        self.log("minted", order.name.as_str(), id.0);
        self.observe(Seen::Minted { name: order.name.clone(), id });
        let rate = self.faults.store.crash_effect;
        self.may_crash(rate, "crash after a mint");
        let wait = match plan {
            MintPlan::Lost => {
                return (30_000, Err(MintError::Unanswered { why: "timeout".into() }));
            }
            MintPlan::Slow(wait) => wait,
            MintPlan::Taken => {
                self.observe(Seen::NameTaken(order.name.clone()));
                return (wait, Err(MintError::Taken(order.name)));
            }
            MintPlan::Good | MintPlan::Vain | MintPlan::Later | MintPlan::Refused => wait,
        };
        (wait, Ok(Minted { id, jit: Jit::new(format!("jit:{id}")) }))
    }

    fn mint_plan(&mut self) -> MintPlan {
        if let Some(plan) = self.script.mints.pop_front() {
            return plan;
        }
        if self.strikes(self.faults.forge.mint_lost, "mint answer lost") {
            MintPlan::Lost
        } else if self.strikes(self.faults.forge.mint_vain, "mint in vain") {
            MintPlan::Vain
        } else if self.strikes(self.faults.forge.mint_taken, "mint answered 409") {
            MintPlan::Taken
        } else if self.strikes(self.faults.forge.mint_later, "mint put off") {
            MintPlan::Later
        } else if self.strikes(self.faults.forge.mint_refused, "mint refused") {
            MintPlan::Refused
        } else {
            MintPlan::Good
        }
    }

    fn deregister(&mut self, id: RunnerId) -> (u64, Result<Deregistered, ForgeError>) {
        let wait = self.forge_wait();
        if let Some(after) = self.over_budget(1) {
            let why = "rate limit".into();
            return (wait, Err(ForgeError::Later { after: Some(after), why }));
        }
        if let Some(why) = self.refuses_token() {
            return (wait, Err(ForgeError::Later { after: None, why }));
        }
        if self.strikes(self.faults.forge.deregister_fails, "deregister fails") {
            return (wait, Err(ForgeError::Later { after: None, why: "502".into() }));
        }
        let (working, assigned) = self.work_at(id);
        let name = self.forge.runners.get(&id).map(|runner| runner.name.clone());
        let answer = self.remove_registration(id, working.or(assigned).is_some());
        self.log("deregister", name.as_ref().map_or("?", |name| name.as_str()), id.0);
        self.observe(Seen::Deregister { name, working, assigned, answer: Some(answer) });
        let rate = self.faults.store.crash_effect;
        self.may_crash(rate, "crash after a deregistration");
        if self.strikes(self.faults.forge.deregister_lost, "deregister answer lost") {
            return (10_000, Err(ForgeError::Later { after: None, why: "timeout".into() }));
        }
        (wait, Ok(answer))
    }

    fn remove_registration(&mut self, id: RunnerId, has_job: bool) -> Deregistered {
        let now = self.now();
        let Some(runner) = self.forge.runners.get(&id).filter(|runner| runner.registered) else {
            return Deregistered::NotFound;
        };
        let (name, lied, lied_422) = (runner.name.clone(), runner.lied, runner.lied_422);
        let machine = runner.machine;
        let hidden = self.script.hidden_runners.remove(&name);
        let rate = self.faults.forge.deregister_false_404;
        if hidden || (!lied && self.strikes(rate, "false 404 on removal")) {
            self.set_lied(id, true);
            return Deregistered::NotFound;
        }
        self.set_lied(id, false);
        if has_job {
            let scripted = self.script.nasty.remove(&name);
            if scripted || self.strikes(self.faults.forge.nasty, "nasty removal") {
                self.forge.unregister(id, now);
                return Deregistered::Removed;
            }
            self.count("busy, so 422");
            return Deregistered::Working;
        }
        let rate = self.faults.forge.lie422;
        if self.script.lies_422(&name) || (lied_422 < 2 && self.strikes(rate, "lying 422")) {
            if let Some(runner) = self.forge.runners.get_mut(&id) {
                runner.lied_422 += 1;
            }
            return Deregistered::Working;
        }
        self.forge.unregister(id, now);
        if let Some(machine) = machine {
            let wait = self.dice.between(500, 40_000);
            self.later(wait, Happening::Dismissed(machine));
        }
        Deregistered::Removed
    }

    /// Removes the registration of some free runner, as an administrator does; its agent leaves or
    /// does not notice.
    pub(in crate::testing) fn unregister_by_hand(&mut self) {
        let free: Vec<RunnerId> = self.forge.idle.iter().copied().collect();
        let Some(id) = self.dice.pick(&free).copied() else { return };
        let (now, notices) = (self.now(), self.dice.hits(5_000));
        let runner = self.forge.runners.get(&id).map(|it| (it.name.clone(), it.machine));
        let Some((name, machine)) = runner else { return };
        self.log("removed by hand", name.as_str(), id.0);
        self.forge.unregister(id, now);
        if let Some(machine) = machine.filter(|_| notices) {
            let wait = self.dice.between(500, 40_000);
            self.later(wait, Happening::Dismissed(machine));
        }
    }

    /// Removes a registration; its agent does not notice.
    pub(in crate::testing) fn unregister_unnoticed(&mut self, name: &RunnerName) {
        let now = self.now();
        if let Some(id) = self.forge.runner_named(name).map(|runner| runner.id) {
            self.log("removed by hand", name.as_str(), id.0);
            self.forge.unregister(id, now);
        }
    }

    /// Returns the job that runs at a runner, and the one that is only assigned to it.
    pub(in crate::testing) fn work_at(&self, id: RunnerId) -> (Option<u64>, Option<u64>) {
        let job = self.forge.runners.get(&id).and_then(|runner| runner.job);
        match job {
            Some(number) if self.forge.running.contains(&number) => (Some(number), None),
            assigned => (None, assigned),
        }
    }

    pub(super) fn set_lied(&mut self, id: RunnerId, lied: bool) {
        if let Some(runner) = self.forge.runners.get_mut(&id) {
            runner.lied = lied;
        }
    }

    /// Forgets a registration that was not connected for a day.
    pub(in crate::testing) fn fade(&mut self, id: RunnerId) {
        let now = self.now();
        let Some(runner) = self.forge.runners.get(&id) else { return };
        if runner.online || runner.job.is_some() {
            self.later(DAY, Happening::Fade(id));
        } else {
            self.log("faded", runner.name.clone().as_str(), id.0);
            self.forge.unregister(id, now);
        }
    }

    /// Returns how long a call of the forge takes.
    pub(super) fn forge_wait(&mut self) -> u64 {
        if self.strikes(self.faults.forge.slow, "forge is slow") {
            return self.dice.between(1_000, 25_000);
        }
        self.dice.skewed(1, 400)
    }

    /// Spends points; returns how long to wait when there are none left.
    pub(super) fn over_budget(&mut self, cost: u32) -> Option<Duration> {
        let points = self.faults.forge.points;
        if points == 0 {
            return None;
        }
        let now = self.now();
        let minute = now / 60_000;
        if self.forge.spent.0 != minute {
            self.forge.spent = (minute, 0);
        }
        self.forge.spent.1 += cost;
        if self.forge.spent.1 <= points {
            return None;
        }
        self.count("out of points");
        Some(Duration::from_millis((minute + 1) * 60_000 - now))
    }
}
