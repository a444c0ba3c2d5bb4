//! Machines made by an executable that speaks GARM's provider protocol.
//!
//! ```text
//!  owner ──create──▶ gate (concurrency, pace) ──▶ CreateInstance: one process, own group
//!                                                   stdin: what to make · stdout: what was made
//!                                                   stderr: what went wrong · exit: 0, 30, 31, else
//!  machine ──────────fetches script and credentials, tells how far it is──▶ /runner/v1
//! ```
//!
//! One process an operation, no arguments, an environment that holds nothing but the protocol's own
//! variables and what the operator passes on. The protocol promises little, so little is believed:
//!
//! - **A call is one process group.** Past its deadline the group is asked to end, then killed, a
//!   grandchild that holds the output included. Output is bounded. What was said on stderr is the
//!   fault that people read.
//! - **A failed create proves nothing.** Only one that was never started is a refusal; anything
//!   else may have made a machine, and the owner looks for it by name.
//! - **"Not found" is believed from exit code 30 alone.** Exit code 1 means anything, and `{}`
//!   means nothing; both are absence only if a complete listing does not name the machine either.
//! - **A listing is read element by element.** One that cannot be read harms no other, but with it
//!   the listing proves no absence.
//!
//! Machines carry the controller's id and the pool's id, as far as the provider keeps them, and no
//! holder. Whose they are is told by our own records: a name that is on record is ours, because
//! names are unique for ever and committed before the call. A machine of our pools with a name
//! that was never ours is foreign: it gets a holder made of its own name, so that an operator who
//! adopts it adopts this one and no other.

mod bootstrap;
mod call;
mod create;
mod delete;
mod environ;
mod gate;
mod ids;
mod look;
mod open;
mod probe;
mod records;
mod settings;
mod state;
mod wire;
mod wrapper;

pub use open::open;
pub use probe::{Probe, Support};
pub use records::MachineRecords;
pub use settings::{ExternalSettings, Interface};
pub use state::{External, OpenError};
