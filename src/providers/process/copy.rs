//! A runner's files for one machine.
//!
//! The official runner finds its root from where its own binary lies and writes there, so a
//! link to a shared directory would make all machines one. Directories are made anew. A file is
//! linked where the runner's user cannot change it, and copied where he can (by reference on
//! file systems that know how): otherwise one job could change the next one's runner.

use std::fs;
use std::io;
use std::path::Path;

use super::user::User;

/// What a runner that was used in place has left there; a machine begins without it.
const USED: &[&str] =
    &["_work", "_diag", ".runner", ".credentials", ".credentials_rsaparams", ".runner_migrated"];

/// Fills a directory with the files of another; what is there already stays.
pub(super) fn fill(from: &Path, to: &Path, user: Option<User>) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if !USED.iter().any(|used| entry.file_name() == *used) {
            place(&entry.path(), &to.join(entry.file_name()), user)
                .map_err(|error| naming(&error, &entry.path()))?;
        }
    }
    Ok(())
}

fn place(from: &Path, to: &Path, user: Option<User>) -> io::Result<()> {
    let meta = fs::symlink_metadata(from)?;
    if meta.is_dir() {
        fs::create_dir(to)?;
        fs::set_permissions(to, meta.permissions())?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            place(&entry.path(), &to.join(entry.file_name()), user)?;
        }
    } else if meta.is_symlink() {
        std::os::unix::fs::symlink(fs::read_link(from)?, to)?;
    } else if user.is_some_and(|user| !user.can_write(&meta)) && fs::hard_link(from, to).is_ok() {
        return Ok(());
    } else if meta.is_file() {
        fs::copy(from, to)?;
    } else {
        return Ok(());
    }
    user.map_or(Ok(()), |user| user.give(to))
}

fn naming(error: &io::Error, path: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("cannot take over `{}`: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    use super::*;

    #[test]
    fn a_machine_gets_files_of_its_own_and_no_leftovers() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir_all(from.path().join("bin")).unwrap();
        fs::create_dir_all(from.path().join("_work/x")).unwrap();
        for (name, text) in [("run.sh", "#!"), ("bin/Runner.Listener", "b"), (".runner", "old")] {
            fs::write(from.path().join(name), text).unwrap();
        }
        let script = from.path().join("run.sh");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink("run.sh", from.path().join("link")).unwrap();
        fs::write(to.path().join(".runner"), "ours").unwrap();

        fill(from.path(), to.path(), None).unwrap();
        fs::write(to.path().join("run.sh"), "changed by a job").unwrap();
        assert_eq!(fs::read_to_string(&script).unwrap(), "#!");
        assert_eq!(fs::read_to_string(to.path().join(".runner")).unwrap(), "ours");
        assert_eq!(fs::metadata(to.path().join("run.sh")).unwrap().mode() & 0o777, 0o755);
        assert!(to.path().join("bin/Runner.Listener").exists());
        assert!(to.path().join("link").is_symlink() && !to.path().join("_work").exists());
    }
}
