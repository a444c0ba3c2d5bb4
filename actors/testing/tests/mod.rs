//! The doubles, tried out: a world without a fleet, driven by a daemon of a few lines.

mod crash;
mod dispatch;
mod forge;
mod forge_contract;
mod naive;
mod provider;
mod store;
mod watch;
mod world;
