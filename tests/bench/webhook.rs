//! How long a webhook waits for its 202 when a storm of them comes.
//!
//! A real daemon on an SQLite file with `synchronous = FULL`, its fleet at work on what it hears, and
//! a sender that keeps its pace whatever the answers do: latency counts from the moment a delivery was
//! due, so a delivery that had to queue behind a slow one is late, as it would be at GitHub. Each
//! delivery is a new job of 8 KiB, signed; a 202 says that it is durable.
//!
//! The floors are measured in the same run: the same sender asking `GET /healthz`, and a bare commit
//! of one row on the same disk. `OSTLER_BENCH_SECONDS` sets how long each figure is measured.

#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "the bench uses a part of the stage")]
mod support;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_lc_rs::hmac;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteSynchronous};
use support::daemon::{Stage, WEBHOOK_SECRET, pool};
use support::process::Daemon;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// How many deliveries are sent a second.
const OFFERED: [u64; 2] = [200, 1_000];
/// How many of them may be under way at once.
const CONNECTIONS: u64 = 64;
/// What the 99th of a hundred answers may take.
const GOAL: Duration = Duration::from_millis(50);

struct Times(Vec<Duration>);

impl Times {
    fn at(&self, permille: usize) -> Duration {
        self.0.get((self.0.len().max(1) - 1) * permille / 1000).copied().unwrap_or_default()
    }

    fn show(&self) -> String {
        let ms = |permille| self.at(permille).as_secs_f64() * 1e3;
        format!("p50 {:.2} ms, p99 {:.2} ms, most {:.2} ms", ms(500), ms(990), ms(1000))
    }
}

/// Says what is sent.
#[derive(Clone, Copy)]
enum Kind {
    Webhook,
    Health,
}

struct Sender {
    address: String,
    key: hmac::Key,
    number: AtomicU64,
}

impl Sender {
    fn request(&self, kind: Kind) -> Vec<u8> {
        match kind {
            Kind::Health => {
                format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", self.address).into_bytes()
            }
            Kind::Webhook => {
                let number = self.number.fetch_add(1, Ordering::Relaxed);
                let body = serde_json::json!({
                    "action": "queued",
                    "workflow_job": {
                        "id": number, "run_id": number, "name": "build", "status": "queued",
                        "html_url": format!("https://github.com/acme/web/actions/runs/{number}/job/{number}"),
                        "labels": ["self-hosted", "linux"], "runner_name": null, "conclusion": null,
                        "created_at": jiff::Timestamp::now().to_string(),
                        "steps": [{"name": "x".repeat(8 << 10), "status": "queued", "number": 1}],
                    },
                    "repository": {"name": "web", "full_name": "acme/web", "owner": {"login": "acme"}},
                    "organization": {"login": "acme"},
                })
                .to_string();
                let tag = hmac::sign(&self.key, body.as_bytes());
                let hex: Vec<String> =
                    tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
                let hex = hex.concat();
                format!(
                    "POST /webhooks/github HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
                     X-GitHub-Event: workflow_job\r\nX-GitHub-Delivery: storm-{number}\r\n\
                     X-Hub-Signature-256: sha256={hex}\r\nContent-Length: {}\r\n\r\n{body}",
                    self.address,
                    body.len()
                )
                .into_bytes()
            }
        }
    }

    /// Sends at a pace; returns how late each answer was, and how many were not taken.
    async fn storm(self: &Arc<Self>, kind: Kind, rate: u64, length: Duration) -> (Times, usize) {
        let count = rate * length.as_secs();
        let requests: Arc<Vec<_>> = Arc::new((0..count).map(|_| self.request(kind)).collect());
        let next = Arc::new(AtomicU64::new(0));
        let began = Instant::now() + Duration::from_millis(100);
        let mut tasks = Vec::new();
        for _ in 0..CONNECTIONS.min(rate) {
            let (sender, next, requests) =
                (Arc::clone(self), Arc::clone(&next), Arc::clone(&requests));
            tasks.push(tokio::spawn(async move {
                let mut stream = TcpStream::connect(&sender.address).await.expect("it listens");
                stream.set_nodelay(true).expect("a socket");
                let (mut times, mut refused) = (Vec::new(), 0);
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(request) = requests.get(usize::try_from(number).expect("small"))
                    else {
                        return (times, refused);
                    };
                    let due = began + Duration::from_nanos(number * 1_000_000_000 / rate);
                    tokio::time::sleep_until(due).await;
                    stream.write_all(request).await.expect("it reads");
                    let status = status(&mut stream).await;
                    times.push(due.elapsed());
                    refused += usize::from(!matches!(status, 200 | 202));
                }
            }));
        }
        let (mut times, mut refused) = (Vec::new(), 0);
        for task in tasks {
            let (some, none) = task.await.expect("a connection");
            times.extend(some);
            refused += none;
        }
        times.sort();
        (Times(times), refused)
    }
}

/// Reads one answer to its end.
async fn status(stream: &mut TcpStream) -> u16 {
    let mut bytes = Vec::with_capacity(512);
    loop {
        let read = stream.read_buf(&mut bytes).await.expect("an answer");
        assert!(read > 0, "the connection was closed");
        let Some(at) = bytes.windows(4).position(|it| it == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..at]).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.and_then(|it| it.parse().ok()).unwrap_or(0);
        if bytes.len() >= at + 4 + length {
            return head.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a status");
        }
    }
}

/// Measures a bare commit: one row, one transaction, no other writer.
async fn bare_commits(folder: &Path, length: Duration) -> Times {
    let options = SqliteConnectOptions::new()
        .filename(folder.join("bare.db"))
        .create_if_missing(true)
        .journal_mode(sqlx::sqlite::SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full);
    let pool = SqlitePoolOptions::new().max_connections(1);
    let pool = pool.connect_with(options).await.expect("a file");
    sqlx::query("create table inbox (id integer primary key, notice text)")
        .execute(&pool)
        .await
        .expect("a table");
    let (text, end, mut times) = ("x".repeat(500), Instant::now() + length, Vec::new());
    while Instant::now() < end {
        let asked = Instant::now();
        let save = sqlx::query("insert into inbox (notice) values ($1)").bind(&text);
        save.execute(&pool).await.expect("a commit");
        times.push(asked.elapsed());
    }
    pool.close().await;
    times.sort();
    Times(times)
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let seconds = std::env::var("OSTLER_BENCH_SECONDS").ok().and_then(|text| text.parse().ok());
    let length = Duration::from_secs(seconds.unwrap_or(10));
    let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder on the disk");
    let store = format!("sqlite://{}/ostler.db", disk.path().display());
    let mut stage = Stage::on(store, &pool(1, 4));
    stage.leave();
    let log = stage.path("log");
    let mut daemon =
        Daemon::spawn(&stage.program, &stage.path("ostler.toml"), &log, "warn,ostler=info", &[]);
    stage.until_it_leads(&mut daemon).await;
    let address = daemon.address().expect("it listens").to_string();
    let key = hmac::Key::new(hmac::HMAC_SHA256, WEBHOOK_SECRET.as_bytes());
    let sender = Arc::new(Sender { address, key, number: AtomicU64::new(1_000_000) });

    let commits = bare_commits(disk.path(), length.min(Duration::from_secs(3))).await;
    println!("floor: bare durable commit, one after the other: {}", commits.show());
    for rate in OFFERED {
        let (health, _) = sender.storm(Kind::Health, rate, length).await;
        println!("floor: {rate}/s bare round trips: {}", health.show());
        let (answers, refused) = sender.storm(Kind::Webhook, rate, length).await;
        let floor = health.at(990) + commits.at(990);
        #[expect(clippy::cast_precision_loss, reason = "a ratio is for people")]
        let ratio = answers.at(990).as_micros() as f64 / floor.as_micros().max(1) as f64;
        let met = if answers.at(990) < GOAL && refused == 0 { "met" } else { "NOT MET" };
        println!(
            "{rate}/s webhooks, {} answered, {refused} not taken: {}; p99 {ratio:.1} x the floors; goal p99 < 50 ms {met}",
            answers.0.len(),
            answers.show()
        );
    }
    daemon.kill();
}
