//! Calls to a running daemon: the one way for every command that needs it.
//!
//! A command names the path and how people read the answer; this module knows the address, the
//! token, the errors and the exit codes. Answers stay as the daemon sent them: a daemon that is newer
//! than this program may use values we do not know, and they are shown.

mod address;
mod client;
mod table;
mod text;

use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use jiff::Timestamp;
use serde_json::Value;

pub(super) use client::{AskError, DaemonClient, StreamMessage, encode};
pub(super) use table::{Paint, Sheet};
pub(super) use text::{Tone, age, clip, count, plain, text, time, tone};

use crate::config;

/// The daemon to call, and the token to call it with.
#[derive(Debug, Args)]
#[command(next_help_heading = "Daemon")]
pub(super) struct Remote {
    /// The URL of the daemon.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7480")]
    server: String,
    /// The token. `OSTLER_TOKEN` is safer: every user of the machine can read arguments.
    #[arg(long, value_name = "TOKEN", hide_default_value = true)]
    token: Option<String>,
    /// Certificates (PEM) to trust in addition to those of this machine.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

/// How an answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Args)]
pub(super) struct Format {
    /// Prints the answer of the daemon as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

/// What the output can show.
#[derive(Clone, Copy, Debug)]
pub(super) struct Screen {
    /// Whether colours are used.
    pub(super) paint: Paint,
    /// The time that ages are counted from.
    pub(super) now: Timestamp,
}

impl Screen {
    fn at_stdout() -> Self {
        let coloured = io::stdout().is_terminal() && config::colours_welcome();
        Self { paint: if coloured { Paint::Colours } else { Paint::Plain }, now: Timestamp::now() }
    }
}

impl Remote {
    /// Returns the client.
    pub(super) fn client(&self) -> Result<DaemonClient, AskError> {
        let token = self.token.clone().or_else(config::operator_token);
        DaemonClient::new(&self.server, token, self.ca.as_deref())
    }

    /// Sends a request and prints the answer as JSON or for people.
    pub(super) fn show(
        &self,
        name: &str,
        format: Format,
        ask: impl AsyncFnOnce(&DaemonClient) -> Result<Value, AskError>,
        people: impl FnOnce(&Value, &Screen) -> String,
    ) -> ExitCode {
        self.with_client(name, async |client| {
            let answer = ask(client).await?;
            let text = if format.json {
                serde_json::to_string_pretty(&answer).unwrap_or_default() + "\n"
            } else {
                people(&answer, &Screen::at_stdout())
            };
            Ok(print(name, &text))
        })
    }

    /// Runs a command against the daemon; a failure is printed with what to do.
    pub(super) fn with_client(
        &self,
        name: &str,
        act: impl AsyncFnOnce(&DaemonClient) -> Result<ExitCode, AskError>,
    ) -> ExitCode {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => {
                eprintln!("ostler {name}: cannot start: {error}");
                return ExitCode::FAILURE;
            }
        };
        let done = runtime.block_on(async { act(&self.client()?).await });
        done.unwrap_or_else(|error| {
            eprintln!("ostler {name}: {}", plain_lines(&error.to_string()));
            error.code()
        })
    }
}

/// Prints a text. A closed pipe is no failure.
pub(super) fn print(name: &str, text: &str) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("ostler {name}: cannot write the answer: {error}");
            ExitCode::FAILURE
        }
        Ok(()) | Err(_) => ExitCode::SUCCESS,
    }
}

/// Escapes the text of an error line by line: a daemon may be anyone's.
fn plain_lines(text: &str) -> String {
    text.lines().map(|line| plain(line).into_owned()).collect::<Vec<_>>().join("\n")
}
