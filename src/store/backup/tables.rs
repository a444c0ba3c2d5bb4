//! Copying tables between the engines, in pieces, by the order of their keys.

use serde_json::Value;

use ColumnKind::{Int, Text};

use crate::store::link::{Arg, Link, Row, int, text};
use crate::store::rows::json;
use crate::store::sql::{Sql, sql};

/// How many rows are copied at a time.
const CHUNK: i64 = 1_000;

/// Describes a table to be copied: the columns that order it come first.
struct CopiedTable {
    name: &'static str,
    keys: usize,
    columns: &'static [(&'static str, ColumnKind)],
    counts: bool,
}

#[derive(Clone, Copy)]
enum ColumnKind {
    Text,
    Int,
}

/// Every table but those of the migrations, which the new store has already.
const TABLES: &[CopiedTable] = &[
    table("identity", 1, &[("one", Int), ("controller", Text), ("created_at", Int)]),
    table(
        "lease",
        1,
        &[("one", Int), ("epoch", Int), ("holder", Text), ("process", Text), ("expires_at", Int)],
    ),
    table("holders", 1, &[("epoch", Int), ("holder", Text), ("schema", Int), ("taken_at", Int)]),
    table("pools", 1, &[("id", Text), ("body", Text)]),
    table(
        "instances",
        1,
        &[
            ("id", Text),
            ("pool", Text),
            ("provider", Text),
            ("machine", Text),
            ("state", Text),
            ("version", Int),
            ("write_id", Int),
            ("created_at", Int),
            ("since", Int),
            ("body", Text),
        ],
    ),
    table(
        "exits",
        1,
        &[
            ("instance", Text),
            ("pool", Text),
            ("verdict", Text),
            ("at", Int),
            ("body", Text),
            ("tail", Text),
        ],
    ),
    counting(
        "events",
        &[
            ("seq", Int),
            ("kind", Text),
            ("subject", Text),
            ("place", Int),
            ("at", Int),
            ("body", Text),
        ],
    ),
    table(
        "jobs",
        2,
        &[
            ("forge", Text),
            ("number", Int),
            ("pool", Text),
            ("state", Text),
            ("open", Int),
            ("heard_at", Int),
            ("over_at", Int),
            ("body", Text),
        ],
    ),
    table("tombstones", 2, &[("forge", Text), ("number", Int), ("at", Int)]),
    counting("ledger_writes", &[("seq", Int), ("write_id", Int)]),
    counting("inbox", &[("seq", Int), ("delivery", Text), ("notice", Text), ("accepted_at", Int)]),
    table("cursors", 1, &[("name", Text), ("value", Text), ("at", Int)]),
    counting(
        "audit",
        &[("seq", Int), ("at", Int), ("who", Text), ("what", Text), ("detail", Text)],
    ),
];

const fn table(
    name: &'static str,
    keys: usize,
    columns: &'static [(&'static str, ColumnKind)],
) -> CopiedTable {
    CopiedTable { name, keys, columns, counts: false }
}

const fn counting(
    name: &'static str,
    columns: &'static [(&'static str, ColumnKind)],
) -> CopiedTable {
    CopiedTable { name, keys: 1, columns, counts: true }
}

/// Makes the tables of one store hold what those of another hold.
pub(super) async fn copy_tables(from: &mut Link, to: &mut Link) -> Result<(), sqlx::Error> {
    const FREE: Sql = sql!("update lease set process = null, expires_at = 0");
    for table in TABLES {
        to.run_text(format!("delete from {}", table.name), Vec::new()).await?;
        let mut last: Option<Row> = None;
        loop {
            let rows =
                from.all_text(table.select(last.is_some()), table.after(last.as_ref())?).await?;
            let cells: Vec<Vec<Value>> =
                rows.iter().map(|row| table.cells(row)).collect::<Result<_, _>>()?;
            if cells.is_empty() {
                break;
            }
            let insert = table.insert(matches!(to, Link::Postgres(_)));
            to.run_text(insert, vec![text(json(&cells))]).await?;
            last = rows.into_iter().next_back();
        }
        if table.counts && matches!(to, Link::Postgres(_)) {
            to.all_text(table.count_on(), Vec::new()).await?;
        }
    }
    // The copy is held by no daemon.
    to.run(FREE, Vec::new()).await.map(drop)
}

impl CopiedTable {
    fn names(&self) -> String {
        let names: Vec<_> = self.columns.iter().map(|(name, _)| *name).collect();
        names.join(", ")
    }

    fn keys(&self) -> String {
        let names: Vec<_> = self.columns.iter().take(self.keys).map(|(name, _)| *name).collect();
        names.join(", ")
    }

    fn select(&self, goes_on: bool) -> String {
        let (names, keys, name) = (self.names(), self.keys(), self.name);
        let after = match (goes_on, self.keys) {
            (false, _) => String::new(),
            (true, 1) => format!("where {keys} > $2"),
            (true, _) => format!("where ({keys}) > ($2, $3)"),
        };
        format!("select {names} from {name} {after} order by {keys} limit $1")
    }

    fn after(&self, last: Option<&Row>) -> Result<Vec<Arg>, sqlx::Error> {
        let mut args = vec![int(CHUNK)];
        if let Some(row) = last {
            for (at, (_, kind)) in self.columns.iter().take(self.keys).enumerate() {
                args.push(match kind {
                    Text => Arg::Text(row.maybe_text(at)?),
                    Int => Arg::Int(row.maybe_int(at)?),
                });
            }
        }
        Ok(args)
    }

    fn cells(&self, row: &Row) -> Result<Vec<Value>, sqlx::Error> {
        let cell = |(at, (_, kind)): (usize, &(&str, ColumnKind))| {
            Ok(match kind {
                Text => row.maybe_text(at)?.map_or(Value::Null, Value::from),
                Int => row.maybe_int(at)?.map_or(Value::Null, Value::from),
            })
        };
        self.columns.iter().enumerate().map(cell).collect()
    }

    fn insert(&self, postgres: bool) -> String {
        let cell = |(at, (_, kind)): (usize, &(&str, ColumnKind))| match kind {
            Text => format!("j.value->>{at}"),
            Int => format!("cast(j.value->>{at} as bigint)"),
        };
        let cells: Vec<_> = self.columns.iter().enumerate().map(cell).collect();
        let each = if postgres {
            "json_array_elements($1::json) as j(value)"
        } else {
            "json_each($1) as j"
        };
        let (name, names) = (self.name, self.names());
        format!("insert into {name} ({names}) select {} from {each}", cells.join(", "))
    }

    /// Makes the server count on from the highest number that was copied.
    fn count_on(&self) -> String {
        let name = self.name;
        format!(
            "select setval(pg_get_serial_sequence('{name}', 'seq'), coalesce(max(seq), 1), max(seq) is not null) from {name}"
        )
    }
}
