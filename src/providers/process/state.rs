//! The provider: its work directory, and the two halves of its port.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use ostler_actors::model::{ExitReport, HostName, MachineView, Observation, Sighting};
use ostler_actors::ports::{
    CreateError, CreateOrder, Deletion, Grace, Inventory, MachineRef, MachineSink, Provider,
    ProviderCapabilities, ProviderError, Startup, Watching,
};
use tracing::{info, warn};

use super::claim::{MARKER, claim};
use super::disk::Disk;
use super::settings::ProcessSettings;
use super::user::User;
use super::{cgroup, delete, remove, watch};
use crate::config;
use crate::providers::{OpenContext, Opened};

/// Makes runners as local processes.
#[derive(Clone)]
pub struct LocalProcess {
    state: Arc<ProviderState>,
}

/// Holds what is known apart from the machines themselves.
pub(super) struct ProviderState {
    pub(super) settings: ProcessSettings,
    pub(super) user: Option<User>,
    pub(super) user_home: Option<String>,
    pub(super) host: Option<HostName>,
    /// Whether machines can have cgroups.
    pub(super) cgroups: bool,
    /// Lets one create at a time count the living.
    pub(super) counting: tokio::sync::Mutex<()>,
    /// Does all that waits for files.
    pub(super) disk: Disk,
}

/// Tells why there can be no local processes.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The work directory cannot be used.
    #[error("cannot use `work_dir` = `{path}`; it must be a directory this daemon can write to")]
    WorkDir {
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It was used before, and now it is not the one that was used.
    #[error(
        "`work_dir` = `{path}` was used before and has lost its marker `{MARKER}`, so its machines cannot be told from none; mount its disk, or, if all that was on it is gone for good, `mkdir -p {path} && touch {path}/{MARKER}`",
        path = _0.display()
    )]
    NotMounted(PathBuf),
    /// It holds files that may belong to another program.
    #[error(
        "`work_dir` = `{path}` is not empty and has no marker `{MARKER}`; name an empty directory, mount the right disk there, or, if it is to be used as it is, `touch {path}/{MARKER}`",
        path = _0.display()
    )]
    Strange(PathBuf),
    /// There is no such user.
    #[error("there is no `user` = `{0}` here; write a name of /etc/passwd, or `uid:gid`")]
    User(String),
    /// There is nothing to run.
    #[error("`command` is empty; leave it out for the official runner's `./run.sh`")]
    Command,
    /// There is no runner.
    #[error("`runner_dir` = `{0}` is not a directory; unpack actions/runner there")]
    RunnerDir(PathBuf),
}

/// Opens the provider of a `[provider.NAME]`.
pub fn open(process: &config::Process, context: &OpenContext<'_>) -> Opened {
    let settings = ProcessSettings::from_config(process, context.config);
    Ok(Arc::new(LocalProcess::open_beside(settings)?))
}

impl LocalProcess {
    /// Opens the work directory, making it if need be, and clears what a dead daemon left half
    /// made or half removed.
    pub fn open(settings: ProcessSettings) -> Result<Self, OpenError> {
        let opened = Self::open_beside(settings)?;
        opened.clear_leftovers();
        Ok(opened)
    }

    /// Opens the work directory as [`LocalProcess::open`] does, and clears nothing: another may
    /// still be at work there, and what looks left over is what it is making.
    pub fn open_beside(mut settings: ProcessSettings) -> Result<Self, OpenError> {
        if settings.command.is_empty() {
            return Err(OpenError::Command);
        }
        if let Some(path) = settings.runner_dir.as_ref().filter(|path| !path.is_dir()) {
            return Err(OpenError::RunnerDir(path.clone()));
        }
        let (user, user_home) = find_user(settings.user.as_deref())?;
        // Another user's runners must be able to pass through, not to look around.
        let mode = if user.is_some() { 0o711 } else { 0o700 };
        settings.work_dir = claim(&settings.work_dir, settings.memory.as_deref(), mode)?;
        let cgroups = tell_cgroups(&settings);
        let host = rustix::system::uname().nodename().to_str().map(HostName::from).ok();
        let counting = tokio::sync::Mutex::new(());
        let state = ProviderState {
            settings,
            user,
            user_home,
            host,
            cgroups,
            counting,
            disk: Disk::default(),
        };
        Ok(Self { state: Arc::new(state) })
    }

    pub(super) fn state(&self) -> Arc<ProviderState> {
        Arc::clone(&self.state)
    }

    /// Clears what was left half created or half removed. No other process may be at work there.
    pub fn clear_leftovers(&self) {
        remove::clear_leftovers(&self.state.settings.work_dir);
    }
}

fn find_user(wanted: Option<&str>) -> Result<(Option<User>, Option<String>), OpenError> {
    let Some(wanted) = wanted else { return Ok((None, None)) };
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let found = User::find(wanted, &passwd).ok_or_else(|| OpenError::User(wanted.into()))?;
    Ok((Some(found.0), found.1))
}

/// Finds out whether machines can have cgroups, and says so once if not.
fn tell_cgroups(settings: &ProcessSettings) -> bool {
    let name = format!("ostler-probe-{}", uuid::Uuid::new_v4().simple());
    let Err(why) = cgroup::probe(&name) else { return true };
    let limited = settings.limits.memory.is_some() || settings.limits.pids.is_some();
    let place = settings.work_dir.display();
    if limited {
        warn!("runners in `{place}` get no limits: no cgroup can be made for them ({why})");
    } else {
        info!(
            "runners in `{place}` have no cgroup ({why}): deaths for memory cannot be told from other kills"
        );
    }
    false
}

impl ProviderState {
    /// Returns whether the work directory is the one that was opened.
    pub(super) fn check(&self) -> Result<(), String> {
        let place = &self.settings.work_dir;
        match place.join(MARKER).try_exists() {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("`{}` has lost its marker `{MARKER}`", place.display())),
            Err(error) => Err(format!("`{}` cannot be read: {error}", place.display())),
        }
    }

    /// Returns the id of the running system.
    pub(super) fn boot(&self) -> io::Result<String> {
        Ok(fs::read_to_string(&self.settings.boot_id_file)?.trim().to_owned())
    }
}

#[async_trait]
impl Inventory for LocalProcess {
    async fn list(&self) -> Observation<Vec<MachineView>> {
        let state = Arc::clone(&self.state);
        self.state.disk.brief(move || state.list()).await.unwrap_or_else(Observation::Unusable)
    }

    async fn read(&self, machine: &MachineRef) -> Sighting<MachineView> {
        let (state, machine) = (Arc::clone(&self.state), machine.clone());
        self.state.disk.brief(move || state.read(&machine)).await.unwrap_or_else(Sighting::Unknown)
    }

    async fn exit_report(&self, machine: &MachineRef, want_tail: bool) -> ExitReport {
        let (state, machine) = (Arc::clone(&self.state), machine.clone());
        let gathered = self.state.disk.brief(move || state.exit_report(&machine, want_tail)).await;
        gathered.unwrap_or_else(ExitReport::unavailable)
    }

    fn watch(&self, sink: Arc<dyn MachineSink>) -> Watching {
        watch::begin(Arc::clone(&self.state), sink)
    }
}

impl Startup for LocalProcess {
    fn before_fleet(&self) {
        self.clear_leftovers();
    }
}

#[async_trait]
impl Provider for LocalProcess {
    async fn create(&self, order: CreateOrder) -> Result<MachineView, CreateError> {
        self.state.create(order).await
    }

    async fn delete(&self, machine: &MachineRef, grace: Grace) -> Result<Deletion, ProviderError> {
        let later = |why| ProviderError::Later { after: None, why };
        delete::delete(&self.state, machine, grace).await.map_err(later)
    }

    fn capabilities(&self) -> ProviderCapabilities {
        let shared = Arc::new(self.clone());
        ProviderCapabilities {
            machine_auth: Some(Arc::clone(&shared) as _),
            startup: Some(shared),
            ..ProviderCapabilities::default()
        }
    }
}
