//! `[daemon]`: the daemon itself.

use std::path::PathBuf;

use serde::Serialize;

use super::keys::{Key, Keys, Kind};
use super::section::Section;

/// The keys of `[daemon]`.
pub(crate) const KEYS: Keys = &[&[
    Key::new(
        "name",
        Kind::Text,
        "Shown to people; what tells installations apart is an id in the store.",
    )
    .or("\"ostler\""),
    Key::new(
        "state_dir",
        Kind::Path,
        "Where the daemon keeps what it makes itself; relative to the working directory.",
    )
    .or("\"var\""),
]];

/// Holds `[daemon]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Daemon {
    /// Shown to people: `"ostler"`.
    pub name: String,
    /// Where the daemon keeps what it makes itself: `"var"`, relative to the working directory.
    pub state_dir: PathBuf,
}

impl Daemon {
    pub(crate) fn read(section: &Section<'_>) -> Self {
        Self {
            name: section.text_or("name", "ostler"),
            state_dir: section.text_or("state_dir", "var").into(),
        }
    }
}
