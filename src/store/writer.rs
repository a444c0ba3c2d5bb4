//! The only writer: takes the queued saves, commits them together, answers each saver.

use std::sync::Arc;
use std::time::Duration;

use ostler_actors::model::Epoch;
use ostler_actors::ports::Acceptance;
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::Options;
use super::batch::{BatchPlan, SaveAnswer, SaveFailure, SaveOp, TableState, plan};
use super::error::{OpenError, describe, is_about_the_data};
use super::link::{Arg, Link, int, text};
use super::location::StoreLocation;
use super::rows::json;
use super::sql::{Sql, sql};
use super::upkeep::{self, PruneOrder, Pruned};
use crate::ports::SaveHealth;

/// A request to the writer, with the channel for its answer.
pub(super) enum WriterRequest {
    Save {
        op: SaveOp,
        answer: oneshot::Sender<Result<SaveAnswer, SaveFailure>>,
    },
    /// Deletes what has outlived its retention.
    Prune {
        order: PruneOrder,
        answer: oneshot::Sender<Result<Pruned, String>>,
    },
    /// Finishes what is queued, then stops.
    Stop,
}

/// Figures of one commit.
#[derive(Clone, Copy, Debug)]
pub struct Commit {
    /// How many saves shared it.
    pub size: usize,
    /// How long it took, from the first statement to the answer.
    pub took: Duration,
}

/// Owns the writing connection.
pub(super) struct Writer {
    place: Arc<StoreLocation>,
    link: Option<Link>,
    options: Options,
    health: SaveHealth,
}

type Answers = Vec<Result<SaveAnswer, SaveFailure>>;

impl Writer {
    /// Takes over a connection.
    pub(super) fn new(
        place: Arc<StoreLocation>,
        link: Link,
        options: Options,
        health: SaveHealth,
    ) -> Self {
        Self { place, link: Some(link), options, health }
    }

    /// Serves until every sender is gone.
    pub(super) async fn serve(mut self, mut requests: mpsc::Receiver<WriterRequest>) {
        let mut waiting = Vec::new();
        // Waits for one request, then takes all that are there; a lone save is never held back for others.
        while requests.recv_many(&mut waiting, self.options.batch.max(1)).await > 0 {
            let (mut ops, mut savers, mut maintenance) = (Vec::new(), Vec::new(), Vec::new());
            for request in waiting.drain(..) {
                match request {
                    WriterRequest::Save { op, answer } => {
                        ops.push(op);
                        savers.push(answer);
                    }
                    WriterRequest::Prune { order, answer } => maintenance.push((order, answer)),
                    WriterRequest::Stop => requests.close(),
                }
            }
            let answers = if ops.is_empty() { Vec::new() } else { self.save(&ops).await };
            for (saver, answer) in savers.into_iter().zip(answers) {
                // A saver that died meanwhile needs no answer; its row is read again.
                drop(saver.send(answer));
            }
            for (order, answer) in maintenance {
                let pruned = self.prune(order).await;
                drop(answer.send(pruned.map_err(|trouble| trouble.why)));
            }
        }
        if let Some(link) = self.link {
            link.close().await;
        }
    }

    /// Saves a batch. One that the database refuses for its data is saved piece by piece, so that only
    /// the bad save fails.
    async fn save(&mut self, ops: &[SaveOp]) -> Answers {
        match self.together(ops).await {
            Ok(answers) => answers,
            Err(Trouble { alone: true, .. }) if ops.len() > 1 => {
                let mut answers = Vec::with_capacity(ops.len());
                for op in ops {
                    let one = self.together(std::slice::from_ref(op)).await;
                    answers.extend(one.unwrap_or_else(|trouble| trouble.answers(1)));
                }
                answers
            }
            Err(trouble) => {
                tracing::warn!(store = %self.place, saves = ops.len(), "store `{}`: {} saves failed: {}", self.place, ops.len(), trouble.why);
                trouble.answers(ops.len())
            }
        }
    }

    async fn prune(&mut self, order: PruneOrder) -> Result<Pruned, Trouble> {
        let mut link = self.link().await?;
        let call_timeout = self.options.call_timeout;
        let pruned = match tokio::time::timeout(call_timeout, upkeep::prune(&mut link, order)).await
        {
            Ok(pruned) => pruned.map_err(Trouble::from),
            Err(_) => Err(Trouble::slow(call_timeout)),
        };
        match pruned {
            Ok(pruned) => {
                self.link = Some(link);
                Ok(pruned)
            }
            Err(trouble) => {
                link.close().await;
                Err(trouble)
            }
        }
    }

    async fn link(&mut self) -> Result<Link, OpenError> {
        match self.link.take() {
            Some(link) => Ok(link),
            None => Link::open(&self.place, self.options.durability).await,
        }
    }

    /// Saves a batch in one transaction, and notes whether the database is able to.
    async fn together(&mut self, ops: &[SaveOp]) -> Result<Answers, Trouble> {
        match self.attempt(ops).await {
            Ok(Done { answers, wrote }) => {
                // A batch that wrote nothing does not prove that writing works.
                if wrote {
                    self.health.succeeded();
                }
                Ok(answers)
            }
            Err(trouble) => {
                if !trouble.alone {
                    self.health.failed(&trouble.why);
                }
                Err(trouble)
            }
        }
    }

    /// Tries a batch in one transaction. After a failure the connection is not trusted again.
    async fn attempt(&mut self, ops: &[SaveOp]) -> Result<Done, Trouble> {
        let started = Instant::now();
        let mut link = self.link().await?;
        let done = match &link {
            // A local disk answers or does not; a transaction there cannot be abandoned.
            Link::Sqlite(_) => transact(&mut link, ops).await.map_err(Trouble::from),
            Link::Postgres(_) => {
                let call_timeout = self.options.call_timeout;
                match tokio::time::timeout(call_timeout, transact(&mut link, ops)).await {
                    Ok(done) => done.map_err(Trouble::from),
                    Err(_) => Err(Trouble::slow(call_timeout)),
                }
            }
        };
        match done {
            Ok(done) => {
                self.link = Some(link);
                if let Some(observer) = &self.options.observer {
                    observer(Commit { size: ops.len(), took: started.elapsed() });
                }
                Ok(done)
            }
            Err(trouble) => {
                link.close().await;
                Err(trouble)
            }
        }
    }
}

/// Holds what came of a batch.
struct Done {
    answers: Answers,
    /// Whether anything was written for it.
    wrote: bool,
}

/// Holds why a batch failed.
struct Trouble {
    why: String,
    /// Whether the fault may lie in a single save.
    alone: bool,
}

impl Trouble {
    fn slow(call_timeout: Duration) -> Self {
        Self { why: format!("no answer within {} s", call_timeout.as_secs_f32()), alone: false }
    }

    fn answers(self, count: usize) -> Answers {
        (0..count).map(|_| Err(SaveFailure::Retry(self.why.clone()))).collect()
    }
}

impl From<sqlx::Error> for Trouble {
    fn from(error: sqlx::Error) -> Self {
        Self { alone: is_about_the_data(&error), why: describe(&error) }
    }
}

impl From<OpenError> for Trouble {
    fn from(error: OpenError) -> Self {
        Self { alone: false, why: error.to_string() }
    }
}

async fn transact(link: &mut Link, ops: &[SaveOp]) -> Result<Done, sqlx::Error> {
    let known = read_state(link, ops).await?;
    let mut plan = plan(ops, known);
    if plan.is_empty() {
        link.rollback().await?;
        return Ok(Done { answers: plan.answers, wrote: false });
    }
    accept(link, ops, &mut plan).await?;
    link.commit_with(steps(&plan)).await?;
    Ok(Done { answers: plan.answers, wrote: true })
}

/// Begins the transaction and reads the epoch and the rows that the batch is about.
async fn read_state(link: &mut Link, ops: &[SaveOp]) -> Result<TableState, sqlx::Error> {
    // The lease row is kept as it is until we commit: a takeover comes before us or after us.
    const STATE: Sql = sql!(
        "with held as (select epoch from lease " share ")
         select 'epoch' as what, '' as id, '' as provider, '' as machine, epoch as a, cast(0 as bigint) as b from held
         union all
         select 'row', i.id, '', '', i.version, i.write_id
           from " each " cross join instances as i where i.id = j.value->>0
         union all
         select 'owner', i.id, i.provider, i.machine, 0, 0
           from " each " cross join instances as i
          where i.provider = j.value->>1 and i.machine = j.value->>2 and i.state <> 'deleted'
         union all
         select 'write', '', '', '', w.write_id, 0
           from " each2 " cross join ledger_writes as w where w.write_id = cast(k.value->>0 as bigint)"
    );
    let mut asked: Vec<(&str, &str, &str)> = Vec::new();
    let mut writes: Vec<[i64; 1]> = Vec::new();
    let mut fenced = false;
    for op in ops {
        match op {
            SaveOp::Instance(op) => asked.push((&op.row.0, &op.row.2, &op.row.3)),
            SaveOp::Jobs(op) => writes.push([op.write]),
            SaveOp::Pool { .. } | SaveOp::Holder { .. } => fenced = true,
            SaveOp::Accept { .. } | SaveOp::Audit(_) | SaveOp::Cursor { .. } => {}
        }
    }
    let mut known = TableState::default();
    if asked.is_empty() && writes.is_empty() && !fenced {
        link.begin().await?;
        return Ok(known);
    }
    for row in link.begin_with(STATE, vec![text(json(&asked)), text(json(&writes))]).await? {
        let (a, b) = (row.int(4)?, row.int(5)?);
        match row.text(0)?.as_str() {
            "epoch" => known.epoch = Epoch(a.cast_unsigned()),
            "row" => drop(known.instances.insert(row.text(1)?, (a, b))),
            "owner" => drop(known.owners.insert((row.text(2)?, row.text(3)?), row.text(1)?)),
            _ => drop(known.writes.insert(a)),
        }
    }
    Ok(known)
}

const INSTANCES: Sql = sql!(
    "insert into instances (id, pool, provider, machine, state, version, write_id, created_at, since, body)
     select j.value->>0, j.value->>1, j.value->>2, j.value->>3, j.value->>4, cast(j.value->>5 as bigint),
            cast(j.value->>6 as bigint), cast(j.value->>7 as bigint), cast(j.value->>8 as bigint), j.value->>9
       from " each " where true
     on conflict (id) do update set pool = excluded.pool, provider = excluded.provider,
            machine = excluded.machine, state = excluded.state, version = excluded.version,
            write_id = excluded.write_id, created_at = excluded.created_at,
            since = excluded.since, body = excluded.body"
);
// A repeated event takes a new place in the order of all, so that followers hear of it.
const EVENTS: Sql = Sql {
    sqlite: "insert or replace into events (kind, subject, place, at, body)
             select j.value->>0, j.value->>1, j.value->>2, j.value->>3, j.value->>4 from json_each($1) as j",
    postgres: "insert into events (kind, subject, place, at, body)
               select j.value->>0, j.value->>1, cast(j.value->>2 as bigint), cast(j.value->>3 as bigint), j.value->>4
                 from json_array_elements($1::json) as j(value)
               on conflict (kind, subject, place) do update
                  set seq = excluded.seq, at = excluded.at, body = excluded.body",
};
const EXITS: Sql = sql!(
    "insert into exits (instance, pool, verdict, at, body, tail)
     select j.value->>0, j.value->>1, j.value->>2, cast(j.value->>3 as bigint), j.value->>4, j.value->>5
       from " each " where true
     on conflict (instance) do update set pool = excluded.pool, verdict = excluded.verdict,
            at = excluded.at, body = excluded.body, tail = excluded.tail"
);
// A record that is gone is not written again.
const REVISIONS: Sql = sql!(
    "update exits set verdict = r.verdict, body = r.body, tail = coalesce(r.tail, exits.tail)
       from (select j.value->>0 as instance, j.value->>1 as verdict, j.value->>2 as body, j.value->>3 as tail
               from " each " where true) as r
      where exits.instance = r.instance"
);
const JOBS: Sql = sql!(
    "insert into jobs (forge, number, pool, state, open, heard_at, over_at, body)
     select j.value->>0, cast(j.value->>1 as bigint), j.value->>2, j.value->>3, cast(j.value->>4 as bigint),
            cast(j.value->>5 as bigint), cast(j.value->>6 as bigint), j.value->>7
       from " each " where true
     on conflict (forge, number) do update set pool = excluded.pool, state = excluded.state,
            open = excluded.open, heard_at = excluded.heard_at, over_at = excluded.over_at,
            body = excluded.body"
);
const FORGET: Sql = sql!("delete from tombstones where at < $1");
const TOMBSTONES: Sql = sql!(
    "insert into tombstones (forge, number, at)
     select j.value->>0, cast(j.value->>1 as bigint), cast(j.value->>2 as bigint) from " each " where true
     on conflict (forge, number) do nothing"
);
const HANDLED: Sql = sql!(
    "update inbox set notice = null where delivery in (select j.value->>0 from " each ")"
);
const WRITES: Sql = sql!(
    "insert into ledger_writes (write_id) select cast(j.value->>0 as bigint) from " each " where true"
);
const POOLS: Sql = sql!(
    "insert into pools (id, body) select j.value->>0, j.value->>1 from " each " where true
     on conflict (id) do update set body = excluded.body"
);
/// Adopted holders have epochs below zero, so that the current one stays the last.
const ADOPT: Sql = sql!(
    "insert into holders (epoch, holder, schema, taken_at)
     select coalesce(min(epoch), 0) - 1, $1, (select max(schema) from holders), " now " from holders where epoch < 0
     on conflict (holder) do nothing"
);
const AUDIT: Sql = sql!(
    "insert into audit (at, who, what, detail)
     select " now ", j.value->>0, j.value->>1, j.value->>2 from " each " where true"
);
const CURSORS: Sql = sql!(
    "insert into cursors (name, value, at) select j.value->>0, j.value->>1, " now " from " each " where true
     on conflict (name) do update set value = excluded.value, at = excluded.at"
);

/// Returns the statements of a plan, each with all its rows.
fn steps(plan: &BatchPlan) -> Vec<(Sql, Arg)> {
    let tombstones: Vec<_> =
        plan.tombstones.iter().map(|((forge, number), at)| (forge, number, at)).collect();
    let handled: Vec<_> = plan.handled.iter().map(|delivery| [delivery]).collect();
    let writes: Vec<_> = plan.writes.iter().map(|write| [write]).collect();
    let adopted = plan.holders.iter().map(|holder| (ADOPT, text(holder.clone())));
    [
        rows(INSTANCES, &plan.instances),
        rows(EXITS, &plan.exits),
        rows(REVISIONS, &plan.revisions),
        rows(JOBS, &plan.jobs),
        plan.forget_before.map(|before| (FORGET, int(before))),
        rows(TOMBSTONES, &tombstones),
        rows(HANDLED, &handled),
        rows(WRITES, &writes),
        rows(POOLS, &plan.pools),
        rows(EVENTS, &plan.events),
        rows(AUDIT, &plan.audits),
        rows(CURSORS, &plan.cursors),
    ]
    .into_iter()
    .flatten()
    .chain(adopted)
    .collect()
}

/// Returns a statement with its rows, if there are any.
fn rows<T: Serialize>(sql: Sql, rows: &[T]) -> Option<(Sql, Arg)> {
    (!rows.is_empty()).then(|| (sql, text(json(&rows))))
}

/// Writes deliveries and says which of them are new.
async fn accept(link: &mut Link, ops: &[SaveOp], plan: &mut BatchPlan) -> Result<(), sqlx::Error> {
    const ACCEPT: Sql = sql!(
        "insert into inbox (delivery, notice, accepted_at)
         select j.value->>0, j.value->>1, " now " from " each " where true
         on conflict (delivery) do nothing returning delivery"
    );
    if plan.accepts.is_empty() {
        return Ok(());
    }
    let mut fresh = std::collections::HashSet::new();
    for row in link.all(ACCEPT, vec![text(json(&plan.accepts))]).await? {
        fresh.insert(row.text(0)?);
    }
    for (op, answer) in ops.iter().zip(&mut plan.answers) {
        if let SaveOp::Accept { delivery, .. } = op {
            // Of two equal ones in a batch the first is the new one.
            let acceptance =
                if fresh.remove(delivery) { Acceptance::New } else { Acceptance::Known };
            *answer = Ok(SaveAnswer::Accepted(acceptance));
        }
    }
    Ok(())
}
