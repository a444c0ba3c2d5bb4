//! Ports that a test chooses before anything listens there.
//!
//! A port that was bound and given back may be given to anybody in between: every connection of
//! every test takes one. So these lie below what the system gives out by itself, and a locked file
//! keeps other tests away, in this process and in others.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;

/// Linux gives out ports from 32768 on.
const RANGE: std::ops::Range<u16> = 20_000..32_000;

/// A port that is this test's alone, for as long as this is held.
pub(crate) struct Port {
    pub(crate) number: u16,
    _lock: File,
}

impl Port {
    /// Chooses a port where nobody listens.
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
