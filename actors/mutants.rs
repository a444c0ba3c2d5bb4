//! Deliberate mistakes, to prove that the checkers can fail.
//!
//! Each is one of the ways real fleets went wrong. Only dev-dependencies turn the feature `mutants` on.
//! Without it `is` is a constant `false`, so the compiler removes the mistakes from the program.

/// Names a deliberate mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mutant {
    /// The reaper's finding is taken as a warrant.
    ReaperDeletesDirectly,
    /// The registry entry goes when deletion is asked for.
    EntryRemovedEarly,
    /// Rows in `deleting` get no owner at start.
    DeletingSkippedAtStart,
    /// A machine missing from a listing is taken as gone.
    ListingProvesAbsence,
    /// The completion of the offered job counts as the end of our runner's job.
    CompletionByOfferedJob,
    /// Requeue findings are applied whatever attempt they were about.
    NoGenerationCheck,
    /// The machine is deleted before its end is on record.
    RecordAfterDelete,
    /// A started runner is reaped because no instance claims it.
    MissingClaimKills,
    /// An unanswered create is repeated without a look.
    CreateRepeated,
    /// A slot is given back when deletion starts and again when it ends.
    SlotFreedTwice,
    /// A silent witness is read as "no job".
    UnknownMeansIdle,
    /// One absent read proves absence.
    OneAbsenceProves,
    /// The JIT config is handed out before the ledger acknowledged it.
    JitBeforeAck,
    /// An offer's end is not told to the instance and never checked.
    ReservedForever,
    /// A fleet does not start while a row of its store cannot be decoded.
    QuarantineStopsFleet,
    /// An effect that panics leaves its owner waiting.
    EffectWithoutAnswer,
    /// A machine that is gone holds its place while its registration is left.
    PlaceOfTheGone,
    /// A job that was put back after an attempt is never anyone's demand again.
    ParkedForever,
    /// A delete that failed is not tried again.
    DeleteNotRetried,
    /// Jobs whose webhooks were lost are not asked for.
    MissedJobsNotAskedFor,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 20] = [
        Self::ReaperDeletesDirectly,
        Self::EntryRemovedEarly,
        Self::DeletingSkippedAtStart,
        Self::ListingProvesAbsence,
        Self::CompletionByOfferedJob,
        Self::NoGenerationCheck,
        Self::RecordAfterDelete,
        Self::MissingClaimKills,
        Self::CreateRepeated,
        Self::SlotFreedTwice,
        Self::UnknownMeansIdle,
        Self::OneAbsenceProves,
        Self::JitBeforeAck,
        Self::ReservedForever,
        Self::QuarantineStopsFleet,
        Self::EffectWithoutAnswer,
        Self::PlaceOfTheGone,
        Self::ParkedForever,
        Self::DeleteNotRetried,
        Self::MissedJobsNotAskedFor,
    ];
}

#[cfg(feature = "mutants")]
mod chosen {
    use std::cell::Cell;

    use super::Mutant;

    thread_local! {
        static CHOSEN: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    /// Makes this thread's worlds commit the mistake.
    pub fn choose(mutant: Option<Mutant>) {
        CHOSEN.set(mutant);
    }

    /// Returns whether the mistake is to be made.
    pub(crate) fn is(mutant: Mutant) -> bool {
        CHOSEN.get() == Some(mutant)
    }
}

#[cfg(feature = "mutants")]
pub use chosen::choose;
#[cfg(feature = "mutants")]
pub(crate) use chosen::is;

/// Returns that no mistake is to be made.
#[cfg(not(feature = "mutants"))]
pub(crate) const fn is(_: Mutant) -> bool {
    false
}
