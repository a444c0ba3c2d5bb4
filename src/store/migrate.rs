//! Brings a schema up to date: numbered steps, forward only, all or none.
//!
//! A new store gets every step when it is opened. A store that an older program may still write to is
//! upgraded by the daemon that takes the lease, in the transaction that takes it: until then the older
//! program goes on undisturbed, and from then on its epoch is over.
//!
//! sqlx's migrator makes the steps and checks that those already made are still what they were. It may
//! neither lock nor begin transactions of its own: its lock outlives a transaction on PostgreSQL, and
//! a step that is durable before the lease is ours would upgrade a store under an older program. Its
//! table says *what* was made; `ostler_schema` says *how far*, as it did before there was a migrator,
//! because that is where older programs look before they refuse.

use std::borrow::Cow;

use sqlx::SqlSafeStr as _;
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};

use super::error::OpenError;
use super::link::{Link, int};
use super::location::StoreLocation;
use super::sql::{Sql, sql};

/// The steps, oldest first; the n-th makes schema n. Steps are added, never changed.
const STEPS: &[(&str, Sql)] = &[
    (
        "records",
        Sql {
            sqlite: include_str!("sqlite/0001_records.sql"),
            postgres: include_str!("postgres/0001_records.sql"),
        },
    ),
    (
        "plain names",
        Sql {
            sqlite: include_str!("sqlite/0002_plain_names.sql"),
            postgres: include_str!("postgres/0002_plain_names.sql"),
        },
    ),
];

/// The migrator's table; its usual name may belong to another program in the same database.
const STEPS_TABLE: &str = "ostler_migrations";

/// The number of the newest schema.
pub const SCHEMA: usize = STEPS.len();

/// The same, as the database counts.
#[expect(clippy::cast_possible_wrap, reason = "there are a handful of steps")]
pub(super) const NEWEST: i64 = SCHEMA as i64;

/// Keeps two starting daemons from migrating one PostgreSQL database at once.
const ONE_AT_A_TIME: Sql = Sql {
    sqlite: "select 0",
    postgres: "select cast(1 as bigint) from pg_advisory_xact_lock(7036874417766)",
};

/// Prepares a store that is being opened: fills an empty one, leaves an older one to the daemon that
/// takes its lease, and refuses a newer one.
pub(super) async fn open(link: &mut Link, place: &StoreLocation) -> Result<(), OpenError> {
    let failed = |error| OpenError::failed(place, error);
    link.begin().await.map_err(failed)?;
    let found = prepare(link).await.map_err(failed)?;
    refuse_newer(found, place)?;
    if found == 0 {
        upgrade(link, found, place).await.map_err(failed)?;
    }
    link.commit().await.map_err(failed)
}

/// Brings a store that no daemon uses to the newest schema.
pub(super) async fn up(link: &mut Link, place: &StoreLocation) -> Result<(), OpenError> {
    let failed = |error| OpenError::failed(place, error);
    link.begin().await.map_err(failed)?;
    let found = prepare(link).await.map_err(failed)?;
    refuse_newer(found, place)?;
    upgrade(link, found, place).await.map_err(failed)?;
    link.commit().await.map_err(failed)
}

/// Refuses a store whose schema this program does not know.
pub(super) fn refuse_newer(found: i64, place: &StoreLocation) -> Result<(), OpenError> {
    if found > NEWEST {
        return Err(OpenError::Newer { place: place.clone(), found, known: NEWEST });
    }
    Ok(())
}

/// Applies the steps after `found`, inside the caller's transaction.
pub(super) async fn upgrade(
    link: &mut Link,
    found: i64,
    place: &StoreLocation,
) -> Result<(), sqlx::Error> {
    const RECORD_STEP: Sql =
        sql!("insert into ostler_schema (version, applied_at) values ($1, " now ")");
    if found >= NEWEST {
        return Ok(());
    }
    let steps = migrator(link);
    // Steps that a program without the migrator made are in `ostler_schema` alone: they are skipped.
    // `run_direct`, because a future that holds `run` is not `Send` (sqlx has it for that reason).
    let applied = match link {
        Link::Sqlite(link) => match steps.run_direct(Some(found), link, true).await {
            Ok(()) => steps.run_direct(None, link, false).await,
            failed => failed,
        },
        Link::Postgres(link) => match steps.run_direct(Some(found), link, true).await {
            Ok(()) => steps.run_direct(None, link, false).await,
            failed => failed,
        },
    };
    applied.map_err(of_database)?;
    for number in found + 1..=NEWEST {
        link.run(RECORD_STEP, vec![int(number)]).await?;
        tracing::info!(store = %place, "store `{place}`: upgraded to schema {number}");
    }
    Ok(())
}

/// Returns the steps for an engine, to be run inside a transaction that is the caller's.
fn migrator(link: &Link) -> Migrator {
    let steps = (1..).zip(STEPS).map(|(version, (name, step))| {
        let script = match link {
            Link::Sqlite(_) => step.sqlite,
            Link::Postgres(_) => step.postgres,
        };
        let no_transaction = true;
        let (name, kind) = (Cow::Borrowed(*name), MigrationType::Simple);
        Migration::new(version, name, kind, script.into_sql_str(), no_transaction)
    });
    let mut migrator = Migrator::with_migrations(steps.collect());
    migrator.set_locking(false);
    migrator.dangerous_set_table_name(STEPS_TABLE);
    migrator
}

/// Returns what the database said, so that its codes still lead to the way out.
fn of_database(error: MigrateError) -> sqlx::Error {
    if let MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) = error {
        return error;
    }
    error.into()
}

/// Returns the schema's number; zero for an empty database.
async fn prepare(link: &mut Link) -> Result<i64, sqlx::Error> {
    const TABLE: Sql = sql!(
        "create table if not exists ostler_schema (version bigint primary key, applied_at bigint not null)"
    );
    link.all(ONE_AT_A_TIME, Vec::new()).await?;
    link.run(TABLE, Vec::new()).await?;
    version(link).await
}

/// Reads the schema's number.
pub(super) async fn version(link: &mut Link) -> Result<i64, sqlx::Error> {
    const VERSION: Sql = sql!("select max(version) from ostler_schema");
    link.first(VERSION, Vec::new()).await?.map_or(Ok(0), |row| row.int(0))
}
