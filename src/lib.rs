//! Ostler looks after CI runners: every runner has one owner until nothing of it is left.
//!
//! This crate is the program around the core (`ostler-actors`). Today it carries the
//! configuration and the simulation; daemon, store, forge and providers join it here.

pub mod cli;
pub mod config;
pub mod providers;
