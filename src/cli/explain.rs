//! `ostler explain`: why something is as it is, from recorded decisions.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::remote::{AskError, Client, Format, Look, Remote, Sheet, encode, text};

/// Explains why an instance, a job or a pool is as it is.
#[derive(Debug, Args)]
pub(super) struct Explain {
    /// What it is.
    kind: Kind,
    /// Its name; for instances also the runner's name, for jobs also the number or the address of its page.
    name: String,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// The machine we run.
    Instance,
    /// One workflow job.
    Job,
    /// What is wanted.
    Pool,
}

impl Explain {
    pub(super) fn run(&self) -> ExitCode {
        let ask = async |client: &Client| match self.kind {
            Kind::Instance => {
                client.get(&format!("/instances/{}/explain", encode(&self.name))).await
            }
            Kind::Pool => client.get(&format!("/pools/{}/explain", encode(&self.name))).await,
            Kind::Job => job(client, &self.name).await,
        };
        self.remote.show("explain", self.format, ask, people)
    }
}

async fn job(client: &Client, name: &str) -> Result<Value, AskError> {
    client.get(&format!("/jobs/{}/explain", encode(&number_in(name)))).await
}

/// Returns the id of a job in whatever a person copied: the id, its number, or its address, which
/// ends in `/job/NUMBER`.
fn number_in(name: &str) -> String {
    let address =
        name.split_once("://").map(|(_, rest)| rest.split(['?', '#']).next().unwrap_or(rest));
    let number = address.and_then(|rest| {
        let (_, tail) = rest.split_once("/job/").or_else(|| rest.split_once("/jobs/"))?;
        tail.split('/').next()
    });
    number.unwrap_or(name).to_owned()
}

fn people(answer: &Value, look: &Look) -> String {
    let subject = &answer["subject"];
    let title = format!("{} {}", text(&subject["kind"]), text(&subject["name"]));
    let lines = answer["lines"].as_array().into_iter().flatten();
    let lines = lines.map(|line| format!("- {}\n", text(line)));
    Sheet::heading(look.paint, &title) + &lines.collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::number_in;

    #[test]
    fn a_job_is_found_by_whatever_was_copied() {
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
