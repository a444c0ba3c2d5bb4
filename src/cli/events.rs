//! `ostler events`: the events of the store, as a list or as they happen.

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::remote::{AskError, DaemonClient, Format, Remote, StreamMessage, count, text};

/// How long to wait before a lost connection is opened again.
const RECONNECT_DELAY: Duration = Duration::from_secs(2);
/// How long the stream may be silent before the list of past events counts as complete.
const END_OF_LIST_TIMEOUT: Duration = Duration::from_secs(1);

/// Prints events: with `--follow` as they happen, else those on record.
#[derive(Debug, Args)]
pub(super) struct EventsArgs {
    /// Keeps printing new events; a lost connection is resumed without a gap.
    #[arg(long, short)]
    follow: bool,
    /// Starts after the event with this number.
    #[arg(long, value_name = "ID")]
    after: Option<String>,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    remote: Remote,
}

impl EventsArgs {
    pub(super) fn run(&self) -> ExitCode {
        self.remote.with_client("events", async |client| self.print(client).await)
    }

    async fn print(&self, client: &DaemonClient) -> Result<ExitCode, AskError> {
        // Without a start, everything on record is printed.
        let mut last = self.after.clone().or_else(|| (!self.follow).then(|| "0".to_owned()));
        loop {
            let mut stream = client.follow(last.as_deref()).await?;
            loop {
                let next = if self.follow {
                    stream.next().await
                } else {
                    tokio::time::timeout(END_OF_LIST_TIMEOUT, stream.next()).await.unwrap_or(None)
                };
                let Some(message) = next else { break };
                if message.id.is_some() {
                    last.clone_from(&message.id);
                }
                if let Err(error) = self.write(&message) {
                    return Ok(left_early(&error));
                }
            }
            if !self.follow {
                return Ok(ExitCode::SUCCESS);
            }
            eprintln!("connection to {} lost; reconnecting", client.server());
            tokio::time::sleep(RECONNECT_DELAY).await;
        }
    }

    fn write(&self, message: &StreamMessage) -> io::Result<()> {
        let data: Value = serde_json::from_str(&message.data).unwrap_or_default();
        let mut out = io::stdout().lock();
        match message.event.as_str() {
            "event" if self.format.json => writeln!(out, "{data}")?,
            "event" => writeln!(out, "{}", line(&data))?,
            "lagged" => {
                eprintln!("{} events skipped: they came too fast", count(&data["missed"]));
            }
            _ => {}
        }
        out.flush()
    }
}

fn line(event: &Value) -> String {
    let at = super::remote::time(&event["last_at"]);
    let at = at.map_or_else(|| "–".into(), |at| at.strftime("%F %T").to_string());
    let (kind, name) = (text(&event["subject"]["kind"]), text(&event["subject"]["name"]));
    let times = match count(&event["count"]) {
        0 | 1 => String::new(),
        number => format!(" (×{number})"),
    };
    format!("{at}  {kind} {name}  {}{times}", text(&event["text"]))
}

fn left_early(error: &io::Error) -> ExitCode {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return ExitCode::SUCCESS;
    }
    eprintln!("ostler events: cannot write: {error}");
    ExitCode::FAILURE
}
