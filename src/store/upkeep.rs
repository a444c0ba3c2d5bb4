//! Maintenance of a store: statistics, pruning, vacuum.

use std::time::Duration;

use ostler_actors::model::Timestamp;
use ostler_actors::ports::StoreError;
use serde::Serialize;
use tokio::sync::oneshot;

use super::error::{OpenError, describe};
use super::link::{Link, int, text};
use super::location::StoreLocation;
use super::rows::{json, micros};
use super::sql::{Sql, sql};
use super::writer::WriterRequest;
use super::{Durability, SqlStore, lease_row, migrate};

/// Deliveries and tombstones are remembered at least this long: a forge redelivers for days.
pub const DELIVERY_RETENTION: Duration = Duration::from_hours(8 * 24);

/// How many marks of ledger saves are kept; the ledger repeats only its last.
const LEDGER_WRITES: i64 = 1_000;

/// What is in a store.
#[derive(Clone, Debug, Serialize)]
pub struct Stats {
    /// Where it is, without secrets.
    pub store: String,
    /// The number of its schema.
    pub schema: i64,
    pub controller: String,
    /// The epoch that may write.
    pub epoch: u64,
    /// Bytes on disk, what is not yet merged included.
    pub bytes: i64,
    pub rows: Vec<(String, i64)>,
}

/// What a round of pruning deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Instances, with their timelines and the records of their ends.
    pub instances: u64,
    /// Jobs, with their timelines.
    pub jobs: u64,
    pub deliveries: u64,
    pub tombstones: u64,
    pub events: u64,
}

impl Pruned {
    /// Returns whether there was nothing left to take.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// What may be deleted.
#[derive(Clone, Copy, Debug)]
pub(super) struct PruneOrder {
    rows_before: i64,
    memory_before: i64,
    limit: i64,
}

impl SqlStore {
    /// Deletes what ended longer than `retention` ago, at most `limit` rows of a kind.
    ///
    /// Deliveries and tombstones stay at least [`DELIVERY_RETENTION`], whatever the retention.
    pub async fn prune(
        &self,
        retention: Duration,
        now: Timestamp,
        limit: u32,
    ) -> Result<Pruned, StoreError> {
        let before = |age: Duration| micros(now.checked_sub(age).unwrap_or(Timestamp::MIN));
        let order = PruneOrder {
            rows_before: before(retention),
            memory_before: before(retention.max(DELIVERY_RETENTION)),
            limit: limit.into(),
        };
        let (answer, answered) = oneshot::channel();
        let gone = || StoreError::Unavailable("the store's writer has stopped".into());
        self.queue.send(WriterRequest::Prune { order, answer }).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?.map_err(StoreError::Unavailable)
    }
}

/// Deletes what the order names, in one transaction.
pub(super) async fn prune(link: &mut Link, order: PruneOrder) -> Result<Pruned, sqlx::Error> {
    const INSTANCES: Sql = sql!(
        "select id from instances where state = 'deleted' and since < $1 order by since, id limit $2"
    );
    const JOBS: Sql = sql!(
        "select forge, number from jobs where open = 0 and over_at < $1 order by over_at limit $2"
    );
    const EVENTS: Sql = sql!(
        "delete from events where kind = 'pool' and seq in
           (select seq from events where kind = 'pool' and at < $1 order by seq limit $2)"
    );
    const INBOX: Sql = sql!(
        "delete from inbox where seq in
           (select seq from inbox where notice is null and accepted_at < $1 order by accepted_at limit $2)"
    );
    const TOMBSTONES: Sql = sql!(
        "delete from tombstones where (forge, number) in
           (select forge, number from tombstones where at < $1 limit $2)"
    );
    const WRITES: Sql =
        sql!("delete from ledger_writes where seq <= (select max(seq) from ledger_writes) - $1");
    link.begin().await?;
    let due = |before| vec![int(before), int(order.limit)];
    let mut ids = Vec::new();
    for row in link.all(INSTANCES, due(order.rows_before)).await? {
        ids.push([row.text(0)?]);
    }
    let mut jobs = Vec::new();
    for row in link.all(JOBS, due(order.rows_before)).await? {
        let (forge, number) = (row.text(0)?, row.int(1)?);
        let name = format!("{forge}/{}", number.cast_unsigned());
        jobs.push((forge, number, name));
    }
    forget_instances(link, &ids).await?;
    forget_jobs(link, &jobs).await?;
    let pruned = Pruned {
        instances: ids.len() as u64,
        jobs: jobs.len() as u64,
        deliveries: link.run(INBOX, due(order.memory_before)).await?,
        tombstones: link.run(TOMBSTONES, due(order.memory_before)).await?,
        events: link.run(EVENTS, due(order.rows_before)).await?,
    };
    link.run(WRITES, vec![int(LEDGER_WRITES)]).await?;
    link.commit().await?;
    Ok(pruned)
}

async fn forget_instances(link: &mut Link, ids: &[[String; 1]]) -> Result<(), sqlx::Error> {
    const ROWS: Sql = sql!("delete from instances where id in (select j.value->>0 from " each ")");
    const EXITS: Sql =
        sql!("delete from exits where instance in (select j.value->>0 from " each ")");
    const EVENTS: Sql = sql!(
        "delete from events where kind = 'instance' and subject in (select j.value->>0 from " each ")"
    );
    if ids.is_empty() {
        return Ok(());
    }
    for sql in [ROWS, EXITS, EVENTS] {
        link.run(sql, vec![text(json(&ids))]).await?;
    }
    Ok(())
}

async fn forget_jobs(link: &mut Link, jobs: &[(String, i64, String)]) -> Result<(), sqlx::Error> {
    const ROWS: Sql = sql!(
        "delete from jobs where (forge, number) in
           (select j.value->>0, cast(j.value->>1 as bigint) from " each ")"
    );
    const EVENTS: Sql = sql!(
        "delete from events where kind = 'job' and subject in (select j.value->>2 from " each ")"
    );
    if jobs.is_empty() {
        return Ok(());
    }
    for sql in [ROWS, EVENTS] {
        link.run(sql, vec![text(json(&jobs))]).await?;
    }
    Ok(())
}

/// Reads what is in a store, without changing it.
pub async fn stats(url: &str) -> Result<Stats, OpenError> {
    const CONTROLLER: Sql = sql!("select controller from identity");
    let place = StoreLocation::parse(url)?;
    let mut link = existing(&place).await?;
    let failed = |error| OpenError::failed(&place, error);
    let schema = migrate::version(&mut link).await.map_err(failed)?;
    let controller = link.first(CONTROLLER, Vec::new()).await.map_err(failed)?;
    let controller = controller.map_or(Ok(String::new()), |row| row.text(0)).map_err(failed)?;
    let epoch = lease_row::current(&mut link).await.map_err(failed)?.0;
    let bytes = size(&mut link, &place).await.map_err(failed)?;
    let rows = count(&mut link).await.map_err(failed)?;
    link.close().await;
    Ok(Stats { store: place.to_string(), schema, controller, epoch, bytes, rows })
}

async fn count(link: &mut Link) -> Result<Vec<(String, i64)>, sqlx::Error> {
    const COUNTS: Sql = sql!(
        "select 'pools', count(*) from pools
         union all select 'instances, live', count(*) from instances where state <> 'deleted'
         union all select 'instances, deleted', count(*) from instances where state = 'deleted'
         union all select 'deaths', count(*) from exits
         union all select 'jobs, open', count(*) from jobs where open = 1
         union all select 'jobs, over', count(*) from jobs where open = 0
         union all select 'events', count(*) from events
         union all select 'tombstones', count(*) from tombstones
         union all select 'deliveries, waiting', count(*) from inbox where notice is not null
         union all select 'deliveries, handled', count(*) from inbox where notice is null
         union all select 'audit', count(*) from audit
         union all select 'holders', count(*) from holders"
    );
    let rows = link.all(COUNTS, Vec::new()).await?;
    rows.iter().map(|row| Ok((row.text(0)?, row.int(1)?))).collect()
}

async fn size(link: &mut Link, place: &StoreLocation) -> Result<i64, sqlx::Error> {
    const SIZE: Sql = Sql {
        sqlite: "select page_count * page_size from pragma_page_count(), pragma_page_size()",
        postgres: "select pg_database_size(current_database())",
    };
    let bytes = link.first(SIZE, Vec::new()).await?.map_or(Ok(0), |row| row.int(0))?;
    let log = match place {
        StoreLocation::Sqlite(path) => {
            let mut log = path.as_os_str().to_owned();
            log.push("-wal");
            std::fs::metadata(log).map_or(0, |file| file.len())
        }
        StoreLocation::Postgres(_) => 0,
    };
    Ok(bytes + i64::try_from(log).unwrap_or_default())
}

/// Returns the space of deleted rows. The daemon may run meanwhile.
pub async fn vacuum(url: &str) -> Result<(), OpenError> {
    let place = StoreLocation::parse(url)?;
    let mut link = existing(&place).await?;
    let (room, log) = match &link {
        Link::Sqlite(_) => ("vacuum", Some("pragma wal_checkpoint(truncate)")),
        Link::Postgres(_) => ("vacuum (analyze)", None),
    };
    let mut done = link.script(room).await;
    if let (Ok(()), Some(log)) = (&done, log) {
        done = link.script(log).await;
    }
    link.close().await;
    done.map_err(|error| match super::error::code(&error).as_deref() {
        Some("5" | "261" | "517") => OpenError::Refused {
            what: format!(
                "vacuum `{place}` while another process writes to it ({})",
                describe(&error)
            ),
            advice: "try again, or stop the daemon first".into(),
        },
        Some(_) | None => OpenError::failed(&place, error),
    })
}

/// Connects to a store that must be there already, and be one of ours.
pub(super) async fn existing(place: &StoreLocation) -> Result<Link, OpenError> {
    if let StoreLocation::Sqlite(path) = place
        && !path.exists()
    {
        return Err(OpenError::Broken {
            place: place.clone(),
            what: "does not exist".into(),
            advice: "check the path; `ostler run` creates a new store",
        });
    }
    let mut link = Link::open(place, Durability::Full).await?;
    match migrate::version(&mut link).await {
        Ok(_) => Ok(link),
        Err(error) if matches!(super::error::code(&error).as_deref(), Some("1" | "42P01")) => {
            Err(OpenError::Broken {
                place: place.clone(),
                what: "holds no records of ostler".into(),
                advice: "check the URL; `ostler run` creates a new store",
            })
        }
        Err(error) => Err(OpenError::failed(place, error)),
    }
}
