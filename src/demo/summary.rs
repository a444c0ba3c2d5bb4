//! What became of it all: every end with its verdict, advice for the sad ones, and figures.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use ostler_actors::model::{
    ExitRecord, InstanceId, OfferEnd, RunnerName, Subject, VerdictClass, What,
};

use super::github::{Attempt, SimGitHub, SimJob, SimStage};
use crate::ports::{DeathQuery, History as _, Page, Sequenced};
use crate::store::SqlStore;

/// How many ends are read at once.
const DEATHS_PER_PAGE: u32 = 1000;
/// What a delivery that never arrived is logged as.
const LOST: u16 = 502;

pub(super) async fn print(
    store: &SqlStore,
    github: &SimGitHub,
    hook: u64,
    took: Duration,
    out: &mut impl Write,
) -> io::Result<()> {
    let deaths = deaths(store).await?;
    let jobs = github.jobs();
    table(&deaths, &jobs, out)?;
    advice(&deaths, out)?;
    webhooks(&github.attempts(hook), &jobs, out)?;
    displaced(&overruled(store).await?, &deaths, &jobs, out)?;
    figures(&deaths, &jobs, github.calls().len(), took, out)
}

/// Reads every end there was, the first first.
async fn deaths(store: &SqlStore) -> io::Result<Vec<ExitRecord>> {
    let mut all = Vec::new();
    let mut page = Page { limit: DEATHS_PER_PAGE, cursor: None };
    loop {
        let read = store.deaths(&DeathQuery::default(), &page).await.map_err(io::Error::other)?;
        all.extend(read.items);
        page.cursor = read.next_cursor;
        if page.cursor.is_none() {
            all.reverse();
            return Ok(all);
        }
    }
}

/// Prints a line for each runner, in columns as wide as they need to be.
fn table(deaths: &[ExitRecord], jobs: &[SimJob], out: &mut impl Write) -> io::Result<()> {
    let names: BTreeMap<u64, &str> =
        jobs.iter().map(|job| (job.id, job.plan.name.as_str())).collect();
    let mut lines = vec![["instance", "verdict", "fault", "exit", "job"].map(str::to_owned)];
    lines.extend(deaths.iter().map(|death| cells(death, &names)));
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let (name, verdict, fault, exit) = (width(0), width(1), width(2), width(3));
    for [a, b, c, d, job] in &lines {
        writeln!(out, "{a:<name$}  {b:<verdict$}  {c:<fault$}  {d:<exit$}  {job}")?;
    }
    Ok(())
}

fn cells(death: &ExitRecord, names: &BTreeMap<u64, &str>) -> [String; 5] {
    let facts = death.exit.as_ref();
    let exit = match (facts.and_then(|it| it.code), facts.and_then(|it| it.signal)) {
        (Some(code), _) => code.to_string(),
        (None, Some(signal)) => format!("sig {signal}"),
        (None, None) => "-".into(),
    };
    let job = death.job.as_ref().and_then(|job| names.get(&job.number).copied());
    [
        death.instance.as_str().into(),
        death.verdict.class.to_string(),
        death.verdict.fault.to_string(),
        exit,
        job.unwrap_or("-").into(),
    ]
}

/// Prints what a person may do about the ends that were not clean, a line for each kind.
fn advice(deaths: &[ExitRecord], out: &mut impl Write) -> io::Result<()> {
    let sad = deaths.iter().filter(|death| death.verdict.class != VerdictClass::Clean);
    let mut kinds: BTreeMap<(String, &str), u32> = BTreeMap::new();
    for death in sad {
        let kind = (death.verdict.class.to_string(), death.verdict.advice.as_str());
        *kinds.entry(kind).or_default() += 1;
    }
    if !kinds.is_empty() {
        writeln!(out, "\nwhat the verdicts advise:")?;
    }
    let width = kinds.keys().map(|(class, _)| class.len()).max().unwrap_or(0);
    for ((class, advice), count) in &kinds {
        writeln!(out, "{count:>4} × {class:<width$}  {advice}")?;
    }
    Ok(())
}

/// Prints what became of the webhooks, and of the job whose webhook was lost.
fn webhooks(attempts: &[Attempt], jobs: &[SimJob], out: &mut impl Write) -> io::Result<()> {
    let lost: Vec<&Attempt> = attempts.iter().filter(|it| it.status == LOST).collect();
    write!(out, "\nwebhooks: {} sent, {} lost", attempts.len() - lost.len(), lost.len())?;
    for attempt in lost.iter().filter(|it| it.action == "queued") {
        let Some(job) = jobs.iter().find(|job| job.id == attempt.job) else { continue };
        let fate = if job.starts > 0 { "was found by polling" } else { "was not found" };
        write!(out, "; `{}` {fate}", job.plan.name)?;
    }
    writeln!(out)
}

/// Prints which jobs ran on another runner than the one they were offered to, and what became of that
/// one: GitHub gives a job to any runner that listens.
fn displaced(
    offers: &BTreeMap<u64, InstanceId>,
    deaths: &[ExitRecord],
    jobs: &[SimJob],
    out: &mut impl Write,
) -> io::Result<()> {
    let elsewhere: Vec<(&SimJob, &InstanceId, &str)> = jobs
        .iter()
        .filter_map(|job| {
            let (offered, (_, ran)) = (offers.get(&job.id)?, job.runner.as_ref()?);
            (!RunnerName::new(ran.as_str()).is_of(offered.as_str())).then_some((
                job,
                offered,
                ran.as_str(),
            ))
        })
        .collect();
    write!(
        out,
        "displaced by GitHub: {} of {} jobs ran on another runner than the one they were offered to",
        elsewhere.len(),
        jobs.len()
    )?;
    if let Some((job, offered, ran)) = elsewhere.first() {
        let fate = deaths.iter().find(|death| death.instance == **offered);
        let served = fate.and_then(|death| death.job.as_ref());
        let served = served.and_then(|served| jobs.iter().find(|job| job.id == served.number));
        let fate = match (served, fate) {
            (Some(other), _) => format!("ran `{}` instead", other.plan.name),
            (None, Some(death)) => format!("ended `{}` without a job", death.verdict.class),
            (None, None) => "is still there".into(),
        };
        write!(
            out,
            "; `{}` was offered to {offered} and ran on {ran}, and {offered} {fate}",
            job.plan.name
        )?;
    }
    writeln!(out)
}

/// Reads to whom jobs were offered last, of those whose offer GitHub overruled.
async fn overruled(store: &SqlStore) -> io::Result<BTreeMap<u64, InstanceId>> {
    let (mut overruled, mut seq) = (BTreeMap::new(), 0);
    loop {
        let events = store.events_after(seq, DEATHS_PER_PAGE).await.map_err(io::Error::other)?;
        let Some(last) = events.last() else { return Ok(overruled) };
        seq = last.seq;
        for Sequenced { event, .. } in events {
            if let (Subject::Job(job), What::Unoffered { instance, why }) =
                (event.subject, event.what)
                && matches!(why, OfferEnd::Displaced | OfferEnd::TakenElsewhere)
            {
                overruled.insert(job.number, instance);
            }
        }
    }
}

fn figures(
    deaths: &[ExitRecord],
    jobs: &[SimJob],
    calls: usize,
    took: Duration,
    out: &mut impl Write,
) -> io::Result<()> {
    let verdicts = count(deaths.iter().map(|death| death.verdict.class.to_string()));
    let conclusions = count(jobs.iter().map(|job| match &job.stage {
        SimStage::Completed(conclusion) => conclusion.clone(),
        SimStage::Waiting | SimStage::Queued | SimStage::InProgress => "open".into(),
    }));
    let mut waits: Vec<f64> = jobs
        .iter()
        .filter_map(|job| Some(job.started_at?.duration_since(job.queued_at).as_secs_f64()))
        .collect();
    waits.sort_by(f64::total_cmp);
    writeln!(out, "{} runners: {verdicts}", deaths.len())?;
    writeln!(out, "{} jobs: {conclusions}", jobs.len())?;
    let (half, last) = (waits.get(waits.len() / 2), waits.last());
    if let (Some(half), Some(last)) = (half, last) {
        writeln!(
            out,
            "{:.1} s in all; a job waited {half:.1} s for its runner (median), {last:.1} s at most; {calls} calls to GitHub",
            took.as_secs_f64()
        )?;
    }
    Ok(())
}

fn count(words: impl Iterator<Item = String>) -> String {
    let mut counted: BTreeMap<String, u32> = BTreeMap::new();
    for label in words {
        *counted.entry(label).or_default() += 1;
    }
    let each: Vec<String> =
        counted.iter().map(|(label, count)| format!("{count} {label}")).collect();
    each.join(", ")
}
