//! `ostler pools`: what is wanted, and what there is.

use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::remote::{Format, Look, Remote, Sheet, age, count, text};
use super::status::states_of;

/// Lists the pools.
#[derive(Debug, Args)]
pub(super) struct Pools {
    #[command(flatten)]
    remote: Remote,
    #[command(flatten)]
    format: Format,
}

impl Pools {
    pub(super) fn run(&self) -> ExitCode {
        let ask =
            async |client: &super::remote::Client| client.list("/pools", &[], usize::MAX).await;
        self.remote.show("pools", self.format, ask, |answer, look| {
            table(answer["items"].as_array().map_or(&[], Vec::as_slice), look)
        })
    }
}

/// Returns the table of pools.
pub(super) fn table(pools: &[Value], look: &Look) -> String {
    let columns = ["pool", "state", "instances", "want", "max", "demand", "oldest job", "labels"];
    let mut sheet = Sheet::new(look.paint, &columns);
    for pool in pools {
        sheet.row([
            text(&pool["name"]),
            pool_status(pool),
            states_of(&pool["states"]),
            text(&pool["want"]),
            text(&pool["max"]),
            text(&pool["demand"]),
            age(&pool["oldest_queued_at"], look.now),
            text(&pool["labels"]),
        ]);
    }
    sheet.or(
        "No pool is configured. Add a [[pool]] to the configuration; it is read again by itself.",
    )
}

/// Returns the one word that matters most about a pool.
pub(super) fn pool_status(pool: &Value) -> String {
    let word = if pool["breaker_since"].is_string() {
        "breaker open"
    } else if pool["draining"] == true {
        "draining"
    } else if count(&pool["stuck"]) > 0 {
        "stuck"
    } else if pool["settled"] == false {
        "settling"
    } else {
        "ok"
    };
    word.into()
}
