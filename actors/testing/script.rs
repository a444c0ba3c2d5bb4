//! Single behaviours forced by a scenario: "the next create loses its answer".
//!
//! A script beats the dice. Everything in it is used up once, unless it says "until".

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::clock::Moment;
use crate::model::{HostName, JobFact, MachineName, ProviderId, RunnerName, Scope};

/// Holds what a scenario has planned.
#[derive(Debug, Default)]
pub struct Script {
    /// How the next creates go.
    pub creates: VecDeque<CreatePlan>,
    /// How the next machines live.
    pub fates: VecDeque<Fate>,
    /// How the next deletes go.
    pub deletes: VecDeque<DeletePlan>,
    /// How the next mints go.
    pub mints: VecDeque<MintPlan>,
    /// How many registrations a minute go out; more wait.
    pub mints_per_minute: Option<u64>,
    /// When the next of them may go out.
    pub next_mint_at: Moment,
    /// Scopes whose mints are refused, until they are taken out.
    pub refused_scopes: BTreeSet<Scope>,
    /// How many of the next JIT configs are lost on their way to the machine that asked.
    pub lost_dispatches: u32,
    /// How creates go that are not planned one by one, until told otherwise.
    pub every_create: Option<CreatePlan>,
    /// How machines live that are not planned one by one, until told otherwise.
    pub every_machine: Option<Fate>,
    /// How many machines a provider has room for, until told otherwise; more are refused.
    pub room: Option<usize>,
    /// Hosts that accept every machine and start none; they look empty and are preferred.
    pub sick_hosts: BTreeSet<HostName>,
    /// Machines whose pollers neither ask nor hear, until they are taken out.
    pub mute_pollers: BTreeSet<MachineName>,
    /// Hosts that do not answer: nothing is placed there, and nothing there is heard.
    pub dark_hosts: BTreeSet<HostName>,
    /// Until when a listing of all live rows is empty.
    pub blank_records_until: Moment,
    /// Whether the forge assigns nothing but what `pairs` says.
    pub hands_off: bool,
    /// Which job goes to which machine, as soon as both are ready.
    pub pairs: Vec<(u64, MachineName)>,
    /// How long each machine takes from an assignment to its worker.
    pub pickups: BTreeMap<MachineName, u64>,
    /// How long each job runs; others draw.
    pub durations: BTreeMap<u64, u64>,
    /// Runners whose next removal is accepted although they have a job.
    pub nasty: BTreeSet<RunnerName>,
    /// Runners whose next removals are refused as busy, and how many.
    pub lie422: BTreeMap<RunnerName, u32>,
    /// Runners that the next read does not find.
    pub hidden_runners: BTreeSet<RunnerName>,
    /// Machines that the next read does not find.
    pub hidden_machines: BTreeSet<MachineName>,
    /// Jobs that the next read does not find.
    pub hidden_jobs: BTreeSet<u64>,
    /// Jobs whose next reading is true when it is asked for and comes so many milliseconds late.
    pub late_readings: BTreeMap<u64, u64>,
    /// Until when every machine listing is empty and calls itself complete.
    pub empty_lists_until: Moment,
    /// Whether machines whose provider has no witness have a supervisor that reports.
    pub supervised: bool,
    /// Machines whose report waits for its answer.
    pub reports_in_flight: BTreeSet<u64>,
    /// Until when the witness of a machine is silent.
    pub silent_until: BTreeMap<MachineName, Moment>,
    /// Until when the forge answers no read.
    pub forge_dark_until: Moment,
    /// Machines that do not go when they are deleted, and how, until they are allowed to.
    pub resisting: BTreeMap<MachineName, Resists>,
    /// Until when a provider swallows every call: no answer, no refusal, no effect.
    pub swallowing: BTreeMap<ProviderId, Moment>,
    /// Jobs whose end names no runner.
    pub nameless: BTreeSet<u64>,
    /// What the log of a machine ends with.
    pub logs: BTreeMap<MachineName, String>,
    /// How many of the next webhooks of each kind are lost.
    pub lost_hooks: BTreeMap<HookKind, u32>,
    /// How late webhooks of each kind are, in milliseconds.
    pub late_hooks: BTreeMap<HookKind, u64>,
    /// How many of the next calls of each name end in a panic of their adapter.
    pub panicking: BTreeMap<&'static str, u32>,
    /// Whether the daemon crashes as soon as the next delivery is durable.
    pub crash_at_delivery: bool,
    crash_at: Option<(u64, Point)>,
    saves: u64,
    failing_saves: u32,
    losing_saves: u32,
}

/// Tells how a create goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreatePlan {
    Good,
    /// Refused, and the provider vouches that nothing was made.
    Refused,
    /// Refused, and the provider vouches for nothing.
    Failed,
    /// The same, and the machine comes after so many milliseconds.
    FailedComes(u64),
    /// An error, and the machine comes after so many milliseconds all the same.
    RefusedComes(u64),
    /// Made, and the answer is lost.
    Lost,
    /// Neither made nor answered.
    Vain,
    /// Never answers; the machine comes after so many milliseconds, if at all.
    Hangs(Option<u64>),
}

/// Tells how a delete goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletePlan {
    /// As it should; the machine is gone after so many milliseconds.
    Good(u64),
    Fails,
    /// Done, and the answer is lost.
    Lost,
    /// Accepted, and nothing happens.
    Lies,
}

/// Tells how a machine outlives its deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resists {
    /// The call never answers and does nothing.
    Hangs,
    /// Accepted, and nothing happens.
    Lies,
    /// Accepted; what lived there is dead, and the machine is leaving for ever.
    Lingers,
}

/// Tells how a mint goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MintPlan {
    Good,
    /// Made, and the answer is lost.
    Lost,
    /// Made, and answered after so many milliseconds.
    Slow(u64),
    /// Neither made nor answered.
    Vain,
    /// Made, its answer lost on the way, and repeated there: the name is taken.
    Taken,
    Later,
    Refused,
}

/// Tells how a machine lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    Good,
    /// Its provider never gets it up.
    NeverBoots,
    /// It is up, and its runner never reaches the forge.
    NeverConnects,
    /// Its runner leaves with this exit code before it reaches the forge.
    Exits(i32),
    /// Its provider never gets it up, and has this word for it.
    StuckAs(&'static str),
    /// Dies after so many milliseconds, this way.
    Dies(u64, Death),
    /// Dies so many milliseconds into its job, this way.
    DiesWorking(u64, Death),
    /// Ends this way after its job.
    Ends(Death),
    /// Ends this way so many milliseconds after its job: it is still uploading.
    EndsAfter(u64, Death),
}

/// Names the ways a machine ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Death {
    Clean,
    /// Exit 0, and the runtime has no word for it.
    BareZero,
    RunnerError,
    Outdated,
    Aborted,
    /// Exit 137, `OOMKilled`.
    HostOom,
    /// Exit 137, `Error`.
    GuestKilled,
    /// Exit 137, `ContainerStatusUnknown`: invented by the runtime.
    Invented,
    Crashed,
    Terminated,
    /// Signal 15, and no exit code.
    Signalled,
    /// Exit 1 of the process that holds the machine; its guest said nothing.
    HostFailed,
    /// Evicted from its host.
    Evicted,
    /// Gave way to something more important.
    Preempted,
    /// Ran out of its machine's time.
    Deadline,
    /// Its host is lost, and the provider says so.
    NodeLost,
    /// Its image could not be pulled.
    ImagePull,
    /// Its poller failed before the runner began.
    PollerFailed,
    /// Exit 0 without a word from inside.
    Unreported,
    /// Over, and no exit facts at all.
    Wordless,
    /// Gone without a trace.
    Vanished,
    /// Its process is dead and no report says so.
    Hung,
}

impl Death {
    pub const ALL: [Self; 22] = [
        Self::Clean,
        Self::BareZero,
        Self::RunnerError,
        Self::Outdated,
        Self::Aborted,
        Self::HostOom,
        Self::GuestKilled,
        Self::Invented,
        Self::Crashed,
        Self::Terminated,
        Self::Signalled,
        Self::HostFailed,
        Self::Evicted,
        Self::Preempted,
        Self::Deadline,
        Self::NodeLost,
        Self::ImagePull,
        Self::PollerFailed,
        Self::Unreported,
        Self::Wordless,
        Self::Vanished,
        Self::Hung,
    ];
}

/// Names the kinds of webhooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookKind {
    /// `waiting` or `queued`.
    Queued,
    /// `in_progress`.
    InProgress,
    /// `completed`.
    Completed,
}

impl HookKind {
    /// Returns the kind that tells a fact.
    pub fn of(fact: &JobFact) -> Self {
        match fact {
            JobFact::Waiting | JobFact::Queued => Self::Queued,
            JobFact::InProgress => Self::InProgress,
            JobFact::Completed(_) => Self::Completed,
        }
    }
}

/// Names the two sides of a save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Before it is durable.
    Before,
    /// After it is durable, before the answer.
    After,
}

impl Script {
    /// Crashes the daemon at the n-th save from now on.
    pub fn crash_at_save(&mut self, nth: u64, point: Point) {
        self.crash_at = Some((self.saves + nth, point));
    }

    /// Lets the next saves fail without effect.
    pub fn fail_saves(&mut self, count: u32) {
        self.failing_saves += count;
    }

    /// Lets the next saves be done and lose their answers.
    pub fn lose_saves(&mut self, count: u32) {
        self.losing_saves += count;
    }

    /// Counts a save and returns whether the daemon crashes before it.
    pub(super) fn crashes_before(&mut self) -> bool {
        self.saves += 1;
        self.is_due(Point::Before)
    }

    /// Returns whether the daemon crashes after this save.
    pub(super) fn crashes_after(&mut self) -> bool {
        self.is_due(Point::After)
    }

    /// Returns whether a machine is kept free for a job of `pairs`.
    pub(super) fn is_reserved(&self, machine: Option<&MachineName>) -> bool {
        machine.is_some_and(|name| self.pairs.iter().any(|(_, paired)| paired == name))
    }

    pub(super) fn fails_save(&mut self) -> bool {
        spend(&mut self.failing_saves)
    }

    pub(super) fn loses_save(&mut self) -> bool {
        spend(&mut self.losing_saves)
    }

    pub(super) fn loses_dispatch(&mut self) -> bool {
        spend(&mut self.lost_dispatches)
    }

    pub(super) fn loses_hook(&mut self, kind: HookKind) -> bool {
        self.lost_hooks.get_mut(&kind).is_some_and(spend)
    }

    pub(super) fn lies_422(&mut self, runner: &RunnerName) -> bool {
        self.lie422.get_mut(runner).is_some_and(spend)
    }

    pub(super) fn panics(&mut self, call: &'static str) -> bool {
        self.panicking.get_mut(call).is_some_and(spend)
    }

    fn is_due(&mut self, point: Point) -> bool {
        let due = self.crash_at.is_some_and(|(nth, at)| self.saves >= nth && at == point);
        if due {
            self.crash_at = None;
        }
        due
    }
}

fn spend(left: &mut u32) -> bool {
    let any = *left > 0;
    *left = left.saturating_sub(1);
    any
}
