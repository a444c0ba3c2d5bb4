//! Many jobs at once under a budget, over HTTP: no job is turned away, registrations keep their
//! pace, and removals do not wait for them.
//!
//! `OSTLER_JIT_PER_MINUTE=166` asks for the documented pace instead of a faster one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use ostler::demo::github::Options;
use ostler::github::GitHub;
use ostler_actors::ports::{Deregistered, Forge as _, MintError, Roster as _};
use tokio::time::{Instant, sleep};

use super::github_support::{acme, adapter, app_of, mint, order, settings, start, token_of};

/// How many jobs are queued at once.
const JOBS: usize = 120;
/// How many runners are removed meanwhile.
const LEAVING: usize = 24;
/// What GitHub grants an hour.
const BUDGET: u32 = 10_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_of_jobs_is_registered_at_its_pace_and_starves_no_removal() {
    let asked = std::env::var("OSTLER_JIT_PER_MINUTE").ok();
    let per_minute: u32 = asked.map_or(300, |text| text.parse().expect("a number"));
    let sim = start(Options { rate_limit: Some(BUDGET), ..Options::default() });
    let mut unpaced = settings(&sim, token_of(&sim));
    unpaced.jit_per_minute = 0;
    let leaving = leaving(&adapter(unpaced)).await;
    let mut paced = settings(&sim, app_of(&sim));
    paced.jit_per_minute = per_minute;
    let github = adapter(paced);
    let before = sim.calls().len();

    let (began, began_at) = (Instant::now(), Timestamp::now());
    let left = Arc::new(AtomicUsize::new(JOBS));
    let minting: Vec<_> = (0..JOBS)
        .map(|number| tokio::spawn(register(github.clone(), number, Arc::clone(&left))))
        .collect();
    let beside = remove(&github, leaving, &left).await;
    for minted in minting {
        minted.await.expect("a registration");
    }
    let took = began.elapsed();

    let calls = sim.calls().split_off(before);
    assert!(calls.iter().all(|call| !matches!(call.status, 403 | 429)), "GitHub turned us away");
    let burst = per_minute.div_ceil(12);
    println!(
        "{JOBS} registrations at {per_minute}/min in {took:.1?}; {beside} of {LEAVING} removals \
         meanwhile; {} calls of {BUDGET}",
        calls.len()
    );
    // A busy machine delays calls and bunches them; none may arrive before it was due.
    let minted = calls.iter().filter(|call| call.path.ends_with("/generate-jitconfig"));
    for (number, call) in (1_u32..).zip(minted) {
        let due = Duration::from_mins(1) * number.saturating_sub(burst + 1) / per_minute;
        let came = call.at.duration_since(began_at);
        assert!(
            came >= due.try_into().unwrap(),
            "registration {number} came after {came:?}, due after {due:?}"
        );
    }
    assert!(beside * 2 > LEAVING, "only {beside} removals were answered during the burst");
    assert_eq!(sim.runners().len(), JOBS);
}

/// Registers runners that are removed later.
async fn leaving(github: &GitHub) -> Vec<ostler_actors::model::RunnerId> {
    let mut ids = Vec::new();
    for number in 0..LEAVING {
        ids.push(mint(github, &format!("old-{number}")).await.id);
    }
    ids
}

/// Registers one runner, as patiently as an instance does.
async fn register(github: GitHub, number: usize, left: Arc<AtomicUsize>) {
    let name = format!("new-{number}");
    loop {
        match github.mint(order(&acme(), &name)).await {
            Ok(_) => break,
            Err(MintError::Later { after, .. }) => {
                sleep(after.unwrap_or(Duration::from_millis(100))).await;
            }
            Err(other) => panic!("{other}"),
        }
    }
    left.fetch_sub(1, Ordering::Relaxed);
}

/// Removes runners while others are registered and listed; returns how many removals were answered
/// before the last registration was.
async fn remove(
    github: &GitHub,
    leaving: Vec<ostler_actors::model::RunnerId>,
    left: &AtomicUsize,
) -> usize {
    let scope = acme();
    let mut beside = 0;
    for id in leaving {
        drop(github.runners(&scope).await);
        let removed = github.deregister(&scope, id).await.expect("an answer");
        assert_eq!(removed, Deregistered::Removed);
        beside += usize::from(left.load(Ordering::Relaxed) > 0);
    }
    beside
}
