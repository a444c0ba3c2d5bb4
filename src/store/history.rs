//! Lists in pages, timelines as they grow, and the audit log: [`History`] by SQL.

use async_trait::async_trait;
use ostler_actors::model::{
    ExitRecord, Instance, Job, JobState, PoolId, ProviderId, State, Subject, VerdictClass,
};
use ostler_actors::ports::{QuarantinedRow, SaveError, StoreError};

use super::SqlStore;
use super::batch::SaveOp;
use super::link::{Arg, Row, int, text};
use super::quarantine::{self, NameRow};
use super::rows::{self, moment, parse};
use super::sql::{Sql, sql};
use crate::errors::chain;
use crate::ports::{
    AuditEntry, Audited, DeathQuery, History, InstanceQuery, JobQuery, Page, Paged, Sequenced,
};

impl SqlStore {
    async fn page<T>(
        &self,
        what: &str,
        sql: Sql,
        page: &Page,
        filters: Vec<Arg>,
        read: impl Fn(&Row) -> Result<T, sqlx::Error> + Send,
        name: NameRow,
    ) -> Result<Paged<T>, StoreError>
    where
        T: Send,
    {
        let (at, key) = read_cursor(page.cursor.as_deref())?;
        let limit = i64::from(page.limit.clamp(1, 1_000));
        // One more than asked for tells whether there is a next page.
        let mut args = vec![int(at), text(key), int(limit + 1)];
        args.extend(filters);
        // A row that cannot be decoded has its place in the order and is left out of the page.
        let read = move |row: &Row| {
            let cursor = format!("{}:{}", row.int(0)?, row.text(1)?);
            let item = match read(row) {
                Ok(item) => Ok(item),
                Err(error) => Err(QuarantinedRow { why: chain(&error), ..name(row)? }),
            };
            Ok((cursor, item))
        };
        let mut found = self.read_rows(what, sql, args, read).await?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let more = found.len() > limit;
        found.truncate(limit);
        let next_cursor = found.last().filter(|_| more).map(|(cursor, _)| cursor.clone());
        let mut items = Vec::with_capacity(found.len());
        for (_, item) in found {
            match item {
                Ok(item) => items.push(item),
                Err(row) => self.quarantine.add(row),
            }
        }
        Ok(Paged { items, next_cursor })
    }

    async fn write(&self, op: SaveOp) -> Result<(), StoreError> {
        let done = self.submit(op).await.map_err(SaveError::from);
        done.map(drop).map_err(|error| StoreError::Unavailable(error.to_string()))
    }
}

/// Reads a cursor: the row's date and its key. Without one, every row comes before it.
fn read_cursor(cursor: Option<&str>) -> Result<(i64, String), StoreError> {
    let Some(cursor) = cursor else { return Ok((i64::MAX, String::new())) };
    let parts = cursor.split_once(':').and_then(|(at, key)| Some((at.parse().ok()?, key.into())));
    parts.ok_or_else(|| {
        StoreError::Unavailable(format!("cursor `{cursor}` is not valid: start without one"))
    })
}

fn sequenced(row: &Row) -> Result<Sequenced, sqlx::Error> {
    Ok(Sequenced { seq: row.int(0)?, event: parse(row, 1)? })
}

fn filter(value: Option<&str>) -> Arg {
    Arg::Text(value.map(Into::into))
}

#[async_trait]
impl History for SqlStore {
    async fn instances(
        &self,
        which: &InstanceQuery,
        page: &Page,
    ) -> Result<Paged<Instance>, StoreError> {
        const LIST: Sql = sql!(
            "select created_at, id, body, id, pool, provider, machine, state from instances
              where (created_at, id) < ($1, $2)
                and (cast($4 as text) is null or pool = $4)
                and (cast($5 as text) is null or state = $5)
              order by created_at desc, id desc limit $3"
        );
        let pool = filter(which.pool.as_ref().map(PoolId::as_str));
        let state = filter(which.state.map(State::as_str));
        let name = quarantine::instance::<3>;
        self.page("instances", LIST, page, vec![pool, state], |row| parse(row, 2), name).await
    }

    async fn jobs(&self, which: &JobQuery, page: &Page) -> Result<Paged<Job>, StoreError> {
        const LIST: Sql = sql!(
            "select heard_at, forge || '/' || number, body, forge, number, pool from jobs
              where (heard_at, forge || '/' || number) < ($1, $2)
                and heard_at <= $1
                and (cast($4 as text) is null or state = $4)
              order by heard_at desc, forge || '/' || number desc limit $3"
        );
        let state = filter(which.state.map(JobState::as_str));
        let name = quarantine::job::<3>;
        self.page("jobs", LIST, page, vec![state], |row| parse(row, 2), name).await
    }

    async fn deaths(
        &self,
        which: &DeathQuery,
        page: &Page,
    ) -> Result<Paged<ExitRecord>, StoreError> {
        const LIST: Sql = sql!(
            "select at, instance, body, instance, pool from exits
              where (at, instance) < ($1, $2)
                and (cast($4 as text) is null or verdict = $4)
                and (cast($5 as text) is null or pool = $5)
                and (cast($6 as bigint) is null or at >= $6)
              order by at desc, instance desc limit $3"
        );
        let verdict = filter(which.verdict.map(VerdictClass::as_str));
        let pool = filter(which.pool.as_ref().map(PoolId::as_str));
        let since = Arg::Int(which.since.map(rows::micros));
        let (filters, name) = (vec![verdict, pool, since], quarantine::exit::<3>);
        self.page("deaths", LIST, page, filters, |row| parse(row, 2), name).await
    }

    async fn pools_of(&self, provider: &ProviderId) -> Result<Vec<PoolId>, StoreError> {
        const POOLS: Sql =
            sql!("select distinct pool from instances where provider = $1 order by pool");
        let args = vec![text(provider.as_str())];
        self.read_rows("pools", POOLS, args, |row| row.text(0).map(PoolId::new)).await
    }

    async fn events_after(&self, seq: i64, limit: u32) -> Result<Vec<Sequenced>, StoreError> {
        const AFTER: Sql = sql!(
            "select seq, body, kind, subject, place from events where seq > $1 order by seq limit $2"
        );
        let query = (AFTER, vec![int(seq), int(limit.into())]);
        let read = self.decode_rows("events", query, sequenced, quarantine::event::<2>).await;
        read.map(|(events, _)| events)
    }

    async fn timeline_with_places(&self, of: &Subject) -> Result<Vec<Sequenced>, StoreError> {
        const TIMELINE: Sql = sql!(
            "select seq, body, kind, subject, place from events where kind = $1 and subject = $2 order by place"
        );
        let (kind, subject) = rows::subject(of);
        let query = (TIMELINE, vec![text(kind), text(subject)]);
        let read = self.decode_rows("a timeline", query, sequenced, quarantine::event::<2>).await;
        read.map(|(events, _)| events)
    }

    async fn forgotten(&self) -> Result<u64, StoreError> {
        const FORGOTTEN: Sql = sql!(
            r#"select count(*) from instances where state = 'deleted' and body like '%"urgency":"forget"%'"#
        );
        let counted =
            self.read_rows("struck off instances", FORGOTTEN, Vec::new(), |row| row.int(0));
        Ok(counted.await?.pop().unwrap_or_default().cast_unsigned())
    }

    async fn last_event(&self) -> Result<i64, StoreError> {
        const LAST: Sql = sql!("select max(seq) from events");
        let mut last = self.read_rows("events", LAST, Vec::new(), |row| row.int(0)).await?;
        Ok(last.pop().unwrap_or_default())
    }

    async fn audit(&self, entry: AuditEntry) -> Result<(), StoreError> {
        self.write(SaveOp::Audit(entry)).await
    }

    async fn audits(&self, page: &Page) -> Result<Paged<Audited>, StoreError> {
        const LIST: Sql = sql!(
            "select seq, '', at, who, what, detail from audit where (seq, '') < ($1, $2)
              order by seq desc limit $3"
        );
        let read = |row: &Row| {
            let entry = AuditEntry { who: row.text(3)?, what: row.text(4)?, detail: row.text(5)? };
            Ok(Audited { seq: row.int(0)?, at: moment(row.int(2)?), entry })
        };
        // There is nothing to decode: a failure is the read's own.
        let name = |_: &Row| Err(sqlx::Error::RowNotFound);
        self.page("the audit log", LIST, page, Vec::new(), read, name).await
    }

    async fn cursor(&self, name: &str) -> Result<Option<String>, StoreError> {
        const ONE: Sql = sql!("select value from cursors where name = $1");
        Ok(self.read_rows("a cursor", ONE, vec![text(name)], |row| row.text(0)).await?.pop())
    }

    async fn set_cursor(&self, name: &str, value: &str) -> Result<(), StoreError> {
        self.write(SaveOp::Cursor { name: name.into(), value: value.into() }).await
    }
}
