//! A place for local processes, and looks at what really lives.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ostler::providers::process::{LocalProcess, ProcessSettings};
use ostler_actors::model::{
    ExitFacts, MachineName, MachinePhase, MachineSpec, MachineView, Sighting, Stamp, Tail,
};
use ostler_actors::ports::{CreateOrder, Grace, Inventory as _, MachineRef, Provider as _};
use ostler_actors::testing::pool;
use tempfile::TempDir;

use crate::support::HANG_LIMIT;

/// Holds a work directory and the settings for it. Fails the test that leaves processes behind.
pub(super) struct Fixture {
    pub(super) place: TempDir,
    pub(super) settings: ProcessSettings,
}

impl Fixture {
    /// Makes a fixture whose runners are a line of shell.
    pub(super) fn running(script: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        let settings = settings(place.path().join("work"), script);
        Self { place, settings }
    }

    /// Opens the provider, as a daemon does when it starts.
    pub(super) fn provider(&self) -> LocalProcess {
        LocalProcess::open(self.settings.clone()).unwrap()
    }

    /// Returns the directory of a machine.
    pub(super) fn home(&self, name: &str) -> PathBuf {
        self.settings.work_dir.join(name)
    }

    /// Returns the runner's own directory.
    pub(super) fn work(&self, name: &str) -> PathBuf {
        self.home(name).join("work")
    }

    /// Returns the processes that were started in this fixture and live. Only for looking: what a text
    /// matches is not what may be killed.
    pub(super) fn living(&self) -> Vec<(i32, String)> {
        // A fixture that was never opened has no directory, and then nothing was started in it.
        let Ok(inside) = self.settings.work_dir.canonicalize() else { return Vec::new() };
        assert!(
            inside.starts_with(self.place.path().canonicalize().unwrap()),
            "{}",
            inside.display()
        );
        let inside = format!("{}/", inside.display());
        let all = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let mut found = Vec::new();
        for pid in all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()) {
            let text = |file: &str| {
                let raw = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
                String::from_utf8_lossy(&raw).replace('\0', " ")
            };
            let zombie = text("stat").rsplit(')').next().is_some_and(|it| it.starts_with(" Z"));
            let here = fs::read_link(format!("/proc/{pid}/cwd"))
                .is_ok_and(|cwd| cwd.display().to_string().starts_with(&inside));
            if !zombie && (here || text("cmdline").contains(&inside)) {
                found.push((pid, text("cmdline")));
            }
        }
        found
    }
}

impl Drop for Fixture {
    /// Fails a test that leaves processes, and kills none: a failed test's runners are all bounded
    /// sleeps, which end by themselves.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let left = self.living();
            assert!(left.is_empty(), "left behind: {left:?}");
        }
    }
}

/// Returns settings for runners that are a line of shell.
pub(super) fn settings(work_dir: PathBuf, script: &str) -> ProcessSettings {
    let mut settings = ProcessSettings::new(work_dir);
    settings.command = ["sh", "-c", script].map(String::from).to_vec();
    settings.keeper = env!("CARGO_BIN_EXE_ostler").into();
    settings
}

pub(super) fn order(name: &str) -> CreateOrder {
    let spec = pool("linux", "witness", 4);
    let stamp = Stamp { instance: Some(name.into()), ..Stamp::default() };
    let machine = MachineSpec::default();
    CreateOrder {
        name: MachineName::new(name),
        stamp,
        machine,
        pool: Arc::new(spec),
        avoid: vec![],
        attempt: 1,
        jit: None,
        slot: ostler_actors::ports::CreateSlot::default(),
    }
}

/// Points at a machine by name.
pub(super) fn named(name: &str) -> MachineRef {
    MachineRef { name: MachineName::new(name), uid: None }
}

/// Looks until it is so.
pub(super) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let wait = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(HANG_LIMIT, wait).await;
    waited.unwrap_or_else(|_| panic!("never saw that {what}"))
}

/// Reads a machine that must be there.
pub(super) async fn seen(provider: &LocalProcess, name: &str) -> MachineView {
    match provider.read(&named(name)).await {
        Sighting::Seen(view) => view,
        other => panic!("`{name}` is {other:?}"),
    }
}

/// Waits for the end of a machine's runner.
pub(super) async fn over(provider: &LocalProcess, name: &str) -> ExitFacts {
    until("the runner is over", async || match seen(provider, name).await.phase {
        MachinePhase::Over(facts) => Some(facts),
        _ => None,
    })
    .await
}

/// Returns the end of the log.
pub(super) async fn tail(provider: &LocalProcess, name: &str) -> String {
    match provider.exit_report(&named(name), true).await.tail {
        Tail::Captured(text) => text,
        other => panic!("no log: {other:?}"),
    }
}

/// Waits for a word of the runner.
pub(super) async fn says(provider: &LocalProcess, name: &str, word: &str) {
    until(&format!("it says `{word}`"), async || {
        tail(provider, name).await.contains(word).then_some(())
    })
    .await;
}

/// Takes a machine away.
pub(super) async fn away(provider: &LocalProcess, name: &str) {
    provider.delete(&named(name), Grace::Zero).await.unwrap();
    assert_eq!(provider.read(&named(name)).await, Sighting::Absent);
}
