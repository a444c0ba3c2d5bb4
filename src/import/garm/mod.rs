//! From a GARM installation to configuration files: pools, entities, endpoints, providers.
//!
//! ```text
//!  SQLite file ──▶ db ───┐
//!                        ├──▶ rows, as JSON ──▶ survey ──▶ write ──▶ ostler.toml, and what is lost
//!  REST API ─────▶ rest ─┘                         ▲
//!  GARM's own config.toml ──▶ providers ───────────┘
//! ```
//!
//! GARM is only read. Columns and fields come and go between its releases, so each is looked for and
//! none is needed. Its secrets are sealed with a passphrase of its own and are not read at all: they
//! become references that the operator fills. What has no equivalent is said, pool by pool.

mod db;
mod providers;
mod rest;
mod survey;
mod write;

pub use db::from_file;
pub use providers::{GarmProvider, providers};
pub use rest::from_url;
pub use survey::{Rows, Survey};
pub use write::{Written, write};

/// Tells why a GARM installation cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("cannot read `{path}` as GARM's SQLite database: {why}")]
    Database { path: String, why: String },
    #[error("cannot read `{url}`: {why}")]
    Api { url: String, why: String },
    #[error("cannot read `{path}` as GARM's configuration: {why}")]
    Config { path: String, why: String },
}
