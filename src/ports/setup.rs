//! What a machine that sets itself up is given: a release of the runner, and scripts with values
//! written into them. Shared by providers that hand such machines a first script and by the API that
//! serves them the rest.

/// What every runner we start has in its environment, unless its pool says otherwise. Only with both
/// does the agent's `run.sh` pass on exit code 7, with which the listener says that the forge refuses
/// its version; else it is 0 like most failures. The second also makes `run.sh` hand a signal on.
pub const AGENT_ENV: [(&str, &str); 2] = [
    ("ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE", "1"),
    ("RUNNER_MANUALLY_TRAP_SIG", "1"),
];

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

/// Returns the script of an operating system with values written into it, quoted for its shell.
pub fn fill_script(os: &str, linux: &str, windows: &str, values: &[(&str, String)]) -> String {
    let assign = |(name, value): &(&str, String)| {
        let value = harmless(value);
        if os == "windows" {
            format!("$env:{name} = '{}'\n", value.replace('\'', "''"))
        } else {
            format!("export {name}='{}'\n", value.replace('\'', r"'\''"))
        }
    };
    let told: String = values.iter().map(assign).collect();
    let body = if os == "windows" { windows } else { linux };
    // The first line says what reads it, and must stay the first.
    match body.split_once('\n') {
        Some((first, rest)) if first.starts_with("#!") => format!("{first}\n{told}{rest}"),
        Some(_) | None => format!("{told}{body}"),
    }
}

/// Returns a value in which no template language finds work and no line ends.
fn harmless(value: &str) -> String {
    value.replace("{{", "{ {").replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

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
