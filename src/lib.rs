//! Ostler looks after CI runners: every runner has one owner until nothing of it is left.
//!
//! This crate is the program around the core (`ostler-actors`): the daemon, its adapters, its
//! HTTP server and its command line. The core decides; this crate does.
//!
//! The daemon (`daemon`, adapters, surfaces) never names `demo` nor the simulated world of the core: a
//! build without the feature `lab` has neither, and that is what `make dist` hands out.

pub mod cli;
pub mod client;
pub mod config;
pub mod daemon;
#[cfg(feature = "lab")]
pub mod demo;
pub mod errors;
pub mod github;
pub mod http;
pub mod import;
pub mod memory;
pub mod ports;
pub mod providers;
pub mod store;
pub mod telemetry;
pub mod tokens;
