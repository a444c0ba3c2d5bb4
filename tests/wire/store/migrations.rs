//! Every schema there ever was comes up to date; one from the future is refused.

use std::fs;
use std::path::{Path, PathBuf};

use ostler::store::{OpenError, Options, SqlStore, upkeep};
use ostler_actors::ports::InstanceRows;
use ostler_actors::testing::contract::{instance, saved};

use super::{file, open, run};
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
    use sqlx::{Connection as _, Executor as _};
    let mut link =
        sqlx::SqliteConnection::connect(&format!("{url}?mode=rwc")).await.expect("a file");
    link.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(script))).await.expect("the old schema");
    link.close().await.expect("a close");
}
