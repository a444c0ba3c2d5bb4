//! One row that cannot be decoded does not stop the fleet: it is set aside, shown, and left alone.

use ostler::demo::agent::Step;
use ostler_actors::model::State;
use ostler_actors::ports::Records as _;
use serde_json::Value;
use sqlx::{Connection as _, SqliteConnection};

use crate::support::daemon::{Stage, pool, until};
use crate::support::http::Client;

async fn body_of(store: &str, id: &str) -> String {
    let mut link = SqliteConnection::connect(store).await.expect("the file");
    let read = sqlx::query_scalar("select body from instances where id = $1").bind(id);
    read.fetch_one(&mut link).await.expect("its row")
}

async fn write_body(store: &str, id: &str, body: &str) {
    let mut link = SqliteConnection::connect(store).await.expect("the file");
    let write = sqlx::query("update instances set body = $1 where id = $2").bind(body).bind(id);
    write.execute(&mut link).await.expect("an edit by hand");
    link.close().await.expect("a close");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_starts_and_serves_beside_a_row_that_cannot_be_decoded() {
    let stage = Stage::on_sqlite(&pool(1, 3));
    let mut daemon = stage.lead().await;
    let records = stage.records().await;
    let mut idle = None;
    until("an instance is idle", async || {
        daemon.must_live();
        let rows = records.live_instances(None).await.unwrap_or_default();
        idle = rows.into_iter().find(|row| row.state == State::Idle);
        idle.is_some()
    })
    .await;
    let broken = idle.expect("one is idle").id.to_string();
    daemon.kill();
    let whole = body_of(stage.store(), &broken).await;
    write_body(stage.store(), &broken, "{\"id\":7}").await;
    let before = stage.machines();

    let mut daemon = stage.lead().await;
    let ready = daemon.ready().expect("it answers");
    let shown = ready.body["quarantined"].as_array().cloned().unwrap_or_default();
    assert!(
        shown.len() == 1 && shown[0].as_str().is_some_and(|it| it.contains(&broken)),
        "{ready:?}"
    );
    let client = Client::new(daemon.address().expect("it listens"));
    assert!(client.get("/metrics").body.contains("\nostler_leaks 1\n"));
    let explained = client.get(&format!("/api/v1/instances/{broken}/explain"));
    let lines = explained.json()["lines"].to_string();
    assert!(explained.status == 200 && lines.contains("holds a place of pool `linux`"), "{lines}");
    assert_eq!(client.get(&format!("/api/v1/instances/{broken}")).status, 500);
    let of_pool = client.get("/api/v1/pools/linux/explain").json();
    assert!(of_pool["lines"].to_string().contains(&broken), "{of_pool}");

    for _ in 0..3 {
        stage.queue(Step::Succeed, 300);
    }
    stage.until_all_jobs_are_over(&mut daemon).await;
    // It may have run one of them, as any registered runner may; it was never adopted or deleted.
    assert!(before.contains(&broken) && stage.machines().contains(&broken));
    assert_eq!(body_of(stage.store(), &broken).await, "{\"id\":7}", "nothing wrote it");

    daemon.kill();
    write_body(stage.store(), &broken, &whole).await;
    let mut daemon = stage.lead().await;
    assert_eq!(daemon.ready().expect("it answers").body["quarantined"], Value::Array(vec![]));
    stage.drain(&mut daemon).await;
    stage.check_jobs();
    stage.check_logs(&[]);
}
