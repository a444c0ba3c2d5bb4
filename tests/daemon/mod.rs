//! The whole program: its files, its commands, its servers.

mod cli;
mod config_files;
mod crash;
mod demo;
mod failover;
mod forge;
mod reload;
mod secrets;
mod service;
mod shutdown;
