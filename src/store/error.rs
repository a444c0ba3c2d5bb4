//! Why a store could not be opened, backed up or restored, with a fix for each cause.

use super::location::StoreLocation;
use crate::errors::chain;

/// Why a store cannot be opened, backed up or restored. The variants differ in what the caller does.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL names no store.
    #[error("store URL is not usable: {why}")]
    Url {
        /// What is wrong and what to write.
        why: String,
    },
    /// A newer program wrote it.
    #[error(
        "store `{place}` has schema {found} and this program knows {known}: \
         run the newer ostler, or restore a backup made before the upgrade"
    )]
    Newer { place: StoreLocation, found: i64, known: i64 },
    /// It is there and unusable.
    #[error("store `{place}` {what}: {advice}")]
    Broken {
        place: StoreLocation,
        /// What is wrong with it.
        what: String,
        advice: &'static str,
    },
    /// It did not answer; worth repeating.
    #[error("store `{place}` did not answer: {why}")]
    Away {
        place: StoreLocation,
        /// What it said instead.
        why: String,
    },
    /// A file could not be read or written.
    #[error("cannot {what} `{path}`: {why}")]
    File {
        what: &'static str,
        path: String,
        /// What the system said.
        why: String,
    },
    /// The command would destroy something.
    #[error("will not {what}: {advice}")]
    Refused {
        what: String,
        /// What to do instead.
        advice: String,
    },
}

impl OpenError {
    /// Explains what the database said.
    #[expect(clippy::needless_pass_by_value, reason = "it is handed to `map_err`")]
    pub(super) fn failed(place: &StoreLocation, error: sqlx::Error) -> Self {
        let why = describe(&error);
        let broken = |what: &str, advice| Self::Broken {
            place: place.clone(),
            what: format!("{what} ({why})"),
            advice,
        };
        match code(&error).as_deref() {
            Some("11" | "26" | "267" | "779") => broken(
                "is damaged or is no SQLite file",
                "put the file aside and restore the last backup with `ostler store restore`",
            ),
            Some("8" | "264" | "776" | "1032" | "1544") => broken(
                "is read-only",
                "make the file and its folder writable for the user that runs ostler",
            ),
            Some("14" | "526" | "1038" | "1294") => broken(
                "cannot be opened",
                "create its folder, and make it readable and writable for the user that runs ostler",
            ),
            Some("13") => broken("has no room left", "free space on its disk"),
            Some("3D000") => {
                broken("does not exist", "create the database, empty, and start again")
            }
            Some("28000" | "28P01") => {
                broken("denies access", "check user, password and pg_hba.conf")
            }
            Some("42501") => {
                broken("denies a right", "make the user owner of the database's schema")
            }
            Some(_) | None => Self::Away { place: place.clone(), why },
        }
    }

    /// Explains a failed operation on a file.
    pub(super) fn file(what: &'static str, path: &std::path::Path, why: &std::io::Error) -> Self {
        Self::File { what, path: path.display().to_string(), why: why.to_string() }
    }
}

/// Returns the database's code of an error, if it came from the database.
pub(super) fn code(error: &sqlx::Error) -> Option<String> {
    error.as_database_error().and_then(sqlx::error::DatabaseError::code).map(Into::into)
}

/// Tells whether the fault is in the saved data, so that the other saves of the batch can succeed.
pub(super) fn is_about_the_data(error: &sqlx::Error) -> bool {
    if matches!(error, sqlx::Error::Encode(_) | sqlx::Error::InvalidArgument(_)) {
        return true;
    }
    match code(error) {
        // PostgreSQL: data exceptions and broken constraints.
        Some(code) if code.len() == 5 => code.starts_with("22") || code.starts_with("23"),
        // SQLite: generic (malformed JSON among them), too big, constraint, mismatch.
        Some(code) => code.parse::<u32>().is_ok_and(|code| matches!(code & 0xff, 1 | 18 | 19 | 20)),
        None => false,
    }
}

/// Returns an error with its causes in one line.
pub(super) fn describe(error: &sqlx::Error) -> String {
    if let sqlx::Error::Database(error) = error {
        return match error.code() {
            Some(code) => format!("{} [{code}]", error.message()),
            None => error.message().to_owned(),
        };
    }
    chain(error)
}
