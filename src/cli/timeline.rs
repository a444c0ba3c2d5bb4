//! `ostler timeline`: every event of an instance, and how it ended.

use std::process::ExitCode;

use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::remote::{
    DaemonClient, Format, Remote, Screen, Sheet, count, encode, plain, text, time,
};

/// Shows every event of an instance and the last lines of its log, also after it is deleted.
#[derive(Debug, Args)]
pub(super) struct TimelineArgs {
    /// The name of the instance, or of its runner.
    name: String,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    remote: Remote,
}

impl TimelineArgs {
    pub(super) fn run(&self) -> ExitCode {
        let path = format!("/instances/{}", encode(&self.name));
        let ask = async |client: &DaemonClient| {
            let instance = client.get(&path).await?;
            let mut events = client.get(&format!("{path}/timeline")).await?;
            Ok(json!({ "instance": instance, "items": events["items"].take() }))
        };
        self.remote.show("timeline", self.format, ask, people)
    }
}

fn people(answer: &Value, screen: &Screen) -> String {
    let instance = &answer["instance"];
    let mut out = Sheet::heading(
        screen.paint,
        &format!(
            "{} of {}, {}",
            text(&instance["name"]),
            text(&instance["pool"]),
            text(&instance["state"])
        ),
    );
    let nothing = Vec::new();
    let events = answer["items"].as_array().unwrap_or(&nothing);
    let mut sheet = Sheet::new(screen.paint, &["at", "after", "what"]);
    let first = events.first().and_then(|event| time(&event["at"]));
    for event in events {
        let at = time(&event["at"]);
        let times = match count(&event["count"]) {
            0 | 1 => String::new(),
            number => format!(" (×{number}, last {})", clock(time(&event["last_at"]))),
        };
        sheet.row([clock(at), after(first, at), text(&event["text"]) + &times]);
    }
    out += &sheet.or("No events recorded.");
    out += &end(&instance["death"], screen);
    out
}

fn end(death: &Value, screen: &Screen) -> String {
    if !death.is_object() {
        return String::new();
    }
    let [verdict, fault, sure, advice] =
        ["verdict", "fault", "confidence", "advice"].map(|key| text(&death[key]));
    let mut out = vec![
        format!("\n{}", Sheet::heading(screen.paint, "How it ended")),
        format!("{verdict}, fault: {fault}, confidence: {sure}\n{advice}\n"),
    ];
    let evidence = death["evidence"].as_array().into_iter().flatten();
    out.extend(evidence.map(|line| format!("- {}\n", text(line))));
    let tail = death["log_tail"].as_array().map_or(&[][..], Vec::as_slice);
    if !tail.is_empty() {
        out.push(format!("\n{}", Sheet::heading(screen.paint, "Last lines of its log")));
        let shown = |line: &Value| plain(line.as_str().unwrap_or_default()).into_owned();
        out.extend(tail.iter().map(|line| format!("  {}\n", shown(line))));
    } else if death["log_missing"].is_string() {
        out.push(format!("no log: {}\n", text(&death["log_missing"])));
    }
    out.concat()
}

fn clock(at: Option<Timestamp>) -> String {
    at.map_or_else(|| "–".into(), |at| at.strftime("%F %T").to_string())
}

fn after(first: Option<Timestamp>, at: Option<Timestamp>) -> String {
    match (first, at) {
        (Some(first), Some(at)) => format!("{:+.1}s", at.duration_since(first).as_secs_f64()),
        (None, _) | (_, None) => "–".into(),
    }
}
