//! A machine from its order to the day nothing is left of it.

use super::{Hand, Kind, Stage};
use crate::model::{Binding, ExitFacts, RunnerId, RunnerName};
use crate::testing::happening::Happening;
use crate::testing::observed::Seen;
use crate::testing::outside::Outside;
use crate::testing::script::{Death, Fate};

impl Outside {
    /// Lets an ordered machine exist.
    pub(in crate::testing) fn appear(&mut self, number: u64) {
        let now = self.now();
        let Some(machine) = self.machines.machines.get_mut(&number) else { return };
        if machine.exists() {
            return;
        }
        machine.stage = Stage::Booting;
        machine.since = now;
        let (name, fate, kind) = (machine.name.clone(), machine.fate.clone(), machine.kind);
        let times = self.machines.appeared.entry(name.clone()).or_default();
        *times += 1;
        let times = *times;
        self.log("machine", name.as_str(), u64::from(times));
        self.observe(Seen::Appeared { machine: name, times });
        self.tell(number);
        if let Fate::Dies(wait, death) = fate {
            self.later(wait, Happening::Die(number, death));
        }
        if let Fate::StuckAs(word) = fate {
            return self.stuck_as(number, Some(word));
        }
        if self.fails_booting(number) {
            return;
        }
        if fate == Fate::NeverBoots || self.strikes(self.faults.machine.never_boots, "never boots")
        {
            self.never_boots(number, kind);
            return;
        }
        if self.strikes(self.faults.machine.dies_booting, "dies booting") {
            let poller = kind == Kind::Split && self.dice.hits(3_000);
            let death =
                if poller { Death::PollerFailed } else { Death::draw(&mut self.dice, kind) };
            let wait = self.dice.between(100, 30_000);
            self.later(wait, Happening::Die(number, death));
        }
        let slow = self.strikes(self.faults.machine.slow_boot, "slow boot");
        let wait =
            if slow { self.dice.between(60_000, 600_000) } else { self.dice.skewed(500, 30_000) };
        self.later(wait, Happening::Up(number));
    }

    /// Leaves a machine where it is: without a host, without an image, or without a reason.
    fn never_boots(&mut self, number: u64, kind: Kind) {
        let words: &[Option<&str>] = match kind {
            Kind::Split => &[Some("Unschedulable"), Some("ImagePullBackOff"), None],
            Kind::Witness | Kind::Blind => &[None],
        };
        let word = self.dice.pick(words).copied().flatten();
        self.stuck_as(number, word);
        // Some runtimes give up on an image instead of trying for ever.
        if word == Some("ImagePullBackOff") && self.dice.hits(3_000) {
            let wait = self.dice.between(10_000, 120_000);
            self.later(wait, Happening::Die(number, Death::ImagePull));
        }
    }

    /// Leaves a machine where it is, for this reason.
    fn stuck_as(&mut self, number: u64, word: Option<&'static str>) {
        if let Some(machine) = self.machines.machines.get_mut(&number) {
            machine.stuck = word;
        }
    }

    /// Starts the agent, or the poller of a machine that waits unregistered.
    pub(in crate::testing) fn up(&mut self, number: u64) {
        let Some(machine) = self.machines.machines.get_mut(&number) else { return };
        if machine.stage != Stage::Booting || machine.leaving {
            return;
        }
        let (jit, kind) = (machine.jit, machine.kind);
        match (machine.binding, jit) {
            (_, Some(runner)) => self.connect(number, runner),
            (Binding::Late, None) => {
                machine.stage = Stage::Polling;
                self.tell(number);
                self.later(100, Happening::Poll(number));
            }
            (Binding::Early, None) => self.later(1_000, Happening::Die(number, Death::RunnerError)),
        }
        if self.strikes(self.faults.machine.dies_idle, "dies") {
            let death = Death::draw(&mut self.dice, kind);
            let wait = self.dice.between(1_000, 600_000);
            self.later(wait, Happening::Die(number, death));
        }
        if self.strikes(self.faults.machine.doubt, "provider in doubt") {
            let wait = self.dice.between(0, 300_000);
            self.later(wait, Happening::Doubt(number));
        }
    }

    /// Connects an agent as its runner; without a registration it exits.
    pub(in crate::testing) fn connect(&mut self, number: u64, runner: RunnerId) {
        let at = self.date();
        let Some(machine) = self.machines.machines.get_mut(&number) else { return };
        if machine.fate == Fate::NeverConnects {
            machine.stage = Stage::Hollow;
            let name = machine.name.clone();
            self.log("never connects", name.as_str(), runner.0);
            self.tell(number);
            return;
        }
        machine.began = true;
        machine.jit = Some(runner);
        if let Fate::Exits(code) = machine.fate {
            let reason = if code == 0 { "Completed" } else { "Error" };
            let exit = Death::RunnerError.facts(at);
            machine.stage =
                Stage::Over(ExitFacts { code: Some(code), reason: Some(reason.into()), ..exit });
            let name = machine.name.clone();
            self.log("exits at once", name.as_str(), u64::from(code.unsigned_abs()));
            self.cut_off(number, Hand::Other);
            self.tell(number);
            return;
        }
        machine.stage = Stage::Listening;
        let name = machine.name.clone();
        self.start_reports(number);
        if self.fails_connecting(number) {
            self.tell(number);
            return;
        }
        let welcome =
            self.forge.runners.get_mut(&runner).filter(|it| it.registered && it.machine.is_none());
        if let Some(it) = welcome {
            it.online = true;
            it.machine = Some(number);
            if let Some(machine) = self.machines.machines.get_mut(&number) {
                machine.runner = Some(runner);
            }
            self.log("listening", name.as_str(), runner.0);
            self.runner_free(runner);
        } else {
            self.log("turned away", name.as_str(), runner.0);
            let wait = self.dice.between(500, 30_000);
            let death = if self.dice.hits(7_000) { Death::Clean } else { Death::RunnerError };
            self.later(wait, Happening::Die(number, death));
        }
        self.tell(number);
    }

    /// Ends an agent whose registration is gone and that has no job.
    pub(in crate::testing) fn dismissed(&mut self, number: u64) {
        let Some(machine) = self.machines.machines.get(&number) else { return };
        let runner = machine.runner.and_then(|id| self.forge.runners.get(&id));
        let has_reason = runner.is_some_and(|it| it.registered || it.job.is_some());
        if machine.stage == Stage::Listening && machine.worker.is_none() && !has_reason {
            self.die(number, Death::Clean);
        }
    }

    /// Returns whether a machine's agent would pick an assignment up.
    pub(in crate::testing) fn agent_listens(&self, number: u64) -> bool {
        self.machines.machines.get(&number).is_some_and(|machine| {
            machine.stage == Stage::Listening && machine.worker.is_none() && !machine.leaving
        })
    }

    /// Starts a worker and decides how it will end.
    pub(in crate::testing) fn start_worker(
        &mut self,
        number: u64,
        job: u64,
        duration: u64,
        runner: RunnerName,
    ) {
        let Some(machine) = self.machines.machines.get_mut(&number) else { return };
        machine.worker = Some(job);
        let (name, fate, kind) = (machine.name.clone(), machine.fate.clone(), machine.kind);
        self.log("working", name.as_str(), job);
        self.observe(Seen::JobStarted { job, machine: name, runner });
        self.tell(number);
        self.die_in_outage(number, job);
        let scripted = match fate {
            Fate::DiesWorking(wait, death) => Some((wait, death)),
            Fate::Good
            | Fate::NeverBoots
            | Fate::NeverConnects
            | Fate::Exits(_)
            | Fate::StuckAs(_)
            | Fate::Dies(..)
            | Fate::Ends(_)
            | Fate::EndsAfter(..) => None,
        };
        let dies = scripted.or_else(|| {
            self.strikes(self.faults.machine.dies_busy, "dies working").then(|| {
                let hangs = self.dice.hits(1_500);
                let death = if hangs { Death::Hung } else { Death::draw(&mut self.dice, kind) };
                (self.dice.below(duration + 1), death)
            })
        });
        if let Some((wait, death)) = dies {
            self.later(wait, Happening::DieWorking { machine: number, job, death });
        }
        self.later(duration, Happening::WorkEnds { machine: number, job });
    }

    /// Takes the worker away when its job is done.
    pub(in crate::testing) fn stop_worker(&mut self, number: u64) {
        if let Some(machine) = self.machines.machines.get_mut(&number) {
            machine.worker = None;
        }
    }

    /// Lets an agent leave after its one job, in one way or another.
    pub(in crate::testing) fn leave_after_work(&mut self, number: u64) {
        let Some(machine) = self.machines.machines.get(&number) else { return };
        let kind = machine.kind;
        let (death, scripted) = match machine.fate {
            Fate::Ends(death) => (Some(death), None),
            Fate::EndsAfter(wait, death) => (Some(death), Some(wait)),
            Fate::Good
            | Fate::NeverBoots
            | Fate::NeverConnects
            | Fate::Exits(_)
            | Fate::StuckAs(_)
            | Fate::Dies(..)
            | Fate::DiesWorking(..) => (None, None),
        };
        let death = if let Some(death) = death {
            death
        } else if self.strikes(self.faults.machine.hangs, "hangs after work") {
            Death::Hung
        } else if self.strikes(self.faults.machine.odd_exit, "odd exit") {
            Death::draw(&mut self.dice, kind)
        } else {
            Death::Clean
        };
        let wait = scripted.unwrap_or_else(|| self.dice.skewed(200, 15_000));
        self.later(wait, Happening::Die(number, death));
        self.tell(number);
    }

    /// Lets a machine die under the job it works on.
    pub(in crate::testing) fn die_working(&mut self, number: u64, job: u64, death: Death) {
        let working = self.machines.machines.get(&number).and_then(|machine| machine.worker);
        if working == Some(job) {
            self.die(number, death);
        }
    }

    /// Ends whatever lives in a machine.
    pub(in crate::testing) fn die(&mut self, number: u64, death: Death) {
        let at = self.date();
        let Some(machine) = self.machines.machines.get_mut(&number) else { return };
        if !machine.is_alive() {
            return;
        }
        *self.machines.deaths.entry(death).or_default() += 1;
        let registered = machine
            .runner
            .and_then(|runner| self.forge.runners.get(&runner))
            .is_some_and(|runner| runner.registered);
        let surprising = death != Death::Clean || registered;
        let booting = machine.stage == Stage::Booting;
        machine.stage = match death {
            Death::Hung if !booting => Stage::Hollow,
            Death::Hung => return,
            Death::Vanished
            | Death::Clean
            | Death::BareZero
            | Death::RunnerError
            | Death::Outdated
            | Death::Aborted
            | Death::HostOom
            | Death::GuestKilled
            | Death::Invented
            | Death::Crashed
            | Death::Terminated
            | Death::Signalled
            | Death::HostFailed
            | Death::Evicted
            | Death::Preempted
            | Death::Deadline
            | Death::NodeLost
            | Death::ImagePull
            | Death::PollerFailed
            | Death::Unreported
            | Death::Wordless => Stage::Over(death.facts(at)),
        };
        // The deaths of an episode are its own; others are faults, scheduled when they were drawn.
        if surprising && self.episodes.is_empty() {
            self.touch();
        }
        self.log("died", self.machine_name(number).as_str(), death as u64);
        self.cut_off(number, Hand::Other);
        if death == Death::Vanished {
            self.remove_machine(number);
        } else {
            self.tell(number);
        }
    }

    /// Cuts the agent of a dead machine off the forge, and its job with it.
    pub(super) fn cut_off(&mut self, number: u64, hand: Hand) {
        let Some(machine) = self.machines.machines.get_mut(&number) else { return };
        machine.worker = None;
        let runner = machine.runner.take();
        let name = machine.name.clone();
        let killed = runner.and_then(|runner| self.agent_gone(runner, hand));
        if hand == Hand::Other {
            self.observe(Seen::MachineEnded { machine: name, killed });
        }
    }

    /// Removes a machine for good.
    pub(in crate::testing) fn remove_machine(&mut self, number: u64) {
        let now = self.now();
        let Some(machine) = self.machines.remove(number, now) else { return };
        self.log("gone", machine.name.as_str(), 0);
        self.observe(Seen::MachineGone { machine: machine.name.clone() });
        self.tell_missing(machine.provider, machine.name);
    }

    /// Ends what a deletion has left of a machine.
    pub(in crate::testing) fn depart(&mut self, number: u64) {
        self.cut_off(number, Hand::Ours);
        self.remove_machine(number);
    }
}
