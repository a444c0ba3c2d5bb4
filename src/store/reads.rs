//! The reading half of the port.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ostler_actors::model::{
    ControllerId, Event, ExitRecord, ForgeId, HolderId, Instance, InstanceId, Job, JobId,
    JobNotice, MachineName, PoolId, PoolRow, ProviderId, Subject, Timestamp,
};
use ostler_actors::ports::{Controller, QuarantinedRow, Records, StoreError};
use serde::de::DeserializeOwned;

use super::link::{Arg, Row, int, text};
use super::quarantine::{self, NameRow};
use super::rows::{self, moment, parse};
use super::sql::{Sql, sql};
use super::{SqlStore, unavailable};
use crate::errors::chain;

/// How long a reader waits for a server that hangs.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

impl SqlStore {
    /// Reads rows and decodes each.
    pub(super) async fn read_rows<T>(
        &self,
        what: &str,
        sql: Sql,
        args: Vec<Arg>,
        read: impl Fn(&Row) -> Result<T, sqlx::Error> + Send,
    ) -> Result<Vec<T>, StoreError> {
        let rows = tokio::time::timeout(READ_TIMEOUT, self.readers.each(sql, args, read)).await;
        let rows = rows.map_err(|_| unavailable(what, "no answer within 30 s"))?;
        rows.map_err(|error| unavailable(what, error))
    }

    /// Reads rows and decodes each; those that cannot be decoded are set aside, and their names
    /// are returned beside.
    pub(super) async fn decode_rows<T: Send>(
        &self,
        what: &str,
        (sql, args): (Sql, Vec<Arg>),
        decode: impl Fn(&Row) -> Result<T, sqlx::Error> + Send,
        name: NameRow,
    ) -> Result<(Vec<T>, Vec<QuarantinedRow>), StoreError> {
        let quarantine = Arc::clone(&self.quarantine);
        let holds_any = !quarantine.is_empty();
        let read = move |row: &Row| match decode(row) {
            Ok(decoded) => {
                if holds_any {
                    quarantine.remove(&name(row)?.key);
                }
                Ok(Ok(decoded))
            }
            Err(error) => Ok(Err(QuarantinedRow { why: chain(&error), ..name(row)? })),
        };
        let (mut decoded, mut broken) = (Vec::new(), Vec::new());
        for row in self.read_rows(what, sql, args, read).await? {
            match row {
                Ok(row) => decoded.push(row),
                Err(row) => {
                    self.quarantine.add(row.clone());
                    broken.push(row);
                }
            }
        }
        Ok((decoded, broken))
    }

    /// Reads a list of bodies without those that cannot be decoded.
    async fn bodies<T: DeserializeOwned + Send>(
        &self,
        what: &str,
        sql: Sql,
        args: Vec<Arg>,
        name: NameRow,
    ) -> Result<Vec<T>, StoreError> {
        let read = self.decode_rows(what, (sql, args), |row| parse(row, 0), name).await;
        read.map(|(rows, _)| rows)
    }

    /// Reads one row, which may be there and not to be decoded.
    async fn one<T: Send>(
        &self,
        what: &str,
        query: (Sql, Vec<Arg>),
        decode: impl Fn(&Row) -> Result<T, sqlx::Error> + Send,
        name: NameRow,
    ) -> Result<Option<T>, StoreError> {
        let (mut rows, mut broken) = self.decode_rows(what, query, decode, name).await?;
        match broken.pop() {
            Some(row) => Err(StoreError::Unreadable(Box::new(row))),
            None => Ok(rows.pop()),
        }
    }
}

#[async_trait]
impl Records for SqlStore {
    async fn controller(&self) -> Result<Controller, StoreError> {
        const WHO: Sql = sql!(
            "select cast(-4611686018427387904 as bigint) as epoch, controller from identity
             union all select epoch, holder from holders order by epoch"
        );
        let mut names =
            self.read_rows("who we are", WHO, Vec::new(), |row| row.text(1)).await?.into_iter();
        let id = names.next().unwrap_or_default();
        let holders: Vec<HolderId> = names.map(HolderId::new).collect();
        let holder = holders.last().cloned().unwrap_or_else(|| HolderId::new("none"));
        Ok(Controller { id: ControllerId::new(id), holder, holders })
    }

    async fn pools(&self) -> Result<Vec<PoolRow>, StoreError> {
        const ALL: Sql = sql!("select body, id from pools order by id");
        self.bodies("pools", ALL, Vec::new(), quarantine::pool::<1>).await
    }

    async fn live_instances(&self, pool: Option<&PoolId>) -> Result<Vec<Instance>, StoreError> {
        const ALL: Sql = sql!(
            "select body, id, pool, provider, machine, state from instances
              where state <> 'deleted' order by id"
        );
        const OF: Sql = sql!(
            "select body, id, pool, provider, machine, state from instances
              where state <> 'deleted' and pool = $1 order by id"
        );
        let query = match pool {
            Some(pool) => (OF, vec![text(pool.as_str())]),
            None => (ALL, Vec::new()),
        };
        let name = quarantine::instance::<1>;
        let (rows, broken) =
            self.decode_rows("live instances", query, |row| parse(row, 0), name).await?;
        let found: Vec<_> = broken.into_iter().map(|row| row.key).collect();
        self.quarantine.retain_live(pool, &found);
        Ok(rows)
    }

    async fn instance(&self, id: &InstanceId) -> Result<Option<Instance>, StoreError> {
        const ONE: Sql =
            sql!("select body, id, pool, provider, machine, state from instances where id = $1");
        let query = (ONE, vec![text(id.as_str())]);
        self.one("an instance", query, |row| parse(row, 0), quarantine::instance::<1>).await
    }

    async fn owner_of(
        &self,
        provider: &ProviderId,
        machine: &MachineName,
    ) -> Result<Option<InstanceId>, StoreError> {
        const OWNER: Sql = sql!(
            "select id from instances where provider = $1 and machine = $2 and state <> 'deleted'"
        );
        let args = vec![text(provider.as_str()), text(machine.as_str())];
        let mut ids = self.read_rows("a machine's owner", OWNER, args, |row| row.text(0)).await?;
        Ok(ids.pop().map(InstanceId::new))
    }

    async fn open_jobs(&self) -> Result<Vec<Job>, StoreError> {
        const OPEN: Sql = sql!(
            "select body, forge, number, pool from jobs where open = 1 order by forge, number"
        );
        self.bodies("open jobs", OPEN, Vec::new(), quarantine::job::<1>).await
    }

    async fn closed_jobs(&self, since: Timestamp) -> Result<Vec<Job>, StoreError> {
        const CLOSED: Sql = sql!(
            "select body, forge, number, pool from jobs
              where open = 0 and state = 'closed' and over_at >= $1 order by forge, number"
        );
        let args = vec![int(rows::micros(since))];
        let mut jobs: Vec<Job> =
            self.bodies("closed jobs", CLOSED, args, quarantine::job::<1>).await?;
        jobs.retain(|job| job.over_at.is_some_and(|at| at >= since));
        Ok(jobs)
    }

    async fn job(&self, id: &JobId) -> Result<Option<Job>, StoreError> {
        const ONE: Sql =
            sql!("select body, forge, number, pool from jobs where forge = $1 and number = $2");
        let (forge, number) = rows::job_key(id);
        let query = (ONE, vec![text(forge), int(number)]);
        self.one("a job", query, |row| parse(row, 0), quarantine::job::<1>).await
    }

    async fn tombstones(&self) -> Result<Vec<(JobId, Timestamp)>, StoreError> {
        const ALL: Sql = sql!("select forge, number, at from tombstones order by forge, number");
        self.read_rows("tombstones", ALL, Vec::new(), |row| {
            let number = row.int(1)?.cast_unsigned();
            let id = JobId { forge: ForgeId::new(row.text(0)?), number };
            Ok((id, moment(row.int(2)?)))
        })
        .await
    }

    async fn unhandled(&self) -> Result<Vec<JobNotice>, StoreError> {
        const WAITING: Sql =
            sql!("select notice, delivery from inbox where notice is not null order by seq");
        self.bodies("the inbox", WAITING, Vec::new(), quarantine::delivery::<1>).await
    }

    async fn timeline(&self, of: &Subject) -> Result<Vec<Event>, StoreError> {
        const TIMELINE: Sql = sql!(
            "select body, kind, subject, place from events
              where kind = $1 and subject = $2 order by place"
        );
        let (kind, subject) = rows::subject(of);
        let args = vec![text(kind), text(subject)];
        self.bodies("a timeline", TIMELINE, args, quarantine::event::<1>).await
    }

    async fn exit(&self, id: &InstanceId) -> Result<Option<ExitRecord>, StoreError> {
        const EXIT: Sql = sql!("select body, tail, instance, pool from exits where instance = $1");
        let read = |row: &Row| {
            let record: ExitRecord = parse(row, 0)?;
            Ok(ExitRecord { tail: parse(row, 1)?, ..record })
        };
        let query = (EXIT, vec![text(id.as_str())]);
        self.one("the record of an end", query, read, quarantine::exit::<2>).await
    }

    async fn provisional_exits(&self, since: Timestamp) -> Result<Vec<ExitRecord>, StoreError> {
        const RECENT: Sql = sql!(
            "select body, instance, pool from exits
              where at >= $1 and body like '%\"provisional\":{%' order by at, instance"
        );
        let args = vec![int(rows::micros(since))];
        let mut records: Vec<ExitRecord> =
            self.bodies("provisional verdicts", RECENT, args, quarantine::exit::<1>).await?;
        records.retain(|record| record.provisional.is_some());
        Ok(records)
    }

    fn quarantined(&self) -> Vec<QuarantinedRow> {
        self.quarantine.rows()
    }
}
