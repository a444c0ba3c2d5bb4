//! Brings a schema up to date: numbered steps, forward only, all or none.
//!
//! A new store gets every step when it is opened. A store that an older program may still write to is
//! upgraded by the daemon that takes the lease, in the transaction that takes it: until then the older
//! program goes on undisturbed, and from then on its epoch is over.

use super::error::OpenError;
use super::link::{Link, int};
use super::place::Place;
use super::sql::{Sql, sql};

/// The steps, oldest first; the n-th makes schema n. Steps are added, never changed.
const STEPS: &[Sql] = &[
    Sql {
        sqlite: include_str!("sqlite/0001_records.sql"),
        postgres: include_str!("postgres/0001_records.sql"),
    },
    Sql {
        sqlite: include_str!("sqlite/0002_plain_names.sql"),
        postgres: include_str!("postgres/0002_plain_names.sql"),
    },
];

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
pub(super) async fn open(link: &mut Link, place: &Place) -> Result<(), OpenError> {
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
pub(super) async fn up(link: &mut Link, place: &Place) -> Result<(), OpenError> {
    let failed = |error| OpenError::failed(place, error);
    link.begin().await.map_err(failed)?;
    let found = prepare(link).await.map_err(failed)?;
    refuse_newer(found, place)?;
    upgrade(link, found, place).await.map_err(failed)?;
    link.commit().await.map_err(failed)
}

/// Refuses a store whose schema this program does not know.
pub(super) fn refuse_newer(found: i64, place: &Place) -> Result<(), OpenError> {
    if found > NEWEST {
        return Err(OpenError::Newer { place: place.clone(), found, known: NEWEST });
    }
    Ok(())
}

/// Applies the steps after `found`, inside the caller's transaction.
pub(super) async fn upgrade(link: &mut Link, found: i64, place: &Place) -> Result<(), sqlx::Error> {
    const RECORD_STEP: Sql =
        sql!("insert into ostler_schema (version, applied_at) values ($1, " now ")");
    for (number, step) in (1..).zip(STEPS).skip_while(|(n, _)| *n <= found) {
        let script = match link {
            Link::Sqlite(_) => step.sqlite,
            Link::Postgres(_) => step.postgres,
        };
        link.script(script).await?;
        link.run(RECORD_STEP, vec![int(number)]).await?;
        tracing::info!(store = %place, "store `{place}`: upgraded to schema {number}");
    }
    Ok(())
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
