//! What became of it all: every end with its verdict, and every job with its conclusion.

use std::collections::BTreeMap;
use std::io::{self, Write};

use ostler_actors::model::ExitRecord;

use super::github::{SimGitHub, SimStage};
use crate::store::{DeathQuery, History as _, Page, SqlStore};

/// How many ends are read.
const MOST: u32 = 1000;

/// Prints the summary.
pub(super) async fn print(
    store: &SqlStore,
    github: &SimGitHub,
    out: &mut impl Write,
) -> io::Result<()> {
    let page = Page { limit: MOST, cursor: None };
    let deaths = store.deaths(&DeathQuery::default(), &page).await.map_err(io::Error::other)?;
    let names: BTreeMap<u64, String> =
        github.jobs().into_iter().map(|job| (job.id, job.wish.name)).collect();
    writeln!(out, "{:<22} {:<18} {:<9} {:<6} job", "instance", "verdict", "fault", "exit")?;
    for death in &deaths.items {
        writeln!(out, "{}", line(death, &names))?;
    }
    let mut verdicts: BTreeMap<String, u32> = BTreeMap::new();
    for death in &deaths.items {
        *verdicts.entry(death.verdict.class.to_string()).or_default() += 1;
    }
    let mut conclusions: BTreeMap<String, u32> = BTreeMap::new();
    for job in github.jobs() {
        let word = match job.stage {
            SimStage::Completed(conclusion) => conclusion,
            SimStage::Waiting | SimStage::Queued | SimStage::InProgress => "open".into(),
        };
        *conclusions.entry(word).or_default() += 1;
    }
    writeln!(out, "\n{} runners: {}", deaths.items.len(), counts(&verdicts))?;
    writeln!(out, "{} jobs: {}", github.jobs().len(), counts(&conclusions))
}

fn line(death: &ExitRecord, names: &BTreeMap<u64, String>) -> String {
    let facts = death.exit.as_ref();
    let exit = match (facts.and_then(|it| it.code), facts.and_then(|it| it.signal)) {
        (Some(code), _) => code.to_string(),
        (None, Some(signal)) => format!("sig {signal}"),
        (None, None) => "-".into(),
    };
    let job = death.job.as_ref().and_then(|job| names.get(&job.number)).map_or("-", String::as_str);
    format!(
        "{:<22} {:<18} {:<9} {:<6} {job}",
        death.instance.as_str(),
        death.verdict.class.to_string(),
        death.verdict.fault.to_string(),
        exit
    )
}

fn counts(counted: &BTreeMap<String, u32>) -> String {
    let each: Vec<String> = counted.iter().map(|(word, count)| format!("{count} {word}")).collect();
    each.join(", ")
}
