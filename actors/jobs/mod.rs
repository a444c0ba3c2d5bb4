//! What is asked of us.
//!
//! A job has two axes. The forge's *fact* only rises and only the forge moves it
//! (`facts`). Our *offer* says who should serve it (`offers`). Only an *execution*, the
//! forge's proof that it runs on a runner of ours, makes it `running`, and it need not run
//! where it was offered: the forge gives any runner any job whose labels fit. So the
//! execution of B on the instance that was offered A binds B there and frees A, in one
//! transaction, and the end of a job is credited only to the runner the forge names.
//!
//! ```text
//! notices ──▶ facts ──┐                       ┌──▶ demand to pools
//! findings ───────────┼─▶ Ledger ─▶ save ─▶ ──┼──▶ offers, executions, ends to instances
//! instance news ──────┘   (pure)              └──▶ questions to the requeue actor
//! ```
//!
//! There is one ledger a fleet, because the labels of pools overlap: whose demand a job is
//! (`routing`) can only be decided by somebody who sees all pools.

mod actor;
mod ages;
mod capabilities;
mod change;
mod demand;
mod executions;
mod explain;
mod facts;
mod findings;
mod index;
mod ledger;
mod memory;
mod messages;
mod offers;
mod patience;
mod routing;
#[cfg(test)]
pub(crate) mod tests;
mod updates;

pub(crate) use actor::{LedgerStart, start};
pub use capabilities::Capabilities;
pub use explain::{BudgetLeft, HoldUps, PoolStatus, explain_job, why_it_waits};
pub use messages::{Accepts, Finding, InstanceChange, InstanceUpdate, ToLedger};
