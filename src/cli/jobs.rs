//! `ostler jobs`: who waits and why, what runs where.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::remote::{Client, Format, Look, Remote, Sheet, age, clip, text};

/// States in which a job is not over.
const OPEN: [&str; 4] = ["waiting", "queued", "offered", "running"];

/// Lists the jobs that are not over, and why they wait.
#[derive(Debug, Args)]
pub(super) struct Jobs {
    /// Only those in a state: `waiting`, `queued`, `offered`, `running`, `completed`, `closed`.
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
    /// At most so many of each state.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    limit: usize,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    remote: Remote,
}

impl Jobs {
    pub(super) fn run(&self) -> ExitCode {
        let ask = async |client: &Client| match &self.state {
            Some(state) => client.list("/jobs", &[("state", Some(state))], self.limit).await,
            None => open(client, self.limit).await,
        };
        self.remote.show("jobs", self.format, ask, people)
    }
}

/// Returns all jobs that are not over.
pub(super) async fn open(client: &Client, most: usize) -> Result<Value, super::remote::AskError> {
    let mut items = Vec::new();
    for state in OPEN {
        let mut page = client.list("/jobs", &[("state", Some(state))], most).await?;
        if let Value::Array(found) = page["items"].take() {
            items.extend(found);
        }
    }
    Ok(json!({ "items": items, "next_cursor": null }))
}

fn people(answer: &Value, look: &Look) -> String {
    let columns = ["job", "name", "state", "for", "repository", "pool", "on", "why"];
    let mut sheet = Sheet::new(look.paint, &columns);
    for row in answer["items"].as_array().into_iter().flatten() {
        let on = if row["instance"].is_null() { &row["offered_to"] } else { &row["instance"] };
        sheet.row([
            text(&row["id"]),
            clip(&text(&row["name"]), 40),
            text(&row["state"]),
            age(since(row), look.now),
            text(&row["repository"]),
            text(&row["pool"]),
            text(on),
            if row["conclusion"].is_null() { text(&row["why"]) } else { text(&row["conclusion"]) },
        ]);
    }
    sheet.or("No job matches.")
}

/// Returns since when a job is where it is.
pub(super) fn since(row: &Value) -> &Value {
    let times = [&row["over_at"], &row["started_at"]];
    times.into_iter().find(|at| !at.is_null()).unwrap_or(&row["queued_at"])
}
