//! The whole program: its files, its commands, its servers.

mod config_files;
mod forge;
mod secrets;
