//! `[store]`: where the records are kept.

use std::time::Duration;

use serde::Serialize;

use super::daemon::Daemon;
use super::keys::{Key, Keys, Kind};
use super::secrets::Secret;
use super::section::Section;
use super::written;

/// Tombstones and delivery ids live this long whatever `retention` says.
const EIGHT_DAYS: Duration = Duration::from_hours(8 * 24);

/// The keys of `[store]`.
pub(crate) const KEYS: Keys = &[&[
    Key::new(
        "url",
        Kind::TextOrSecret,
        "Where the records are: sqlite://PATH or postgres://HOST/NAME; a secret \
            when it holds a password.",
    )
    .or("\"sqlite://STATE_DIR/ostler.db\""),
    Key::new(
        "lease",
        Kind::Duration { least: 3 },
        "How long a daemon that fell silent stays the one in charge.",
    )
    .or("\"15s\""),
    Key::new(
        "seal_key",
        Kind::Secret,
        "The key that seals what must not be readable in the store: 32 bytes as \
            base64 or hex. With SQLite one is made in state_dir when it is left out.",
    ),
    Key::new(
        "retention",
        Kind::Duration { least: 60 },
        "How long the history of what is gone is kept.",
    )
    .or("\"30d\""),
    Key::new(
        "synchronous",
        Kind::Choice(&["full", "normal"]),
        "SQLite only: whether a commit survives a power cut (full) or only a \
            crash of the daemon (normal).",
    )
    .or("\"full\""),
]];

/// Holds `[store]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Store {
    /// Where the records are.
    pub url: StoreUrl,
    /// How long a silent daemon stays in charge: `"15s"`.
    #[serde(serialize_with = "written::duration")]
    pub lease: Duration,
    /// Seals what must not be readable in the store.
    pub seal_key: Option<Secret>,
    /// How long the history of what is gone is kept: `"30d"`.
    #[serde(serialize_with = "written::duration")]
    pub retention: Duration,
    /// What a commit in `SQLite` survives: `"full"`.
    pub synchronous: Synchronous,
}

/// Holds the address of the store, which may carry a password.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum StoreUrl {
    /// Written in the file.
    Written(String),
    Kept(Secret),
}

/// Says what a commit in `SQLite` survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Synchronous {
    Full,
    /// A crash of the daemon.
    Normal,
}

impl StoreUrl {
    /// Returns the address itself.
    pub fn expose(&self) -> &str {
        match self {
            Self::Written(text) => text,
            Self::Kept(secret) => secret.expose(),
        }
    }

    /// Returns whether it is a `PostgreSQL` server.
    pub fn is_postgres(&self) -> bool {
        self.expose().starts_with("postgres://") || self.expose().starts_with("postgresql://")
    }
}

impl Store {
    pub(crate) fn read(section: &Section<'_>, daemon: &Daemon) -> Self {
        let standard =
            || StoreUrl::Written(format!("sqlite://{}/ostler.db", daemon.state_dir.display()));
        let url = match section.text("url") {
            Some(text) => StoreUrl::Written(text.to_owned()),
            None => section.secret("url").map_or_else(standard, StoreUrl::Kept),
        };
        let store = Self {
            url,
            lease: section.duration("lease").unwrap_or(Duration::from_secs(15)),
            seal_key: section.secret("seal_key"),
            retention: section.duration("retention").unwrap_or(Duration::from_hours(30 * 24)),
            synchronous: if section.text("synchronous") == Some("normal") {
                Synchronous::Normal
            } else {
                Synchronous::Full
            },
        };
        store.check(section);
        store
    }

    fn check(&self, section: &Section<'_>) {
        let url = self.url.expose();
        let sqlite = url.starts_with("sqlite://") || url.starts_with("sqlite:");
        if !sqlite
            && !self.url.is_postgres()
            && section.cx.looks() | matches!(self.url, StoreUrl::Written(_))
        {
            section.note(
                section.error("url", "`store.url` is neither SQLite nor PostgreSQL").help(
                    "write \"sqlite://var/ostler.db\", or \"postgres://user@host/name\" with \
                            the password kept in { env = \"NAME\" }",
                ),
            );
        }
        if sqlite && (url.contains('?') || url.contains(":memory:") || url.ends_with("sqlite://")) {
            section.note(
                section.error("url", "`store.url` must name a file and nothing behind it").help(
                    "write \"sqlite://var/ostler.db\"; a store in memory would forget its machines",
                ),
            );
        }
        let rest = url.split_once("://").map_or("", |(_, rest)| rest);
        let user = rest.rsplit_once('@').map_or("", |(user, _)| user);
        let password = user.contains(':') || rest.contains("password=");
        if password && matches!(self.url, StoreUrl::Written(_)) {
            section.note(
                section
                    .error(
                        "url",
                        "`store.url` holds a password; secrets are only named in the file",
                    )
                    .help(
                        "put the whole URL into a variable and write url = { env = \
                            \"OSTLER_STORE_URL\" }",
                    ),
            );
        }
        if self.url.is_postgres() && section.node("seal_key").is_none() {
            section.note(
                section
                    .error(
                        "seal_key",
                        "PostgreSQL needs `store.seal_key`: several daemons share one store, so \
                        none may make up a key of its own",
                    )
                    .help(
                        "openssl rand -base64 32 > seal.key, and write seal_key = { file = \
                            \"seal.key\" }",
                    ),
            );
        }
        if self.url.is_postgres() && section.wrote("synchronous") {
            section.note(
                section
                    .error(
                        "synchronous",
                        "`store.synchronous` is for SQLite; PostgreSQL has its own setting",
                    )
                    .help("remove it, and set synchronous_commit on the server if you must"),
            );
        }
        if self.retention < EIGHT_DAYS {
            section.note(
                section
                    .warning(
                        "retention",
                        "`store.retention` is below 8 days; finished jobs and delivery ids are \
                        kept 8 days anyway, or a late webhook could bring a finished job back",
                    )
                    .help("nothing to do if you only want shorter timelines"),
            );
        }
        self.check_key(section);
    }

    fn check_key(&self, section: &Section<'_>) {
        let Some(key) = self.seal_key.as_ref().filter(|_| section.cx.looks()) else { return };
        if sealing_key(key.expose()).is_none() {
            section.note(
                section
                    .error("seal_key", "`store.seal_key` is not 32 bytes as base64 or hex")
                    .help("make one with: openssl rand -base64 32"),
            );
        }
    }

    /// Returns the bytes of the sealing key, if one is configured.
    pub fn sealing_key(&self) -> Option<[u8; 32]> {
        self.seal_key.as_ref().and_then(|key| sealing_key(key.expose()))
    }
}

fn sealing_key(text: &str) -> Option<[u8; 32]> {
    use base64::Engine;
    let text = text.trim();
    if text.len() == 64 {
        let byte =
            |at: usize| text.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
        let bytes: Option<Vec<u8>> = (0..32).map(|at| byte(at * 2)).collect();
        return bytes?.try_into().ok();
    }
    base64::engine::general_purpose::STANDARD.decode(text).ok()?.try_into().ok()
}
