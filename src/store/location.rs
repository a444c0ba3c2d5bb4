//! Where a store is: a file, or a database on a server.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use sqlx::postgres::PgConnectOptions;

use super::error::OpenError;

/// Names a store. Shown without secrets.
#[derive(Clone)]
pub enum StoreLocation {
    Sqlite(PathBuf),
    /// A database on a server.
    Postgres(Box<Server>),
}

/// Holds how a PostgreSQL server is reached.
#[derive(Clone)]
pub struct Server(pub(super) PgConnectOptions);

impl StoreLocation {
    /// Reads a URL: `sqlite://path` or `postgres://…`.
    pub fn parse(url: &str) -> Result<Self, OpenError> {
        let bad = |why: &str| OpenError::Url { why: why.into() };
        if let Some(rest) = url.strip_prefix("sqlite:") {
            let path = rest.strip_prefix("//").unwrap_or(rest);
            if path.contains(":memory:") {
                return Err(bad("a store in memory forgets its machines: name a file"));
            }
            if path.is_empty() || path.contains('?') {
                return Err(bad("write `sqlite://PATH` and nothing behind the path"));
            }
            return Ok(Self::Sqlite(path.into()));
        }
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            let options = PgConnectOptions::from_str(url)
                .map_err(|error| bad(&format!("the server cannot be read from it ({error})")))?;
            return Ok(Self::Postgres(Box::new(Server(options.application_name("ostler")))));
        }
        Err(bad("it starts neither with `sqlite://` nor with `postgres://`"))
    }

    /// Returns the path of the file whose lock says who may write, for a store that is a file.
    pub(super) fn lock_file(path: &Path) -> PathBuf {
        let mut name = path.as_os_str().to_owned();
        name.push(".lock");
        name.into()
    }
}

impl fmt::Display for StoreLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite://{}", path.display()),
            Self::Postgres(server) => {
                let options = &server.0;
                let database = options.get_database().unwrap_or(options.get_username());
                match options.get_socket() {
                    Some(socket) => write!(f, "postgres://{}/{database}", socket.display()),
                    None => write!(
                        f,
                        "postgres://{}:{}/{database}",
                        options.get_host(),
                        options.get_port()
                    ),
                }
            }
        }
    }
}

impl fmt::Debug for StoreLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_shown_without_its_password() {
        let place =
            StoreLocation::parse("postgres://me:hunter2@db.example:5433/fleet").expect("a URL");
        assert_eq!(place.to_string(), "postgres://db.example:5433/fleet");
        assert!(!format!("{place:?}").contains("hunter2"));
        let place = StoreLocation::parse("sqlite://var/ostler.db").expect("a URL");
        assert_eq!(place.to_string(), "sqlite://var/ostler.db");
    }

    #[test]
    fn a_bad_url_is_refused_with_the_way_out() {
        for (url, hint) in [
            ("mysql://x", "neither with `sqlite://`"),
            ("sqlite::memory:", "name a file"),
            ("sqlite://", "write `sqlite://PATH`"),
            ("sqlite://a.db?mode=ro", "write `sqlite://PATH`"),
            ("postgres://me:hunter2@db:notaport/x", "cannot be read"),
        ] {
            let error = StoreLocation::parse(url).expect_err(url).to_string();
            assert!(error.contains(hint), "{url}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
