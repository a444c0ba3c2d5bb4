//! The forge gives any runner any job; the ledger follows it in one step and never twice.

use std::collections::BTreeMap;

use ostler_actors::model::{Job, JobFact, JobId, OfferEnd, What};
use ostler_actors::testing::{Death, HookKind, Plan, Seen, Watched, millis, pool};

use super::paperwork::{Paperwork as _, machine};
use super::story::Tell as _;
use super::{MINUTE, SECOND, story};

#[test]
fn f55_job_that_executes_is_never_offered_again() {
    let mut plan = Plan::quiet(vec![pool("linux", "split", 3)]);
    // Asking for open jobs would tell the ledger before the requeue does.
    plan.settings.poll_tick = 600 * MINUTE;
    story(plan, async |world| {
        world.hold_assignments();
        let older = world.queue(&["linux"], MINUTE);
        let first = world.delivered(older, 2 * MINUTE).await;
        let newer = world.queue(&["linux"], 30 * MINUTE);
        let second = world.delivered(newer, 2 * MINUTE).await;
        world.lose_hooks(HookKind::InProgress, 1);
        world.pair(newer, &machine(&first));
        let runs = |world: &Watched| !world.started(newer).is_empty();
        world.wait_for("its start", 2 * MINUTE, runs).await;
        // It stays `queued` here, and the instance it was offered to ends: it is asked about.
        assert_eq!(world.offer(newer).map(|offer| offer.instance), Some(second.clone()));
        world.kill(&machine(&second), Death::GuestKilled);
        assert_eq!(world.running(newer, MINUTE).await, first);
        world.free_assignments();
        world.over(&[older, newer], 40 * MINUTE).await;
        assert_eq!(world.at_forge(newer).starts, 1);
        let (begun, _) = world.started(newer)[0];
        let again = |(at, row): &(u64, Job)| {
            let offer = row.open_offer().filter(|offer| offer.instance != second);
            *at >= begun && offer.is_some()
        };
        assert_eq!(world.saved(newer).iter().find(|saved| again(saved)), None);
    });
}

#[test]
fn i10_shuffled_jobs_change_places_in_one_step() {
    // Which job runs on the runner that was made for which.
    for places in [vec![0], vec![1, 0], vec![1, 2, 0], vec![2, 0, 1], vec![1, 0, 2]] {
        let max = u32::try_from(places.len()).expect("a small number");
        let plan = Plan::quiet(vec![pool("linux", "split", 2 * max)]);
        story(plan, async |world| shuffle(world, &places).await);
    }
}

async fn shuffle(world: &mut Watched, places: &[usize]) {
    world.hold_assignments();
    let jobs: Vec<u64> = places.iter().map(|_| world.queue(&["linux"], 10 * MINUTE)).collect();
    let mut made = Vec::new();
    for job in &jobs {
        made.push(world.delivered(*job, 2 * MINUTE).await);
    }
    for (job, place) in jobs.iter().zip(places) {
        world.pair(*job, &machine(&made[*place]));
    }
    for (job, place) in jobs.iter().zip(places) {
        assert_eq!(world.running(*job, 2 * MINUTE).await, made[*place]);
    }
    world.run_for(10 * SECOND).await;
    // Said again, it changes nothing.
    let rows = |world: &Watched| jobs.iter().map(|job| world.job(*job)).collect::<Vec<_>>();
    let (before, heard) = (rows(world), world.outside().records.accepted_count());
    for job in jobs.iter().chain(&jobs) {
        world.tell_again(*job, JobFact::InProgress);
    }
    world.run_for(10 * SECOND).await;
    assert_eq!(world.outside().records.accepted_count(), heard + 2 * jobs.len());
    assert_eq!(rows(world), before);
    for (at, place) in places.iter().enumerate() {
        let ends = ends_of_offers(world, jobs[at]);
        if at == *place {
            assert_eq!(ends, [OfferEnd::Executed], "it ran where it was offered");
        } else {
            assert!(!ends.contains(&OfferEnd::Requeued), "no request was made: {ends:?}");
        }
    }
    one_step(world);
    world.free_assignments();
    world.over(&jobs, 20 * MINUTE).await;
    assert!(jobs.iter().all(|job| world.at_forge(*job).starts == 1));
    assert!(world.now() >= millis(10 * MINUTE));
}

fn ends_of_offers(world: &Watched, job: u64) -> Vec<OfferEnd> {
    let mut ends = Vec::new();
    for what in world.reported_of(job) {
        if let What::Unoffered { why, .. } = what {
            ends.push(why);
        }
    }
    ends
}

/// Demands that no durable state shows an instance promised to one job and running another, nor
/// a job both promised and running.
fn one_step(world: &Watched) {
    let mut durable: BTreeMap<JobId, Job> = BTreeMap::new();
    for seen in world.history() {
        let Seen::JobsSaved { jobs, .. } = &seen.what else { continue };
        durable.extend(jobs.iter().map(|(_, after)| (after.id.clone(), Job::clone(after))));
        for running in durable.values().filter(|job| job.is_live()) {
            let Some(run) = &running.execution else { continue };
            let promised = durable
                .values()
                .filter(|job| job.is_live())
                .find(|job| job.open_offer().is_some_and(|offer| offer.instance == run.instance));
            assert_eq!(promised, None, "`{}` runs {} already", run.instance, running.id);
            assert_eq!(running.open_offer(), None, "it runs and is still promised");
        }
    }
}
