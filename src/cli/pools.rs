//! `ostler pools`: the pools, their targets and their instances.

use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::remote::{Format, Remote, Screen, Sheet, age, count, text};
use super::status::states_of;

/// Lists the pools.
#[derive(Debug, Args)]
pub(super) struct PoolsArgs {
    #[command(flatten)]
    remote: Remote,
    #[command(flatten)]
    format: Format,
}

impl PoolsArgs {
    pub(super) fn run(&self) -> ExitCode {
        let ask = async |client: &super::remote::DaemonClient| {
            client.list("/pools", &[], usize::MAX).await
        };
        self.remote.show("pools", self.format, ask, |answer, screen| {
            table(answer["items"].as_array().map_or(&[], Vec::as_slice), screen)
        })
    }
}

/// Returns the table of pools.
pub(super) fn table(pools: &[Value], screen: &Screen) -> String {
    let columns = ["pool", "state", "instances", "target", "max", "demand", "oldest job", "labels"];
    let mut sheet = Sheet::new(screen.paint, &columns);
    for pool in pools {
        sheet.row([
            text(&pool["name"]),
            pool_status(pool),
            states_of(&pool["states"]),
            text(&pool["want"]),
            text(&pool["max"]),
            text(&pool["demand"]),
            age(&pool["oldest_queued_at"], screen.now),
            text(&pool["labels"]),
        ]);
    }
    sheet.or(
        "No pools configured. Add a [[pool]] to the configuration; it is reloaded automatically.",
    )
}

/// Returns the condition of a pool that matters most.
pub(super) fn pool_status(pool: &Value) -> String {
    let word = if pool["breaker_since"].is_string() {
        "breaker open"
    } else if pool["draining"] == true {
        "draining"
    } else if count(&pool["stuck"]) > 0 {
        "stuck"
    } else if pool["settled"] == false {
        "settling"
    } else if pool["failing"].is_object() {
        "failing"
    } else {
        "ok"
    };
    word.into()
}
