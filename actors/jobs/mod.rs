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
//! The `actor` saves and sends; the `ledger` gives each input to a part, and carries out what that
//! part wants of the others:
//!
//! | part | decides | remembers |
//! |---|---|---|
//! | `admission` | which reported jobs concern us | jobs that no pool serves |
//! | `facts` | what a report of the forge changes, and where a job runs | nothing |
//! | `findings` | what the forge's answer about one job means | which repositories answer |
//! | `finished` | nothing | jobs that are over (tombstones) or closed |
//! | `instances` | whose runner a name is | the instances and their names |
//! | `offers` | which instance serves which job | the instances that wait for an offer |
//! | `demand`, `routing` | whose demand a job is, and how much each pool has | what pools were sent |
//! | `expiry` | what is too old | nothing |
//! | `verdicts` | what a fact means for the end of an instance | ends that the forge may still explain |
//! | `attempts` | when a job is tried again whose attempts failed | which job was tried where |
//! | `unnamed` | which jobs may have run where no job was named | those asked about lately |
//! | `open_jobs`, `index` | nothing | rows and timelines, and what the input changed of them |
//!
//! ```text
//! notice ──▶ admission ──┐
//! finding ─▶ findings ───┼─▶ facts ──▶ offers ──▶ demand ──▶ routing
//! instance ▶ instances ──┘               ▲          ▲
//! tick ────▶ expiry ─────────────────────┘          │
//! pools ────────────────────────────────────────────┘
//! ```
//!
//! There is one ledger a fleet, because the labels of pools overlap: whose demand a job is can
//! only be decided where all pools are known.

mod actor;
mod admission;
mod attempts;
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
mod unnamed;
mod verdicts;

pub(crate) use actor::{LedgerStart, start};
pub use explain::{BudgetLeft, HoldUps, PoolStatus, explain_job, why_it_waits};
pub use messages::{Accepts, InstanceChange, InstanceUpdate, JobFinding, ToLedger};
pub use store::JobCapabilities;
