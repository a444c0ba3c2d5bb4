//! `ostler pool`, `instance`, `adopt`: what an operator asks for. Owners answer, and may refuse.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Value, json};

use super::remote::{Client, Format, Look, Remote, encode, text};

/// Drains a pool, or resumes it.
#[derive(Debug, Args)]
pub(super) struct Pool {
    #[command(subcommand)]
    action: PoolAction,
}

#[derive(Debug, Subcommand)]
enum PoolAction {
    /// Makes no new runners and lets idle ones go; busy ones finish their jobs.
    Drain(OnPool),
    /// Makes runners again.
    Resume(OnPool),
}

#[derive(Debug, Args)]
struct OnPool {
    /// The pool.
    name: String,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    remote: Remote,
}

impl Pool {
    pub(super) fn run(&self) -> ExitCode {
        let (on, word) = match &self.action {
            PoolAction::Drain(on) => (on, "drain"),
            PoolAction::Resume(on) => (on, "resume"),
        };
        let path = format!("/pools/{}/{word}", encode(&on.name));
        let ask = async |client: &Client| client.act(Method::POST, &path, None).await;
        on.remote.show("pool", on.format, ask, |answer, _: &Look| {
            let what = if answer["draining"] == true { "drains" } else { "makes runners again" };
            format!("{} {what}\n", text(&answer["pool"]))
        })
    }
}

/// Asks an instance to go, or strikes it off.
#[derive(Debug, Args)]
pub(super) struct Instance {
    #[command(subcommand)]
    action: InstanceAction,
}

#[derive(Debug, Subcommand)]
enum InstanceAction {
    /// Asks it to go, once that is safe.
    Delete {
        #[command(flatten)]
        on: OnInstance,
        /// Deletes it without proof that it is free: kills a running job. Needs `--why`.
        #[arg(long, requires = "why")]
        force: bool,
        /// Why; kept in its timeline and in the audit log.
        #[arg(long, value_name = "TEXT", value_parser = why_text)]
        why: Option<String>,
    },
    /// Strikes it off: its machine is out of our reach for good. Counted in `leaks`.
    Forget {
        #[command(flatten)]
        on: OnInstance,
        /// Why; kept in its timeline and in the audit log.
        #[arg(long, value_name = "TEXT", value_parser = why_text)]
        why: String,
    },
}

#[derive(Debug, Args)]
struct OnInstance {
    /// The instance, or its runner's name.
    name: String,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    remote: Remote,
}

impl Instance {
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

impl OnInstance {
    fn ask(&self, method: Method, rest: &str, body: &Value) -> ExitCode {
        let path = format!("/instances/{}{rest}", encode(&self.name));
        let ask = async |client: &Client| client.act(method, &path, Some(body)).await;
        self.remote.show("instance", self.format, ask, |answer, _: &Look| {
            let (name, word) = (text(&answer["instance"]), text(&answer["answer"]));
            format!("{name}: {word}; {}\n", text(&answer["why"]))
        })
    }
}

/// Takes machines over that carry our stamp and another daemon's name.
#[derive(Debug, Args)]
pub(super) struct Adopt {
    /// The machines of a holder this store never had: after a restore, a copied database.
    #[arg(long, required = true)]
    foreign: bool,
    /// Why; kept in the audit log.
    #[arg(long, value_name = "TEXT", value_parser = why_text)]
    why: String,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    remote: Remote,
}

impl Adopt {
    pub(super) fn run(&self) -> ExitCode {
        let body = json!({ "why": self.why });
        let ask =
            async |client: &Client| client.act(Method::POST, "/foreign/adopt", Some(&body)).await;
        self.remote.show("adopt", self.format, ask, |answer, _: &Look| {
            let machines = text(&answer["machines"]);
            format!(
                "machines taken over: {machines}; they are looked at for a minute, then they leave \
                 like any machine without a record, running jobs first\n"
            )
        })
    }
}

/// Reads a reason: it must say something.
fn why_text(text: &str) -> Result<String, String> {
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Err("say why in a few words".into());
    }
    Ok(trimmed.to_owned())
}
