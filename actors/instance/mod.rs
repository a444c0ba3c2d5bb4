//! One runner, from the wish for it until nothing of it is left.
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
//! Two sad stories are told by this module's rules. In one, a manager was taken out of a shared
//! map while it was still deleting; its last write was refused because of that, and instances
//! stayed in `pending_delete` for ever (GARM #699). Here the entry goes when the actor goes,
//! and the actor goes when `deleted` is durable. In the other, a reaper saw no claim on a pod
//! and deleted it in the middle of a customer's job. Here nobody but the owner can delete, and
//! the owner needs a [warrant](crate::model::Warrant), written down before the machine goes.
//!
//! Where to read on: [`step`](self) is the whole of the thinking; `lifecycle` says what comes
//! next in each state; `vigil`, `registering`, `closing`, `creating` and `deleting` each hold
//! one rule of the contract; `actor` saves, then acts.

mod actor;
mod answer;
mod asks;
mod birth;
mod call;
mod capabilities;
mod closing;
mod creating;
mod deleting;
mod effects;
mod explain;
#[cfg(test)]
mod fixtures;
mod forgetting;
mod lifecycle;
mod machine_calls;
mod messages;
mod notes;
mod registering;
#[cfg(feature = "testing")]
mod rehearsal;
mod report;
mod sightings;
mod step;
#[cfg(test)]
mod table;
mod turn;
mod vigil;
#[cfg(test)]
mod walks;

pub(crate) use actor::{Child, Links, Origin, start};
pub use answer::{Answer, Token};
#[cfg(any(test, feature = "testing"))]
pub(crate) use birth::requested_row;
pub use capabilities::Capabilities;
pub use explain::explain_instance;
pub use lifecycle::is_stuck;
pub use messages::{Consent, Dispatch, MachineCall, Permit, Retire, ToInstance};
#[cfg(feature = "testing")]
pub(crate) use rehearsal::rehearse;
pub(crate) use report::is_unnamed;

use crate::backoff;
