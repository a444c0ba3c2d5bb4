//! The whole program: its files, its commands, its servers.

mod api;
mod cli;
mod config_files;
mod crash;
mod demo;
mod external;
mod failing;
mod failover;
mod forge;
mod import;
mod late;
mod metrics;
mod notify;
mod openapi;
mod pods;
mod quarantine;
mod reload;
mod secrets;
mod service;
mod shutdown;
mod traces;
mod upgrade;
