//! What an owner remembers only while it lives. A restart forgets it, on purpose: holds
//! begin again, counts of absences begin again, and nothing is decided on stale looks.

use std::collections::BTreeMap;

use super::answer::Token;
use super::call::CallKind;
use crate::model::{Began, Event, ExitReport, JobStatus, Timestamp, Warrant, Worker};
use crate::ports::Handover;

/// Holds an owner's volatile memory.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each notes one thing; no two exclude another")]
pub(super) struct Notes {
    pub(super) under_way: BTreeMap<CallKind, Token>,
    /// The last token given out.
    pub(super) last_token: Token,
    /// Whether the machine was looked at, or there is nothing to look at.
    pub(super) looked: bool,
    /// Why nothing can be asked at all (provider or forge no longer configured).
    pub(super) cut_off: Option<String>,
    /// How the machine comes by its JIT config.
    pub(super) handover: Handover,
    /// How often the machine told how far it is.
    pub(super) words: u32,
    pub(super) may_start: bool,
    pub(super) may_delete: bool,
    /// When to look at the machine next, whatever the state.
    pub(super) look_at: Option<Timestamp>,
    /// Looks in a row that brought nothing.
    pub(super) blind_looks: u32,
    /// When the first of the current row of absent reads began.
    pub(super) absent_since: Option<Timestamp>,
    /// When the machine was last seen, by whomever.
    pub(super) last_seen: Option<Timestamp>,
    /// Whether somebody else was seen deleting the machine.
    pub(super) leaving: bool,
    /// Whether the machine's runner ever started, as last seen.
    pub(super) began: Option<Began>,
    /// What the machine's witness said last.
    pub(super) worker: Option<Worker>,
    /// The doubt last told about.
    pub(super) doubt: Option<String>,
    pub(super) removal: Removal,
    /// The watch before a deletion.
    pub(super) vigil: Vigil,
    pub(super) minting: Minting,
    /// Whether direct reads shall tell if the runner is of any use.
    pub(super) offline: OfflineCheck,
    /// Whether the runner of a job at work is offline or unlisted, and the ledger is to hear it.
    pub(super) runner_lost: bool,
    /// The post-mortem under way.
    pub(super) closing: Option<Closing>,
    /// Remains gathered while somebody else was deleting the machine.
    pub(super) early_exit_report: Option<ExitReport>,
    pub(super) deletion: DeletionNotes,
    /// When the ledger is asked next about the offer.
    pub(super) ledger_at: Option<Timestamp>,
    /// Whether the end was told to be late.
    pub(super) stuck: bool,
    /// The last event, for merging repetitions.
    pub(super) last_event: Option<Event>,
}

/// Remembers how the removal of a registration goes.
#[derive(Clone, Debug, Default)]
pub(super) struct Removal {
    /// When the first of the current row of 404s came.
    pub(super) missing_since: Option<Timestamp>,
    /// When to try next.
    pub(super) next_at: Option<Timestamp>,
    /// Tries in a row that did not settle it.
    pub(super) tries: u32,
    /// When this owner learned that the registration is gone.
    pub(super) gone_at: Option<Timestamp>,
}

/// Remembers whether the runner still serves the forge.
#[derive(Clone, Debug, Default)]
pub(super) struct OfflineCheck {
    /// Whether a listing showed the runner of an idle instance offline, or not at all.
    pub(super) suspected: bool,
    /// When the first of the current row of direct reads that showed it so began.
    pub(super) since: Option<Timestamp>,
    /// Whether two such reads are in.
    pub(super) proven: bool,
    /// Whether the last of them did not find the registration.
    pub(super) absent: bool,
    /// When the runner may be read again.
    pub(super) look_at: Option<Timestamp>,
    /// When the runner was last shown online; what was asked before that is old.
    pub(super) last_online: Option<Timestamp>,
}

/// Remembers the watch before a deletion.
#[derive(Clone, Debug, Default)]
pub(super) struct Vigil {
    /// When the next decisive look may begin.
    pub(super) look_at: Option<Timestamp>,
    /// Looks that could not tell.
    pub(super) tries: u32,
    /// Whether the machine has no witness, so that the forge is asked.
    pub(super) ask_forge: bool,
    /// What the decisive look brought, once it says that no job is there.
    pub(super) free: Option<String>,
}

/// Remembers how minting goes.
#[derive(Clone, Debug, Default)]
pub(super) struct Minting {
    /// Whether the committed name has not been sent to the forge by this owner.
    pub(super) fresh: bool,
    /// When to try next.
    pub(super) next_at: Option<Timestamp>,
    /// Tries in a row that failed.
    pub(super) tries: u32,
}

/// Remembers a post-mortem under way.
#[derive(Clone, Debug)]
pub(super) struct Closing {
    /// Why the machine may go.
    pub(super) warrant: Warrant,
    /// What it left, once gathered.
    pub(super) exit_report: Option<ExitReport>,
    /// What is known of its job, once asked.
    pub(super) job: Option<JobStatus>,
    /// When it is recorded, whatever is missing.
    pub(super) until: Timestamp,
}

/// Remembers how a deletion goes.
#[derive(Clone, Debug, Default)]
pub(super) struct DeletionNotes {
    /// When the provider accepted our delete.
    pub(super) accepted_at: Option<Timestamp>,
    /// When to call delete next.
    pub(super) next_at: Option<Timestamp>,
    pub(super) tries: u32,
    /// Looks since the last accepted delete.
    pub(super) looks: u32,
}
