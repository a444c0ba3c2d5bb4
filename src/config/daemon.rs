//! `[daemon]` and `[store]`: the daemon itself, and where its records are.

use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use serde_json::Value as Json;

use super::declare::{Key, ValueKind, at_least, table};
use super::document::Node;
use super::secrets::Secret;
use super::section::Section;
use super::values::{Field, choice};

/// Tombstones and delivery ids live this long whatever `retention` says.
const MIN_RETENTION: Duration = Duration::from_hours(8 * 24);

table! {
    /// The daemon itself.
    pub struct Daemon {
        /// Shown to people; what tells installations apart is an id in the store.
        pub name: String = "ostler";
        /// Where the daemon keeps what it creates itself; relative to the working directory.
        pub state_dir: PathBuf = "var", kind = ValueKind::OwnPath;
    }
}

table! {
    /// Where the records are kept.
    pub struct Store, check = Store::check {
        /// Where the records are: sqlite://PATH or postgres://HOST/NAME; a secret when it contains a
        /// password.
        pub url: StoreUrl = "sqlite://STATE_DIR/ostler.db" => "sqlite://var/ostler.db";
        /// How long a daemon that fell silent remains the leader.
        pub lease: Duration = "15s", kind = at_least(3);
        /// The key that seals what must not be readable in the store: 32 bytes as base64 or hex. With
        /// SQLite one is created in state_dir when it is left out; PostgreSQL needs it.
        pub seal_key: Option<Secret> => { file = "seal.key" };
        /// How long the history of what is gone is kept.
        pub retention: Duration = "30d", kind = at_least(60),
            check = Some(check_retention);
        /// SQLite only: whether a commit survives a power cut (full) or only a crash of the daemon
        /// (normal).
        pub synchronous: Synchronous = "full";
    }
}

/// Holds the address of the store, which may contain a password.
#[derive(Clone, Debug, PartialEq)]
pub enum StoreUrl {
    /// Written in the file.
    Written(String),
    Kept(Secret),
}

/// Says what a commit in `SQLite` survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synchronous {
    Full,
    /// A crash of the daemon.
    Normal,
}

choice!(Synchronous { Full = "full", Normal = "normal" });

impl Field for StoreUrl {
    const KIND: ValueKind = ValueKind::TextOrSecret;

    fn read(section: &Section<'_>, key: &Key, node: &Node) -> Option<Self> {
        match node.value.text() {
            Some(text) => Some(Self::Written(text.to_owned())),
            None => Secret::read(section, key, node).map(Self::Kept),
        }
    }

    fn show(&self) -> Json {
        match self {
            Self::Written(text) => text.as_str().into(),
            Self::Kept(secret) => secret.show(),
        }
    }
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
    /// Returns the bytes of the sealing key, if one is configured.
    pub fn sealing_key(&self) -> Option<[u8; 32]> {
        self.seal_key.as_ref().and_then(|key| sealing_key(key.expose()))
    }

    fn check(&self, section: &Section<'_>) {
        let url = self.url.expose();
        let (sqlite, postgres) = (url.starts_with("sqlite:"), self.url.is_postgres());
        let written = matches!(self.url, StoreUrl::Written(_));
        // Away from the machine the URL may be a secret, which then reads as empty.
        if !sqlite && !postgres && (written || section.cx.inspects()) {
            section.error(
                "url",
                "`store.url` is neither SQLite nor PostgreSQL",
                "write \"sqlite://var/ostler.db\", or \"postgres://user@host/name\" with the \
                 password kept in { env = \"NAME\" }",
            );
        }
        if sqlite && (url.contains('?') || url.contains(":memory:") || url.ends_with("sqlite://")) {
            section.error(
                "url",
                "`store.url` must name a file and nothing behind it",
                "write \"sqlite://var/ostler.db\"; a store in memory would forget its machines",
            );
        }
        let rest = url.split_once("://").map_or("", |(_, rest)| rest);
        let user = rest.rsplit_once('@').map_or("", |(user, _)| user);
        if written && (user.contains(':') || rest.contains("password=")) {
            section.error(
                "url",
                "`store.url` contains a password; secrets are only named in the file",
                "put the whole URL into a variable and write url = { env = \"OSTLER_STORE_URL\" }",
            );
        }
        if postgres && section.node("seal_key").is_none() {
            section.error(
                "seal_key",
                "PostgreSQL needs `store.seal_key`: several daemons share one store, so none may \
                 invent a key of its own",
                "openssl rand -base64 32 > seal.key, and write seal_key = { file = \"seal.key\" }",
            );
        }
        if postgres && section.wrote("synchronous") {
            section.error(
                "synchronous",
                "`store.synchronous` is for SQLite; PostgreSQL has its own setting",
                "remove it, and set synchronous_commit on the server if you must",
            );
        }
        if section.cx.inspects() && self.seal_key.is_some() && self.sealing_key().is_none() {
            section.error(
                "seal_key",
                "`store.seal_key` is not 32 bytes as base64 or hex",
                "create one with: openssl rand -base64 32",
            );
        }
    }
}

fn check_retention(section: &Section<'_>, key: &'static Key, node: &Node) {
    if Duration::read(section, key, node).is_some_and(|retention| retention < MIN_RETENTION) {
        section.warn(
            "retention",
            "`store.retention` is below 8 days; finished jobs and delivery ids are kept 8 days \
             anyway, or a late webhook could bring a finished job back",
            "nothing to do if you only want shorter timelines",
        );
    }
}

fn sealing_key(text: &str) -> Option<[u8; 32]> {
    let text = text.trim();
    if text.len() == 64 {
        let byte =
            |at: usize| text.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
        let bytes: Option<Vec<u8>> = (0..32).map(|at| byte(at * 2)).collect();
        return bytes?.try_into().ok();
    }
    base64::engine::general_purpose::STANDARD.decode(text).ok()?.try_into().ok()
}
