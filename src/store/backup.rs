//! Backups. A backup is a SQLite store file, whichever engine it comes from.
//!
//! From SQLite it is made by `VACUUM INTO`, from PostgreSQL by copying the tables inside one
//! snapshot; both while the daemon runs. It can be restored into an empty store on either engine,
//! which is also the way to move a fleet from a file to a server.

mod tables;

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::error::OpenError;
use super::lease::try_lock;
use super::link::{Link, text};
use super::location::StoreLocation;
use super::sql::{Sql, sql};
use super::upkeep::existing;
use super::{Durability, migrate};
use tables::copy_tables;

/// Writes a backup of a store into a new file. The daemon may run meanwhile.
pub async fn backup(url: &str, to: &Path) -> Result<(), OpenError> {
    let place = StoreLocation::parse(url)?;
    refuse_to_overwrite(to)?;
    let mut link = existing(&place).await?;
    let draft = draft_of(to);
    remove(&draft)?;
    let made = match &place {
        StoreLocation::Sqlite(_) => copy_file(&mut link, &place, &draft).await,
        StoreLocation::Postgres(_) => copy_server(&mut link, &place, &draft).await,
    };
    link.close().await;
    finish(made, &draft, to)
}

/// Restores a backup into an empty store. No daemon may run on it.
pub async fn restore(url: &str, from: &Path) -> Result<(), OpenError> {
    let place = StoreLocation::parse(url)?;
    let source = StoreLocation::Sqlite(from.into());
    let mut backup = existing(&source).await?;
    let sound = check(&mut backup, &source).await;
    let restored = match (sound, &place) {
        (Err(error), _) => Err(error),
        (Ok(()), StoreLocation::Sqlite(path)) => restore_file(&mut backup, &source, path).await,
        (Ok(()), StoreLocation::Postgres(_)) => restore_server(&mut backup, &source, &place).await,
    };
    backup.close().await;
    restored
}

async fn check(backup: &mut Link, place: &StoreLocation) -> Result<(), OpenError> {
    const CHECK: Sql = sql!("select quick_check from pragma_quick_check limit 1");
    let failed = |error| OpenError::failed(place, error);
    let found = migrate::version(backup).await.map_err(failed)?;
    migrate::refuse_newer(found, place)?;
    let said = backup.first(CHECK, Vec::new()).await.map_err(failed)?;
    let said = said.map_or(Ok(String::new()), |row| row.text(0)).map_err(failed)?;
    if said == "ok" {
        return Ok(());
    }
    Err(OpenError::Broken {
        place: place.clone(),
        what: format!("is damaged ({said})"),
        advice: "use another backup",
    })
}

async fn restore_file(
    backup: &mut Link,
    source: &StoreLocation,
    to: &Path,
) -> Result<(), OpenError> {
    let lock = try_lock(&StoreLocation::lock_file(to))?;
    if lock.is_none() {
        return Err(OpenError::Refused {
            what: format!("restore into `{}` while a daemon holds it", to.display()),
            advice: "stop the daemon first".into(),
        });
    }
    refuse_to_overwrite(to)?;
    let draft = draft_of(to);
    remove(&draft)?;
    let made = copy_file(backup, source, &draft).await;
    finish(made, &draft, to)
}

async fn restore_server(
    backup: &mut Link,
    source: &StoreLocation,
    place: &StoreLocation,
) -> Result<(), OpenError> {
    let StoreLocation::Sqlite(path) = source else {
        return Err(OpenError::Url { why: "a backup is a SQLite file".into() });
    };
    let folder = draft_of(path);
    let aside = StoreLocation::Sqlite(folder.join("copy.db"));
    remove_folder(&folder)?;
    fs::create_dir(&folder).map_err(|error| OpenError::file("create", &folder, &error))?;
    let restored = restore_tables(backup, source, &aside, place).await;
    remove_folder(&folder)?;
    restored
}

/// Brings a copy of the backup to our schema, then copies it table by table.
async fn restore_tables(
    backup: &mut Link,
    source: &StoreLocation,
    aside: &StoreLocation,
    place: &StoreLocation,
) -> Result<(), OpenError> {
    const USED: Sql = sql!(
        "select (select count(*) from holders) + (select count(*) from instances) + (select count(*) from jobs)"
    );
    let failed = |error| OpenError::failed(place, error);
    if let StoreLocation::Sqlite(path) = aside {
        copy_file(backup, source, path).await?;
    }
    let mut copy = Link::open(aside, Durability::Normal).await?;
    migrate::up(&mut copy, aside).await?;
    let mut link = Link::open(place, Durability::Full).await?;
    migrate::up(&mut link, place).await?;
    link.begin().await.map_err(failed)?;
    let used = link.first(USED, Vec::new()).await.map_err(failed)?;
    if used.map_or(Ok(0), |row| row.int(0)).map_err(failed)? > 0 {
        return Err(OpenError::Refused {
            what: format!("restore into `{place}`, which holds records"),
            advice: "restore into an empty database".into(),
        });
    }
    copy_tables(&mut copy, &mut link).await.map_err(failed)?;
    link.commit().await.map_err(failed)?;
    link.close().await;
    copy.close().await;
    Ok(())
}

/// Copies a SQLite store, without what it no longer needs, into a new file.
async fn copy_file(link: &mut Link, place: &StoreLocation, to: &Path) -> Result<(), OpenError> {
    const INTO: Sql = sql!("vacuum into $1");
    let path = to.display().to_string();
    link.run(INTO, vec![text(path)]).await.map(drop).map_err(|e| OpenError::failed(place, e))
}

/// Copies a server's tables, as they stand at one moment, into a new SQLite store.
async fn copy_server(link: &mut Link, place: &StoreLocation, to: &Path) -> Result<(), OpenError> {
    let failed = |error| OpenError::failed(place, error);
    let found = migrate::version(link).await.map_err(failed)?;
    let known = migrate::NEWEST;
    if found != known {
        return Err(OpenError::Refused {
            what: format!("back up schema {found} of `{place}` with a program that knows {known}"),
            advice: "use the ostler that runs on it".into(),
        });
    }
    let target = StoreLocation::Sqlite(to.into());
    let mut file = Link::open(&target, Durability::Normal).await?;
    migrate::up(&mut file, &target).await?;
    link.script("begin isolation level repeatable read read only").await.map_err(failed)?;
    file.begin().await.map_err(|error| OpenError::failed(&target, error))?;
    copy_tables(link, &mut file).await.map_err(failed)?;
    file.commit().await.map_err(|error| OpenError::failed(&target, error))?;
    link.rollback().await.map_err(failed)?;
    file.close().await;
    Ok(())
}

fn refuse_to_overwrite(path: &Path) -> Result<(), OpenError> {
    if path.exists() {
        return Err(OpenError::Refused {
            what: format!("overwrite `{}`", path.display()),
            advice: "move it away or name another file".into(),
        });
    }
    Ok(())
}

fn draft_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

fn remove(path: &Path) -> Result<(), OpenError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(OpenError::file("remove", path, &error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

fn remove_folder(path: &Path) -> Result<(), OpenError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(OpenError::file("remove", path, &error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Gives a finished file its name, durably and readable by us alone; an unfinished one is removed.
fn finish(made: Result<(), OpenError>, draft: &Path, to: &Path) -> Result<(), OpenError> {
    if let Err(error) = made {
        remove(draft)?;
        return Err(error);
    }
    let folder = to.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(draft)
        .and_then(|file| {
            file.set_permissions(Permissions::from_mode(0o600))?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(draft, to))
        .and_then(|()| File::open(folder)?.sync_all())
        .map_err(|error| OpenError::file("write", to, &error))
}
