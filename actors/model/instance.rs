//! The record of one instance: what its owner decided, and what the world proved to it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{
    Binding, Conclusion, ExitFacts, ForgeId, Generation, HostName, InstanceId, JobId, MachineName,
    Place, PoolId, ProviderId, Revision, RunnerId, RunnerName, Scope, Timestamp, VerdictClass,
    Version, WriteId,
};
use crate::mutants::{self, Mutant};

/// Holds the durable truth about one instance. Only its actor writes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// Its name, unique for ever.
    pub id: InstanceId,
    /// The pool it counts for.
    pub pool: PoolId,
    /// The provider of its machine.
    pub provider: ProviderId,
    /// The forge of its runner.
    pub forge: ForgeId,
    /// The scope its runner registers in.
    pub scope: Scope,
    /// When it registers.
    pub binding: Binding,
    /// The shape it was made in.
    pub revision: Revision,
    /// The machine's name; differs from `id` for an adopted machine.
    pub machine: MachineName,
    /// The provider's own id for the machine, once known.
    pub uid: Option<String>,
    /// Where the machine runs, once known.
    pub host: Option<HostName>,
    /// Where it is in its life.
    pub state: State,
    /// Since when.
    pub since: Timestamp,
    /// When it was first recorded.
    pub created_at: Timestamp,
    /// Counts saves.
    pub version: Version,
    /// The last save, so that its repetition finds itself.
    pub write: WriteId,
    /// How many events its timeline has.
    pub events: u32,
    /// The removal request, kept beside the state.
    pub removal: Option<RemovalRequest>,
    /// When the provider's create was committed to be called; a machine may exist from here on.
    pub create_called_at: Option<Timestamp>,
    /// What the provider said when it refused the create, where it does not vouch that nothing was made.
    #[serde(default)]
    pub create_refused: Option<String>,
    /// When the machine was first seen.
    pub seen_at: Option<Timestamp>,
    /// When the runner was first known to be ready.
    pub ready_at: Option<Timestamp>,
    /// Whether the runner was ever seen started on the machine.
    pub once_started: bool,
    /// Whether the machine itself ever showed a worker.
    #[serde(default)]
    pub worked: bool,
    /// How many JIT configs were asked for.
    pub mints: u32,
    /// The registration at the forge.
    pub registration: Registration,
    /// Since when the registration is gone and nothing proved work, within the hour.
    #[serde(default)]
    pub doubt_since: Option<Timestamp>,
    /// The JIT config, sealed, where its machine asks us for it, until it is spent.
    pub sealed_jit: Option<String>,
    /// What the machine last said about itself while it was set up.
    #[serde(default)]
    pub setup_report: Option<SetupReport>,
    /// Since when the supervisor of its machine reports; the token that came with the machine opens
    /// nothing any more.
    #[serde(default)]
    pub witness_since: Option<Timestamp>,
    /// The offer it holds.
    pub offer: Option<HeldOffer>,
    /// The job the forge proved to run here.
    pub executing: Option<JobId>,
    /// What is known about the end of that job.
    pub job_over: Option<JobOver>,
    /// How the machine ended, once it has.
    pub end: Option<End>,
    /// Why the machine may be deleted, once that is decided.
    pub warrant: Option<Warrant>,
    /// The recorded verdict, once there is one.
    pub verdict: Option<VerdictClass>,
    /// When the provider confirmed that the machine is gone.
    pub machine_gone_at: Option<Timestamp>,
    /// Whether it was found rather than made.
    pub adopted: bool,
}

impl Instance {
    /// Returns the name of the n-th registration: the machine's own first, numbered later.
    pub fn runner_name(&self, mint: u32) -> RunnerName {
        if mint <= 1 {
            RunnerName::new(self.machine.as_str())
        } else {
            RunnerName::new(format!("{}-{mint}", self.machine))
        }
    }

    /// Returns whether `name` is or was a registration of this instance. How often a machine
    /// that was found had been registered is unknown: it answers to any number.
    pub fn answers_to(&self, name: &RunnerName) -> bool {
        let minted = || (1..=self.mints.max(1)).any(|mint| self.runner_name(mint) == *name);
        if self.adopted { name.is_of(self.machine.as_str()) } else { minted() }
    }

    /// Returns where its runners register.
    pub fn home(&self) -> Home {
        Home { forge: self.forge.clone(), scope: self.scope.clone() }
    }

    /// Returns whether an offer may be sent to it.
    pub fn is_offerable(&self) -> bool {
        self.state == State::Idle
            && self.binding == Binding::Late
            && self.removal.is_none()
            && self.registration == Registration::None
    }

    /// Returns whether its runner ended by itself after it was ready, registered and not asked to
    /// go, and no job was ever named: a job may have run here of which every notice was lost.
    pub fn worked_unnamed(&self) -> bool {
        let was_ready = self.mints > 0 && (self.once_started || self.ready_at.is_some());
        let by_itself = matches!(self.end, Some(End::Exited(_) | End::Gone { .. }));
        was_ready && by_itself && self.removal.is_none() && self.executing.is_none()
    }

    /// Returns whether no job can ever run here: it never got a JIT config and, because it is asked
    /// to go, will be handed none.
    pub fn can_never_run_a_job(&self) -> bool {
        let never_minted = self.mints == 0 && self.registration == Registration::None;
        self.binding == Binding::Late && !self.adopted && never_minted && self.removal.is_some()
    }

    /// Returns whether it holds a place against the pool's `max`.
    pub fn occupies(&self) -> bool {
        let kept = mutants::is(Mutant::PlaceOfTheGone);
        self.state != State::Deleted && (kept || self.machine_gone_at.is_none())
    }

    /// Returns whether a machine may exist because of this row: its create was called, or it was
    /// found, and it is not known to be gone.
    pub fn machine_may_exist(&self) -> bool {
        (self.create_called_at.is_some() || self.adopted) && self.machine_gone_at.is_none()
    }

    /// Returns the part of its state that people see apart.
    pub fn phase(&self) -> Option<Phase> {
        (self.state == State::Deleting && self.machine_gone_at.is_some())
            .then_some(Phase::Finishing)
    }
}

/// Names a part of a state that people see apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// `deleting`: its machine is gone and its place is free; its registration is left.
    Finishing,
}

impl Phase {
    /// Returns the word used everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Finishing => "finishing",
        }
    }
}

/// Tells where the runner of a machine registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// The forge.
    pub forge: ForgeId,
    /// The scope at it.
    pub scope: Scope,
}

impl Home {
    /// Returns whether a runner that registers here may have a job of this place.
    pub fn may_serve(&self, forge: &ForgeId, place: &Place) -> bool {
        // A forge does not name the enterprise with every job.
        let unnamed = matches!(self.scope, Scope::Enterprise(_)) && place.enterprise.is_none();
        self.forge == *forge && (unnamed || self.scope.covers(place))
    }
}

/// Names where an instance is in its life. States have no order: ask a predicate
/// ([`was_created`](Self::was_created), [`is_terminating`](Self::is_terminating), …).
///
/// ```compile_fail
/// # use ostler_actors::model::State;
/// assert!(State::Idle < State::Busy);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The row is durable, the name fixed; nothing exists.
    PendingCreate,
    /// Create is under way, or its answer lost.
    Creating,
    /// The machine exists, its runner is not ready.
    Starting,
    /// Ready and free.
    Idle,
    /// An offer is being delivered.
    Reserved,
    /// The forge or the machine proved that a job runs here.
    Busy,
    /// Asked to go, and we are making sure it is free.
    Retiring,
    /// The machine is over; its end is being recorded.
    Ended,
    /// Warrant and record in hand; waits for a permit.
    PendingDelete,
    /// The point of no return.
    Deleting,
    /// Nothing is left.
    Deleted,
}

impl State {
    /// All states, in the order of life.
    pub const ALL: [Self; 11] = [
        Self::PendingCreate,
        Self::Creating,
        Self::Starting,
        Self::Idle,
        Self::Reserved,
        Self::Busy,
        Self::Retiring,
        Self::Ended,
        Self::PendingDelete,
        Self::Deleting,
        Self::Deleted,
    ];

    /// Returns the word used everywhere: rows, API, logs, metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PendingCreate => "pending_create",
            Self::Creating => "creating",
            Self::Starting => "starting",
            Self::Idle => "idle",
            Self::Reserved => "reserved",
            Self::Busy => "busy",
            Self::Retiring => "retiring",
            Self::Ended => "ended",
            Self::PendingDelete => "pending_delete",
            Self::Deleting => "deleting",
            Self::Deleted => "deleted",
        }
    }

    /// Returns whether a create call may have brought a machine into being.
    pub fn was_created(self) -> bool {
        !matches!(self, Self::PendingCreate | Self::Creating)
    }

    /// Returns whether the instance has left its boot behind, for better or worse.
    pub fn is_booted(self) -> bool {
        self.was_created() && self != Self::Starting
    }

    /// Returns whether the machine exists and nothing has asked it to go.
    pub fn is_running(self) -> bool {
        matches!(self, Self::Starting | Self::Idle | Self::Reserved | Self::Busy)
    }

    /// Returns whether an instance in this state may still come to serve demand.
    pub fn is_capacity(self) -> bool {
        !self.is_terminating()
    }

    /// Returns whether the instance is on its way out.
    pub fn is_terminating(self) -> bool {
        self == Self::Retiring || self.is_over()
    }

    /// Returns whether the machine's own life is over, or its deletion decided.
    pub fn is_over(self) -> bool {
        self == Self::Ended || self.is_delete_decided()
    }

    /// Returns whether its deletion is decided, with the warrant and the record in hand.
    pub fn is_delete_decided(self) -> bool {
        self == Self::PendingDelete || self.is_past_return()
    }

    /// Returns whether deletion can no longer be called off.
    pub fn is_past_return(self) -> bool {
        matches!(self, Self::Deleting | Self::Deleted)
    }
}

/// Counts instances by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateCounts([u32; State::ALL.len()]);

impl StateCounts {
    /// Counts so many instances more.
    pub fn add(&mut self, state: State, more: u32) {
        for (slot, known) in self.0.iter_mut().zip(State::ALL) {
            if known == state {
                *slot += more;
            }
        }
    }

    /// Returns how many instances are in a state.
    pub fn of(&self, state: State) -> u32 {
        self.iter().find(|(known, _)| *known == state).map_or(0, |(_, count)| count)
    }

    /// Returns how many instances there are.
    pub fn total(&self) -> u32 {
        self.0.iter().sum()
    }

    /// Returns the states that have instances, in the order of life, with their number.
    pub fn iter(&self) -> impl Iterator<Item = (State, u32)> {
        State::ALL.into_iter().zip(self.0).filter(|(_, count)| *count > 0)
    }
}

impl FromIterator<(State, u32)> for StateCounts {
    fn from_iter<T: IntoIterator<Item = (State, u32)>>(counts: T) -> Self {
        let mut all = Self::default();
        counts.into_iter().for_each(|(state, count)| all.add(state, count));
        all
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Holds what a machine said about itself while it was set up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetupReport {
    /// How far it is.
    pub setup: Setup,
    /// Its words, cut and escaped.
    pub message: String,
    /// When it said so.
    pub at: Timestamp,
}

/// Names how far a machine is with being set up, by its own word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setup {
    /// At work on it.
    Installing,
    /// Done: its runner was started.
    Idle,
    /// Given up.
    Failed,
}

impl Setup {
    /// Returns the word used everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Installing => "installing",
            Self::Idle => "idle",
            Self::Failed => "failed",
        }
    }
}

/// Holds a removal request; a more urgent one replaces a less urgent one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovalRequest {
    /// How strongly.
    pub urgency: Urgency,
    /// Why.
    pub reason: Reason,
    /// Who asked and in which words, where it was a person.
    pub by: Option<RequestedBy>,
    /// Since when.
    pub at: Timestamp,
}

/// Holds who asked for something, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestedBy {
    /// The name on the token.
    pub who: String,
    /// Their words.
    pub why: String,
}

/// Orders removal requests: `forget` > `force` > `delete` > `retire`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Urgency {
    /// Go if you are free.
    Retire,
    /// Go as soon as you are free.
    Delete,
    /// Go now, whatever you do.
    Force,
    /// Be struck off: your machine is out of our reach for good.
    Forget,
}

/// Tells why an instance is asked to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The pool has more than it wants.
    Surplus,
    /// The pool drains or was removed.
    Drain,
    /// The pool's machines have a new shape.
    Revision,
    /// It did not become ready in time.
    BootDeadline,
    /// Its machine said that it could not be set up.
    BootFailed,
    /// It reached the pool's `max_lifetime`.
    Lifetime,
    /// A machine of ours that had no record.
    Orphan,
    /// A listing does not name its machine.
    Unlisted,
    /// Its runner lost the forge and will never get work.
    Offline,
    /// The forge does not know its runner any more and will never give it work.
    Unregistered,
    /// Its JIT config was minted and never handed out.
    OfferEnded,
    /// Its machine stopped asking for work.
    Silent,
    /// Something ran here and is over; its job is not known.
    Spent,
    /// Its host is being emptied.
    HostDrain,
    /// An operator asked.
    Operator,
}

impl Reason {
    /// Returns the word used everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Surplus => "surplus",
            Self::Drain => "drain",
            Self::Revision => "revision",
            Self::BootDeadline => "boot_deadline",
            Self::BootFailed => "boot_failed",
            Self::Lifetime => "lifetime",
            Self::Orphan => "orphan",
            Self::Unlisted => "unlisted",
            Self::Offline => "offline",
            Self::Unregistered => "unregistered",
            Self::OfferEnded => "offer_ended",
            Self::Silent => "silent",
            Self::Spent => "spent",
            Self::HostDrain => "host_drain",
            Self::Operator => "operator",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Holds what is known of the registration at the forge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Registration {
    /// No mint was ever attempted.
    None,
    /// A mint under this name may have reached the forge.
    Uncertain(RunnerName),
    /// The forge answered with this registration.
    Known {
        /// Its name.
        name: RunnerName,
        /// Its number.
        id: RunnerId,
    },
    /// Removed, or proven absent.
    Gone,
    /// Could not be removed for a day; the forge drops it by itself.
    WrittenOff,
}

impl Registration {
    /// Returns whether a runner of ours may still be registered.
    pub fn may_exist(&self) -> bool {
        matches!(self, Self::Uncertain(_) | Self::Known { .. })
    }
}

/// Holds the offer an instance has accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldOffer {
    /// The job.
    pub job: JobId,
    /// Which offer of it.
    pub generation: Generation,
    /// Whether the ledger acknowledged `delivered`, so that the JIT config may be out.
    pub delivered: bool,
}

/// Holds what is known about the end of the job that ran here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobOver {
    /// The job.
    pub job: JobId,
    /// How it ended, where the forge said so.
    pub conclusion: Option<Conclusion>,
    /// Whether the forge named our runner with it.
    pub names_us: bool,
    /// When we learned of it.
    pub at: Timestamp,
}

/// Tells how a machine ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// It was seen to end.
    Exited(ExitFacts),
    /// Two direct reads found nothing where it had been.
    Gone {
        /// Whether another program was seen deleting it.
        deleted_externally: bool,
    },
    /// It never came to be.
    NotCreated {
        /// What the provider or forge said.
        why: String,
    },
}

/// Holds the written reason for deleting a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warrant {
    /// Which rule allows it.
    pub kind: WarrantKind,
    /// What was seen, in words.
    pub evidence: Vec<String>,
    /// When it was complete.
    pub at: Timestamp,
}

/// Names the rules that allow a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarrantKind {
    /// The machine was seen to be over.
    OwnEnd,
    /// Positive proof that it never worked.
    NeverBegan,
    /// Deregistered, held, and looked at.
    Idle,
    /// Its one job is over and its registration gone.
    Served,
    /// Its job is long over and nothing lives there.
    Zombie,
    /// An operator forced it.
    Operator,
    /// Unregistered for longer than a job can last, and nothing proved work since.
    Expired,
}

impl WarrantKind {
    /// Returns the word used everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OwnEnd => "own_end",
            Self::NeverBegan => "never_began",
            Self::Idle => "idle",
            Self::Served => "served",
            Self::Zombie => "zombie",
            Self::Operator => "operator",
            Self::Expired => "expired",
        }
    }
}

impl fmt::Display for WarrantKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
