//! Whom runners run as.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Names a user by number; the groups he is otherwise in are not taken along.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct User {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl User {
    /// Finds a user by `uid:gid`, or by name in the text of `/etc/passwd`.
    pub(super) fn find(wanted: &str, passwd: &str) -> Option<(Self, Option<String>)> {
        if let Some((uid, gid)) = wanted.split_once(':') {
            return Some((Self { uid: uid.parse().ok()?, gid: gid.parse().ok()? }, None));
        }
        let line = passwd.lines().find(|line| line.split(':').next() == Some(wanted))?;
        let fields: Vec<&str> = line.split(':').collect();
        let user = Self { uid: fields.get(2)?.parse().ok()?, gid: fields.get(3)?.parse().ok()? };
        Some((user, fields.get(5).map(|home| (*home).to_owned())))
    }

    /// Makes a file or directory his; a link itself, never what it points to.
    pub(super) fn give(self, path: &Path) -> io::Result<()> {
        std::os::unix::fs::lchown(path, Some(self.uid), Some(self.gid))
    }

    /// Returns whether he could change this file.
    pub(super) fn can_write(self, meta: &fs::Metadata) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        self.uid == 0 || meta.uid() == self.uid || meta.mode() & 0o022 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_name_or_by_numbers() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nci:x:1001:1002::/home/ci:/bin/sh\n";
        let ci = User { uid: 1001, gid: 1002 };
        assert_eq!(User::find("ci", passwd), Some((ci, Some("/home/ci".into()))));
        assert_eq!(User::find("1001:1002", passwd), Some((ci, None)));
        assert_eq!(User::find("c", passwd), None);
        assert_eq!(User::find("1001:", passwd), None);
    }
}
