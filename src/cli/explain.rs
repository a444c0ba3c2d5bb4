//! `ostler explain`: why something is as it is, by the recorded decisions.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::remote::{AskError, DaemonClient, Format, Remote, Screen, Sheet, encode, text};

/// Explains why an instance, a job or a pool is as it is.
#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    /// What to explain.
    kind: SubjectKind,
    /// Its name. Instances are found by their runner's name too, jobs by their number or URL.
    name: String,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SubjectKind {
    /// An instance: one machine with its runner.
    Instance,
    /// A workflow job.
    Job,
    /// A pool.
    Pool,
}

impl ExplainArgs {
    pub(super) fn run(&self) -> ExitCode {
        let ask = async |client: &DaemonClient| match self.kind {
            SubjectKind::Instance => {
                client.get(&format!("/instances/{}/explain", encode(&self.name))).await
            }
            SubjectKind::Pool => {
                client.get(&format!("/pools/{}/explain", encode(&self.name))).await
            }
            SubjectKind::Job => job(client, &self.name).await,
        };
        self.remote.show("explain", self.format, ask, people)
    }
}

async fn job(client: &DaemonClient, name: &str) -> Result<Value, AskError> {
    client.get(&format!("/jobs/{}/explain", encode(&number_in(name)))).await
}

/// Returns the id of a job in what a person copied: the id, its number, or its URL, which ends in
/// `/job/NUMBER`.
fn number_in(name: &str) -> String {
    let address =
        name.split_once("://").map(|(_, rest)| rest.split(['?', '#']).next().unwrap_or(rest));
    let number = address.and_then(|rest| {
        let (_, tail) = rest.split_once("/job/").or_else(|| rest.split_once("/jobs/"))?;
        tail.split('/').next()
    });
    number.unwrap_or(name).to_owned()
}

fn people(answer: &Value, screen: &Screen) -> String {
    let subject = &answer["subject"];
    let title = format!("{} {}", text(&subject["kind"]), text(&subject["name"]));
    let lines = answer["lines"].as_array().into_iter().flatten();
    let lines = lines.map(|line| format!("- {}\n", text(line)));
    Sheet::heading(screen.paint, &title) + &lines.collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::number_in;

    #[test]
    fn a_job_is_found_by_id_number_or_url() {
        for (given, id) in [
            ("github/123", "github/123"),
            ("123", "123"),
            ("https://github.com/acme/web/actions/runs/7/job/123", "123"),
            ("https://github.com/acme/web/actions/runs/7/job/123?pr=9#step:2:1", "123"),
            ("https://ghes.example.com/api/v3/repos/acme/web/actions/jobs/123", "123"),
            ("https://elsewhere.example.com", "https://elsewhere.example.com"),
        ] {
            assert_eq!(number_in(given), id);
        }
    }
}
