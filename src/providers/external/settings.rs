//! What an operator may say about an external provider.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use ostler_actors::model::{ForgeId, PoolId, ProviderId};
use serde_json::Value;

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

/// Names a release of the runner, and where it is downloaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// Its version: `2.336.0`.
    pub version: String,
    /// Where releases lie, without a slash at its end.
    pub mirror: String,
}

impl Release {
    /// Returns the file of a platform, in GitHub's words.
    pub fn filename(&self, os: &str, arch: &str) -> String {
        let ending = if os == "win" { "zip" } else { "tar.gz" };
        format!("actions-runner-{os}-{arch}-{}.{ending}", self.version)
    }

    /// Returns where that file lies.
    pub fn url(&self, os: &str, arch: &str) -> String {
        format!("{}/v{}/{}", self.mirror, self.version, self.filename(os, arch))
    }
}

/// Returns where the pages of a forge are, by the address of its API.
pub fn web_url(api_url: &str) -> String {
    if api_url == "https://api.github.com" {
        return "https://github.com".into();
    }
    let own = api_url.trim_end_matches('/');
    own.strip_suffix("/api/v3").unwrap_or(own).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_of_a_forge_are_found_from_its_api() {
        assert_eq!(web_url("https://api.github.com"), "https://github.com");
        assert_eq!(web_url("https://git.acme.com/api/v3"), "https://git.acme.com");
        assert_eq!(web_url("http://127.0.0.1:1"), "http://127.0.0.1:1");
    }

    #[test]
    fn a_release_lies_where_github_puts_it() {
        let mirror = "https://github.com/actions/runner/releases/download".to_owned();
        let release = Release { version: "2.336.0".into(), mirror };
        assert_eq!(
            release.url("win", "x64"),
            "https://github.com/actions/runner/releases/download/v2.336.0/actions-runner-win-x64-2.336.0.zip"
        );
    }
}
