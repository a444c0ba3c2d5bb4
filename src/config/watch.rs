//! Notices that the configuration changed, and loads it again: all or nothing.
//!
//! It looks every [`POLL_PERIOD`] and compares contents, not dates, instead of asking the kernel for
//! events: editors rename, Kubernetes swaps a link above the file, network folders send no events at
//! all, and a secret in a file may change while the file that names it does not. Reading a few
//! kilobytes every other second costs nothing and sees all of these. A change counts when two looks
//! in a row agree, so that a file that is still being written is left alone.
//!
//! A configuration with an error changes nothing: its problems are sent, and sent again only when
//! they differ. `SIGHUP` loads at once, changed or not.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::Signal;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::load::{Loaded, Outside, load};
use super::{Config, Problems, document};

/// How often it looks.
pub const POLL_PERIOD: Duration = Duration::from_secs(2);

/// Says what each reload brought.
pub type ConfigChange = Result<Arc<Config>, Problems>;

/// Remembers what was loaded, and decides at each look whether there is a change to report.
pub struct ConfigWatch {
    path: PathBuf,
    outside: Outside<'static>,
    /// The files of the last configuration that could be used.
    files: Vec<PathBuf>,
    /// A digest of the files when they were last loaded, for better or worse.
    loaded: Vec<u8>,
    /// A digest of them at the last look.
    seen: Vec<u8>,
    /// The problems reported last, while there are any.
    reported: Option<String>,
}

/// Says how urgent a look is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Load if something changed and has settled.
    Tick,
    /// Load in any case.
    Now,
}

impl ConfigWatch {
    /// Begins to watch a configuration that is loaded already.
    pub fn new(path: &Path, outside: Outside<'static>, first: &Loaded) -> Self {
        let mut watch = Self {
            path: path.to_owned(),
            outside,
            files: first.files.clone(),
            loaded: Vec::new(),
            seen: Vec::new(),
            reported: None,
        };
        watch.loaded = watch.contents();
        watch.seen.clone_from(&watch.loaded);
        watch
    }

    /// Looks once; returns what changed, if anything did.
    pub fn look(&mut self, how: Look) -> Option<ConfigChange> {
        let contents = self.contents();
        let settled = contents == self.seen;
        let changed = contents != self.loaded;
        self.seen.clone_from(&contents);
        // A refused configuration is tried again at every look: what it lacks (a variable's file,
        // a certificate) may be none of the files we know.
        let due = settled && (changed || self.reported.is_some());
        if how == Look::Tick && !due {
            return None;
        }
        let outcome = load(&self.path, &self.outside);
        match outcome {
            Ok(loaded) => {
                for warning in loaded.warnings.iter() {
                    tracing::warn!(config.key = %warning.key, "configuration: {}; {}", warning.what, warning.help);
                }
                self.files.clone_from(&loaded.files);
                self.reported = None;
                self.loaded = self.contents();
                self.seen.clone_from(&self.loaded);
                Some(Ok(Arc::new(loaded.config)))
            }
            Err(problems) => {
                self.loaded = contents;
                let text = problems.to_string();
                let due = how == Look::Now || self.reported.as_ref() != Some(&text);
                self.reported = Some(text);
                due.then_some(Err(problems))
            }
        }
    }

    /// Returns a digest of every file that matters, and of which ones there are.
    fn contents(&self) -> Vec<u8> {
        let mut digest = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
        let listed = document::list(&self.path).unwrap_or_default();
        for file in listed.iter().chain(self.files.iter().filter(|file| !listed.contains(file))) {
            digest.update(file.as_os_str().as_encoded_bytes());
            match std::fs::read(file) {
                Ok(bytes) => {
                    digest.update(&bytes.len().to_le_bytes());
                    digest.update(&bytes);
                }
                Err(error) => digest.update(error.to_string().as_bytes()),
            }
        }
        digest.finish().as_ref().to_vec()
    }
}

/// Watches until the receiver is gone. `hangup` is the caller's listener for `SIGHUP`: the daemon
/// owns its signals, and one that comes before the first look is not lost. `requested` is
/// called when one came, before anything is read; each such call is followed by a change.
pub async fn run(
    mut watch: ConfigWatch,
    mut hangup: Signal,
    requested: impl Fn(),
    changes: mpsc::Sender<ConfigChange>,
) -> std::io::Result<()> {
    let mut ticks = tokio::time::interval(POLL_PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let how = tokio::select! {
            _ = hangup.recv() => {
                requested();
                Look::Now
            }
            _ = ticks.tick() => Look::Tick,
            () = changes.closed() => return Ok(()),
        };
        // Files may be on a slow disk; the other tasks of this thread need not wait for it.
        let looked = tokio::task::spawn_blocking(move || {
            let found = watch.look(how);
            (watch, found)
        });
        let (back, found) = looked.await.map_err(std::io::Error::other)?;
        watch = back;
        if let Some(found) = found
            && changes.send(found).await.is_err()
        {
            return Ok(());
        }
    }
}
