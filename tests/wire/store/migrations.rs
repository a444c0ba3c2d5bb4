//! Every schema there ever was comes up to date under the lease; one from the future is refused.
//!
//! `schema1.db` is a store as the first release wrote it: twenty finished instances with their events,
//! exits, jobs and deliveries. `RENAMED` adds what those lives do not contain.

use std::fs;
use std::path::{Path, PathBuf};

use ostler::ports::{DeathQuery, History as _, InstanceQuery, JobQuery, Page};
use ostler::store::{OpenError, Options, SqlStore, backup, upkeep};
use ostler_actors::model::{Reason, Refusal, Subject, Urgency, What};
use ostler_actors::ports::{InstanceRows, Records as _};
use ostler_actors::testing::contract::{instance, saved};
use sqlx::Connection as _;

use super::{LONG, file, open, run};
use crate::support::postgres::Postgres;

/// Returns the steps of an engine, in order.
fn steps(engine: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store").join(engine);
    let mut steps: Vec<_> = fs::read_dir(folder)
        .expect("the steps")
        .map(|entry| entry.expect("a step").path())
        .collect();
    steps.sort();
    steps
}

/// Returns the script that makes schema `version` as the program of its day did.
fn script(engine: &str, version: usize) -> String {
    let mut script = String::from(
        "create table ostler_schema (version bigint primary key, applied_at bigint not null);\n",
    );
    for (number, step) in (1..).zip(steps(engine)).take(version) {
        script += &fs::read_to_string(step).expect("a step");
        let note = format!("\ninsert into ostler_schema values ({number}, 0);\n");
        script += &note;
    }
    script
}

#[test]
fn both_engines_have_the_same_steps_in_the_same_order() {
    let names = |engine| {
        let steps = steps(engine);
        steps.iter().map(|it| it.file_name().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("sqlite"), names("postgres"));
    for (number, name) in (1..).zip(names("sqlite")) {
        let wanted = format!("{number:04}_");
        assert!(name.to_string_lossy().starts_with(&wanted), "{name:?} is not number {number}");
    }
}

#[test]
fn a_store_of_every_earlier_schema_is_brought_up_to_date_and_works() {
    let newest = steps("sqlite").len();
    let server = Postgres::start();
    for version in 1..=newest {
        let folder = tempfile::tempdir().expect("a folder");
        let url = file(folder.path());
        run(sqlite_script(&url, script("sqlite", version)));
        run(works(&url, newest));
        if let Some(server) = &server {
            let url = server.database();
            server.sql(name(&url), &script("postgres", version));
            run(works(&url, newest));
        }
    }
}

#[test]
fn a_store_of_a_newer_program_is_refused_with_the_way_out_and_left_alone() {
    let server = Postgres::start();
    let folder = tempfile::tempdir().expect("a folder");
    let future = "insert into ostler_schema values (999, 0);";
    let url = file(folder.path());
    run(sqlite_script(&url, script("sqlite", 1) + future));
    run(refused(&url));
    if let Some(server) = &server {
        let url = server.database();
        server.sql(name(&url), &(script("postgres", 1) + future));
        run(refused(&url));
    }
}

async fn refused(url: &str) {
    let error = SqlStore::open(url, Options::default()).await.err().expect("a refusal");
    assert!(matches!(error, OpenError::Newer { found: 999, .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("has schema 999") && text.contains("run the newer ostler"), "{text}");
    assert_eq!(upkeep::stats(url).await.expect("it can still be looked at").schema, 999);
}

/// Rows of the first release with the names that a later one changed, and a text that looks like one.
const RENAMED: &str = r#"
insert into instances (id, pool, provider, machine, state, version, write_id, created_at, since, body) values
 ('old-1', 'old', 'noop', 'old-1', 'busy', 7, 11, 1795017501975547, 1795017502257878,
  '{"id":"old-1","pool":"old","provider":"noop","forge":"github","scope":{"Organization":"acme"},"binding":"early","revision":"f9b8b9ed3c3a","machine":"old-1","uid":null,"host":null,"state":"busy","since":"2026-11-18T15:58:22.257878092Z","created_at":"2026-11-18T15:58:21.975547222Z","version":7,"write":11891238955390095284,"events":4,"wish":{"rank":"forget","reason":"operator","by":{"who":"ops","why":"the \"wish\":null of a \"rank\":1"},"at":"2026-11-18T15:58:22Z"},"create_called_at":null,"seen_at":null,"ready_at":null,"once_started":true,"mints":1,"registration":"none","sealed_jit":null,"last_word":{"setup":"idle","message":"ready","at":"2026-11-18T15:58:22Z"},"offer":null,"executing":null,"job_over":null,"end":null,"warrant":null,"verdict":null,"machine_gone_at":null,"adopted":false}');
insert into events (kind, subject, place, at, body) values
 ('instance', 'old-1', 0, 1, '{"subject":{"instance":"old-1"},"seq":0,"at":"2026-11-18T15:58:22Z","last_at":"2026-11-18T15:58:22Z","count":1,"what":{"wished":{"rank":"forget","reason":"operator","who":"ops","words":"its \"words\": gone"}}}'),
 ('instance', 'old-1', 1, 2, '{"subject":{"instance":"old-1"},"seq":1,"at":"2026-11-18T15:58:22Z","last_at":"2026-11-18T15:58:22Z","count":1,"what":{"refused":{"ask":"retire","why":"leaving"}}}'),
 ('instance', 'old-1', 2, 3, '{"subject":{"instance":"old-1"},"seq":2,"at":"2026-11-18T15:58:22Z","last_at":"2026-11-18T15:58:22Z","count":1,"what":{"doubt":"node `n1` is silent"}}'),
 ('instance', 'old-1', 3, 4, '{"subject":{"instance":"old-1"},"seq":3,"at":"2026-11-18T15:58:22Z","last_at":"2026-11-18T15:58:22Z","count":1,"what":{"nobody":"no pool has label `gpu`"}}');
"#;

#[test]
fn a_store_of_the_first_release_opens_under_its_new_names_and_loses_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ostler.db");
    fs::copy(first_release(), &path).expect("a copy");
    let url = file(folder.path());
    run(sqlite_script(&url, RENAMED.into()));
    let before = run(upkeep::stats(&url)).expect("stats").rows;
    run(async {
        let (store, _lease) = open(&url).await;
        assert_eq!(upkeep::stats(&url).await.expect("stats").schema, 2);
        reads_as_before(&store, 20).await;
        store.close().await;
    });
    let after = run(upkeep::stats(&url)).expect("stats").rows;
    let without_holders = |rows: &[(String, i64)]| rows[..rows.len() - 1].to_vec();
    assert_eq!(without_holders(&before), without_holders(&after));
}

#[test]
fn a_server_of_the_first_release_opens_under_its_new_names_and_loses_nothing() {
    let Some(server) = Postgres::start() else { return };
    let (whole, empty) = (server.database(), server.database());
    // A backup of the first release is restored into a server at the newest schema …
    run(backup::restore(&whole, &first_release())).expect("a restore");
    assert_eq!(run(upkeep::stats(&whole)).expect("stats").schema, 2);
    // … and a server at its schema is upgraded in place.
    server.sql(name(&empty), &(script("postgres", 1) + RENAMED));
    run(async {
        let (store, _lease) = open(&empty).await;
        assert_eq!(upkeep::stats(&empty).await.expect("stats").schema, 2);
        reads_as_before(&store, 0).await;
    });
}

#[test]
fn steps_of_an_older_program_are_on_the_list_after_the_upgrade_and_are_not_made_twice() {
    const LIST: &str = "select count(*), min(version), max(version) from ostler_migrations
         where success and length(checksum) > 0";
    let folder = tempfile::tempdir().expect("a folder");
    let url = file(folder.path());
    run(async {
        sqlite_script(&url, script("sqlite", 1)).await;
        let (store, _lease) = open(&url).await;
        let mut link = sqlx::SqliteConnection::connect(&url).await.expect("a connection");
        let (made, first, last): (i64, i64, i64) =
            sqlx::query_as(LIST).fetch_one(&mut link).await.expect("the list");
        assert_eq!((made, first, last), (2, 1, 2));
        store.close().await;
    });
}

#[test]
fn an_older_store_is_left_alone_until_the_lease_is_taken() {
    let server = Postgres::start();
    let folder = tempfile::tempdir().expect("a folder");
    let url = file(folder.path());
    run(sqlite_script(&url, script("sqlite", 1)));
    run(stands_by_without_upgrading(&url));
    if let Some(server) = &server {
        let url = server.database();
        server.sql(name(&url), &script("postgres", 1));
        run(stands_by_without_upgrading(&url));
    }
}

async fn stands_by_without_upgrading(url: &str) {
    let store = SqlStore::open(url, Options::default()).await.expect("a store");
    store.set_cursor("deliveries", "17").await.expect("a standby writes what needs no lease");
    assert_eq!(upkeep::stats(url).await.expect("stats").schema, 1);
    let lease = store.take_lease(LONG).await.expect("a lease");
    assert_eq!(upkeep::stats(url).await.expect("stats").schema, 2);
    assert_eq!(store.cursor("deliveries").await.expect("a read").as_deref(), Some("17"));
    lease.release().await.expect("a release");
    store.close().await;
}

#[test]
fn an_older_program_that_stood_by_during_the_upgrade_cannot_lead() {
    // What the first release sends when it takes the lease.
    const TAKE: &str = "update lease set epoch = 2, holder = 'old';
         insert into holders (epoch, holder, taken_at) values (2, 'old', 1);";
    let folder = tempfile::tempdir().expect("a folder");
    let url = file(folder.path());
    run(async {
        let (store, lease) = open(&url).await;
        lease.release().await.expect("a release");
        let refused = try_sqlite_script(&url, format!("begin; {TAKE} commit;")).await;
        let why = refused.expect_err("the older program leads").to_string();
        assert!(why.contains("holders.schema"), "{why}");
        assert_eq!(upkeep::stats(&url).await.expect("stats").epoch, 1);
        store.close().await;
    });
}

#[test]
fn a_daemon_that_stood_by_while_a_newer_one_upgraded_stops_with_the_way_out() {
    let server = Postgres::start();
    let future = "insert into ostler_schema values (999, 0);";
    let folder = tempfile::tempdir().expect("a folder");
    let url = file(folder.path());
    run(async {
        let store = SqlStore::open(&url, Options::default()).await.expect("a store");
        sqlite_script(&url, future.into()).await;
        let error = store.take_lease(LONG).await.err().expect("a refusal");
        assert!(matches!(error, OpenError::Newer { found: 999, .. }), "{error}");
    });
    if let Some(server) = &server {
        let url = server.database();
        run(async {
            let store = SqlStore::open(&url, Options::default()).await.expect("a store");
            server.sql(name(&url), future);
            let error = store.take_lease(LONG).await.err().expect("a refusal");
            assert!(matches!(error, OpenError::Newer { found: 999, .. }), "{error}");
        });
    }
}

/// Returns the store that the first release wrote.
fn first_release() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire/store/schema1.db")
}

/// Reads everything, and what `RENAMED` says under its new names.
async fn reads_as_before(store: &SqlStore, finished: usize) {
    let live = store.live_instances(None).await.expect("live rows");
    let [row] = live.as_slice() else { panic!("one row is live: {live:?}") };
    assert_eq!(row.write.0, 11_891_238_955_390_095_284, "no digit is lost");
    let removal = row.removal.as_ref().expect("its removal request");
    assert_eq!((removal.urgency, removal.reason), (Urgency::Forget, Reason::Operator));
    let by = removal.by.as_ref().expect("who asked");
    assert_eq!(by.why, r#"the "wish":null of a "rank":1"#, "texts are not keys");
    assert_eq!(row.setup_report.as_ref().expect("its setup report").message, "ready");

    let timeline = store.timeline_with_places(&Subject::Instance(row.id.clone())).await;
    let timeline: Vec<_> =
        timeline.expect("a timeline").into_iter().map(|it| it.event.what).collect();
    let [requested, refused, unknown, unserved] = timeline.as_slice() else {
        panic!("{timeline:?}")
    };
    let why = Some(r#"its "words": gone"#.to_owned());
    let (who, reason) = (Some("ops".to_owned()), Reason::Operator);
    assert_eq!(*requested, What::RemovalRequested { urgency: Urgency::Forget, reason, who, why });
    let why = Refusal::Terminating;
    assert_eq!(*refused, What::Refused { request: "retire".into(), why });
    assert_eq!(*unknown, What::SightingUnknown("node `n1` is silent".into()));
    assert_eq!(*unserved, What::Unserved("no pool has label `gpu`".into()));

    let events = store.events_after(0, 10_000).await.expect("every event");
    assert_eq!(events.len(), finished * 24 + 4);
    let reports = events.iter().filter(|it| matches!(it.event.what, What::SetupReported { .. }));
    assert_eq!(reports.count(), finished * 4);
    let page = Page { limit: 100, cursor: None };
    assert_eq!(
        store.deaths(&DeathQuery::default(), &page).await.expect("exits").items.len(),
        finished
    );
    assert_eq!(store.jobs(&JobQuery::default(), &page).await.expect("jobs").items.len(), finished);
    let instances = store.instances(&InstanceQuery::default(), &page).await.expect("rows").items;
    assert_eq!(instances.len(), finished + 1);
    assert_eq!(instances.iter().filter(|it| it.setup_report.is_some()).count(), finished + 1);
}

async fn works(url: &str, newest: usize) {
    let (store, lease) = open(url).await;
    let row = instance("linux-1");
    InstanceRows::save(&*store, saved(&row, lease.epoch())).await.expect("a save");
    let schema = upkeep::stats(url).await.expect("stats").schema;
    assert_eq!(usize::try_from(schema), Ok(newest));
}

/// Returns the database's name in a URL.
fn name(url: &str) -> &str {
    let rest = url.strip_prefix("postgres:///").expect("a URL of the test server");
    rest.split_once('?').expect("its parameters").0
}

async fn sqlite_script(url: &str, script: String) {
    try_sqlite_script(url, script).await.expect("the script runs");
}

async fn try_sqlite_script(url: &str, script: String) -> Result<(), sqlx::Error> {
    use sqlx::Executor as _;
    let mut link = sqlx::SqliteConnection::connect(&format!("{url}?mode=rwc")).await?;
    let done = link.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(script))).await.map(drop);
    link.close().await?;
    done
}
