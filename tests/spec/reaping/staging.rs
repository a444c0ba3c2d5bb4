//! What the stories about letting go set up, and what they look at afterwards.

use std::time::Duration;

use ostler_actors::model::{Instance, RunnerName, State, What, elapsed};
use ostler_actors::ports::Deregistered;
use ostler_actors::testing::{HookKind, JobStage, Plan, Seen, Watched, pool};

use crate::spec::story::Tell as _;
use crate::spec::{MINUTE, SECOND};

/// Longer than any story.
pub(super) const NEVER: Duration = Duration::from_hours(48);

/// Returns a world in which the daemon never asks the forge for jobs, so that a lost webhook stays lost.
pub(super) fn unheard() -> Plan {
    let mut plan = Plan::quiet(vec![pool("linux", "witness", 2)]);
    plan.settings.poll_tick = NEVER;
    plan
}

/// Lets an instance sit idle and unwanted until seconds before its pool asks it to go.
pub(super) async fn about_to_retire(world: &mut Watched) -> Instance {
    world.hold_assignments();
    let job = world.queue(&["linux"], MINUTE);
    let id = world.first().await.id;
    world.until(&id, State::Idle, 2 * MINUTE).await;
    world.cancel(job);
    let row = world.row(&id).expect("its row");
    let idle = elapsed(row.since, world.outside().date());
    let wait_limit = world.plan().pools[0].policy.scale_down_after;
    world.run_for(wait_limit.saturating_sub(idle + Duration::from_millis(3_500))).await;
    assert_eq!(world.row(&id).map(|row| (row.state, row.removal)), Some((State::Idle, None)));
    row
}

/// Lets the forge assign a job that no webhook tells of; its worker takes a while to start.
pub(super) fn assign_unheard(world: &Watched, row: &Instance, runs: Duration) -> u64 {
    world.lose_hooks(HookKind::Queued, 1);
    world.lose_hooks(HookKind::InProgress, 1);
    world.pick_up_after(&row.machine, 20 * SECOND);
    let job = world.queue(&["linux"], runs);
    world.pair(job, &row.machine);
    job
}

/// Returns whether an instance came to `retiring`, however short it stayed there.
pub(super) fn was_asked(world: &Watched, row: &Instance) -> bool {
    let asked = |what: &What| matches!(what, What::Moved { to: State::Retiring, .. });
    !world.reported(&row.id, asked).is_empty()
}

pub(super) fn is_assigned(world: &Watched, job: u64) -> bool {
    let outside = world.outside();
    outside.forge.jobs.get(&job).is_some_and(|job| matches!(job.stage, JobStage::Assigned { .. }))
}

/// Returns each removal of a runner that was asked for: the job there, and the answer.
pub(super) fn removals(world: &Watched) -> Vec<(Option<u64>, Option<Deregistered>)> {
    let removal = |seen: &Seen| {
        let Seen::Deregister { working, assigned, answer, .. } = seen else { return None };
        Some((working.or(*assigned), *answer))
    };
    world.history().iter().filter_map(|seen| removal(&seen.what)).collect()
}

/// Returns where in the history machines were ordered.
pub(super) fn orders(world: &Watched) -> Vec<usize> {
    let is_order = |seen: &Seen| matches!(seen, Seen::CreateCalled { .. });
    let history = world.history().iter().enumerate();
    history.filter(|(_, seen)| is_order(&seen.what)).map(|(at, _)| at).collect()
}

pub(super) fn is_gone(what: &Seen, row: &Instance) -> bool {
    matches!(what, Seen::MachineGone { machine } if *machine == row.machine)
}

pub(super) fn deleted(world: &Watched, row: &Instance) -> bool {
    world.deletes().iter().any(|call| call.machine == row.machine)
}

pub(super) fn runner(row: &Instance) -> RunnerName {
    row.runner_name(1)
}

pub(super) fn busy(world: &Watched) -> usize {
    world.rows().iter().filter(|row| row.state == State::Busy).count()
}

/// Returns how many agents are connected and wait for work.
pub(super) fn listening(world: &Watched) -> usize {
    let outside = world.outside();
    outside.forge.registered().filter(|runner| runner.online).count()
}

/// Returns the instance that a job is promised to.
pub(super) fn promised(world: &Watched, job: u64) -> Instance {
    let holds = |row: &Instance| row.offer.as_ref().is_some_and(|held| held.job.number == job);
    world.rows().into_iter().find(holds).expect("an instance that holds the offer")
}
