//! The poller: what a warm pod runs until there is a job for it.
//!
//! It asks the daemon for work with the token of its pod, again and again, and ends with 0 as soon
//! as the JIT config is staged for the runner's container: every file whole under its name or not
//! there at all. Told to leave, it waits to be removed.
//!
//! Ends: 0 staged · 1 refused for good, or nothing could be staged · 75 told to leave and forgotten
//! · 143 stopped.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::secret::staged;
use crate::providers::asking::{Asking, NoWork, acknowledge, ask_for_work};

/// Says what to ask and where to put the answer.
#[derive(Clone, Debug)]
pub struct Polling {
    /// Whom to ask, with the token that the kubelet writes anew now and then.
    pub asking: Asking,
    /// The folder the runner's container reads.
    pub out: PathBuf,
}

/// Tells how a poller ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The runner may begin.
    Staged,
    /// It cannot begin, and never will.
    Failed,
    /// Told to leave, and not removed.
    Forgotten,
}

impl Ended {
    /// Returns the exit code.
    pub fn code(self) -> u8 {
        match self {
            Self::Staged => 0,
            Self::Failed => 1,
            Self::Forgotten => 75,
        }
    }
}

/// Asks until there is an answer that ends it.
pub async fn poll(polling: &Polling) -> Ended {
    match ask_for_work(&polling.asking, &mut say).await {
        Ok(jit) => match stage(&polling.out, jit.reveal()) {
            Ok(()) => {
                say("work is here");
                acknowledge(&polling.asking, &mut say).await;
                Ended::Staged
            }
            Err(error) => {
                say(&format!("cannot write to `{}`: {error}", polling.out.display()));
                Ended::Failed
            }
        },
        Err(NoWork::Refused) => Ended::Failed,
        Err(NoWork::Forgotten) => Ended::Forgotten,
    }
}

/// Writes the files of a JIT config, each whole or not at all; the one without a dot comes last.
pub(super) fn stage(folder: &Path, jit: &str) -> io::Result<()> {
    let mut files: Vec<(String, Vec<u8>)> = staged(jit).into_iter().collect();
    files.sort_by_key(|(name, _)| !name.starts_with('.'));
    for (name, content) in files {
        let draft = folder.join(format!("{name}.new"));
        drop(fs::remove_file(&draft));
        let mut options = File::options();
        // Readable by the group too: the runner may be another user of the pod's group.
        let mut file = options.write(true).create_new(true).mode(0o640).open(&draft)?;
        file.write_all(&content)?;
        file.sync_all()?;
        fs::rename(&draft, folder.join(&name))?;
    }
    File::open(folder)?.sync_all()
}

/// Writes a line into the log of the pod.
fn say(line: &str) {
    // A log that cannot be written is no reason to stop.
    drop(writeln!(io::stderr(), "ostler poller: {line}"));
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_staged_config_is_there_as_it_came_and_unpacked() {
        let folder = tempfile::tempdir().unwrap();
        let inner = serde_json::json!({ ".runner": STANDARD.encode("{}") });
        let jit = STANDARD.encode(inner.to_string());
        stage(folder.path(), &jit).unwrap();
        stage(folder.path(), &jit).unwrap();
        let mut names: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, [".runner", "jitconfig"]);
        assert_eq!(fs::read_to_string(folder.path().join(".runner")).unwrap(), "{}");
        let config = folder.path().join("jitconfig");
        assert_eq!(fs::read_to_string(&config).unwrap(), jit);
        assert_eq!(fs::metadata(&config).unwrap().permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn a_folder_that_is_not_there_fails_the_poller() {
        assert!(stage(Path::new("/nowhere/at/all"), "x").is_err());
    }
}
