//! Which names can be directories of ours.

use std::path::{Path, PathBuf};

use ostler_actors::model::MachineName;

/// Longer names would not leave room for the files of a file system.
const MAX_NAME_BYTES: usize = 200;

/// Returns the directory of a machine, if a machine can have that name.
///
/// Names beginning with a dot are ours: directories on their way in or out.
pub(super) fn directory(work_dir: &Path, name: &MachineName) -> Option<PathBuf> {
    let text = name.as_str();
    let plain =
        text.chars().all(|message| message.is_ascii_alphanumeric() || "-_.".contains(message));
    let fits = !text.is_empty() && text.len() <= MAX_NAME_BYTES && !text.starts_with('.');
    (plain && fits).then(|| work_dir.join(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_out_of_the_work_directory() {
        let place = |name: &str| directory(Path::new("w"), &MachineName::new(name));
        assert_eq!(place("linux-1a2b"), Some(PathBuf::from("w/linux-1a2b")));
        for bad in ["", ".", "..", ".new-1", "../etc", "a/b", "a\0b", "a b", &"x".repeat(201)] {
            assert_eq!(place(bad), None, "{bad}");
        }
    }
}
