//! Brings a schema up to date: numbered, forward only, all steps or none.

use super::error::OpenError;
use super::link::{Link, int};
use super::place::Place;
use super::sql::{Sql, sql};

/// The steps, oldest first; the n-th makes schema n. Steps are added, never changed.
pub(super) const STEPS: &[Sql] = &[Sql {
    sqlite: include_str!("sqlite/0001_records.sql"),
    postgres: include_str!("postgres/0001_records.sql"),
}];

/// The number of the newest schema.
pub const SCHEMA: usize = STEPS.len();

/// Keeps two starting daemons from migrating one PostgreSQL database at once.
const ONE_AT_A_TIME: Sql = Sql {
    sqlite: "select 0",
    postgres: "select cast(1 as bigint) from pg_advisory_xact_lock(7036874417766)",
};

/// Brings the schema to the newest we know; refuses one that is newer.
pub(super) async fn up(link: &mut Link, place: &Place) -> Result<(), OpenError> {
    up_to(link, place, STEPS.len()).await
}

/// Brings the schema to one of the versions we know.
pub(super) async fn up_to(link: &mut Link, place: &Place, version: usize) -> Result<(), OpenError> {
    let known = i64::try_from(STEPS.len()).unwrap_or(i64::MAX);
    let failed = |error| OpenError::failed(place, error);
    link.begin().await.map_err(failed)?;
    let found = prepare(link).await.map_err(failed)?;
    if found > known {
        return Err(OpenError::Newer { place: place.clone(), found, known });
    }
    for (number, step) in (1..).zip(STEPS).take(version).skip_while(|(n, _)| *n <= found) {
        apply(link, number, *step).await.map_err(failed)?;
        tracing::info!(store = %place, "store `{place}` has schema {number} now");
    }
    link.commit().await.map_err(failed)
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

async fn apply(link: &mut Link, number: i64, step: Sql) -> Result<(), sqlx::Error> {
    const RECORD_STEP: Sql =
        sql!("insert into ostler_schema (version, applied_at) values ($1, " now ")");
    let script = match link {
        Link::Sqlite(_) => step.sqlite,
        Link::Postgres(_) => step.postgres,
    };
    link.script(script).await?;
    link.run(RECORD_STEP, vec![int(number)]).await.map(drop)
}
