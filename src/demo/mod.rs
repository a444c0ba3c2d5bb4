//! The demonstration: the real daemon on this machine, with real processes and a GitHub of our own
//! that needs no account and no network.
//!
//! ```text
//!   stage   a temporary folder, a simulated GitHub, a configuration (`config_template`), the daemon
//!   jobs    what is queued: most end well, some die in every interesting way
//!   agent   the runner: one process a job, with real ends
//!   show    runs it; `progress` is what is seen meanwhile, `summary` at the end
//! ```

pub mod agent;
pub mod config_template;
pub mod github;
mod jobs;
mod progress;
mod show;
mod stage;
mod summary;
mod wire;

pub use show::{Ending, show};
