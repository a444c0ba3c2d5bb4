//! The ledger: which jobs there are, and which instance serves which.
//!
//! A job has two axes. The forge's *fact* only rises and only the forge moves it. Our *offer*
//! says which instance should serve it. Only an *execution*, the forge's proof that it runs on a
//! runner of ours, makes it `running`, and it need not run where it was offered: the forge gives
//! any runner any job whose labels fit.
//!
//! ```text
//! notices ──────────┐                               ┌──▶ demand to pools
//! findings ─────────┼─▶ Ledger ─▶ save ─▶ messages ─┼──▶ offers, executions, ends to instances
//! instance updates ─┘   (pure)                      └──▶ questions to the requeue actor
//! ```
//!
//! The [`actor`] saves and sends; the [`ledger`] composes parts, each with state of its own:
//!
//! ```text
//!            notice            finding        instance update        pools        tick
//!               ▼                 ▼                  ▼                  │            ▼
//!  finished  admission        findings           instances              │         expiry
//!  (over,    (does it         (what an           (who answers           │         (what is
//!  closed)   concern us?)     answer means)      to which name)         │         too old)
//!      ▲        └────────┬────────┘                  │                  │            │
//!      │                 ▼                           │                  │            │
//!      └──────────── facts ◀─────────────────────────┘                  │            │
//!                (what the forge says, where it runs)                   │            │
//!                        └──────────▶ offers ◀──────────────────────────┼────────────┘
//!                                     (who is promised)                 │
//!                                        └──────────▶ demand ◀──────────┘
//!                                                     (whose demand, how much)
//!                                                        └─▶ routing (labels to pool)
//!                    all of them write to open_jobs (rows, timelines, messages; index)
//! ```
//!
//! There is one ledger a fleet, because the labels of pools overlap: whose demand a job is can
//! only be decided where all pools are known.

mod actor;
mod admission;
mod change;
mod demand;
mod expiry;
mod explain;
mod facts;
mod findings;
mod finished;
mod index;
mod instances;
mod ledger;
mod messages;
mod offers;
mod open_jobs;
mod routing;
mod store;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use actor::{LedgerStart, start};
pub use explain::{BudgetLeft, HoldUps, PoolStatus, explain_job, why_it_waits};
pub use messages::{Accepts, Finding, InstanceChange, InstanceUpdate, ToLedger};
pub use store::Capabilities;
