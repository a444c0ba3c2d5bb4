//! One runner, from the request for it until nothing of it is left.
//!
//! ```text
//!  pending_create ─permit─▶ creating ─seen─▶ starting ─ready─▶ idle ◀─offer ended─ reserved
//!        │                     │                │               │ ──────offer─────▶   │
//!        │ retire              │ nothing came   │ deadline      │ retire              │
//!        ▼                     ▼                ▼               ▼                     │
//!     deleted ◀─ deleting ◀─ pending_delete ◀─ ended       retiring ◀──no job known── busy ◀┘
//!                  │ ▲            ▲   ▲          ▲              │  ─────422, worker───▶ ▲ │
//!                  └─┘ for ever   │   └──────────│──free────────┘                      │ │
//!                                 │              └── exit, from any state with a machine │
//!                                 └───────── served, zombie, operator ───────────────────┘
//! ```
//!
//! An owner thinks in transitions. `actor` takes a message, lets `lifecycle` decide, saves the row
//! with its events, and only then starts the effects. The life cycle is composed of parts; each has
//! its volatile state to itself, takes its inputs and is driven in the states it is about:
//!
//! ```text
//!  message ─▶ actor ─input─▶ lifecycle ──┬─ creation      permit, create once, settle
//!    ▲          │                │       ├─ registration  mint, deregister, count 404s
//!    │          │           transition   ├─ setup         what the machine reports meanwhile
//!    │          │    draft of the row,   ├─ probe         read the machine, count absences
//!    │          │                        ├─ witness       what its supervisor reports
//!    │          │    events, effects     ├─ runner_check  is the runner online at all?
//!    │          │                        ├─ offers        reserve, deliver, let go
//!    │          │                        ├─ availability  can it take an offer at all?
//!    │          ├─ 1. save the row       ├─ work          what proves a job here
//!    │          ├─ 2. start the effects  ├─ removal       consent or refuse to go
//!    │          └─ 3. reply, report      ├─ idle_check    deregister, hold, look
//!    │                     │             ├─ post_mortem   exit facts, verdict, record
//!    └── outcome ── effect_runner        └─ deletion      delete, confirm, for ever
//! ```
//!
//! Two failures of other fleets are ruled out here. In one, a manager was taken out of a shared
//! map while it was still deleting; its last write was refused because of that, and instances
//! stayed in `pending_delete` for ever (GARM #699). Here the entry goes when the actor goes,
//! and the actor goes when `deleted` is durable. In the other, a reaper saw no claim on a pod
//! and deleted it in the middle of a customer's job. Here only the owner can delete, and
//! it needs a [warrant](crate::model::Warrant), written down before the machine is deleted.

mod actor;
mod availability;
mod creation;
mod deletion;
mod effect;
mod effect_runner;
mod explain;
#[cfg(test)]
mod fixtures;
mod idle_check;
mod lifecycle;
#[cfg(feature = "testing")]
mod lifecycle_bench;
mod messages;
mod offers;
mod origin;
mod post_mortem;
mod probe;
#[cfg(test)]
mod property_tests;
mod registration;
mod removal;
mod report;
mod runner_check;
mod setup;
#[cfg(test)]
mod table;
mod transition;
mod witness;
mod work;

pub(crate) use actor::{Child, Links, start};
pub use effect::{EffectOutcome, EffectToken};
pub use effect_runner::Capabilities;
pub use explain::explain_instance;
#[cfg(feature = "testing")]
pub(crate) use lifecycle_bench::run_lifecycle;
pub use messages::{
    Consent, Dispatch, MachineCall, NextReport, Permit, ReportEvent, Retire, ToInstance,
    WitnessReport,
};
pub(crate) use origin::Origin;
#[cfg(any(test, feature = "testing"))]
pub(crate) use origin::requested_row;
pub use report::is_stuck;
pub(crate) use report::{is_unnamed, log_death};
