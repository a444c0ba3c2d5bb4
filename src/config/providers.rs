//! `[provider.NAME]`: what creates machines.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value as Json;

use super::declare::{
    Declared, Effect::Moves, Key, Keys, Requirement::Required, ValueKind, table, whole,
};
use super::document::{Node, TomlTable, Value};
use super::load::Cx;
use super::section::Section;
use super::values::{Field, label};

/// What `kind` may be.
pub(crate) const KINDS: &[(&str, Keys)] = &[
    ("kubernetes", &[kind("\"kubernetes\""), Key::new("", ValueKind::Flat(Kubernetes::KEYS), "")]),
    ("process", &[kind("\"process\""), Key::new("", ValueKind::Flat(Process::KEYS), "")]),
    ("external", &[kind("\"external\""), Key::new("", ValueKind::Flat(External::KEYS), "")]),
];

const fn kind(example: &'static str) -> Key {
    let about = "What creates the machines: pods, processes of this machine, or an executable.";
    let kinds = ValueKind::Choice(&["kubernetes", "process", "external"]);
    Key { need: Required, effect: Moves, example, ..Key::new("kind", kinds, about) }
}

table! {
    /// A provider of pods.
    pub struct Kubernetes, check = Kubernetes::check {
        /// Where the pods live; the daemon's own namespace in a cluster, else that of the context.
        pub namespace: Option<String> => "runners", kind = ValueKind::Name, effect = Moves;
        /// How to reach the cluster; without it the daemon runs inside one.
        pub kubeconfig: Option<PathBuf> => "kubeconfig", effect = Moves,
            check = Some(must_exist);
        /// Which context of the kubeconfig; its current one when left out.
        pub context: Option<String> => "production", effect = Moves;
        /// Late binding: the image with this program that a warm pod waits in; `ostler:<version>` when
        /// left out.
        pub poller_image: Option<String> => "registry.example.com/ostler:0.1.0";
    }
}

table! {
    /// A provider of processes.
    pub struct Process, check = check_process {
        /// An unpacked actions/runner, linked or copied for each instance.
        pub runner_dir: Option<PathBuf> => "actions-runner", check = Some(check_runner_dir);
        /// What is started in the instance's folder; {jit_file} stands for the file with the JIT
        /// config.
        pub command: Vec<String> = ["./run.sh"], check = Some(check_command);
        /// Where the instances' folders are; relative to the working directory.
        pub work_dir: PathBuf = "STATE_DIR/runners" => "var/runners", kind = ValueKind::OwnPath,
            effect = Moves;
        /// Who runs the jobs: a name or uid:gid; the daemon's own user when left out.
        pub user: Option<String> => "runner";
        /// How many instances this machine runs at once, over all pools; no limit when left out.
        pub max_parallel: Option<u32> => 8, kind = whole(1, 10_000);
        /// How far the jobs step back behind everything else.
        pub nice: i32 = 0 => 5, kind = whole(0, 19);
        /// What one instance may use; each unlimited when left out.
        pub limits: Limits;
    }
}

table! {
    /// Limits one process instance; what is `None` is not limited.
    pub struct Limits {
        /// Memory.
        pub memory: Option<u64> => "8GiB";
        /// Processes and threads.
        pub pids: Option<u32> => 4096, kind = whole(16, 4_194_304);
    }
}

table! {
    /// A provider that is an executable.
    pub struct External {
        /// The provider: any executable that keeps GARM's contract.
        pub executable: PathBuf => "garm-provider-aws", need = Required,
            check = Some(check_executable);
        /// The provider's own configuration; passed on unread.
        pub config_file: Option<PathBuf> => "aws.toml", check = Some(must_exist);
        /// Which version of the contract it speaks.
        pub interface: String = "v0.1.0", kind = ValueKind::Choice(&["v0.1.0", "v0.1.1"]);
        /// Which variables it is given, by how their names begin; it gets no others.
        pub pass_env: Vec<String> => ["AWS_"], check = Some(check_pass_env);
        /// How long one call may take.
        pub timeout: Duration = "10m";
        /// How many calls run at once.
        pub concurrency: u32 = 8, kind = whole(1, 1_000);
        /// How many calls are begun a second; 0 lifts the limit.
        pub starts_per_second: u32 = 0, kind = whole(0, 10_000);
        /// Which release of actions/runner machines install where their image has none.
        pub runner_version: String = "2.336.0";
        /// Where that release is downloaded: a copy of GitHub's release folder.
        pub runner_mirror: String = "https://github.com/actions/runner/releases/download",
            kind = ValueKind::BaseUrl;
    }
}

/// Holds one `[provider.NAME]`.
#[derive(Clone, Debug, PartialEq)]
pub enum ProviderSettings {
    Kubernetes(Kubernetes),
    /// Processes of this machine.
    Process(Process),
    /// Whatever an executable creates.
    External(External),
}

impl ProviderSettings {
    /// Returns how long one call may take; an unanswered create may still act for that long.
    pub fn call_timeout(&self) -> Duration {
        match self {
            // An API server gives up after one minute; one more for what it had begun.
            Self::Kubernetes(_) => Duration::from_mins(2),
            Self::Process(_) => Duration::from_mins(1),
            Self::External(external) => external.timeout,
        }
    }

    /// Returns the name of its kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Kubernetes(_) => "kubernetes",
            Self::Process(_) => "process",
            Self::External(_) => "external",
        }
    }

    pub(crate) fn page(&self) -> Json {
        let mut page = match self {
            Self::Kubernetes(kubernetes) => kubernetes.page(),
            Self::Process(process) => process.page(),
            Self::External(external) => external.page(),
        };
        page["kind"] = self.kind().into();
        page
    }
}

/// Reads every `[provider.NAME]`.
pub(crate) fn read<'a>(cx: &'a Cx<'a>, whole: &'a TomlTable) -> BTreeMap<String, ProviderSettings> {
    let mut found = BTreeMap::new();
    for (name, entry) in whole.table("provider").iter().flat_map(|named| &named.entries) {
        let Some(table) = entry.node.value.table() else { continue };
        let section = Section::new(cx, Some(table), format!("provider.{name}"));
        if let Err(why) = label(name) {
            section.error(
                "kind",
                format!("the name of provider `{name}` {why}"),
                "rename it in its header and in the pools",
            );
        }
        let provider = match section.text("kind") {
            Some("kubernetes") => {
                Kubernetes::read_table(&section).map(ProviderSettings::Kubernetes)
            }
            Some("process") => Process::read_table(&section).map(ProviderSettings::Process),
            Some("external") => External::read_table(&section).map(ProviderSettings::External),
            Some(_) | None => None,
        };
        found.extend(provider.map(|provider| (name.clone(), provider)));
    }
    found
}

/// Returns the image that is meant when none is named: ours, of this version.
pub fn default_poller_image() -> String {
    format!("ostler:{}", env!("CARGO_PKG_VERSION"))
}

impl Kubernetes {
    fn check(&self, section: &Section<'_>) {
        if self.context.is_some() && !section.wrote("kubeconfig") {
            section.error(
                "context",
                "a `context` needs a `kubeconfig` to be in",
                "add kubeconfig = \"path\", or remove context to use the cluster the daemon runs in",
            );
        }
    }
}

fn check_process(_: &Process, section: &Section<'_>) {
    if !section.wrote("runner_dir") && !section.wrote("command") {
        section.error(
            "runner_dir",
            "there is nothing to run: neither `runner_dir` nor `command`",
            "unpack actions/runner and write runner_dir = \"path\"",
        );
    }
}

fn check_command(section: &Section<'_>, _: &'static Key, node: &Node) {
    if matches!(&node.value, Value::List(words) if words.is_empty()) {
        section.error(
            "command",
            "the command is empty",
            "write command = [\"./run.sh\"], or leave it out",
        );
    }
    let mut words = node.value.list().iter().filter_map(|word| word.value.text());
    if let Some(word) = words.find(|word| word.contains("{jit") && !word.contains("{jit_file}")) {
        section.error(
            "command",
            format!("`{word}` stands for nothing"),
            "did you mean {jit_file}?",
        );
    }
}

fn check_pass_env(section: &Section<'_>, _: &'static Key, node: &Node) {
    for name in node.value.list().iter().filter_map(|name| name.value.text()) {
        if name.is_empty() || name.starts_with("GARM") {
            section.error(
                "pass_env",
                format!("variables that begin with `{name}` cannot be passed on"),
                "name beginnings such as \"AWS_\"; those with GARM are the contract's own",
            );
        }
    }
}

/// Reports when nothing is at a path.
fn must_exist(section: &Section<'_>, key: &'static Key, node: &Node) {
    let Some(path) = PathBuf::read(section, key, node) else { return };
    if !section.cx.exists(&path) {
        section.error(
            key.name,
            format!("there is no `{}`", path.display()),
            "relative paths start beside this file",
        );
    }
}

fn check_runner_dir(section: &Section<'_>, key: &'static Key, node: &Node) {
    must_exist(section, key, node);
    let path = PathBuf::read(section, key, node).filter(|path| section.cx.is_file(path));
    if let Some(path) = path {
        section.error(
            "runner_dir",
            format!("`{}` is a file, not a folder", path.display()),
            "unpack actions/runner and name its folder",
        );
    }
}

fn check_executable(section: &Section<'_>, key: &'static Key, node: &Node) {
    must_exist(section, key, node);
    let Some(path) = PathBuf::read(section, key, node) else { return };
    if section.cx.is_folder(&path) {
        section.error(
            "executable",
            format!("`{}` is a folder", path.display()),
            "name the program in it",
        );
    } else if section.cx.exists(&path) && !section.cx.runs(&path) {
        section.error(
            "executable",
            format!("`{}` cannot be executed", path.display()),
            format!("chmod +x {}", path.display()),
        );
    }
}
