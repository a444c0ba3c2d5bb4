//! `kind = "external"`: machines are whatever an executable makes.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::there;
use crate::config::keys::{Key, Kind};
use crate::config::section::Section;
use crate::config::written;

/// The keys beside `kind`.
pub(crate) const KEYS: &[Key] = &[
    Key::new("executable", Kind::Path, "The provider: any executable that keeps GARM's contract.")
        .required(),
    Key::new("config_file", Kind::Path, "The provider's own configuration; passed on unread."),
    Key::new(
        "interface",
        Kind::Choice(&["v0.1.0", "v0.1.1"]),
        "Which version of the contract it speaks.",
    )
    .or("\"v0.1.0\""),
    Key::new(
        "pass_env",
        Kind::Texts,
        "Which variables it is given, by how their names begin; it gets no others.",
    ),
    Key::new("timeout", Kind::Duration { least: 1 }, "How long one call may take.").or("\"10m\""),
    Key::new("concurrency", Kind::Whole { least: 1, most: 1_000 }, "How many calls run at once.")
        .or("8"),
    Key::new(
        "starts_per_second",
        Kind::Whole { least: 0, most: 10_000 },
        "How many calls are begun a second; 0 lifts the limit.",
    )
    .or("0"),
    Key::new(
        "runner_version",
        Kind::Text,
        "Which release of actions/runner machines install where their image has none.",
    )
    .or("\"2.336.0\""),
    Key::new(
        "runner_mirror",
        Kind::Url,
        "Where that release is downloaded: a copy of GitHub's release folder.",
    )
    .or("\"https://github.com/actions/runner/releases/download\""),
];

/// The release of the runner that machines install.
const RUNNER: &str = "2.336.0";
/// Where GitHub keeps releases of the runner.
const RELEASES: &str = "https://github.com/actions/runner/releases/download";

/// Holds a provider that is an executable.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct External {
    pub executable: PathBuf,
    pub config_file: Option<PathBuf>,
    /// Which version of the contract: `"v0.1.0"`.
    pub interface: String,
    /// How the names of variables it is given begin.
    pub pass_env: Vec<String>,
    /// How long one call may take: `"10m"`.
    #[serde(serialize_with = "written::duration")]
    pub timeout: Duration,
    /// How many calls run at once: 8.
    pub concurrency: u32,
    /// How many calls are begun a second: 0, which lifts the limit.
    pub starts_per_second: u32,
    /// Which release of the runner machines install: `"2.336.0"`.
    pub runner_version: String,
    /// Where that release is downloaded, without a slash at its end.
    pub runner_mirror: String,
}

pub(crate) fn read(section: &Section<'_>) -> Option<External> {
    let executable = there(section, "executable")?;
    if section.cx.is_folder(&executable) {
        section.note(
            section
                .error("executable", format!("`{}` is a folder", executable.display()))
                .help("name the program in it"),
        );
    } else if section.cx.exists(&executable) && !section.cx.runs(&executable) {
        section.note(
            section
                .error("executable", format!("`{}` cannot be executed", executable.display()))
                .help(format!("chmod +x {}", executable.display())),
        );
    }
    let pass_env = section.texts("pass_env");
    for name in &pass_env {
        if name.is_empty() || name.starts_with("GARM") {
            section.note(
                section
                    .error(
                        "pass_env",
                        format!("variables that begin with `{name}` cannot be passed on"),
                    )
                    .help(
                        "name beginnings such as \"AWS_\"; those with GARM are the contract's own",
                    ),
            );
        }
    }
    Some(External {
        executable,
        config_file: there(section, "config_file"),
        interface: section.text_or("interface", "v0.1.0"),
        pass_env,
        timeout: section.duration("timeout").unwrap_or(Duration::from_mins(10)),
        concurrency: section.whole("concurrency").unwrap_or(8),
        starts_per_second: section.whole("starts_per_second").unwrap_or(0),
        runner_version: section.text_or("runner_version", RUNNER),
        runner_mirror: section.text_or("runner_mirror", RELEASES).trim_end_matches('/').to_owned(),
    })
}
