//! The simulated provider: a machine is a line in a map, and a file that outlives the daemon.
//!
//! It runs inside the daemon, because no machine of ours carries ten thousand runners. A create call
//! notes its moment before anything else. With `late`, the machine appears so long after the call,
//! made by a process of its own, and the call is never answered: the machine of a daemon that was
//! killed in the middle.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use ostler_actors::model::{
    Began, MachineName, MachinePhase, MachineView, Observation, Remains, Sighting, Stamp, Worker,
};
use ostler_actors::ports::{
    CreateError, CreateOrder, Deletion, Grace, Handover, Inventory, MachineRef, Provider,
    ProviderError,
};

use super::forge::nanos;

/// Holds the machines.
pub(crate) struct Yard {
    folder: PathBuf,
    late: Option<Duration>,
    machines: Mutex<BTreeMap<String, MachineView>>,
    log: Mutex<File>,
}

impl Yard {
    /// Opens the folder with what an earlier daemon left.
    pub(crate) fn open(folder: &Path, late: Option<Duration>) -> std::io::Result<Self> {
        fs::create_dir_all(folder.join("machines"))?;
        let log = File::options().append(true).create(true).open(folder.join("creates"))?;
        let yard =
            Self { folder: folder.into(), late, machines: Mutex::default(), log: Mutex::new(log) };
        yard.notice_new();
        Ok(yard)
    }

    fn machines(&self) -> MutexGuard<'_, BTreeMap<String, MachineView>> {
        self.machines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join("machines").join(name)
    }

    /// Takes in machines that somebody else made.
    fn notice_new(&self) {
        let Ok(entries) = fs::read_dir(self.folder.join("machines")) else { return };
        for entry in entries.filter_map(Result::ok) {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !self.machines().contains_key(&name) {
                self.notice(&name);
            }
        }
    }

    fn notice(&self, name: &str) -> Option<MachineView> {
        let stamp: Stamp = serde_json::from_slice(&fs::read(self.file(name)).ok()?).ok()?;
        let view = view(name, stamp);
        self.machines().insert(name.to_owned(), view.clone());
        Some(view)
    }
}

#[async_trait]
impl Inventory for Yard {
    async fn list(&self) -> Observation<Vec<MachineView>> {
        self.notice_new();
        Observation::Complete(self.machines().values().cloned().collect())
    }

    async fn read(&self, machine: &MachineRef) -> Sighting<MachineView> {
        let name = machine.name.as_str();
        let known = self.machines().get(name).cloned();
        known.or_else(|| self.notice(name)).map_or(Sighting::Absent, Sighting::Seen)
    }

    async fn remains(&self, _: &MachineRef, _: bool) -> Remains {
        Remains::unavailable("a simulated machine leaves nothing")
    }
}

#[async_trait]
impl Provider for Yard {
    async fn create(&self, order: CreateOrder) -> Result<MachineView, CreateError> {
        let now = nanos();
        let name = order.name.as_str().to_owned();
        let stamp = serde_json::to_vec(&order.stamp).expect("JSON");
        {
            let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
            writeln!(log, "{now} {name}").expect("the log");
        }
        if let Some(late) = self.late {
            let draft = self.folder.join(format!("{name}.draft"));
            fs::write(&draft, &stamp).expect("a draft");
            let script = format!("(sleep {}; mv \"$1\" \"$2\") &", late.as_secs());
            let mut maker = Command::new("setsid");
            maker.args(["sh", "-c", &script, "sh"]).arg(draft).arg(self.file(&name));
            maker.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
            drop(maker.status());
            std::future::pending::<()>().await;
        }
        fs::write(self.file(&name), stamp).expect("a machine");
        let view = view(&name, order.stamp);
        self.machines().insert(name, view.clone());
        Ok(view)
    }

    async fn delete(&self, machine: &MachineRef, _: Grace) -> Result<Deletion, ProviderError> {
        let name = machine.name.as_str();
        let known = self.machines().remove(name).is_some();
        let removed = fs::remove_file(self.file(name)).is_ok();
        Ok(if known || removed { Deletion::Accepted } else { Deletion::NotFound })
    }

    fn handover(&self) -> Handover {
        Handover::WithOrder
    }
}

/// Shows a machine: it runs, and its own witness sees no worker.
fn view(name: &str, stamp: Stamp) -> MachineView {
    MachineView {
        name: MachineName::new(name),
        uid: None,
        stamp,
        phase: MachinePhase::Running,
        worker: Worker::Absent,
        began: Began::Unknown,
        ready: false,
        leaving: false,
        host: None,
    }
}
