//! The demonstration: a GitHub of our own that needs no account and no network.

pub mod github;
