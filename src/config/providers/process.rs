//! `kind = "process"`: machines are processes of this machine.

use std::path::PathBuf;

use serde::Serialize;

use super::there;
use crate::config::Daemon;
use crate::config::keys::{Key, Keys, Kind};
use crate::config::section::Section;

/// The keys beside `kind`.
pub(crate) const KEYS: &[Key] = &[
    Key::new(
        "runner_dir",
        Kind::Path,
        "An unpacked actions/runner, linked or copied for each instance.",
    ),
    Key::new(
        "command",
        Kind::Texts,
        "What is started in the instance's folder; {jit_file} stands for the file \
            with the JIT config.",
    )
    .or("[\"./run.sh\"]"),
    Key::new(
        "work_dir",
        Kind::Path,
        "Where the instances' folders are; relative to the working directory.",
    )
    .or("\"STATE_DIR/runners\""),
    Key::new(
        "user",
        Kind::Text,
        "Who runs the jobs: a name or uid:gid; the daemon's own user when left \
            out.",
    ),
    Key::new("limits", Kind::Table(LIMITS), "What one instance may use."),
    Key::new(
        "max_parallel",
        Kind::Whole { least: 1, most: 10_000 },
        "How many instances this machine runs at once, over all pools.",
    ),
    Key::new(
        "nice",
        Kind::Whole { least: 0, most: 19 },
        "How far the jobs step back behind everything else.",
    )
    .or("0"),
];

const LIMITS: Keys = &[&[
    Key::new("memory", Kind::Size, "Memory."),
    Key::new("pids", Kind::Whole { least: 16, most: 4_194_304 }, "Processes and threads."),
]];

/// Holds a provider of processes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Process {
    pub runner_dir: Option<PathBuf>,
    /// What is started: `["./run.sh"]`.
    pub command: Vec<String>,
    /// Where the instances' folders are.
    pub work_dir: PathBuf,
    /// Who runs the jobs.
    pub user: Option<String>,
    /// What one instance may use.
    pub limits: Limits,
    /// How many instances run at once.
    pub max_parallel: Option<u32>,
    /// How far jobs step back: 0.
    pub nice: i32,
}

/// Limits one process instance; what is `None` is not limited.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Limits {
    pub memory: Option<u64>,
    pub pids: Option<u32>,
}

pub(crate) fn read(section: &Section<'_>, daemon: &Daemon) -> Process {
    let command = section.texts("command");
    if !section.wrote("runner_dir") && !section.wrote("command") {
        section.note(
            section
                .error("runner_dir", "there is nothing to run: neither `runner_dir` nor `command`")
                .help("unpack actions/runner and write runner_dir = \"path\""),
        );
    }
    let list = section.node("command").is_some_and(|node| node.value.text().is_none());
    if section.wrote("command") && list && command.is_empty() {
        section.note(
            section
                .error("command", "the command is empty")
                .help("write command = [\"./run.sh\"], or leave it out"),
        );
    }
    let nearly = |word: &&String| word.contains("{jit") && !word.contains("{jit_file}");
    if let Some(word) = command.iter().find(nearly) {
        section.note(
            section
                .error("command", format!("`{word}` stands for nothing"))
                .help("did you mean {jit_file}?"),
        );
    }
    let limits = section.inner("limits").map_or_else(Limits::default, |limits| Limits {
        memory: limits.size("memory"),
        pids: limits.whole("pids"),
    });
    let runner_dir = there(section, "runner_dir");
    if let Some(file) = runner_dir.as_ref().filter(|path| section.cx.is_file(path)) {
        section.note(
            section
                .error("runner_dir", format!("`{}` is a file, not a folder", file.display()))
                .help("unpack actions/runner and name its folder"),
        );
    }
    Process {
        runner_dir,
        command: if command.is_empty() { vec!["./run.sh".into()] } else { command },
        work_dir: section
            .text("work_dir")
            .map_or_else(|| daemon.state_dir.join("runners"), PathBuf::from),
        user: section.text("user").map(str::to_owned),
        limits,
        max_parallel: section.whole("max_parallel"),
        nice: section.signed("nice").unwrap_or(0),
    }
}
