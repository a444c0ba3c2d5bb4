//! `ostler status`: the fleet in one screen.

use std::process::ExitCode;

use clap::Args;
use ostler_actors::model::State;
use serde_json::Value;

use super::remote::{Format, Remote, Screen, Sheet, age, count, text, time};

/// From this many seconds on, a clock difference is shown.
const CLOCK_SKEW_SECONDS: i64 = 30;

/// Shows the fleet: what needs attention, the pools, the API budget.
#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    remote: Remote,
    #[command(flatten)]
    format: Format,
}

impl StatusArgs {
    pub(super) fn run(&self) -> ExitCode {
        self.remote.show("status", self.format, async |client| client.get("/fleet").await, people)
    }
}

fn people(fleet: &Value, screen: &Screen) -> String {
    let (jobs, instances) = (&fleet["jobs"], &fleet["instances"]);
    let waiting = count(&jobs["waiting"]) + count(&jobs["queued"]) + count(&jobs["offered"]);
    let [name, version, stage] = ["name", "version", "stage"].map(|key| text(&fleet[key]));
    let oldest = match time(&fleet["oldest_queued_at"]) {
        Some(_) => format!(", the oldest for {}", age(&fleet["oldest_queued_at"], screen.now)),
        None => String::new(),
    };
    let mut out = vec![
        Sheet::heading(screen.paint, &format!("{name}, Ostler {version}, {stage}")),
        format!("instances {}: {}\n", count(&instances["total"]), states_of(&instances["states"])),
        format!("jobs: {} running, {waiting} waiting{oldest}\n", count(&jobs["running"])),
    ];
    out.extend(concerns(fleet).into_iter().map(|concern| format!("! {concern}\n")));
    let pools = fleet["pools"].as_array().map_or(&[][..], Vec::as_slice);
    out.push(format!("\n{}", super::pools::table(pools, screen)));
    let budgets = budgets_of(fleet, screen);
    if !budgets.is_empty() {
        out.push(format!("\n{budgets}"));
    }
    out.concat()
}

/// Returns what needs attention, worst first.
pub(super) fn concerns(fleet: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut say = |number: u64, one: &str, many: &str, rest: &str| match number {
        0 => {}
        1 => found.push(format!("1 {one}{rest}")),
        more => found.push(format!("{more} {many}{rest}")),
    };
    let (violations, leaks) = (count(&fleet["violations"]), count(&fleet["leaks"]));
    let report = ": a bug in Ostler; please report it with the log";
    say(violations, "invariant violation", "invariant violations", report);
    say(leaks, "machine", "machines", " without an owner");
    let see = " no progress: see `ostler instances --stuck`";
    say(count(&fleet["stuck"]), "instance makes", "instances make", see);
    let foreign = fleet["foreign_machines"].as_array().map_or(0, Vec::len);
    let see = " of another daemon: see `ostler adopt --help`";
    say(foreign as u64, "machine", "machines", see);
    if fleet["config_problem"].is_string() {
        found.push(format!("configuration not applied: {}", text(&fleet["config_problem"])));
    }
    for forge in fleet["forges"].as_array().into_iter().flatten() {
        let name = text(&forge["name"]);
        for ending in forge["ending_versions"].as_array().into_iter().flatten() {
            found.push(format!("{name}: {}", text(&ending["sentence"])));
        }
        let ahead = forge["clock_ahead_seconds"].as_i64().unwrap_or_default();
        if ahead.abs() >= CLOCK_SKEW_SECONDS {
            found.push(format!(
                "clock differs from {name}'s by {} s: synchronise it (NTP)",
                ahead.abs()
            ));
        }
    }
    for concern in fleet["concerns"].as_array().into_iter().flatten() {
        found.push(format!("{}. {}", text(&concern["sentence"]), text(&concern["advice"])));
    }
    found
}

/// Returns counts as text: `2 idle, 1 busy`.
pub(super) fn states_of(states: &Value) -> String {
    let order = State::ALL.map(State::as_str);
    let counts: Vec<String> = order
        .iter()
        .filter(|state| count(&states[**state]) > 0 && **state != "deleted")
        .map(|state| format!("{} {state}", count(&states[*state])))
        .collect();
    if counts.is_empty() { "none".into() } else { counts.join(", ") }
}

fn budgets_of(fleet: &Value, screen: &Screen) -> String {
    let mut sheet = Sheet::new(screen.paint, &["budget", "left", "of", "resets"]);
    let mut any = false;
    for forge in fleet["forges"].as_array().into_iter().flatten() {
        for budget in forge["budgets"].as_array().into_iter().flatten() {
            any = true;
            let left = time(&budget["resets_at"])
                .map(|at| at.as_second().saturating_sub(screen.now.as_second()).max(0));
            sheet.row([
                format!(
                    "{} {} {}",
                    text(&forge["name"]),
                    text(&budget["credential"]),
                    text(&budget["resource"])
                ),
                text(&budget["remaining"]),
                text(&budget["limit"]),
                left.map_or_else(|| "–".into(), |seconds| format!("in {}m", seconds / 60)),
            ]);
        }
    }
    if any { sheet.or("") } else { String::new() }
}
