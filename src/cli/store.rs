//! `ostler store`: backup, restore, vacuum, stats.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::daemon::tools::upkeep::{self, Stats};
use crate::daemon::tools::{OpenError, backup};

/// Manages the store.
#[derive(Debug, Args)]
pub(super) struct StoreArgs {
    #[command(subcommand)]
    action: StoreAction,
}

#[derive(Debug, Subcommand)]
enum StoreAction {
    /// Writes a backup into a new file, while the daemon runs.
    Backup {
        #[command(flatten)]
        at: StoreTarget,
        /// The file to write; it must not exist.
        #[arg(long, value_name = "FILE")]
        to: PathBuf,
    },
    /// Restores a backup into an empty store on either engine; the daemon must not run.
    Restore {
        #[command(flatten)]
        at: StoreTarget,
        /// The backup file.
        #[arg(long, value_name = "FILE")]
        from: PathBuf,
    },
    /// Returns the space of deleted rows, while the daemon runs.
    Vacuum {
        #[command(flatten)]
        at: StoreTarget,
    },
    /// Shows what the store holds.
    Stats {
        #[command(flatten)]
        at: StoreTarget,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
struct StoreTarget {
    /// The store: `sqlite://PATH` or `postgres://…`.
    #[arg(long, value_name = "URL")]
    store: String,
}

impl StoreArgs {
    pub(super) fn run(&self) -> ExitCode {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let done = match runtime {
            Ok(runtime) => runtime.block_on(self.action.run()),
            Err(error) => {
                eprintln!("ostler store: cannot start: {error}");
                return ExitCode::FAILURE;
            }
        };
        match done {
            Ok(text) => match io::stdout().write_all(text.as_bytes()) {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                    eprintln!("ostler store: cannot write the answer: {error}");
                    ExitCode::FAILURE
                }
                Ok(()) | Err(_) => ExitCode::SUCCESS,
            },
            Err(error) => {
                eprintln!("ostler store: {error}");
                code(&error)
            }
        }
    }
}

impl StoreAction {
    /// Runs the action and returns its output.
    async fn run(&self) -> Result<String, OpenError> {
        match self {
            Self::Backup { at, to } => {
                backup::backup(&at.store, to).await?;
                Ok(format!("backup written to `{}`\n", to.display()))
            }
            Self::Restore { at, from } => {
                backup::restore(&at.store, from).await?;
                Ok(format!("restored from `{}`\n", from.display()))
            }
            Self::Vacuum { at } => {
                let before = upkeep::stats(&at.store).await?.bytes;
                upkeep::vacuum(&at.store).await?;
                let after = upkeep::stats(&at.store).await?.bytes;
                Ok(format!("{before} bytes before, {after} bytes after\n"))
            }
            Self::Stats { at, json } => {
                let stats = upkeep::stats(&at.store).await?;
                Ok(if *json { as_json(&stats) } else { as_table(&stats) })
            }
        }
    }
}

fn code(error: &OpenError) -> ExitCode {
    match error {
        OpenError::Url { .. } => ExitCode::from(2),
        OpenError::Newer { .. }
        | OpenError::Broken { .. }
        | OpenError::Away { .. }
        | OpenError::File { .. }
        | OpenError::Refused { .. } => ExitCode::FAILURE,
    }
}

fn as_json(stats: &Stats) -> String {
    serde_json::json!({
        "store": stats.store,
        "schema": stats.schema,
        "controller": stats.controller,
        "epoch": stats.epoch,
        "bytes": stats.bytes,
        "rows": stats.rows.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
    })
    .to_string()
        + "\n"
}

fn as_table(stats: &Stats) -> String {
    let mut lines = vec![
        ("store".to_owned(), stats.store.clone()),
        ("schema".to_owned(), stats.schema.to_string()),
        ("controller".to_owned(), stats.controller.clone()),
        ("epoch".to_owned(), stats.epoch.to_string()),
        ("bytes".to_owned(), stats.bytes.to_string()),
    ];
    lines.extend(stats.rows.iter().map(|(table, count)| (table.clone(), count.to_string())));
    let lines: Vec<_> = lines.iter().map(|(name, value)| format!("{name:<22}{value}\n")).collect();
    lines.concat()
}
