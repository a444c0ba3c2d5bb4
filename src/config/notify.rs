//! `[notify]`: who is told when a person is needed.

use std::time::Duration;

use serde::Serialize;

use super::keys::{Key, Keys, Kind};
use super::nearest::{listed, nearest};
use super::secrets::Secret;
use super::section::Section;
use super::written;

/// What can be told.
const OCCASIONS: [&str; 6] = ["death", "stuck", "breaker", "leak", "queue", "config"];

/// The words of a message where nobody says otherwise.
const USUAL: &str = "[{fleet}] {sentence} {advice}";

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
        "What is told: death (an instance ended as it should not), stuck (an instance makes no \
            progress), breaker (a pool stopped creating), leak (a machine without an owner), queue \
            (a job waits longer than queue_after), config (a reload was refused).",
    )
    .or("[\"death\", \"stuck\", \"breaker\", \"leak\", \"queue\", \"config\"]"),
    Key::new(
        "queue_after",
        Kind::Duration { least: 1 },
        "How long a job that a pool could serve may wait before somebody is told.",
    )
    .or("\"10m\""),
    Key::new(
        "per_hour",
        Kind::Whole { least: 1, most: 10_000 },
        "How many messages go out in an hour at most; the next one says how many did not.",
    )
    .or("20"),
    Key::new(
        "template",
        Kind::Text,
        "The words of a message, with {fleet}, {occasion}, {subject}, {sentence} and {advice}.",
    )
    .or("\"[{fleet}] {sentence} {advice}\""),
]];

/// Holds `[notify]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Notify {
    /// Where the message is posted.
    pub url: Secret,
    /// What is told: all of `death`, `stuck`, `breaker`, `leak`, `queue`, `config`.
    pub on: Vec<String>,
    /// How long a job may wait before somebody is told: `"10m"`.
    #[serde(serialize_with = "written::duration")]
    pub queue_after: Duration,
    /// How many messages go out in an hour: 20.
    pub per_hour: u32,
    /// The words of a message.
    pub template: String,
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
            queue_after: section.duration("queue_after").unwrap_or(Duration::from_mins(10)),
            per_hour: section.whole("per_hour").unwrap_or(20),
            template: section.text_or("template", USUAL),
        })
    }
}
