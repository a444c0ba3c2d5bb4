//! Taking directories away, however a job has left them.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use tracing::warn;

use super::files::Home;

/// How old a half-made directory must be before it is taken for a dead daemon's.
const ABANDONED: Duration = Duration::from_mins(10);

/// Removes a machine's directory. Its name is free the moment its stamp is gone.
pub(super) fn machine(work_dir: &Path, home: &Home, uid: &str) -> io::Result<()> {
    // The runner's files first: should they resist, the machine is still there to be seen.
    tree(&home.work())?;
    let away = work_dir.join(format!(".gone-{uid}"));
    match fs::rename(home.path(), &away) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(()) => tree(&away),
    }
}

/// Removes a directory and all in it; one that is gone is fine.
pub(super) fn tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // Build tools like to protect their caches from writing, and so from us.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(path)?;
            fs::remove_dir_all(path)
        }
        other => other,
    }
}

/// Gives us back the right to empty every directory below.
fn open_up(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(path)? {
            open_up(&entry?.path())?;
        }
    }
    Ok(())
}

/// Removes what a dead daemon was making or removing.
pub(super) fn clear_leftovers(work_dir: &Path) {
    let Ok(entries) = fs::read_dir(work_dir) else { return };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let abandoned = || {
            let changed = entry.metadata().and_then(|meta| meta.modified()).ok();
            changed.and_then(|at| at.elapsed().ok()).is_some_and(|age| age > ABANDONED)
        };
        if (name.starts_with(".gone-") || (name.starts_with(".new-") && abandoned()))
            && let Err(error) = tree(&entry.path())
        {
            warn!("cannot remove the leftover `{}`: {error}", entry.path().display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_that_was_protected_from_writing_goes_too() {
        let place = tempfile::tempdir().unwrap();
        let home = Home::new(place.path().join("m1"));
        let deep = home.work().join("mod/cache");
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("file"), "x").unwrap();
        for locked in [&deep, &home.work().join("mod")] {
            fs::set_permissions(locked, fs::Permissions::from_mode(0o500)).unwrap();
        }
        open_up(&home.work()).unwrap();
        assert_eq!(fs::metadata(&deep).unwrap().permissions().mode() & 0o777, 0o700);
        machine(place.path(), &home, "u").unwrap();
        machine(place.path(), &home, "u").unwrap();
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_leftovers_are_cleared() {
        let place = tempfile::tempdir().unwrap();
        for name in [".gone-1/x", ".new-2/x", "m1/work"] {
            fs::create_dir_all(place.path().join(name)).unwrap();
        }
        clear_leftovers(place.path());
        assert!(!place.path().join(".gone-1").exists());
        assert!(place.path().join(".new-2").exists(), "it may be being created right now");
        assert!(place.path().join("m1/work").exists());
    }
}
