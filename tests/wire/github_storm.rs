//! Many jobs at once under a budget, over HTTP: nobody is turned away, registrations keep their
//! pace, and removals do not wait for them.
//!
//! `OSTLER_JIT_PER_MINUTE=166` asks for the documented pace instead of a faster one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ostler::demo::github::{Options, SeenCall};
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
    let per_minute: u32 = asked.map_or(900, |text| text.parse().expect("a number"));
    let sim = start(Options { rate_limit: Some(BUDGET), ..Options::default() });
    let mut unpaced = settings(&sim, token_of(&sim));
    unpaced.jit_per_minute = 0;
    let leaving = leaving(&adapter(unpaced)).await;
    let mut paced = settings(&sim, app_of(&sim));
    paced.jit_per_minute = per_minute;
    let github = adapter(paced);
    let before = sim.calls().len();

    let began = Instant::now();
    let left = Arc::new(AtomicUsize::new(JOBS));
    let minting: Vec<_> = (0..JOBS)
        .map(|number| tokio::spawn(register(github.clone(), number, Arc::clone(&left))))
        .collect();
    let slowest = remove(&github, leaving, per_minute, &left).await;
    for minted in minting {
        minted.await.expect("a registration");
    }
    let took = began.elapsed();

    let calls = sim.calls().split_off(before);
    assert!(calls.iter().all(|call| !matches!(call.status, 403 | 429)), "GitHub turned us away");
    let burst = per_minute.div_ceil(12);
    let most = most_in_a_window(&calls, Duration::from_secs(1));
    let allowed = burst + per_minute / 60 + 1;
    println!(
        "{JOBS} registrations at {per_minute}/min in {took:.1?}, at most {most} in a second (allowed {allowed}); \
         {LEAVING} removals meanwhile, the slowest in {slowest:.0?}; {} calls of {BUDGET}",
        calls.len()
    );
    assert!(most <= allowed, "{most} registrations in a second");
    assert!(took >= at_least(per_minute, burst), "{took:?} is faster than allowed");
    assert!(slowest < Duration::from_secs(5), "a removal waited {slowest:?}");
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

/// Removes runners while others are registered and listed; returns how long the slowest took.
async fn remove(
    github: &GitHub,
    leaving: Vec<ostler_actors::model::RunnerId>,
    per_minute: u32,
    left: &AtomicUsize,
) -> Duration {
    let scope = acme();
    let pause = at_least(per_minute, per_minute.div_ceil(12)) / u32::try_from(LEAVING).unwrap();
    let (mut slowest, mut beside) = (Duration::ZERO, 0);
    for id in leaving {
        drop(github.runners(&scope).await);
        beside += usize::from(left.load(Ordering::Relaxed) > 0);
        let asked = Instant::now();
        let removed = github.deregister(&scope, id).await.expect("an answer");
        assert_eq!(removed, Deregistered::Removed);
        slowest = slowest.max(asked.elapsed());
        sleep(pause).await;
    }
    assert!(beside * 2 > LEAVING, "only {beside} removals were asked for during the burst");
    slowest
}

/// Returns how long the registrations take at least.
fn at_least(per_minute: u32, burst: u32) -> Duration {
    let paced = u32::try_from(JOBS).unwrap().saturating_sub(burst);
    Duration::from_mins(1) * paced / per_minute
}

/// Returns the most registrations that came within any such window.
fn most_in_a_window(calls: &[SeenCall], window: Duration) -> u32 {
    let minted = calls.iter().filter(|call| call.path.ends_with("/generate-jitconfig"));
    let at: Vec<_> = minted.map(|call| call.at).collect();
    let within = |from: usize| {
        let end = at[from] + window;
        at[from..].iter().filter(|it| **it < end).count()
    };
    (0..at.len()).map(within).max().and_then(|most| u32::try_from(most).ok()).unwrap_or_default()
}
