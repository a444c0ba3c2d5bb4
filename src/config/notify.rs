//! `[notify]`: who is told when a person is needed.

use serde::Serialize;

use super::keys::{Key, Keys, Kind};
use super::nearest::{listed, nearest};
use super::secrets::Secret;
use super::section::Section;

/// What can be told.
const OCCASIONS: [&str; 4] = ["stuck", "breaker", "leak", "config"];

/// The keys of `[notify]`.
pub(crate) const KEYS: Keys = &[&[
    Key::new(
        "url",
        Kind::Secret,
        "Where the message is posted as JSON; a chat's address is as good as a \
            password, so it is a secret.",
    )
    .required(),
    Key::new(
        "on",
        Kind::Texts,
        "What is told: stuck (an instance makes no progress), breaker (a pool \
            stopped creating), leak (a machine without an owner), config (a reload \
            was refused).",
    )
    .or("[\"stuck\", \"breaker\", \"leak\", \"config\"]"),
]];

/// Holds `[notify]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Notify {
    /// Where the message is posted.
    pub url: Secret,
    /// What is told: all of `stuck`, `breaker`, `leak`, `config`.
    pub on: Vec<String>,
}

impl Notify {
    pub(crate) fn read(section: &Section<'_>) -> Option<Self> {
        let wanted = section.texts("on");
        for word in wanted.iter().filter(|word| !OCCASIONS.contains(&word.as_str())) {
            let help = nearest(word, OCCASIONS).map_or_else(
                || format!("write some of {}", listed(&OCCASIONS)),
                |near| format!("did you mean \"{near}\"?"),
            );
            section
                .note(section.error("on", format!("nothing called `{word}` is told")).help(help));
        }
        let all = || OCCASIONS.iter().map(ToString::to_string).collect();
        Some(Self {
            url: section.secret("url")?,
            on: if section.node("on").is_some() { wanted } else { all() },
        })
    }
}
