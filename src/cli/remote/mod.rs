//! Asking a running daemon: one way in for every command that does.
//!
//! A command says what it wants to know and how people would like to read it; this module knows the
//! address, the token, the errors and the exit codes. Answers are kept as the daemon sent them: a
//! daemon that is newer than this program may use words we do not know, and they are shown.

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

pub(super) use client::{AskError, Client, Message, encode};
pub(super) use table::{Paint, Sheet};
pub(super) use text::{Tone, age, clip, count, plain, text, time, tone};

use crate::config;

/// Says which daemon is asked, and as whom.
#[derive(Debug, Args)]
#[command(next_help_heading = "The daemon")]
pub(super) struct Remote {
    /// Where the daemon is.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7480")]
    server: String,
    /// The token; better in the environment, as `OSTLER_TOKEN`: arguments are seen by everybody on the machine.
    #[arg(long, value_name = "TOKEN", hide_default_value = true)]
    token: Option<String>,
    /// Certificates (PEM) to trust besides those of this machine.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

/// Says how an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Args)]
pub(super) struct Format {
    /// Prints what the daemon answered, for programs.
    #[arg(long)]
    pub(super) json: bool,
}

/// Tells what the reader's screen can do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// Whether colours are welcome.
    pub(super) paint: Paint,
    /// When it is, for ages.
    pub(super) now: Timestamp,
}

impl Look {
    fn at_stdout() -> Self {
        let coloured = io::stdout().is_terminal() && config::colours_welcome();
        Self { paint: if coloured { Paint::Colours } else { Paint::Plain }, now: Timestamp::now() }
    }
}

impl Remote {
    /// Returns the way to the daemon.
    pub(super) fn client(&self) -> Result<Client, AskError> {
        let token = self.token.clone().or_else(config::operator_token);
        Client::new(&self.server, token, self.ca.as_deref())
    }

    /// Asks, and shows the answer as JSON or for people.
    pub(super) fn show(
        &self,
        name: &str,
        format: Format,
        ask: impl AsyncFnOnce(&Client) -> Result<Value, AskError>,
        people: impl FnOnce(&Value, &Look) -> String,
    ) -> ExitCode {
        self.talk(name, async |client| {
            let answer = ask(client).await?;
            let text = if format.json {
                serde_json::to_string_pretty(&answer).unwrap_or_default() + "\n"
            } else {
                people(&answer, &Look::at_stdout())
            };
            Ok(print(name, &text))
        })
    }

    /// Talks with the daemon; a failure is told to the person, with what to do.
    pub(super) fn talk(
        &self,
        name: &str,
        act: impl AsyncFnOnce(&Client) -> Result<ExitCode, AskError>,
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

/// Prints; a reader that left early is no failure.
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

/// Escapes what a daemon said in an error, line by line.
fn plain_lines(text: &str) -> String {
    text.lines().map(|line| plain(line).into_owned()).collect::<Vec<_>>().join("\n")
}
