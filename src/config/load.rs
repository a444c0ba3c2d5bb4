//! Reads the files, the environment and the secrets; the only reader of the environment.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::collector::Collector;
use super::declare::all;
use super::document::{self, Mark, SourceFiles};
use super::problems::{Collected, ConfigProblem, Problems};
use super::{Config, ROOT, shape};

/// Holds a configuration that can be used, and what the operator should know about it.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub config: Config,
    /// Warnings; empty when there is nothing to say.
    pub warnings: Problems,
    /// Every file that went into it: a change to one of them is a change of configuration.
    pub files: Vec<PathBuf>,
}

/// Says what of the world around the files is looked at.
pub struct Outside<'a> {
    inspects: bool,
    variable: &'a (dyn Fn(&str) -> Option<String> + Sync),
}

impl Outside<'static> {
    /// Looks at the environment and at files, as the daemon does.
    pub fn real() -> Self {
        Self { inspects: true, variable: &|name| std::env::var(name).ok() }
    }

    /// Looks at nothing but the text: no secret, program or folder need exist, and secrets are
    /// empty. For checks away from the machine that will run it.
    pub fn text_only() -> Self {
        Self { inspects: false, variable: &|_| None }
    }
}

impl<'a> Outside<'a> {
    /// Looks at files, and at variables of the caller's choice.
    pub fn with_variables(variable: &'a (dyn Fn(&str) -> Option<String> + Sync)) -> Self {
        Self { inspects: true, variable }
    }
}

/// Returns those of the named variables that are set; the only ones a runner may see.
pub fn inherited(names: &[&str]) -> BTreeMap<String, String> {
    let set = |name: &&str| Some(((*name).to_owned(), std::env::var(name).ok()?));
    names.iter().filter_map(set).collect()
}

/// Returns the token with which commands ask a daemon, if the environment holds one.
pub fn operator_token() -> Option<String> {
    std::env::var("OSTLER_TOKEN").ok().filter(|token| !token.trim().is_empty())
}

/// Returns where traces go, if the environment says so.
pub fn trace_collector() -> Option<Collector> {
    Collector::read(|name| std::env::var(name).ok())
}

/// Returns whether colours are welcome on a terminal: `NO_COLOR` and a dumb terminal say no.
pub fn colours_welcome() -> bool {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    set("NO_COLOR").is_none() && set("TERM").is_none_or(|terminal| terminal != "dumb")
}

/// Returns the variables whose names begin with one of these; the only ones a provider may see.
pub fn inherited_from(beginnings: &[&str]) -> BTreeMap<String, String> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    let wanted = |(name, _): &(String, String)| beginnings.iter().any(|it| name.starts_with(it));
    std::env::vars_os().filter_map(text).filter(wanted).collect()
}

/// Says how a service manager wants to hear of the daemon, if one started it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceManager {
    /// The socket it listens on: a path, or `@` and an abstract name.
    pub socket: String,
    /// How long it lets the daemon be silent before it restarts it.
    pub watchdog: Option<Duration>,
}

/// Returns the service manager that started this process, as `sd_notify(3)` describes it.
pub fn service_manager() -> Option<ServiceManager> {
    let set = |name| std::env::var(name).ok();
    // A watchdog may be meant for a process that started us.
    let for_us = set("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
    let micros = set("WATCHDOG_USEC").filter(|_| for_us).and_then(|text| text.parse().ok());
    let watchdog = micros.filter(|micros| *micros > 0).map(Duration::from_micros);
    set("NOTIFY_SOCKET").map(|socket| ServiceManager { socket, watchdog })
}

/// Loads a file, or all `*.toml` of a directory; returns every problem when there is an error.
pub fn load(path: &Path, outside: &Outside<'_>) -> Result<Loaded, Problems> {
    let report = Collected::default();
    let files = document::read(path, &report);
    finish(files, report, outside)
}

/// Loads the text alone of a configuration that is meant to replace the one at `place`: relative
/// paths are read as if it were there, so that moving a draft changes nothing.
pub fn load_draft(path: &Path, place: &Path) -> Result<Loaded, Problems> {
    let report = Collected::default();
    let files = document::read(path, &report).meant_for(document::root(place));
    finish(files, report, &Outside::text_only())
}

fn finish(
    files: SourceFiles,
    report: Collected,
    outside: &Outside<'_>,
) -> Result<Loaded, Problems> {
    let files = Arc::new(files);
    let tables = document::parse(&files, &report);
    for table in &tables {
        shape::check(table, &all(ROOT), "", &report);
    }
    // Contradictions are sought only in whole documents: half a one contradicts itself everywhere.
    let parsed = tables.len() == files.paths().count() && !tables.is_empty();
    if !parsed {
        return Err(report.into_problems(files));
    }
    let whole = document::merge(tables, &files, &report);
    let cx = Cx::new(report, &files, outside);
    let config = Config::read(&whole, &cx);
    let Cx { report, touched, .. } = cx;
    if report.has_errors() {
        return Err(report.into_problems(files));
    }
    let named = files.paths().map(Path::to_owned).chain(touched.into_inner()).collect();
    Ok(Loaded { config, warnings: report.into_problems(files), files: named })
}

/// Travels with the reading: where problems go, and what may be looked at.
pub(crate) struct Cx<'a> {
    pub(crate) report: Collected,
    pub(crate) files: &'a SourceFiles,
    outside: &'a Outside<'a>,
    touched: RefCell<BTreeSet<PathBuf>>,
    /// `daemon.state_dir`, once it is read.
    state_dir: OnceCell<String>,
}

impl Cx<'static> {
    /// Reads from nowhere, for a document that is not a file.
    pub(crate) fn nowhere() -> Self {
        static NOTHING: SourceFiles = SourceFiles::none();
        static TEXT_ONLY: Outside<'static> = Outside { inspects: false, variable: &|_| None };
        Self::new(Collected::default(), &NOTHING, &TEXT_ONLY)
    }
}

impl<'a> Cx<'a> {
    fn new(report: Collected, files: &'a SourceFiles, outside: &'a Outside<'a>) -> Self {
        Self { report, files, outside, touched: RefCell::default(), state_dir: OnceCell::new() }
    }

    /// Returns the folder that some defaults are in.
    pub(crate) fn state_dir(&self) -> &str {
        self.state_dir.get().map_or("STATE_DIR", String::as_str)
    }

    /// Says which folder that is; the first one holds.
    pub(crate) fn set_state_dir(&self, state_dir: &Path) {
        let text = state_dir.display().to_string();
        self.state_dir.get_or_init(|| text.trim_end_matches('/').to_owned());
    }

    /// Returns whether the world around the files is looked at.
    pub(crate) fn inspects(&self) -> bool {
        self.outside.inspects
    }

    /// Returns a variable of the environment.
    pub(crate) fn variable(&self, name: &str) -> Result<String, String> {
        if !self.inspects() {
            return Ok(String::new());
        }
        (self.outside.variable)(name).ok_or_else(|| "not set".into())
    }

    /// Returns the text of a file that belongs to the configuration.
    pub(crate) fn file(&self, path: &Path) -> Result<String, String> {
        self.touched.borrow_mut().insert(path.to_owned());
        if !self.inspects() {
            return Ok(String::new());
        }
        std::fs::read_to_string(path).map_err(|error| error.to_string())
    }

    /// Returns the text of a file that must be private, and warns if every user can read it.
    pub(crate) fn secret_file(&self, path: &Path, key: &str, at: Mark) -> Result<String, String> {
        let text = self.file(path)?;
        if self.inspects() && is_world_readable(path) {
            let shown = path.display();
            let what = format!("every user of this machine can read the secret `{shown}`");
            let help = format!("chmod 600 {shown}");
            self.report.add(ConfigProblem::new(key, what, help).warning().at(Some(at)));
        }
        Ok(text)
    }

    /// Returns whether a path is there; always, when nothing is looked at.
    pub(crate) fn exists(&self, path: &Path) -> bool {
        !self.inspects() || path.exists()
    }

    /// Returns whether a path is a file; not, when nothing is looked at.
    pub(crate) fn is_file(&self, path: &Path) -> bool {
        self.inspects() && path.is_file()
    }

    /// Returns whether a path is a folder; not, when nothing is looked at.
    pub(crate) fn is_folder(&self, path: &Path) -> bool {
        self.inspects() && path.is_dir()
    }

    /// Returns whether a path can be executed; always, when nothing is looked at.
    pub(crate) fn runs(&self, path: &Path) -> bool {
        !self.inspects() || rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
    }
}

fn is_world_readable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    // A directory in between may still bar the way; the warning is about the file's own mode.
    std::fs::metadata(path).is_ok_and(|data| data.permissions().mode() & 0o004 != 0)
}
