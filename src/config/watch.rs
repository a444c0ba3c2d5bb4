//! Notices that the configuration changed, and loads it again: all or nothing.
//!
//! It looks every [`PERIOD`] and compares contents, not dates, instead of asking the kernel for
//! events: editors rename, Kubernetes swaps a link above the file, network folders send no events at
//! all, and a secret in a file may change while the file that names it does not. Reading a few
//! kilobytes every other second costs nothing and sees all of these. A change counts when two looks
//! in a row agree, so that a file that is still being written is left alone.
//!
//! A configuration with an error changes nothing: its problems are sent, and sent again only when
//! they differ. `SIGHUP` loads at once, changed or not.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::Signal;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::load::{Loaded, Outside, load};
use super::{Config, Problems, sources};

/// How often it looks.
pub const PERIOD: Duration = Duration::from_secs(2);

/// Says what each reload brought.
pub type ConfigChange = Result<Arc<Config>, Problems>;

/// Remembers what was loaded, and decides at each look whether there is news.
pub struct Watch {
    path: PathBuf,
    outside: Outside<'static>,
    /// The files of the last configuration that could be used.
    files: Vec<PathBuf>,
    /// What the files held when they were last loaded, for better or worse.
    loaded: String,
    /// What they held at the last look.
    seen: String,
    /// The problems told last, while there are any.
    told: Option<String>,
}

/// Says how urgent a look is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Load if something changed and has settled.
    Tick,
    /// Load in any case.
    Now,
}

impl Watch {
    /// Begins to watch a configuration that is loaded already.
    pub fn new(path: &Path, outside: Outside<'static>, first: &Loaded) -> Self {
        let mut watch = Self {
            path: path.to_owned(),
            outside,
            files: first.files.clone(),
            loaded: String::new(),
            seen: String::new(),
            told: None,
        };
        watch.loaded = watch.contents();
        watch.seen.clone_from(&watch.loaded);
        watch
    }

    /// Looks once; returns news if there is any.
    pub fn look(&mut self, how: Look) -> Option<ConfigChange> {
        let contents = self.contents();
        let settled = contents == self.seen;
        let changed = contents != self.loaded;
        self.seen.clone_from(&contents);
        // A refused configuration is tried again at every look: what it lacks (a variable's file,
        // a certificate) may be none of the files we know.
        let due = settled && (changed || self.told.is_some());
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
                self.told = None;
                self.loaded = self.contents();
                self.seen.clone_from(&self.loaded);
                Some(Ok(Arc::new(loaded.config)))
            }
            Err(problems) => {
                self.loaded = contents;
                let text = problems.to_string();
                let news = how == Look::Now || self.told.as_ref() != Some(&text);
                self.told = Some(text);
                news.then_some(Err(problems))
            }
        }
    }

    /// Returns a digest of every file that matters, and of which ones there are.
    fn contents(&self) -> String {
        let mut digest = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
        let listed = sources::list(&self.path).unwrap_or_default();
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
        let mut text = String::new();
        for byte in digest.finish().as_ref() {
            let _ = write!(text, "{byte:02x}");
        }
        text
    }
}

/// Watches until the receiver is gone. `hangup` is the caller's listener for `SIGHUP`: the daemon
/// owns its signals, and one that comes before the first look is not lost. `asked` is called when
/// one came, before anything is read; each such call is followed by news.
pub async fn run(
    mut watch: Watch,
    mut hangup: Signal,
    asked: impl Fn(),
    news: mpsc::Sender<ConfigChange>,
) -> std::io::Result<()> {
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let how = tokio::select! {
            _ = hangup.recv() => {
                asked();
                Look::Now
            }
            _ = ticks.tick() => Look::Tick,
            () = news.closed() => return Ok(()),
        };
        // Files may lie on a slow disk; the other tasks of this thread need not wait for it.
        let looked = tokio::task::spawn_blocking(move || {
            let found = watch.look(how);
            (watch, found)
        });
        let (back, found) = looked.await.map_err(std::io::Error::other)?;
        watch = back;
        if let Some(found) = found
            && news.send(found).await.is_err()
        {
            return Ok(());
        }
    }
}
