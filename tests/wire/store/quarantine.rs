//! A row that cannot be decoded stops nothing but itself, is named, and is never written over.

use ostler::ports::{DeathQuery, History as _, InstanceQuery, JobQuery, Page};
use ostler::store::SqlStore;
use ostler_actors::model::{Epoch, InstanceId, PoolRow, Subject, WriteId};
use ostler_actors::ports::{
    Inbox as _, InstanceRows, JobRows, JobSave, PoolRows, QuarantinedRow, RecordKey, Records as _,
    SaveError, StoreError,
};
use ostler_actors::testing::contract::{
    delivery, event, exit_record, instance, job, job_id, notice, saved,
};
use sqlx::{Connection as _, Executor as _, PgConnection, SqliteConnection};

use super::{on_both, open};

/// Runs plain SQL beside the store.
async fn sql(url: &str, script: &'static str) {
    if url.starts_with("postgres") {
        let mut link = PgConnection::connect(url).await.expect("the server");
        link.execute(sqlx::raw_sql(script)).await.expect(script);
        link.close().await.expect("a close");
    } else {
        let mut link = SqliteConnection::connect(url).await.expect("the file");
        link.execute(sqlx::raw_sql(script)).await.expect(script);
        link.close().await.expect("a close");
    }
}

/// Reads one text beside the store.
async fn text(url: &str, query: &'static str) -> String {
    if url.starts_with("postgres") {
        let mut link = PgConnection::connect(url).await.expect("the server");
        sqlx::query_scalar(query).fetch_one(&mut link).await.expect(query)
    } else {
        let mut link = SqliteConnection::connect(url).await.expect("the file");
        sqlx::query_scalar(query).fetch_one(&mut link).await.expect(query)
    }
}

const BREAK: &str = "
    update instances set body = '{\"id\":\"linux-2\",\"state\":\"odd\"' where id = 'linux-2';
    update instances set body = '' where id = 'linux-3';
    update jobs set body = '{}' where number = 8;
    update pools set body = '[]' where id = 'linux';
    update exits set body = 'null' where instance = 'linux-2';
    update events set body = '{\"oops\":1}' where subject = 'linux-1' and place = 2;
    update inbox set notice = 'not JSON' where delivery = 'guid-2';
";

async fn fill(store: &SqlStore, epoch: Epoch) {
    for name in ["linux-1", "linux-2", "linux-3"] {
        let row = instance(name);
        let mut save = saved(&row, epoch);
        let subject = Subject::Instance(row.id.clone());
        save.events = (1..=3).map(|place| event(&subject, place, 1)).collect();
        save.exit = Some(exit_record(&row));
        InstanceRows::save(store, save).await.expect("a row");
    }
    let jobs = vec![job(7), job(8)];
    let save = JobSave { jobs, epoch, write: WriteId(1), ..JobSave::default() };
    JobRows::save(store, save).await.expect("two jobs");
    let pool = PoolRow { id: "linux".into(), drained: true, breaker: None, events: 1 };
    let told = vec![event(&Subject::Pool("linux".into()), 1, 1)];
    PoolRows::save(store, pool, told, epoch).await.expect("a pool");
    for (guid, number) in [("guid-1", 1), ("guid-2", 2)] {
        store.accept(delivery(guid), notice(number)).await.expect("a delivery");
    }
}

fn keys(rows: &[QuarantinedRow]) -> Vec<RecordKey> {
    rows.iter().map(|row| row.key.clone()).collect()
}

#[test]
fn a_row_that_cannot_be_decoded_is_left_out_named_and_kept_as_it_is() {
    on_both(async |url| {
        let (store, lease) = open(&url).await;
        fill(&store, lease.epoch()).await;
        assert_eq!(store.quarantined(), []);
        sql(&url, BREAK).await;

        let names = |rows: Vec<_>| {
            rows.into_iter().map(|row: ostler_actors::model::Instance| row.id).collect::<Vec<_>>()
        };
        let live = store.live_instances(None).await.expect("one bad row fails no read");
        assert_eq!(names(live), [InstanceId::from("linux-1")]);
        let pool = instance("linux-1").pool;
        let live = store.live_instances(Some(&pool)).await.expect("a read");
        assert_eq!(names(live), [InstanceId::from("linux-1")]);
        let jobs = store.open_jobs().await.expect("a read");
        assert_eq!(jobs.iter().map(|job| job.id.number).collect::<Vec<_>>(), [7]);
        assert_eq!(store.pools().await.expect("a read"), []);
        assert_eq!(store.unhandled().await.expect("a read").len(), 1);
        let subject = Subject::Instance("linux-1".into());
        let places: Vec<u32> =
            store.timeline(&subject).await.expect("a read").iter().map(|event| event.seq).collect();
        assert_eq!(places, [1, 3]);

        let broken: InstanceId = "linux-2".into();
        assert!(matches!(store.instance(&broken).await, Err(StoreError::Unreadable(_))));
        assert!(matches!(store.job(&job_id(8)).await, Err(StoreError::Unreadable(_))));
        assert!(matches!(store.exit(&broken).await, Err(StoreError::Unreadable(_))));

        let found = store.quarantined();
        assert_eq!(
            keys(&found),
            [
                RecordKey::Instance("linux-2".into()),
                RecordKey::Instance("linux-3".into()),
                RecordKey::Job(job_id(8)),
                RecordKey::Pool("linux".into()),
                RecordKey::Exit("linux-2".into()),
                RecordKey::Delivery(delivery("guid-2")),
                RecordKey::Event(subject, 2),
            ]
        );
        let row = &found[0];
        assert_eq!(row.pool.as_ref(), Some(&pool), "it counts against its pool");
        let known = instance("linux-2");
        assert_eq!(row.machine, Some((known.provider, known.machine)), "its machine has an owner");
        assert!(row.to_string().contains("cannot be decoded"), "{row}");
    });
}

#[test]
fn pages_go_on_behind_a_row_that_cannot_be_decoded() {
    on_both(async |url| {
        let (store, lease) = open(&url).await;
        fill(&store, lease.epoch()).await;
        sql(&url, BREAK).await;
        let (mut cursor, mut names) = (None, Vec::new());
        loop {
            let page = Page { limit: 1, cursor };
            let part = store.instances(&InstanceQuery::default(), &page).await.expect("a page");
            names.extend(part.items.into_iter().map(|row| row.id.to_string()));
            cursor = part.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(names, ["linux-1"]);
        let page = Page { limit: 10, cursor: None };
        let jobs = store.jobs(&JobQuery::default(), &page).await.expect("a page");
        assert_eq!(jobs.items.len(), 1);
        let deaths = store.deaths(&DeathQuery::default(), &page).await.expect("a page");
        assert_eq!(deaths.items.len(), 2);
        let events = store.events_after(0, 100).await.expect("events");
        assert_eq!(events.len(), 9, "nine of instances and one of a pool, one of them broken");
        assert_eq!(store.quarantined().len(), 5, "what pages leave out is named as well");
    });
}

#[test]
fn nothing_writes_over_a_row_that_cannot_be_decoded_and_a_mended_one_counts_again() {
    on_both(async |url| {
        let (store, lease) = open(&url).await;
        let epoch = lease.epoch();
        fill(&store, epoch).await;
        sql(&url, BREAK).await;
        store.live_instances(None).await.expect("a read");
        store.pools().await.expect("a read");

        // Its name is used and its machine has an owner.
        let again = InstanceRows::save(&*store, saved(&instance("linux-2"), epoch)).await;
        assert!(again.is_ok(), "{again:?}: the same save again is known by its mark");
        let mut claimant = instance("linux-9");
        claimant.machine = instance("linux-2").machine;
        let taken = InstanceRows::save(&*store, saved(&claimant, epoch)).await;
        assert!(matches!(taken, Err(SaveError::Owned { .. })), "{taken:?}");
        let body = text(&url, "select body from instances where id = 'linux-2'").await;
        assert_eq!(body, "{\"id\":\"linux-2\",\"state\":\"odd\"");

        // A pool's timeline goes on, and its row stays.
        let pool = PoolRow { id: "linux".into(), drained: false, breaker: None, events: 2 };
        let subject = Subject::Pool("linux".into());
        let told = vec![event(&subject, 2, 1)];
        PoolRows::save(&*store, pool, told, epoch).await.expect("its event");
        assert_eq!(text(&url, "select body from pools where id = 'linux'").await, "[]");
        assert_eq!(store.timeline(&subject).await.expect("a read").len(), 2);

        sql(&url, "update instances set body = (select replace(body, 'linux-1', 'linux-2') from instances where id = 'linux-1') where id = 'linux-2'; delete from instances where id = 'linux-3';").await;
        assert_eq!(store.live_instances(None).await.expect("a read").len(), 2);
        assert_eq!(keys(&store.quarantined()), [RecordKey::Pool("linux".into())]);
    });
}
