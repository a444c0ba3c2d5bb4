//! One text for two engines: a statement is written once, with the few pieces that differ named.
//!
//! | piece | means |
//! |---|---|
//! | `each` | the rows of the JSON array in `$1`, as `j`; a cell is `j.value->>0` |
//! | `each2` | the same of `$2`, as `k` |
//! | `share` | keeps a row as it is until the transaction ends |
//! | `lock` | the same, for one who will change it |
//! | `now` | the database's own clock, in microseconds |

/// Holds a statement in the words of both engines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sql {
    pub(super) sqlite: &'static str,
    pub(super) postgres: &'static str,
}

/// Returns a piece in the words of SQLite.
macro_rules! sqlite_piece {
    (each) => {
        "json_each($1) as j"
    };
    (each2) => {
        "json_each($2) as k"
    };
    (share) => {
        ""
    };
    (lock) => {
        ""
    };
    (now) => {
        "cast(unixepoch('subsec') * 1000000 as integer)"
    };
    ($text:literal) => {
        $text
    };
}

/// Returns a piece in the words of PostgreSQL.
macro_rules! postgres_piece {
    (each) => {
        "json_array_elements($1::json) as j(value)"
    };
    (each2) => {
        "json_array_elements($2::json) as k(value)"
    };
    (share) => {
        "for share"
    };
    (lock) => {
        "for update"
    };
    (now) => {
        "cast(extract(epoch from clock_timestamp()) * 1000000 as bigint)"
    };
    ($text:literal) => {
        $text
    };
}

/// Puts a statement together from texts and pieces.
macro_rules! sql {
    ($($piece:tt)+) => {
        $crate::store::sql::Sql {
            sqlite: concat!($($crate::store::sql::sqlite_piece!($piece)),+),
            postgres: concat!($($crate::store::sql::postgres_piece!($piece)),+),
        }
    };
}

pub(super) use {postgres_piece, sql, sqlite_piece};
