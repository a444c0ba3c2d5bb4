//! Machines that stop asking for work, and hosts that stop answering: jobs do not wait for them.

use std::time::Duration;

use ostler_actors::model::{Instance, MachineName, OfferEnd, PoolSpec, Reason, State, What};
use ostler_actors::testing::{Moment, Plan, Resists, Watched, millis, pool};

use super::paperwork::{Paperwork as _, machine};
use super::story::Tell as _;
use super::{MINUTE, SECOND, story};

fn late(max: u32, min_idle: u32) -> PoolSpec {
    PoolSpec { min_idle, ..pool("linux", "split", max) }
}

fn idle(world: &Watched) -> Vec<Instance> {
    world.rows().into_iter().filter(|row| row.state == State::Idle).collect()
}

async fn until_idle(world: &mut Watched, count: usize) {
    world.wait_for("warm machines", 5 * MINUTE, |world| idle(world).len() == count).await;
}

/// Queues a job every so often, and returns all with the time of each.
async fn queue_some(world: &mut Watched, jobs: usize, every: Duration) -> Vec<(u64, Moment)> {
    let mut queued = Vec::new();
    for _ in 0..jobs {
        queued.push((world.queue(&["linux"], MINUTE), world.now()));
        world.run_for(every).await;
    }
    queued
}

/// Returns the longest time that one of these jobs waited for its worker.
fn longest_wait(world: &Watched, jobs: &[(u64, Moment)]) -> Duration {
    let waits = jobs.iter().map(|(job, queued)| {
        let (began, _) = world.started(*job).first().cloned().expect("it was served");
        Duration::from_millis(began - queued)
    });
    waits.max().unwrap_or_default()
}

async fn all_over(world: &mut Watched, jobs: &[(u64, Moment)]) {
    let jobs: Vec<u64> = jobs.iter().map(|(job, _)| *job).collect();
    world.over(&jobs, 60 * MINUTE).await;
}

#[test]
fn with_half_of_a_full_pool_silent_no_job_waits_for_two_minutes() {
    story(Plan::quiet(vec![late(40, 40)]), async |world| {
        until_idle(world, 40).await;
        // Those that have waited for longest: they would be offered every job first.
        let mut warm = idle(world);
        warm.sort_by_key(|row| row.since);
        for row in &warm[..20] {
            world.mute_poller(&row.machine);
        }
        let jobs = queue_some(world, 40, 10 * SECOND).await;
        all_over(world, &jobs).await;
        let longest = longest_wait(world, &jobs);
        println!("longest wait with 20 of 40 silent: {longest:?}");
        assert!(longest <= 2 * MINUTE, "a job waited for {longest:?}");
    });
}

#[test]
fn a_pool_whose_machines_are_all_on_a_dead_host_serves_its_jobs_on_another() {
    story(Plan::quiet(vec![late(4, 4)]), async |world| {
        // All land on one host; the others have room from now on.
        let hosts = |from: u32| (from..4).map(|host| format!("host-0-{host}").as_str().into());
        world.outside().script.dark_hosts.extend(hosts(1));
        until_idle(world, 4).await;
        world.outside().script.dark_hosts.clear();
        let stranded: Vec<MachineName> = idle(world).into_iter().map(|row| row.machine).collect();
        for machine in &stranded {
            world.resist_deletion(machine, Resists::Lingers);
        }
        world.darken_host(&"host-0-0".into());
        let jobs = queue_some(world, 4, SECOND).await;
        all_over(world, &jobs).await;
        let longest = longest_wait(world, &jobs);
        println!("longest wait with a full pool on a dead host: {longest:?}");
        assert!(longest <= 5 * MINUTE, "a job waited for {longest:?}");
        assert!(stranded.iter().all(|machine| world.exists(machine)), "they were not waited for");
        for machine in &stranded {
            world.allow_deletion(machine);
        }
    });
}

#[test]
fn a_machine_that_stops_asking_is_replaced_after_poller_timeout() {
    story(Plan::quiet(vec![late(4, 2)]), async |world| {
        until_idle(world, 2).await;
        let silent = idle(world).remove(0);
        world.mute_poller(&silent.machine);
        let begun = world.now();
        let asked = |world: &Watched| {
            let row = world.row(&silent.id);
            row.and_then(|row| row.removal).map(|removal| removal.reason) == Some(Reason::Silent)
        };
        world.wait_for("it is asked to go", 5 * MINUTE, asked).await;
        let took = world.now() - begun;
        assert!((millis(2 * MINUTE)..millis(4 * MINUTE)).contains(&took), "after {took} ms");
        let gone =
            |world: &Watched| world.row(&silent.id).is_none_or(|row| row.state == State::Deleted);
        world.wait_for("it goes", 5 * MINUTE, gone).await;
        until_idle(world, 2).await;
    });
}

#[test]
fn machines_that_fall_silent_together_go_one_at_a_time() {
    story(Plan::quiet(vec![late(8, 8)]), async |world| {
        until_idle(world, 8).await;
        for row in idle(world) {
            world.mute_poller(&row.machine);
        }
        let going =
            |world: &Watched| world.rows().iter().filter(|row| row.removal.is_some()).count();
        let concern = |world: &Watched| world.shown("linux").silent == Some(8);
        world.wait_for("it is a concern", 3 * MINUTE, concern).await;
        world.wait_for("the first is asked to go", 5 * MINUTE, |world| going(world) > 0).await;
        assert_eq!(going(world), 1);
        // Each replacement is heard, so the next goes; at last they are few.
        let all_new =
            |world: &Watched| idle(world).len() == 8 && world.shown("linux").silent.is_none();
        world.wait_for("all are replaced", 30 * MINUTE, all_new).await;
    });
}

#[test]
fn a_jit_config_that_was_handed_to_a_dead_machine_is_doubted_within_seconds() {
    story(Plan::quiet(vec![late(2, 2)]), async |world| {
        until_idle(world, 2).await;
        let mut warm = idle(world);
        warm.sort_by_key(|row| row.since);
        // Its question stands while it dies.
        world.mute_poller(&warm[0].machine);
        let queued = world.now();
        let job = world.queue(&["linux"], MINUTE);
        world.over(&[job], 10 * MINUTE).await;
        let waited = Duration::from_millis(world.started(job)[0].0 - queued);
        assert!(waited <= 45 * SECOND, "it waited for {waited:?}");
        let doubted = |what: &What| matches!(what, What::DeliveryInDoubt(..));
        assert_eq!(world.reported(&warm[0].id, doubted).len(), 1);
        let requeued =
            |what: &What| matches!(what, What::Unoffered { why: OfferEnd::Requeued, .. });
        assert!(world.reported_of(job).iter().any(requeued));
        assert_eq!(world.started(job)[0].1, machine(&warm[1].id));
    });
}
