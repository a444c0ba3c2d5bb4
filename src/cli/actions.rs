//! `ostler pool`, `instance`, `adopt`: requests to the owner of a pool or instance, which may refuse them.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Value, json};

use super::remote::{DaemonClient, Format, Remote, Screen, encode, text};

/// Drains or resumes a pool.
#[derive(Debug, Args)]
pub(super) struct PoolArgs {
    #[command(subcommand)]
    action: PoolAction,
}

#[derive(Debug, Subcommand)]
enum PoolAction {
    /// Creates no more runners and removes idle ones; busy ones finish their jobs.
    Drain(PoolTarget),
    /// Creates runners again.
    Resume(PoolTarget),
}

#[derive(Debug, Args)]
struct PoolTarget {
    /// The name of the pool.
    name: String,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    remote: Remote,
}

impl PoolArgs {
    pub(super) fn run(&self) -> ExitCode {
        let (on, word) = match &self.action {
            PoolAction::Drain(on) => (on, "drain"),
            PoolAction::Resume(on) => (on, "resume"),
        };
        let path = format!("/pools/{}/{word}", encode(&on.name));
        let ask = async |client: &DaemonClient| client.act(Method::POST, &path, None).await;
        on.remote.show("pool", on.format, ask, |answer, _: &Screen| {
            let what = if answer["draining"] == true { "draining" } else { "resumed" };
            format!("pool {}: {what}\n", text(&answer["pool"]))
        })
    }
}

/// Deletes an instance, or forgets one that is out of reach.
#[derive(Debug, Args)]
pub(super) struct InstanceArgs {
    #[command(subcommand)]
    action: InstanceAction,
}

#[derive(Debug, Subcommand)]
enum InstanceAction {
    /// Requests the deletion of an instance; a running job finishes first.
    Delete {
        #[command(flatten)]
        on: InstanceTarget,
        /// Deletes without proof that the instance is free; a running job is killed. Requires `--why`.
        #[arg(long, requires = "why")]
        force: bool,
        /// The reason; recorded in the timeline and in the audit log.
        #[arg(long, value_name = "TEXT", value_parser = why_text)]
        why: Option<String>,
    },
    /// Forgets an instance whose machine is out of reach for good; the machine counts as a leak.
    Forget {
        #[command(flatten)]
        on: InstanceTarget,
        /// The reason; recorded in the timeline and in the audit log.
        #[arg(long, value_name = "TEXT", value_parser = why_text)]
        why: String,
    },
}

#[derive(Debug, Args)]
struct InstanceTarget {
    /// The name of the instance, or of its runner.
    name: String,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    remote: Remote,
}

impl InstanceArgs {
    pub(super) fn run(&self) -> ExitCode {
        match &self.action {
            InstanceAction::Delete { on, force, why } => {
                on.ask(Method::DELETE, "", &json!({ "force": force, "why": why }))
            }
            InstanceAction::Forget { on, why } => {
                on.ask(Method::POST, "/forget", &json!({ "why": why }))
            }
        }
    }
}

impl InstanceTarget {
    fn ask(&self, method: Method, rest: &str, body: &Value) -> ExitCode {
        let path = format!("/instances/{}{rest}", encode(&self.name));
        let ask = async |client: &DaemonClient| client.act(method, &path, Some(body)).await;
        self.remote.show("instance", self.format, ask, |answer, _: &Screen| {
            let (name, word) = (text(&answer["instance"]), text(&answer["answer"]));
            format!("{name}: {word}; {}\n", text(&answer["why"]))
        })
    }
}

/// Adopts machines that carry this fleet's stamp and the name of another daemon.
#[derive(Debug, Args)]
pub(super) struct AdoptArgs {
    /// Machines of a daemon that this store has no record of, as after restoring a backup.
    #[arg(long, required = true)]
    foreign: bool,
    /// The reason; recorded in the audit log.
    #[arg(long, value_name = "TEXT", value_parser = why_text)]
    why: String,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    remote: Remote,
}

impl AdoptArgs {
    pub(super) fn run(&self) -> ExitCode {
        let body = json!({ "why": self.why });
        let ask = async |client: &DaemonClient| {
            client.act(Method::POST, "/foreign/adopt", Some(&body)).await
        };
        self.remote.show("adopt", self.format, ask, |answer, _: &Screen| {
            let machines = text(&answer["machines"]);
            format!(
                "machines adopted: {machines}; after a minute each is removed like any machine without \
                 a record, once its job is over\n"
            )
        })
    }
}

/// Reads a reason, which must not be empty.
fn why_text(text: &str) -> Result<String, String> {
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Err("give the reason in a few words".into());
    }
    Ok(trimmed.to_owned())
}
