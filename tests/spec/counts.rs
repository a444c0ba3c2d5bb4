//! Counting in a story that was told: how many at once, how often, since when.

use std::collections::BTreeMap;
use std::sync::Arc;

use ostler_actors::model::{End, Instance, InstanceId, PoolId, State};
use ostler_actors::registry::PoolView;
use ostler_actors::testing::{JobStage, Moment, Observed, Seen, Watched};

/// Returns the least and the most rows that were like this at once, from a moment on.
pub(super) fn at_once(
    world: &Watched,
    since: Moment,
    like: impl Fn(&Instance) -> bool,
) -> (usize, usize) {
    let mut rows: BTreeMap<InstanceId, Arc<Instance>> = BTreeMap::new();
    let (mut least, mut most) = (usize::MAX, 0);
    for seen in world.history() {
        let Seen::Saved { after, .. } = &seen.what else { continue };
        if seen.at >= since {
            let count = rows.values().filter(|row| like(row)).count();
            (least, most) = (least.min(count), most.max(count));
        }
        rows.insert(after.id.clone(), Arc::clone(after));
    }
    let count = rows.values().filter(|row| like(row)).count();
    (least.min(count), most.max(count))
}

/// Returns whether a machine is coming up.
pub(super) fn starts(row: &Instance) -> bool {
    matches!(row.state, State::Creating | State::Starting)
}

/// Returns whether a runner is ready and free.
pub(super) fn is_idle(row: &Instance) -> bool {
    row.state == State::Idle
}

/// Returns how many live instances are in a state.
pub(super) fn in_state(world: &Watched, state: State) -> usize {
    world.rows().iter().filter(|row| row.state == state).count()
}

/// Counts what was seen from a moment on.
pub(super) fn seen(world: &Watched, since: Moment, like: impl Fn(&Seen) -> bool) -> usize {
    world.history().iter().filter(|seen| seen.at >= since && like(&seen.what)).count()
}

/// Counts the calls to make a machine from a moment on.
pub(super) fn creates(world: &Watched, since: Moment) -> usize {
    seen(world, since, |what| matches!(what, Seen::CreateCalled { .. }))
}

/// Counts the registrations that were made in a span of time.
pub(super) fn registrations(world: &Watched, from: Moment, to: Moment) -> usize {
    let minted = |seen: &&Observed| matches!(seen.what, Seen::Minted { .. });
    world.history().iter().filter(minted).filter(|seen| (from..to).contains(&seen.at)).count()
}

/// Counts how often the daemon was started, the first time included.
pub(super) fn lives(world: &Watched) -> usize {
    seen(world, 0, |what| matches!(what, Seen::Started { .. }))
}

/// Counts the lines of the story that speak of something.
pub(super) fn reported(world: &Watched, what: &str) -> usize {
    world.outside().trace.lines().iter().filter(|line| line.contains(what)).count()
}

/// Returns a pool as the board shows it.
pub(super) fn view(world: &Watched, pool: &str) -> Arc<PoolView> {
    let pools = world.registry().expect("a daemon").pools();
    let id = PoolId::new(pool);
    pools.into_iter().find(|view| view.id == id).expect("a pool on the board")
}

/// Returns whether a job runs now.
pub(super) fn runs(world: &Watched, job: u64) -> bool {
    let outside = world.outside();
    outside.forge.jobs.get(&job).is_some_and(|job| matches!(job.stage, JobStage::Running { .. }))
}

/// Returns whether all these jobs are over.
pub(super) fn all_over(world: &Watched, jobs: &[u64]) -> bool {
    jobs.iter().all(|job| world.is_over(*job))
}

/// Demands that each job ran once, to its end, and that no outsider ended it.
pub(super) fn expect_served_once(world: &Watched, jobs: &[u64]) {
    let outside = world.outside();
    for number in jobs {
        let job = &outside.forge.jobs[number];
        assert!(job.is_over() && !job.lost && !job.killed_by_us, "came to harm: {job:?}");
        assert_eq!(job.starts, 1, "did not run once: {job:?}");
    }
}

/// Returns whether an instance was seen to end before its machine ever came to be.
pub(super) fn ended_unmade(what: &Seen) -> bool {
    matches!(what, Seen::Saved { after, .. } if after.state.is_over()
        && matches!(after.end, Some(End::NotCreated { .. })))
}
