//! Ostler looks after CI runners: every runner has one owner until nothing of it is left.
//!
//! This crate is the program around the core (`ostler-actors`): the daemon, its adapters, its
//! doors and its command line. The core decides; this crate does.

pub mod cli;
pub mod config;
pub mod daemon;
pub mod demo;
pub mod github;
pub mod http;
pub mod import;
pub mod memory;
pub mod providers;
pub mod store;
pub mod telemetry;
pub mod tokens;
