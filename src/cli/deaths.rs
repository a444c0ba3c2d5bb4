//! `ostler deaths`: ended instances and why they ended, grouped by cause.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::remote::{DaemonClient, Format, Remote, Screen, Sheet, age, text};

/// Lists ended instances and their causes; normal ends only with `--all`.
#[derive(Debug, Args)]
pub(super) struct DeathsArgs {
    /// Only this verdict, for example `host_oom`.
    #[arg(long, value_name = "VERDICT")]
    verdict: Option<String>,
    /// Only this pool.
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
    /// Only those since this time: `90m`, `24h` or `7d` ago, or a date (RFC 3339).
    #[arg(long, value_name = "WHEN", default_value = "24h", value_parser = moment)]
    since: Timestamp,
    /// Includes normal ends.
    #[arg(long)]
    all: bool,
    /// The largest number of rows.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    limit: usize,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    remote: Remote,
}

impl DeathsArgs {
    pub(super) fn run(&self) -> ExitCode {
        let since = self.since.to_string();
        let filters = [
            ("verdict", self.verdict.as_deref()),
            ("pool", self.pool.as_deref()),
            ("since", Some(since.as_str())),
        ];
        let with_normal = self.all || self.verdict.is_some();
        let ask = async |client: &DaemonClient| {
            let mut answer = client.list("/deaths", &filters, self.limit).await?;
            if !with_normal && let Some(items) = answer["items"].as_array_mut() {
                items.retain(|death| !is_normal(death));
            }
            Ok(answer)
        };
        self.remote.show("deaths", self.format, ask, people)
    }
}

/// Returns whether an end needs no attention.
fn is_normal(death: &Value) -> bool {
    matches!(death["verdict"].as_str(), Some("clean" | "removed"))
}

/// Returns the verdict, marked while GitHub may still correct it.
fn verdict_of(death: &Value) -> String {
    let verdict = text(&death["verdict"]);
    if death["provisional_until"].is_string() {
        format!("{verdict} (provisional)")
    } else {
        verdict
    }
}

fn people(answer: &Value, screen: &Screen) -> String {
    let mut sheet = Sheet::new(
        screen.paint,
        &["instance", "verdict", "fault", "exit", "ended", "job", "reason"],
    );
    let mut causes: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for death in answer["items"].as_array().into_iter().flatten() {
        let cause = causes.entry(text(&death["verdict"])).or_insert((0, text(&death["advice"])));
        cause.0 += 1;
        sheet.row([
            text(&death["instance"]),
            verdict_of(death),
            text(&death["fault"]),
            text(&death["exit_code"]),
            age(&death["ended_at"], screen.now),
            text(&death["job"]),
            text(&death["reason"]),
        ]);
    }
    let mut out = vec![sheet.or("No deaths match.")];
    if !causes.is_empty() {
        out.push(format!("\n{}", Sheet::heading(screen.paint, "By cause")));
        let mut sorted: Vec<_> = causes.into_iter().collect();
        sorted.sort_by_key(|(verdict, (number, _))| (std::cmp::Reverse(*number), verdict.clone()));
        for (verdict, (number, advice)) in sorted {
            out.push(format!("{number:>4} × {verdict:<16} {advice}\n"));
        }
    }
    out.concat()
}

/// Reads a date, or a time ago.
fn moment(text: &str) -> Result<Timestamp, String> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(at);
    }
    let ago: SignedDuration = text.parse().map_err(|_| {
        "write how long ago (`90m`, `24h`) or a date (`2026-01-31T00:00:00Z`)".to_owned()
    })?;
    Timestamp::now().checked_sub(ago).map_err(|_| "that is too long ago".to_owned())
}
