//! `ostler instances`: the instances and what they do.

use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::remote::{DaemonClient, Format, Remote, Screen, Sheet, age, text};

/// Lists the instances.
#[derive(Debug, Args)]
pub(super) struct InstancesArgs {
    /// Only this pool.
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
    /// Only this state, for example `busy`.
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
    /// Only those whose name, host, runner or job contains this text.
    #[arg(long, value_name = "TEXT")]
    find: Option<String>,
    /// Only those that make no progress.
    #[arg(long)]
    stuck: bool,
    /// The largest number of rows.
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    limit: usize,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    remote: Remote,
}

impl InstancesArgs {
    pub(super) fn run(&self) -> ExitCode {
        let filters = [
            ("pool", self.pool.as_deref()),
            ("state", self.state.as_deref()),
            ("q", self.find.as_deref()),
            ("stuck", self.stuck.then_some("true")),
        ];
        let ask =
            async |client: &DaemonClient| client.list("/instances", &filters, self.limit).await;
        self.remote.show("instances", self.format, ask, people)
    }
}

fn people(answer: &Value, screen: &Screen) -> String {
    let columns = ["instance", "state", "for", "pool", "job", "host", "runner", ""];
    let mut sheet = Sheet::new(screen.paint, &columns);
    for row in answer["items"].as_array().into_iter().flatten() {
        let job = if row["job"].is_null() { &row["offered_job"] } else { &row["job"] };
        sheet.row([
            text(&row["name"]),
            text(&row["state"]),
            age(&row["since"], screen.now),
            text(&row["pool"]),
            text(job),
            text(&row["host"]),
            text(&row["runner"]["name"]),
            remarks(row),
        ]);
    }
    sheet.or("No instances match.")
}

/// Returns what needs attention about an instance.
pub(super) fn remarks(row: &Value) -> String {
    let mut remarks = Vec::new();
    if row["stuck"] == true {
        remarks.push("stuck".to_owned());
    }
    if let Some(phase) = row["phase"].as_str() {
        remarks.push(phase.to_owned());
    }
    if row["owned"] == false {
        remarks.push("without owner".into());
    }
    if row["removal"].is_object() {
        remarks.push(format!("asked to {}", text(&row["removal"]["urgency"])));
    }
    remarks.join(", ")
}
