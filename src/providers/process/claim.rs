//! Whose a work directory is. A disk that is not mounted shows an empty directory, or none, and
//! nothing there must ever prove that machines are gone.
//!
//! | marker in it | used before | what is there | then |
//! |---|---|---|---|
//! | yes | | | it is ours |
//! | no | yes | | refused: the disk is not mounted |
//! | no | no | nothing, or an empty directory | a first start: it is made and marked |
//! | no | no | files | refused: they may belong to another program |
//!
//! That a directory was used before is remembered elsewhere, in a file of `state_dir`.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf, absolute};

use super::state::OpenError;

/// Says that a directory is ours.
pub(super) const MARKER: &str = ".ostler";

/// Returns the work directory's full path, with our marker in it. `memory` is the file that
/// remembers directories used before; `mode` is for a directory that is made.
pub(super) fn claim(
    work_dir: &Path,
    memory: Option<&Path>,
    mode: u32,
) -> Result<PathBuf, OpenError> {
    let failed = |source| OpenError::WorkDir { path: work_dir.to_owned(), source };
    let place = absolute(work_dir).map_err(failed)?;
    let used_before = memory.map_or(Ok(false), |memory| remembers(memory, &place));
    let used_before = used_before.map_err(failed)?;
    if !place.join(MARKER).try_exists().map_err(failed)? {
        if used_before {
            return Err(OpenError::NotMounted(place));
        }
        if !is_empty(&place).map_err(failed)? {
            return Err(OpenError::Strange(place));
        }
        mark(&place, mode).map_err(failed)?;
    }
    // After the marker: a start that dies between the two is not locked out.
    if let Some(memory) = memory.filter(|_| !used_before) {
        remember(memory, &place).map_err(failed)?;
    }
    place.canonicalize().map_err(failed)
}

/// Returns whether there is nothing in the directory, or no directory.
fn is_empty(place: &Path) -> io::Result<bool> {
    match fs::read_dir(place) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

fn mark(place: &Path, mode: u32) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(mode).create(place)?;
    fs::write(place.join(MARKER), "The machines of an Ostler provider live here.\n")
}

/// Returns whether a directory was used before: one path a line.
fn remembers(memory: &Path, place: &Path) -> io::Result<bool> {
    match fs::read_to_string(memory) {
        Ok(text) => Ok(text.lines().any(|line| line == place.to_string_lossy())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn remember(memory: &Path, place: &Path) -> io::Result<()> {
    if let Some(directory) = memory.parent() {
        fs::create_dir_all(directory)?;
    }
    let mut file = OpenOptions::new().create(true).append(true).open(memory)?;
    writeln!(file, "{}", place.to_string_lossy())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds a place for work directories, and the memory beside it.
    struct Site(tempfile::TempDir);

    impl Site {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn work(&self) -> PathBuf {
            self.0.path().join("disk/work")
        }

        fn claim(&self) -> Result<PathBuf, OpenError> {
            claim(&self.work(), Some(&self.0.path().join("state/work_dirs")), 0o700)
        }
    }

    #[test]
    fn a_first_start_takes_a_directory_that_is_missing_or_empty() {
        for is_there in [false, true] {
            let site = Site::new();
            if is_there {
                fs::create_dir_all(site.work()).unwrap();
            }
            let place = site.claim().unwrap();
            assert!(place.join(MARKER).exists());
            site.claim().unwrap();
        }
    }

    #[test]
    fn a_disk_that_is_not_mounted_is_not_taken_for_an_empty_one() {
        let site = Site::new();
        site.claim().unwrap();
        let away = site.0.path().join("away");
        fs::rename(site.work(), &away).unwrap();
        // The mount is above the directory, then at it.
        for at_it in [false, true] {
            if at_it {
                fs::create_dir(site.work()).unwrap();
            }
            let refused = site.claim().unwrap_err();
            assert!(matches!(refused, OpenError::NotMounted(_)), "{refused}");
            assert!(refused.to_string().contains("mount"), "{refused}");
            assert!(!site.work().join(MARKER).exists(), "nothing is marked");
        }
        fs::remove_dir(site.work()).unwrap();
        fs::rename(&away, site.work()).unwrap();
        site.claim().unwrap();
    }

    #[test]
    fn a_lost_disk_is_given_up_by_touching_the_marker() {
        let site = Site::new();
        site.claim().unwrap();
        fs::remove_dir_all(site.work()).unwrap();
        site.claim().unwrap_err();
        fs::create_dir(site.work()).unwrap();
        fs::write(site.work().join(MARKER), "").unwrap();
        site.claim().unwrap();
    }

    #[test]
    fn files_of_another_program_are_left_alone() {
        let site = Site::new();
        fs::create_dir_all(site.work().join("photos")).unwrap();
        let refused = site.claim().unwrap_err();
        assert!(matches!(refused, OpenError::Strange(_)), "{refused}");
        assert!(!site.work().join(MARKER).exists());
    }

    #[test]
    fn a_directory_that_was_marked_before_there_was_a_memory_is_remembered_now() {
        let site = Site::new();
        claim(&site.work(), None, 0o700).unwrap();
        site.claim().unwrap();
        fs::remove_file(site.work().join(MARKER)).unwrap();
        assert!(matches!(site.claim(), Err(OpenError::NotMounted(_))));
    }
}
