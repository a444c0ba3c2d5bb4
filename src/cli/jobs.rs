//! `ostler jobs`: which jobs wait and why, and where the others run.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::remote::{DaemonClient, Format, Remote, Screen, Sheet, age, clip, text};

/// States in which a job is not over.
const OPEN: [&str; 4] = ["waiting", "queued", "offered", "running"];

/// Lists open jobs and why they wait.
#[derive(Debug, Args)]
pub(super) struct JobsArgs {
    /// Only this state: `waiting`, `queued`, `offered`, `running`, `completed`, `closed`.
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
    /// The largest number of rows per state.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    limit: usize,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    remote: Remote,
}

impl JobsArgs {
    pub(super) fn run(&self) -> ExitCode {
        let ask = async |client: &DaemonClient| match &self.state {
            Some(state) => client.list("/jobs", &[("state", Some(state))], self.limit).await,
            None => open(client, self.limit).await,
        };
        self.remote.show("jobs", self.format, ask, people)
    }
}

/// Returns all jobs that are not over.
pub(super) async fn open(
    client: &DaemonClient,
    most: usize,
) -> Result<Value, super::remote::AskError> {
    let mut items = Vec::new();
    for state in OPEN {
        let mut page = client.list("/jobs", &[("state", Some(state))], most).await?;
        if let Value::Array(found) = page["items"].take() {
            items.extend(found);
        }
    }
    Ok(json!({ "items": items, "next_cursor": null }))
}

fn people(answer: &Value, screen: &Screen) -> String {
    let columns = ["job", "name", "state", "for", "repository", "pool", "on", "why"];
    let mut sheet = Sheet::new(screen.paint, &columns);
    for row in answer["items"].as_array().into_iter().flatten() {
        let on = if row["instance"].is_null() { &row["offered_to"] } else { &row["instance"] };
        sheet.row([
            text(&row["id"]),
            clip(&text(&row["name"]), 40),
            text(&row["state"]),
            age(since(row), screen.now),
            text(&row["repository"]),
            text(&row["pool"]),
            text(on),
            if row["conclusion"].is_null() { text(&row["why"]) } else { text(&row["conclusion"]) },
        ]);
    }
    sheet.or("No jobs queued or running.")
}

/// Returns since when a job is in its state.
pub(super) fn since(row: &Value) -> &Value {
    let times = [&row["over_at"], &row["started_at"]];
    times.into_iter().find(|at| !at.is_null()).unwrap_or(&row["queued_at"])
}
