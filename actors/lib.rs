#![doc = include_str!("README.md")]
#![cfg_attr(
    test,
    allow(clippy::wildcard_enum_match_arm, reason = "a test names the cases it is about")
)]

pub mod backoff;
mod base;
mod calls;
pub mod fleet;
pub mod instance;
pub mod intake;
pub mod invariants;
pub mod jobs;
#[warn(missing_docs)]
pub mod mail;
#[warn(missing_docs)]
pub mod model;
pub mod mutants;
pub mod pool;
#[warn(missing_docs)]
pub mod ports;
mod reaper;
#[warn(missing_docs)]
pub mod registry;
pub mod requeue;
pub mod settings;
mod supervise;
#[cfg(feature = "testing")]
pub mod testing;

pub use base::Base;
