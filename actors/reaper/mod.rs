//! Finds machines and runners that exist and should not, and that should exist and do not.
//!
//! The reaper takes no input but the clock and holds only the seeing halves of the ports. It
//! compares listings with records, listings first (`rounds`, `sweep`), and reports what it found:
//!
//! - an *orphan* is a machine that carries our controller's stamp and a holder we had, that
//!   two complete listings at least `confirm_after` apart name, and that no live record owns.
//!   The fleet gets it; the pool gives it an owner, which makes sure that it is free first;
//! - a *foreign* machine carries our controller's stamp and a holder we never had: a copied
//!   database, a restored backup, a second daemon. It is shown and never touched;
//! - an *unlisted* instance has a record whose machine was seen before and that a complete
//!   listing does not name. Its owner is asked to retire it, within its pool's budget, and reads
//!   the machine itself before anything else;
//! - a *lost runner* is one that a complete listing shows offline, or does not name, while its
//!   instance waits for work. The owner is asked within the budget, and reads the runner twice by
//!   its number before it goes. Where a job is at work, the job is asked about instead;
//! - a *sighting* that an owner may not know of yet is passed on as a fact.
//!
//! It never deletes and cannot: a listing nominates, its finding is not a warrant.
//! A listing that failed, is partial, or is empty while machines should exist proves nothing.
//! A large fleet in which nothing happens is swept less often.

mod actor;
mod rounds;
mod sweep;

pub(crate) use actor::{ReaperStart, start};
