//! What an operator may say about an external provider.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use ostler_actors::model::{ForgeId, PoolId, ProviderId};
use serde_json::Value;

use crate::ports::Release;

/// Describes one external provider.
#[derive(Clone, Debug, PartialEq)]
pub struct ExternalSettings {
    /// What the configuration calls it.
    pub provider: ProviderId,
    pub executable: PathBuf,
    /// Its own configuration, passed on unread.
    pub config_file: Option<PathBuf>,
    /// Which version of the protocol it speaks.
    pub interface: Interface,
    /// The variables of the daemon that it is given, beside the protocol's own.
    pub env: BTreeMap<String, String>,
    /// How long one call may take.
    pub timeout: Duration,
    /// How many of its processes run at once.
    pub concurrency: usize,
    /// How many of its processes are started a second; 0 lifts the limit.
    pub starts_per_second: u32,
    /// Where machines reach this daemon, without a slash at its end.
    pub home: String,
    /// The pages of the forges, by name: `https://github.com`.
    pub forges: BTreeMap<ForgeId, String>,
    /// Which release of the runner machines install.
    pub release: Release,
    /// The pools of the configuration, each with its `extra_specs`.
    pub pools: BTreeMap<PoolId, Value>,
}

/// Names the versions of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interface {
    /// What every provider speaks.
    #[default]
    V010,
    /// Pool and specs with every operation.
    V011,
}

impl Interface {
    /// Reads a version as it is written.
    pub fn named(text: &str) -> Self {
        if text == "v0.1.1" { Self::V011 } else { Self::V010 }
    }

    /// Returns the version as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V010 => "v0.1.0",
            Self::V011 => "v0.1.1",
        }
    }
}
