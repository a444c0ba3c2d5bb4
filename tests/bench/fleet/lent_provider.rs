//! The simulated provider: a machine is an entry of a map, and a line in a journal that outlives the
//! daemon.
//!
//! It runs inside the daemon, because no machine of ours carries ten thousand runners, and costs it as
//! little as it can: a file for each machine would be most of what is measured. A create call notes its
//! moment before anything else. With `late`, the machine appears so long after the call, made by a
//! process of its own, and the call is never answered: the machine of a daemon that was killed in the
//! middle.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use ostler_actors::model::{
    Began, ExitReport, MachineName, MachinePhase, MachineView, Observation, Sighting, Stamp, Worker,
};
use ostler_actors::ports::{
    CreateError, CreateOrder, Deletion, Grace, Inventory, MachineRef, Provider,
    ProviderCapabilities, ProviderError,
};

use super::forge::nanos;

pub(crate) struct LentProvider {
    folder: PathBuf,
    late: Option<Duration>,
    machines: Mutex<BTreeMap<String, MachineView>>,
    /// The moments of create calls, a line each.
    log: Mutex<File>,
    created: AtomicUsize,
    /// `+name stamp` and `-name`.
    journal: Mutex<File>,
}

impl LentProvider {
    /// Opens the folder with what an earlier daemon left.
    pub(crate) fn open(folder: &Path, late: Option<Duration>) -> std::io::Result<Self> {
        fs::create_dir_all(folder.join("late"))?;
        let append = |name: &str| File::options().append(true).create(true).open(folder.join(name));
        let written = fs::read_to_string(folder.join("journal")).unwrap_or_default();
        let lent_provider = Self {
            folder: folder.into(),
            late,
            machines: Mutex::new(replay(&written)),
            log: Mutex::new(append("creates")?),
            created: AtomicUsize::new(0),
            journal: Mutex::new(append("journal")?),
        };
        lent_provider.notice_late();
        Ok(lent_provider)
    }

    /// Returns how many machines there are.
    pub(crate) fn machine_count(&self) -> usize {
        self.notice_late();
        self.machines().len()
    }

    /// Returns how often this daemon called for a machine.
    pub(crate) fn created(&self) -> usize {
        self.created.load(Ordering::Acquire)
    }

    fn machines(&self) -> MutexGuard<'_, BTreeMap<String, MachineView>> {
        self.machines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(file: &Mutex<File>, line: &str) {
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(line.as_bytes()).expect("our folder");
    }

    fn late_file(&self, name: &str) -> PathBuf {
        self.folder.join("late").join(name)
    }

    /// Takes in machines that appeared without an answer.
    fn notice_late(&self) {
        if self.late.is_none() {
            return;
        }
        for entry in fs::read_dir(self.folder.join("late")).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let stamp = fs::read(entry.path()).ok().and_then(|it| serde_json::from_slice(&it).ok());
            if let Some(stamp) = stamp {
                self.machines().entry(name.clone()).or_insert_with(|| view(&name, stamp));
            }
        }
    }
}

/// Returns the machines that a journal leaves.
fn replay(journal: &str) -> BTreeMap<String, MachineView> {
    let mut machines = BTreeMap::new();
    for line in journal.lines() {
        if let Some(name) = line.strip_prefix('-') {
            machines.remove(name);
        } else if let Some((name, stamp)) = line.strip_prefix('+').and_then(|it| it.split_once(' '))
            && let Ok(stamp) = serde_json::from_str(stamp)
        {
            machines.insert(name.to_owned(), view(name, stamp));
        }
    }
    machines
}

#[async_trait]
impl Inventory for LentProvider {
    async fn list(&self) -> Observation<Vec<MachineView>> {
        self.notice_late();
        Observation::Complete(self.machines().values().cloned().collect())
    }

    async fn read(&self, machine: &MachineRef) -> Sighting<MachineView> {
        self.notice_late();
        self.machines().get(machine.name.as_str()).cloned().map_or(Sighting::Absent, Sighting::Seen)
    }

    async fn exit_report(&self, _: &MachineRef, _: bool) -> ExitReport {
        ExitReport::unavailable("a simulated machine leaves nothing")
    }
}

#[async_trait]
impl Provider for LentProvider {
    async fn create(&self, order: CreateOrder) -> Result<MachineView, CreateError> {
        let now = nanos();
        let name = order.name.as_str().to_owned();
        let stamp = serde_json::to_string(&order.stamp).expect("JSON");
        Self::write(&self.log, &format!("{now} {name}\n"));
        // A reader that sees the number finds the line.
        self.created.fetch_add(1, Ordering::Release);
        if let Some(late) = self.late {
            let draft = self.folder.join(format!("{name}.draft"));
            fs::write(&draft, &stamp).expect("a draft");
            let script = format!("(sleep {}; mv \"$1\" \"$2\") &", late.as_secs());
            let mut creator = Command::new("setsid");
            creator.args(["sh", "-c", &script, "sh"]).arg(draft).arg(self.late_file(&name));
            creator
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .process_group(0);
            drop(creator.status());
            std::future::pending::<()>().await;
        }
        Self::write(&self.journal, &format!("+{name} {stamp}\n"));
        let view = view(&name, order.stamp);
        self.machines().insert(name, view.clone());
        Ok(view)
    }

    async fn delete(&self, machine: &MachineRef, _: Grace) -> Result<Deletion, ProviderError> {
        let name = machine.name.as_str();
        if self.late.is_some() {
            // One that has not been noticed yet is deleted all the same.
            self.notice_late();
            drop(fs::remove_file(self.late_file(name)));
        }
        if self.machines().remove(name).is_none() {
            return Ok(Deletion::NotFound);
        }
        Self::write(&self.journal, &format!("-{name}\n"));
        Ok(Deletion::Accepted)
    }

    fn capabilities(&self) -> ProviderCapabilities {
        ProviderCapabilities::default()
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
