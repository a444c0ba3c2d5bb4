//! Durable transitions a second and their latency, for one saver and for thousands.
//!
//! Each saver takes its own row from version to version, a row and an event a transition, and waits
//! for each answer. *Together* is the store as it is; *one by one* is what it replaces: a transaction
//! a save, written by hand, on one connection (SQLite) or sixteen (PostgreSQL), in the same run.
//! The files lie under `target`, on the disk, because a file system in memory would make a commit
//! free. `OSTLER_BENCH_SECONDS` sets how long each figure is measured.

#[path = "../support/postgres.rs"]
#[expect(dead_code, reason = "the bench kills no servers")]
mod postgres;
#[path = "../support/skip.rs"]
mod skip;

use std::sync::Arc;
use std::time::Duration;

use ostler::store::{Durability, Options, SqlStore};
use ostler_actors::model::{Epoch, Instance, Subject, WriteId};
use ostler_actors::ports::{InstanceRows as _, InstanceSave};
use ostler_actors::testing::contract::{event, instance, saved};
use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use tokio::time::Instant;

const SAVERS: [usize; 4] = [1, 100, 1_000, 5_000];

/// Saves in a transaction of its own, with the same checks.
macro_rules! alone {
    ($tx:expr, $save:expr, $share:literal) => {{
        let (mut tx, save) = ($tx, $save);
        let row = &save.row;
        let epoch: (i64,) = sqlx::query_as(concat!("select epoch from lease", $share))
            .fetch_one(&mut *tx)
            .await
            .expect("the lease");
        assert_eq!(epoch.0, save.epoch.0.cast_signed());
        let written = sqlx::query(
            "insert into instances (id, pool, provider, machine, state, version, write_id, created_at, since, body)
             values ($1, $2, $3, $4, $5, $6, $7, 0, 0, $8)
             on conflict (id) do update set version = excluded.version, state = excluded.state,
                    write_id = excluded.write_id, body = excluded.body
              where instances.version = $9",
        )
        .bind(row.id.as_str())
        .bind(row.pool.as_str())
        .bind(row.provider.as_str())
        .bind(row.machine.as_str())
        .bind(row.state.as_str())
        .bind(row.version.0.cast_signed())
        .bind(row.write.0.cast_signed())
        .bind(serde_json::to_string(row).expect("JSON"))
        .bind(save.replaces.0.cast_signed())
        .execute(&mut *tx)
        .await
        .expect("the row");
        assert_eq!(written.rows_affected(), 1);
        for event in &save.events {
            sqlx::query(
                "insert into events (kind, subject, place, at, body) values ('instance', $1, $2, 0, $3)",
            )
            .bind(row.id.as_str())
            .bind(i64::from(event.seq))
            .bind(serde_json::to_string(event).expect("JSON"))
            .execute(&mut *tx)
            .await
            .expect("the event");
        }
        tx.commit().await.expect("the commit");
    }};
}
/// Saves in one of the ways that are compared.
#[derive(Clone)]
enum Way {
    Together(SqlStore),
    OneByOneSqlite(SqlitePool),
    OneByOnePostgres(PgPool),
}

impl Way {
    async fn save(&self, save: InstanceSave) {
        match self {
            Self::Together(store) => store.save(save).await.expect("a save"),
            Self::OneByOneSqlite(pool) => {
                let tx = pool.begin_with("begin immediate").await.expect("a transaction");
                alone!(tx, save, "");
            }
            Self::OneByOnePostgres(pool) => {
                let tx = pool.begin().await.expect("a transaction");
                alone!(tx, save, " for share");
            }
        }
    }
}

/// Holds the figures of one run.
struct Figures {
    rate: f64,
    p50: Duration,
    p99: Duration,
}

async fn measure(way: &Way, savers: usize, epoch: Epoch, length: Duration, round: &str) -> Figures {
    let began = Instant::now();
    let end = began + length;
    let mut tasks = Vec::with_capacity(savers);
    for number in 0..savers {
        let (way, id) = (way.clone(), format!("{round}-{savers}-{number}"));
        tasks.push(tokio::spawn(async move {
            let mut row = instance(&id);
            let mut times = Vec::new();
            loop {
                let save = transition(&row, epoch);
                let asked = Instant::now();
                Box::pin(way.save(save)).await;
                times.push(asked.elapsed());
                if Instant::now() >= end {
                    return times;
                }
                row.version = row.version.next();
                row.write = WriteId(row.write.0.wrapping_add(1));
            }
        }));
    }
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.expect("a saver"));
    }
    let took = began.elapsed();
    times.sort();
    let at = |share: usize| times[(times.len() - 1) * share / 100];
    #[expect(clippy::cast_precision_loss, reason = "a rate is for people")]
    let rate = times.len() as f64 / took.as_secs_f64();
    Figures { rate, p50: at(50), p99: at(99) }
}

fn transition(row: &Instance, epoch: Epoch) -> InstanceSave {
    let mut save = saved(row, epoch);
    let place = u32::try_from(row.version.0).expect("few versions");
    save.events = vec![event(&Subject::Instance(row.id.clone()), place, 1)];
    save
}

async fn compare(name: &str, url: &str, durability: Durability, length: Duration) {
    let options = Options { durability, ..Options::default() };
    let store = SqlStore::open(url, options).await.expect("a store");
    let lease = store.take_lease(Duration::from_mins(1)).await.expect("a lease");
    let alone = one_by_one(url, durability).await;
    let together = Way::Together(store);
    for savers in SAVERS {
        let single = measure(&alone, savers, lease.epoch(), length, "alone").await;
        let shared = measure(&together, savers, lease.epoch(), length, "together").await;
        println!(
            "{name:<16}{savers:>6} │{} │{} │{:>7.1}×",
            shown(&single),
            shown(&shared),
            shared.rate / single.rate
        );
        if savers == 1 {
            let ratio = shared.p50.as_secs_f64() / single.p50.as_secs_f64();
            println!("{name:<16} a lone saver waits {ratio:.2}× as long");
        }
    }
}

async fn one_by_one(url: &str, durability: Durability) -> Way {
    if let Some(path) = url.strip_prefix("sqlite://") {
        let synchronous = match durability {
            Durability::Full => SqliteSynchronous::Full,
            Durability::Normal => SqliteSynchronous::Normal,
        };
        let options = SqliteConnectOptions::new()
            .filename(path)
            .synchronous(synchronous)
            .busy_timeout(Duration::from_mins(1));
        let pool = SqlitePoolOptions::new().max_connections(1);
        let pool = pool.acquire_timeout(Duration::from_mins(10));
        Way::OneByOneSqlite(pool.connect_with(options).await.expect("a pool"))
    } else {
        let pool = PgPoolOptions::new().max_connections(16);
        let pool = pool.acquire_timeout(Duration::from_mins(10));
        Way::OneByOnePostgres(pool.connect(url).await.expect("a pool"))
    }
}

fn shown(figures: &Figures) -> String {
    let ms = |time: Duration| time.as_secs_f64() * 1_000.0;
    format!("{:>9.0}{:>10.2}{:>10.2}", figures.rate, ms(figures.p50), ms(figures.p99))
}

fn main() {
    // `cargo test --benches` only wants to know that it runs.
    let seconds = std::env::var("OSTLER_BENCH_SECONDS").ok().and_then(|it| it.parse().ok());
    let length = Duration::from_secs_f64(seconds.unwrap_or(3.0));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = Arc::new(runtime.expect("a runtime"));
    println!("{:<22} │{:^29} │{:^29} │", "", "one by one", "together");
    let head = format!("{:>9}{:>10}{:>10}", "a second", "p50 ms", "p99 ms");
    println!("{:<16}{:>6} │{head} │{head} │", "", "savers");
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    for (name, durability) in
        [("SQLite FULL", Durability::Full), ("SQLite NORMAL", Durability::Normal)]
    {
        let url = format!("sqlite://{}/{durability:?}.db", folder.path().display());
        runtime.block_on(compare(name, &url, durability, length));
    }
    if let Some(server) = postgres::Postgres::start_with("fsync=on") {
        let url = server.database();
        runtime.block_on(compare("PostgreSQL", &url, Durability::Full, length));
    }
}
