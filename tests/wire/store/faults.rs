//! Disks that are full, files that are read-only or damaged: what is said, and what goes on after.

use std::fs;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use ostler::store::{OpenError, Options, SqlStore};
use ostler_actors::ports::{Inbox as _, InstanceRows, Records as _, SaveError};
use ostler_actors::testing::contract::{delivery, exit_record, instance, notice, saved};

use super::{LONG, file, next, on_both, open, run};
use crate::support::skip;

const FOLDER: &str = "OSTLER_TEST_FOLDER";

#[test]
fn one_save_the_database_cannot_digest_does_not_fail_its_neighbours() {
    on_both(async |url| {
        let (store, lease) = open(&url).await;
        // PostgreSQL has no text with a zero byte; SQLite has, so there both succeed.
        let mut poison = instance("poison");
        poison.machine = "zero\0byte".into();
        let epoch = lease.epoch();
        let (bad, good) = (saved(&poison, epoch), saved(&instance("good"), epoch));
        let (bad, good, heard) = tokio::join!(
            InstanceRows::save(&*store, bad),
            InstanceRows::save(&*store, good),
            store.accept(delivery("guid"), notice(1)),
        );
        good.expect("the neighbour");
        heard.expect("the delivery");
        if url.starts_with("postgres") {
            assert!(matches!(bad, Err(SaveError::Retry(_))), "{bad:?}");
        }
        let row = next(&instance("good"));
        InstanceRows::save(&*store, saved(&row, epoch)).await.expect("life goes on");
    });
}

#[test]
fn a_full_disk_refuses_saves_keeps_what_was_saved_and_heals() {
    let folder = tempfile::tempdir().expect("a folder");
    let myself = std::env::current_exe().expect("this test");
    let inside = "wire::store::faults::inside_a_small_disk";
    let spaces: &[&[&str]] = &[&["--mount"], &["--user", "--map-root-user", "--mount"]];
    for space in spaces {
        // A private view of the disks: what is mounted there goes with the child.
        let mut can = Command::new("unshare");
        can.args(*space).args(["mount", "-t", "tmpfs", "none"]).arg(folder.path());
        if !can.output().is_ok_and(|out| out.status.success()) {
            continue;
        }
        let out = Command::new("unshare")
            .args(*space)
            .arg(&myself)
            .args(["--ignored", "--exact", "--nocapture", inside])
            .env(FOLDER, folder.path())
            .output()
            .expect("unshare starts");
        let said = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    skip::say("no small disk can be mounted here, neither as root nor in a user namespace");
}

#[test]
#[ignore = "is run as a child with a private view of the disks"]
fn inside_a_small_disk() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=2m", "small", &folder]).status();
    assert!(mounted.expect("mount starts").success());
    run(fill_the_disk(&PathBuf::from(folder)));
}

async fn fill_the_disk(folder: &Path) {
    let (store, lease) = open(&file(folder)).await;
    let ballast = folder.join("ballast");
    fs::write(&ballast, vec![0; 600_000]).expect("room for ballast");
    let mut kept = Vec::new();
    let refused = loop {
        let row = instance(&format!("linux-{}", kept.len()));
        let mut save = saved(&row, lease.epoch());
        let mut record = exit_record(&row);
        record.tail = ostler_actors::model::Tail::Captured("x".repeat(20_000));
        save.exit = Some(record);
        let answer = InstanceRows::save(&*store, save.clone()).await;
        let Err(error) = answer else {
            kept.push(row);
            assert!(kept.len() < 1_000, "the disk is never full");
            continue;
        };
        assert!(matches!(&error, SaveError::Retry(why) if why.contains("full")), "{error}");
        break save;
    };
    assert!(!kept.is_empty());
    let (_, why) = store.health().failing().expect("the store says that it takes no saves");
    assert!(why.contains("full"), "{why}");
    let rows = store.live_instances(None).await.expect("reads go on");
    assert_eq!(rows.len(), kept.len(), "what was acknowledged is there, what was refused is not");
    fs::remove_file(ballast).expect("our ballast");
    InstanceRows::save(&*store, refused).await.expect("the same save, once there is room");
    assert_eq!(store.health().failing(), None, "it heals");
    assert_eq!(store.live_instances(None).await.expect("a read").len(), kept.len() + 1);
}

#[test]
fn a_read_only_file_is_refused_with_the_way_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let myself = std::env::current_exe().expect("this test");
    let url = file(folder.path());
    run(async {
        let (store, lease) = open(&url).await;
        drop(lease);
        store.close().await;
    });
    let path = folder.path().join("ostler.db");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).expect("our file");
    if fs::File::options().write(true).open(&path).is_ok() {
        // Root may write everything, so another user tries. The program must be in his reach.
        let open = fs::Permissions::from_mode(0o777);
        fs::set_permissions(folder.path(), open).expect("our folder");
        let copy = folder.path().join("test");
        fs::copy(&myself, &copy).expect("a copy");
        let out = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&copy)
            .args(["--ignored", "--exact", "--nocapture"])
            .arg("wire::store::faults::inside_without_rights")
            .env(FOLDER, folder.path())
            .current_dir("/")
            .output()
            .expect("setpriv starts");
        let said = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success() && said.contains("1 passed"), "{said}");
    } else {
        run(refused(&url, "read-only", "make the file and its folder writable"));
    }
}

#[test]
#[ignore = "is run as a child that is not root"]
fn inside_without_rights() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    run(refused(&file(Path::new(&folder)), "read-only", "make the file and its folder writable"));
}

async fn refused(url: &str, what: &str, advice: &str) {
    let error = SqlStore::open(url, Options::default()).await.err().expect("a refusal");
    assert!(matches!(error, OpenError::Broken { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains(what) && text.contains(advice), "{text}");
}

#[test]
fn a_folder_that_is_not_there_is_refused_with_the_way_out() {
    let folder = tempfile::tempdir().expect("a folder");
    run(refused(&file(&folder.path().join("nowhere")), "cannot be opened", "create its folder"));
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ostler.db");
    fs::write(&path, "not a database, but the only copy of something").expect("a file");
    run(refused(&file(folder.path()), "damaged", "restore the last backup"));
    let text = fs::read_to_string(&path).expect("the file");
    assert!(text.starts_with("not a database"));
}

#[test]
fn a_file_damaged_inside_is_noticed_and_no_save_is_acknowledged_into_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = file(folder.path());
    run(async {
        let (store, lease) = open(&url).await;
        for number in 0..200 {
            let row = instance(&format!("linux-{number}"));
            InstanceRows::save(&*store, saved(&row, lease.epoch())).await.expect("a save");
        }
        lease.release().await.expect("a release");
        store.close().await;
    });
    let mut disk = fs::File::options().write(true).open(folder.path().join("ostler.db"));
    let disk = disk.as_mut().expect("the file");
    // Behind the first pages, which hold the schema: rows and indexes.
    let length = disk.metadata().expect("the file").len();
    disk.seek(SeekFrom::Start(100_000)).expect("a place");
    disk.write_all(&vec![0xA5; usize::try_from(length).expect("a small file") - 100_000])
        .expect("damage");
    run(async {
        let store = SqlStore::open(&url, Options::default()).await;
        let Ok(store) = store else { return };
        let rows = store.live_instances(None).await;
        let lease = store.take_lease(LONG).await;
        let saved = match &lease {
            Ok(lease) => {
                let row = instance("linux-new");
                InstanceRows::save(&store, saved(&row, lease.epoch())).await.err()
            }
            Err(_) => None,
        };
        let told = rows.is_err() || lease.is_err() || saved.is_some();
        assert!(told, "read and wrote a damaged file as if nothing were wrong");
    });
}
