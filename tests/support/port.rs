//! Ports that a test chooses before anything listens there.
//!
//! A port that was bound and closed again may be assigned to any other socket: every connection of every
//! test takes one. So these ports lie below the ephemeral range, and a locked file reserves each of them
//! against other tests, in this process and in others.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;

/// The ephemeral range of Linux begins at 32768.
const RANGE: std::ops::Range<u16> = 20_000..32_000;

/// A port that is reserved for one test until this is dropped.
pub(crate) struct Port {
    pub(crate) number: u16,
    _lock: File,
}

impl Port {
    /// Reserves a port on which no socket listens.
    pub(crate) fn choose() -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ports");
        fs::create_dir_all(&folder).expect("a folder for tests");
        for number in RANGE {
            let lock = File::create(folder.join(number.to_string())).expect("a lock file");
            if lock.try_lock().is_ok() && TcpListener::bind(("127.0.0.1", number)).is_ok() {
                return Self { number, _lock: lock };
            }
        }
        unreachable!("twelve thousand ports are in use")
    }
}
