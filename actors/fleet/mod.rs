//! The root: starts, routes, reloads, drains and shuts down.
//!
//! ```text
//!                 keep ── respawns ──▶ Fleet
//!        ┌────────────┬────────────┬─────┴──────┬───────────┐
//!     Ledger      PoolSupervisor  Reaper     Requeue      Intake
//!                     │ one a pool
//!                InstanceActor, one a runner
//! ```
//!
//! The daemon sends messages to the fleet alone. A child that dies is started again from what is
//! stored; a fleet that dies takes its children with it (no machine is touched) and [`keep`]
//! starts it again. Fleet or ledger dying five times in a minute is hopeless: the process should
//! end with code 70 and let its supervisor try.

mod actor;
mod keeper;
mod messages;

pub use keeper::{FleetEnd, PoolCapabilities, Ports, keep};
#[cfg(feature = "testing")]
pub use messages::Victim;
pub use messages::{FleetPart, ToFleet};
