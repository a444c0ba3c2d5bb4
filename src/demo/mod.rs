//! The demonstration: the real daemon on this machine, with real processes and a GitHub of our own
//! that needs no account and no network.
//!
//! ```text
//!   stage   a temporary folder, a simulated GitHub, a configuration (`config_template`), the jobs
//!   agent   the runner: one process a job, with real ends
//!   show    runs it and prints its progress; `summary` is printed at the end
//! ```

pub mod agent;
pub mod config_template;
pub mod github;
mod show;
mod stage;
mod summary;

pub use show::{Ending, show};
