//! A connection to either engine, behind one small face: run a statement, get its rows.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _};
use sqlx::postgres::{PgConnection, PgPool, PgPoolOptions, PgRow};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool, SqlitePoolOptions,
    SqliteRow, SqliteSynchronous,
};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, Row as _};

use super::Durability;
use super::error::OpenError;
use super::location::StoreLocation;
use super::sql::Sql;

/// How long SQLite waits for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The oldest PostgreSQL we are tested with, in its own counting.
const OLDEST_POSTGRES: i64 = 150_000;

/// Holds one argument of a statement.
#[derive(Clone, Debug)]
pub(super) enum Arg {
    Text(Option<String>),
    Int(Option<i64>),
}

/// Wraps a text argument.
pub(super) fn text(text: impl Into<String>) -> Arg {
    Arg::Text(Some(text.into()))
}

/// Wraps a number argument.
pub(super) fn int(number: i64) -> Arg {
    Arg::Int(Some(number))
}

/// Holds one row of an answer.
pub(super) enum Row {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

impl Row {
    /// Returns a text that may be missing.
    pub(super) fn maybe_text(&self, at: usize) -> Result<Option<String>, sqlx::Error> {
        match self {
            Self::Sqlite(row) => row.try_get(at),
            Self::Postgres(row) => row.try_get(at),
        }
    }

    pub(super) fn text(&self, at: usize) -> Result<String, sqlx::Error> {
        self.maybe_text(at).map(Option::unwrap_or_default)
    }

    /// Returns a number that may be missing.
    pub(super) fn maybe_int(&self, at: usize) -> Result<Option<i64>, sqlx::Error> {
        match self {
            Self::Sqlite(row) => row.try_get(at),
            Self::Postgres(row) => row.try_get(at),
        }
    }

    /// Returns a number; a missing one is zero.
    pub(super) fn int(&self, at: usize) -> Result<i64, sqlx::Error> {
        self.maybe_int(at).map(Option::unwrap_or_default)
    }
}

/// Binds the arguments of a statement.
macro_rules! bound {
    ($text:expr, $args:expr) => {{
        let mut query = sqlx::query($text);
        for arg in $args {
            query = match arg {
                Arg::Text(text) => query.bind(text),
                Arg::Int(number) => query.bind(number),
            };
        }
        query
    }};
}

pub(super) enum Link {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

impl Link {
    pub(super) async fn open(
        place: &StoreLocation,
        durability: Durability,
    ) -> Result<Self, OpenError> {
        let connect = async {
            match place {
                StoreLocation::Sqlite(_) => sqlite(place, durability).await,
                StoreLocation::Postgres(_) => postgres(place).await,
            }
        };
        match tokio::time::timeout(CONNECT_TIMEOUT, connect).await {
            Ok(link) => link,
            Err(_) => Err(OpenError::Away {
                place: place.clone(),
                why: format!("no connection within {} s", CONNECT_TIMEOUT.as_secs()),
            }),
        }
    }

    /// Runs a statement and returns its rows.
    pub(super) async fn all(&mut self, sql: Sql, args: Vec<Arg>) -> Result<Vec<Row>, sqlx::Error> {
        match self {
            Self::Sqlite(link) => {
                let rows = bound!(sql.sqlite, args).fetch_all(link).await?;
                Ok(rows.into_iter().map(Row::Sqlite).collect())
            }
            Self::Postgres(link) => {
                let rows = bound!(sql.postgres, args).fetch_all(link).await?;
                Ok(rows.into_iter().map(Row::Postgres).collect())
            }
        }
    }

    /// Runs a statement and returns its first row, if any.
    pub(super) async fn first(
        &mut self,
        sql: Sql,
        args: Vec<Arg>,
    ) -> Result<Option<Row>, sqlx::Error> {
        Ok(self.all(sql, args).await?.into_iter().next())
    }

    /// Runs a statement and returns how many rows it changed.
    pub(super) async fn run(&mut self, sql: Sql, args: Vec<Arg>) -> Result<u64, sqlx::Error> {
        match self {
            Self::Sqlite(link) => Ok(bound!(sql.sqlite, args).execute(link).await?.rows_affected()),
            Self::Postgres(link) => {
                Ok(bound!(sql.postgres, args).execute(link).await?.rows_affected())
            }
        }
    }

    /// Runs a statement put together from our own names, and returns its rows.
    pub(super) async fn all_text(
        &mut self,
        sql: String,
        args: Vec<Arg>,
    ) -> Result<Vec<Row>, sqlx::Error> {
        match self {
            Self::Sqlite(link) => {
                let rows = bound!(AssertSqlSafe(sql), args).fetch_all(link).await?;
                Ok(rows.into_iter().map(Row::Sqlite).collect())
            }
            Self::Postgres(link) => {
                let rows = bound!(AssertSqlSafe(sql), args).fetch_all(link).await?;
                Ok(rows.into_iter().map(Row::Postgres).collect())
            }
        }
    }

    /// Runs a statement put together from our own names.
    pub(super) async fn run_text(
        &mut self,
        sql: String,
        args: Vec<Arg>,
    ) -> Result<(), sqlx::Error> {
        self.all_text(sql, args).await.map(drop)
    }

    /// Runs a script of several statements.
    pub(super) async fn script(&mut self, script: &'static str) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite(link) => link.execute(sqlx::raw_sql(script)).await.map(drop),
            Self::Postgres(link) => link.execute(sqlx::raw_sql(script)).await.map(drop),
        }
    }

    /// Begins a transaction that will write.
    pub(super) async fn begin(&mut self) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite(link) => link.execute("begin immediate").await.map(drop),
            Self::Postgres(link) => link.execute("begin").await.map(drop),
        }
    }

    /// Begins a transaction that will write and reads in it: one trip to SQLite's thread, not two.
    pub(super) async fn begin_with(
        &mut self,
        sql: Sql,
        args: Vec<Arg>,
    ) -> Result<Vec<Row>, sqlx::Error> {
        match self {
            Self::Sqlite(_) => {
                self.all_text(format!("begin immediate; {}", sql.sqlite), args).await
            }
            Self::Postgres(_) => {
                self.begin().await?;
                self.all(sql, args).await
            }
        }
    }

    /// Runs statements of one argument each and makes the transaction durable: on SQLite, where
    /// a trip to its thread costs more than a statement, in a single trip.
    pub(super) async fn commit_with(&mut self, steps: Vec<(Sql, Arg)>) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite(_) => {
                let mut script = String::new();
                for (number, (sql, _)) in (1..).zip(&steps) {
                    script += &sql.sqlite.replace("$1", &format!("${number}"));
                    script += "; ";
                }
                script += "commit";
                let args = steps.into_iter().map(|(_, arg)| arg).collect();
                self.run_text(script, args).await
            }
            Self::Postgres(_) => {
                for (sql, arg) in steps {
                    self.run(sql, vec![arg]).await?;
                }
                self.commit().await
            }
        }
    }

    /// Makes the transaction durable.
    pub(super) async fn commit(&mut self) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite(link) => link.execute("commit").await.map(drop),
            Self::Postgres(link) => link.execute("commit").await.map(drop),
        }
    }

    pub(super) async fn rollback(&mut self) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite(link) => link.execute("rollback").await.map(drop),
            Self::Postgres(link) => link.execute("rollback").await.map(drop),
        }
    }

    /// Closes the connection; one that does not answer is left to the system.
    pub(super) async fn close(self) {
        let closing = async {
            match self {
                Self::Sqlite(link) => link.close().await,
                Self::Postgres(link) => link.close().await,
            }
        };
        if let Ok(Err(error)) = tokio::time::timeout(Duration::from_secs(2), closing).await {
            tracing::debug!(error = %error, "a connection to the store closed badly");
        }
    }
}

fn sqlite_options(place: &StoreLocation) -> Result<SqliteConnectOptions, OpenError> {
    let StoreLocation::Sqlite(path) = place else {
        return Err(OpenError::Url { why: "expected a SQLite store".into() });
    };
    Ok(SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(BUSY_TIMEOUT)
        .foreign_keys(true)
        .disable_statement_logging())
}

async fn sqlite(place: &StoreLocation, durability: Durability) -> Result<Link, OpenError> {
    let synchronous = match durability {
        Durability::Full => SqliteSynchronous::Full,
        Durability::Normal => SqliteSynchronous::Normal,
    };
    if let StoreLocation::Sqlite(path) = place {
        // Log tails may hold anything, so a new file is ours alone. Whatever hinders us here
        // hinders SQLite next, which says it better.
        drop(File::options().write(true).create_new(true).mode(0o600).open(path));
    }
    let options = sqlite_options(place)?
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(synchronous);
    options.connect().await.map(Link::Sqlite).map_err(|error| OpenError::failed(place, error))
}

async fn postgres(place: &StoreLocation) -> Result<Link, OpenError> {
    const VERSION: Sql =
        super::sql::sql!("select cast(current_setting('server_version_num') as bigint)");
    let StoreLocation::Postgres(server) = place else {
        return Err(OpenError::Url { why: "expected a PostgreSQL store".into() });
    };
    let failed = |error| OpenError::failed(place, error);
    let options = server.0.clone().disable_statement_logging();
    let mut link = Link::Postgres(options.connect().await.map_err(failed)?);
    let version = link.first(VERSION, Vec::new()).await.map_err(failed)?;
    let version = version.map_or(Ok(0), |row| row.int(0)).map_err(failed)?;
    if version < OLDEST_POSTGRES {
        return Err(OpenError::Broken {
            place: place.clone(),
            what: format!("runs PostgreSQL {}", version / 10_000),
            advice: "upgrade the server to PostgreSQL 15 or newer",
        });
    }
    link.script(SESSION_SETTINGS).await.map_err(failed)?;
    Ok(link)
}

/// A writer that hangs must not hold the lease row against its successor for longer than the
/// shortest lease, and a commit that is answered must be durable even where the server's default
/// says otherwise.
const SESSION_SETTINGS: &str = "set idle_in_transaction_session_timeout = '3s'; set lock_timeout = '10s'; \
     select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit') = 'off'";

/// Is a handful of connections that read.
#[derive(Clone)]
pub(super) enum Readers {
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

impl Readers {
    /// Makes the pool; connections come about when they are needed.
    pub(super) async fn open(place: &StoreLocation, size: u32) -> Result<Self, OpenError> {
        match place {
            StoreLocation::Sqlite(_) => {
                let options = sqlite_options(place)?.read_only(true);
                let pool =
                    SqlitePoolOptions::new().max_connections(size).acquire_timeout(CONNECT_TIMEOUT);
                let pool = pool.connect_with(options).await;
                pool.map(Self::Sqlite).map_err(|error| OpenError::failed(place, error))
            }
            StoreLocation::Postgres(server) => {
                let options = server.0.clone().disable_statement_logging();
                let pool =
                    PgPoolOptions::new().max_connections(size).acquire_timeout(CONNECT_TIMEOUT);
                Ok(Self::Postgres(pool.connect_lazy_with(options)))
            }
        }
    }

    /// Runs a reading statement and turns each row into what it stands for as it arrives: SQLite
    /// copies every value of a row, and ten thousand copies kept until the last one came would
    /// cost more memory than the fleet they are about.
    pub(super) async fn each<T>(
        &self,
        sql: Sql,
        args: Vec<Arg>,
        read: impl Fn(&Row) -> Result<T, sqlx::Error>,
    ) -> Result<Vec<T>, sqlx::Error> {
        match self {
            Self::Sqlite(pool) => {
                let rows = bound!(sql.sqlite, args).fetch(pool);
                rows.map(|row| read(&Row::Sqlite(row?))).try_collect().await
            }
            Self::Postgres(pool) => {
                let rows = bound!(sql.postgres, args).fetch(pool);
                rows.map(|row| read(&Row::Postgres(row?))).try_collect().await
            }
        }
    }

    /// Closes all of them.
    pub(super) async fn close(&self) {
        match self {
            Self::Sqlite(pool) => pool.close().await,
            Self::Postgres(pool) => pool.close().await,
        }
    }
}
