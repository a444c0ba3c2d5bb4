#![doc = include_str!("README.md")]
#![cfg_attr(
    test,
    allow(clippy::wildcard_enum_match_arm, reason = "a test names the cases it is about")
)]

mod base;
pub mod fleet;
pub mod instance;
pub mod intake;
pub mod invariants;
pub mod jobs;
pub mod mail;
pub mod model;
pub mod mutants;
pub mod pool;
pub mod ports;
mod reaper;
pub mod registry;
pub mod requeue;
pub mod settings;
mod supervise;
#[cfg(feature = "testing")]
pub mod testing;

pub use base::Base;
