//! Ostler looks after CI runners: every runner has one owner until nothing of it is left.
//!
//! This crate is the program around the core (`ostler-actors`). Today it carries the
//! simulation and the store; daemon, forge and providers join them here.

pub mod cli;
pub mod store;
