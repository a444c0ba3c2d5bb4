//! Reads the tables of GARM's SQLite database as they are, whatever columns they have.

use std::path::Path;

use serde_json::{Map, Value};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, Column as _, ConnectOptions as _, Connection as _, Row as _};
use sqlx::{TypeInfo as _, ValueRef as _};

use super::ImportError;
use super::survey::{Place, Rows};

/// The tables that are read; any of them may be missing.
const TABLES: &[(&str, Place)] = &[
    ("github_endpoints", |rows| &mut rows.endpoints),
    ("github_credentials", |rows| &mut rows.credentials),
    ("gitea_credentials", |rows| &mut rows.gitea),
    ("repositories", |rows| &mut rows.repositories),
    ("organizations", |rows| &mut rows.organizations),
    ("enterprises", |rows| &mut rows.enterprises),
    ("pools", |rows| &mut rows.pools),
    ("pool_tags", |rows| &mut rows.pool_tags),
    ("tags", |rows| &mut rows.tags),
    ("scale_sets", |rows| &mut rows.scale_sets),
    ("controller_infos", |rows| &mut rows.controllers),
];

/// Reads a database; the file is not changed.
pub async fn from_file(path: &Path) -> Result<Rows, ImportError> {
    let failed = |error: sqlx::Error| ImportError::Database {
        path: path.display().to_string(),
        why: error.to_string(),
    };
    let options = SqliteConnectOptions::new().filename(path).read_only(true);
    let mut link = options.connect().await.map_err(failed)?;
    let mut rows = Rows::default();
    let names: Vec<(String,)> =
        sqlx::query_as("select name from sqlite_master where type = 'table'")
            .fetch_all(&mut link)
            .await
            .map_err(failed)?;
    for (table, place) in TABLES {
        if names.iter().any(|(name,)| name == table) {
            *place(&mut rows) = read(&mut link, table).await.map_err(failed)?;
        }
    }
    link.close().await.map_err(failed)?;
    if !names.iter().any(|(name,)| name == "pools") {
        let why = "it has no table `pools`; name the file that `[database.sqlite3] db_file` names";
        return Err(ImportError::Database { path: path.display().to_string(), why: why.into() });
    }
    Ok(rows)
}

async fn read(link: &mut SqliteConnection, table: &str) -> Result<Vec<Value>, sqlx::Error> {
    // The names are ours, from the list above.
    let query = AssertSqlSafe(format!("select * from {table}"));
    let rows = sqlx::query(query).fetch_all(link).await?;
    let rows = rows.iter().map(object);
    // What GARM deleted it only marks.
    let kept = rows.filter(|row| row.get("deleted_at").is_none_or(Value::is_null));
    Ok(kept.collect())
}

fn object(row: &SqliteRow) -> Value {
    let mut object = Map::new();
    for (at, column) in row.columns().iter().enumerate() {
        object.insert(column.name().to_owned(), cell(row, at));
    }
    Value::Object(object)
}

/// Returns a cell as JSON. Secrets are blobs, and blobs that are no text stay unread.
fn cell(row: &SqliteRow, at: usize) -> Value {
    let Ok(raw) = row.try_get_raw(at) else { return Value::Null };
    if raw.is_null() {
        return Value::Null;
    }
    match raw.type_info().name() {
        "INTEGER" | "BOOLEAN" | "NUMERIC" => {
            row.try_get_unchecked::<i64, _>(at).map_or(Value::Null, Value::from)
        }
        "REAL" => row.try_get_unchecked::<f64, _>(at).map_or(Value::Null, Value::from),
        "BLOB" => {
            let bytes = row.try_get_unchecked::<Vec<u8>, _>(at).unwrap_or_default();
            String::from_utf8(bytes).map_or(Value::Null, Value::from)
        }
        _ => row.try_get_unchecked::<String, _>(at).map_or(Value::Null, Value::from),
    }
}
