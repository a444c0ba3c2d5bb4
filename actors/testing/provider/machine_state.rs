//! The providers' truth: machines, and every way a machine ends, as the facts that a provider would report.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::model::{
    Began, Binding, ExitFacts, HostName, MachineName, MachinePhase, MachineView, ProviderId,
    RunnerId, Stamp, Timestamp, Worker,
};
use crate::ports::MachineSink;
use crate::testing::clock::Moment;
use crate::testing::dice::Dice;
use crate::testing::script::{Death, Fate};

/// Tells what a provider can show of its machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Poller and runner apart, a witness, and proof of a beginning.
    Split,
    /// A witness, and no proof of a beginning.
    Witness,
    Blind,
}

/// Holds what is true at the providers.
#[derive(Default)]
pub struct Machines {
    /// The providers, by index.
    pub providers: Vec<(ProviderId, Kind)>,
    /// All machines that are ordered or exist.
    pub machines: BTreeMap<u64, Machine>,
    pub(super) names: BTreeMap<(usize, MachineName), u64>,
    /// How often a create of this name was called.
    pub(super) ordered: BTreeMap<MachineName, u32>,
    /// How often a machine of this name came to exist.
    pub appeared: BTreeMap<MachineName, u32>,
    /// How many machines ended in each way.
    pub deaths: BTreeMap<Death, u64>,
    pub(super) gone: VecDeque<(Moment, usize, MachineView)>,
    pub(in crate::testing) sinks: BTreeMap<usize, Arc<dyn MachineSink>>,
    pub(super) last: u64,
}

#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "facts that are true or not, independently")]
pub struct Machine {
    /// The world's number of it.
    pub number: u64,
    /// Its provider, by index.
    pub provider: usize,
    pub name: MachineName,
    /// The provider's id for it.
    pub uid: String,
    /// What it can show.
    pub kind: Kind,
    /// When its runner registers.
    pub binding: Binding,
    /// What was stamped on it.
    pub stamp: Stamp,
    pub host: HostName,
    /// The registration its JIT config is for.
    pub jit: Option<RunnerId>,
    /// The registration its agent is connected as.
    pub runner: Option<RunnerId>,
    /// Where it is in its life.
    pub stage: Stage,
    /// The job whose worker is alive on it.
    pub worker: Option<u64>,
    /// Whether its runner ever started.
    pub began: bool,
    /// Whether its deletion was requested.
    pub leaving: bool,
    /// Whether the provider is in doubt about it.
    pub doubt: bool,
    /// Since when it exists.
    pub since: Moment,
    /// Whether a question for work is on its way.
    pub(in crate::testing) asking: bool,
    /// Why it does not come up, in the provider's word.
    pub(super) stuck: Option<&'static str>,
    pub(super) fate: Fate,
    pub(super) lied: bool,
    pub(super) delete_lies: u8,
}

/// Tells who ended a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::testing) enum Hand {
    /// Itself, its host, or a stranger.
    Other,
    /// We, under an operator's word or where nothing worked.
    Ours,
    /// We, under a job, without an operator's word.
    Wrongful,
}

/// Tells where a machine is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    Ordered,
    Booting,
    /// Up, asking for work.
    Polling,
    /// Its agent is connected and listens or works.
    Listening,
    /// Up, and nothing lives in it.
    Hollow,
    Over(ExitFacts),
}

impl Machine {
    /// Returns whether the provider has it.
    pub fn exists(&self) -> bool {
        self.stage != Stage::Ordered
    }

    /// Returns whether something lives in it.
    pub fn is_alive(&self) -> bool {
        matches!(self.stage, Stage::Booting | Stage::Polling | Stage::Listening)
    }

    /// Returns what the provider shows of it.
    pub(super) fn view(&self, silent: bool) -> MachineView {
        let up = matches!(self.stage, Stage::Polling | Stage::Listening);
        MachineView {
            name: self.name.clone(),
            uid: Some(self.uid.clone()),
            stamp: self.stamp.clone(),
            phase: self.phase(),
            worker: self.witness(silent),
            began: match self.kind {
                Kind::Split if self.began => Began::Yes,
                Kind::Split if self.doubt => Began::Unknown,
                Kind::Split => Began::Never,
                Kind::Witness | Kind::Blind => Began::Unknown,
            },
            ready: up && self.kind != Kind::Blind && !self.doubt,
            leaving: self.leaving,
            host: Some(self.host.clone()),
        }
    }

    fn phase(&self) -> MachinePhase {
        if self.doubt {
            return MachinePhase::Doubt("the host does not answer".into());
        }
        match &self.stage {
            Stage::Ordered | Stage::Booting => MachinePhase::Booting,
            Stage::Polling | Stage::Listening | Stage::Hollow => MachinePhase::Running,
            Stage::Over(facts) => MachinePhase::Over(facts.clone()),
        }
    }

    /// Returns what the witness says: it may be silent, it never lies.
    fn witness(&self, silent: bool) -> Worker {
        match self.kind {
            Kind::Blind => Worker::NoWitness,
            Kind::Split | Kind::Witness if silent || self.doubt => Worker::Unknown,
            Kind::Split | Kind::Witness if self.worker.is_some() => Worker::Present,
            Kind::Split | Kind::Witness => Worker::Absent,
        }
    }
}

impl Machines {
    /// Returns a provider's index.
    pub fn index_of(&self, provider: &ProviderId) -> Option<usize> {
        self.providers.iter().position(|(id, _)| id == provider)
    }

    /// Returns a machine by name.
    pub fn named(&self, provider: usize, name: &MachineName) -> Option<&Machine> {
        let number = self.names.get(&(provider, name.clone()))?;
        self.machines.get(number)
    }

    /// Returns a machine by name, whatever its provider.
    pub fn anywhere(&self, name: &MachineName) -> Option<&Machine> {
        (0..self.providers.len()).find_map(|provider| self.named(provider, name))
    }

    /// Iterates the machines that exist.
    pub fn existing(&self) -> impl Iterator<Item = &Machine> {
        self.machines.values().filter(|machine| machine.exists())
    }

    /// Removes a machine for good.
    pub(super) fn remove(&mut self, number: u64, now: Moment) -> Option<Machine> {
        let machine = self.machines.remove(&number)?;
        self.names.remove(&(machine.provider, machine.name.clone()));
        if machine.exists() {
            self.gone.push_back((now, machine.provider, machine.view(false)));
            if self.gone.len() > 64 {
                self.gone.pop_front();
            }
        }
        Some(machine)
    }
}

impl Death {
    /// Returns the facts this end leaves, if it leaves any.
    pub fn facts(self, at: Timestamp) -> ExitFacts {
        let of = |code: Option<i32>, reason: &str, machine: &str| ExitFacts {
            code,
            signal: None,
            reason: Some(reason.to_owned()).filter(|word| !word.is_empty()),
            machine_reason: Some(machine.to_owned()).filter(|word| !word.is_empty()),
            part: None,
            ended_at: Some(at),
        };
        match self {
            Self::Clean => of(Some(0), "Completed", ""),
            Self::BareZero => of(Some(0), "", ""),
            Self::RunnerError => of(Some(1), "Error", ""),
            Self::Outdated => of(Some(7), "Error", ""),
            Self::Aborted => of(Some(134), "Error", ""),
            Self::HostOom => of(Some(137), "OOMKilled", ""),
            Self::GuestKilled => of(Some(137), "Error", ""),
            Self::Invented => of(Some(137), "ContainerStatusUnknown", ""),
            Self::Crashed => of(Some(139), "Error", ""),
            Self::Terminated => of(Some(143), "Error", ""),
            Self::Signalled => ExitFacts { signal: Some(15), ..of(None, "Error", "") },
            Self::HostFailed => of(Some(1), "TartRunFailed", ""),
            Self::Evicted => of(Some(137), "Error", "Evicted"),
            Self::Preempted => of(None, "", "Preempting"),
            Self::Deadline => of(None, "", "DeadlineExceeded"),
            Self::NodeLost => of(None, "", "NodeLost"),
            Self::ImagePull => of(None, "", "ErrImagePull"),
            Self::PollerFailed => {
                ExitFacts { part: Some("poller".into()), ..of(Some(1), "Error", "") }
            }
            Self::Unreported => of(Some(0), "TartRunExited", ""),
            Self::Wordless | Self::Vanished | Self::Hung => ExitFacts::default(),
        }
    }

    /// Draws an end for a machine that should not have ended.
    pub(super) fn draw(dice: &mut Dice, kind: Kind) -> Self {
        let all: &[Self] = match kind {
            Kind::Split => &[
                Self::RunnerError,
                Self::Outdated,
                Self::Aborted,
                Self::HostOom,
                Self::GuestKilled,
                Self::Invented,
                Self::Crashed,
                Self::Terminated,
                Self::Evicted,
                Self::Preempted,
                Self::Deadline,
                Self::NodeLost,
                Self::Wordless,
                Self::Vanished,
                Self::BareZero,
                Self::Clean,
            ],
            Kind::Witness => &[
                Self::RunnerError,
                Self::Outdated,
                Self::Aborted,
                Self::GuestKilled,
                Self::Crashed,
                Self::Terminated,
                Self::Signalled,
                Self::Vanished,
                Self::Clean,
            ],
            Kind::Blind => &[
                Self::Wordless,
                Self::Unreported,
                Self::HostFailed,
                Self::Vanished,
                Self::NodeLost,
            ],
        };
        dice.pick(all).copied().unwrap_or(Self::RunnerError)
    }
}
