//! `ostler events`: what happens, as it happens.

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::remote::{AskError, Client, Format, Message, Remote, count, text};

/// How long is waited before a lost line is taken up again.
const RECONNECT_DELAY: Duration = Duration::from_secs(2);
/// How long the daemon may keep silent after its past has been told.
const QUIET: Duration = Duration::from_secs(1);

/// Tells events: with `--follow` as they happen, else those after an event.
#[derive(Debug, Args)]
pub(super) struct Events {
    /// Goes on as things happen; a lost line is taken up where it broke.
    #[arg(long, short)]
    follow: bool,
    /// Begins after the event of this number.
    #[arg(long, value_name = "ID")]
    after: Option<String>,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    remote: Remote,
}

impl Events {
    pub(super) fn run(&self) -> ExitCode {
        self.remote.talk("events", async |client| self.tell(client).await)
    }

    async fn tell(&self, client: &Client) -> Result<ExitCode, AskError> {
        // Without a beginning, those already on record are told.
        let mut last = self.after.clone().or_else(|| (!self.follow).then(|| "0".to_owned()));
        loop {
            let mut stream = client.follow(last.as_deref()).await?;
            loop {
                let next = if self.follow {
                    stream.next().await
                } else {
                    tokio::time::timeout(QUIET, stream.next()).await.unwrap_or(None)
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
            eprintln!("the line to {} broke; taking it up again", client.server());
            tokio::time::sleep(RECONNECT_DELAY).await;
        }
    }

    fn write(&self, message: &Message) -> io::Result<()> {
        let data: Value = serde_json::from_str(&message.data).unwrap_or_default();
        let mut out = io::stdout().lock();
        match message.event.as_str() {
            "event" if self.format.json => writeln!(out, "{data}")?,
            "event" => writeln!(out, "{}", line(&data))?,
            "lagged" => {
                eprintln!("{} events came too fast and are not shown", count(&data["missed"]));
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
