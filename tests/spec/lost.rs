//! What gets lost on the way: registrations, connections, records and pools. Its owner is
//! found, and no running job pays for it.

use std::time::Duration;

use ostler_actors::model::{
    Instance, InstanceId, PoolId, PoolSpec, Reason, Registration, RunnerName, State, Subject,
    VerdictClass, What, elapsed,
};
use ostler_actors::testing::{Death, Fate, HookKind, MintPlan, Plan, Seen, Watched, pool};

use super::paperwork::{Paperwork as _, machine};
use super::story::Tell as _;
use super::{MINUTE, SECOND, story};

/// Longer than any story.
const NEVER: Duration = Duration::from_hours(48);

fn keeping(provider: &str, idle: u32) -> PoolSpec {
    PoolSpec { min_idle: idle, ..pool("linux", provider, 8) }
}

fn idle(world: &Watched) -> Vec<Instance> {
    world.rows().into_iter().filter(|row| row.state == State::Idle).collect()
}

fn registered_as(row: &Instance) -> RunnerName {
    let name = match &row.registration {
        Registration::Known { name, .. } | Registration::Uncertain(name) => Some(name.clone()),
        Registration::None | Registration::Gone | Registration::WrittenOff => None,
    };
    name.expect("it is registered")
}

fn reason(world: &Watched, id: &InstanceId) -> Option<Reason> {
    world.row(id).and_then(|row| row.removal).map(|removal| removal.reason)
}

fn verdict(world: &Watched, id: &InstanceId) -> Option<VerdictClass> {
    world.row(id).and_then(|row| row.verdict)
}

#[test]
fn a_runner_that_an_administrator_removed_is_no_capacity_and_leaves() {
    for provider in ["witness", "blind"] {
        story(Plan::quiet(vec![keeping(provider, 1)]), async |world| {
            world.wait_for("an idle one", 5 * MINUTE, |world| idle(world).len() == 1).await;
            let row = idle(world).remove(0);
            world.unregister(&registered_as(&row));
            let asked = |world: &Watched| reason(world, &row.id) == Some(Reason::Unregistered);
            world.wait_for("it leaves", 5 * MINUTE, asked).await;
            // The forge was asked by number, twice and a minute apart, before anything was decided.
            let moved = |what: &What| matches!(what, What::Moved { to: State::Retiring, .. });
            assert_eq!(world.reported(&row.id, moved).len(), 1);
            let gone =
                |world: &Watched| world.row(&row.id).is_none_or(|it| it.state == State::Deleted);
            world.wait_for("nothing left of it", 10 * MINUTE, gone).await;
            assert_eq!(verdict(world, &row.id), Some(VerdictClass::Removed));
            let job = world.queue(&["linux"], MINUTE);
            world.over(&[job], 10 * MINUTE).await;
        });
    }
}

#[test]
fn runners_that_all_seem_lost_leave_no_faster_than_the_budget() {
    let mut spec = keeping("witness", 4);
    spec.policy.retire_budget = 1;
    story(Plan::quiet(vec![spec]), async |world| {
        world.wait_for("four idle", 5 * MINUTE, |world| idle(world).len() == 4).await;
        let lost = idle(world);
        for row in &lost {
            world.unregister(&registered_as(row));
        }
        let went = |world: &Watched| {
            lost.iter().filter(|row| reason(world, &row.id) == Some(Reason::Unregistered)).count()
        };
        let begun = world.now();
        world.wait_for("all on their way", 30 * MINUTE, |world| went(world) == 4).await;
        let took = Duration::from_millis(world.now() - begun);
        assert!(took >= 4 * MINUTE, "four left within {took:?}, one a minute may");
    });
}

#[test]
fn a_machine_whose_record_was_lost_is_not_taken_for_free_under_a_further_name() {
    let mut plan = Plan::quiet(vec![pool("linux", "blind", 1)]);
    plan.settings.poll_tick = NEVER;
    story(plan, async |world| {
        world.hold_assignments();
        // The first mint is lost, so that its runner listens as `<machine>-2`.
        world.next_mint(MintPlan::Lost);
        let made_for = world.queue(&["linux"], MINUTE);
        let id = world.first().await.id;
        world.until(&id, State::Idle, 10 * MINUTE).await;
        let runner = registered_as(&world.row(&id).expect("its row"));
        assert_eq!(runner.as_str(), format!("{id}-2"));
        world.cancel(made_for);

        // A job that is never reported begins there; the forge removes its runner all the same.
        for kind in [HookKind::Queued, HookKind::InProgress] {
            world.lose_hooks(kind, 1);
        }
        let job = world.queue(&["linux"], 40 * MINUTE);
        world.pair(job, &machine(&id));
        world.until_working(&machine(&id), job).await;
        world.be_nasty(&runner);
        world.lose_record(&id);
        let adopted = |world: &Watched| world.row(&id).is_some_and(|row| row.adopted);
        world.wait_for("a new owner", 10 * MINUTE, adopted).await;
        let works = |world: &Watched| world.row(&id).is_some_and(|row| row.state == State::Busy);
        world.wait_for("its work is found", 10 * MINUTE, works).await;
        world.over(&[job], 60 * MINUTE).await;
        assert!(world.was_spared(job), "it was deleted at work");
        world.wait_for("its end", 30 * MINUTE, |world| world.rows().is_empty()).await;
        let left = |world: &Watched| world.outside().forge.registered().count();
        assert_eq!(left(world), 0);
    });
}

#[test]
fn a_job_whose_runner_went_offline_is_asked_about_before_its_next_age() {
    story(Plan::quiet(vec![pool("linux", "witness", 2)]), async |world| {
        let job = world.queue(&["linux"], 120 * MINUTE);
        let first = world.running(job, 5 * MINUTE).await;
        world.run_for(20 * MINUTE).await;
        // Its agent hangs, and the forge gives the job back without a word; by age alone it would
        // be asked about forty minutes from now.
        world.kill(&machine(&first), Death::Hung);
        world.give_back(job);
        let again = |world: &Watched| world.started(job).len() == 2;
        world.wait_for("it runs again", 10 * MINUTE, again).await;
        world.over(&[job], 180 * MINUTE).await;
    });
}

#[test]
fn a_post_mortem_takes_its_time_once_however_slow_everybody_is() {
    let mut plan = Plan::quiet(vec![pool("linux", "witness", 1)]);
    plan.faults.provider.exit_report_slow = 10_000;
    plan.faults.forge.slow = 10_000;
    story(plan, async |world| {
        world.next_machine(Fate::DiesWorking(30_000, Death::GuestKilled));
        let job = world.queue(&["linux"], 20 * MINUTE);
        let id = world.running(job, 10 * MINUTE).await;
        let moved = |world: &Watched, to: State| {
            let is_it = |what: &What| matches!(what, What::Moved { to: it, .. } if *it == to);
            world.reported(&id, is_it).first().map(|event| event.at)
        };
        let recorded = |world: &Watched| moved(world, State::PendingDelete).is_some();
        world.wait_for("its record", 30 * MINUTE, recorded).await;
        let ended = moved(world, State::Ended).expect("an end before its record");
        let took = elapsed(ended, moved(world, State::PendingDelete).expect("its record"));
        let wait_limit = world.plan().pools[0].policy.postmortem_timeout;
        assert!(took <= wait_limit, "it took {took:?}");
        world.over(&[job], 60 * MINUTE).await;
    });
}

#[test]
fn a_pool_that_comes_back_is_as_its_operators_left_it() {
    let plan = Plan::quiet(vec![pool("linux", "witness", 2), pool("kept", "witness", 2)]);
    story(plan, async |world| {
        let (both, kept) = (world.plan().pools.clone(), vec![pool("kept", "witness", 2)]);
        world.run_for(SECOND).await;
        world.drain(0, true);
        world.run_for(SECOND).await;
        world.reload(kept);
        world.run_for(MINUTE).await;
        world.reload(both);
        world.run_for(MINUTE).await;
        assert!(world.shown("linux").draining, "what an operator drained stays drained");
        world.drain(0, false);
        world.run_for(SECOND).await;
        assert!(!world.shown("linux").draining);
        let told: Vec<_> = {
            let outside = world.outside();
            outside.records.timeline(&Subject::Pool(PoolId::new("linux"))).cloned().collect()
        };
        assert_eq!(told.len(), 2, "its timeline goes on where it was: {told:?}");
    });
}

#[test]
fn a_machine_that_comes_after_its_pool_was_taken_away_gets_an_owner_all_the_same() {
    let mut spec = pool("linux", "blind", 1);
    spec.policy.create_settle = MINUTE;
    let plan = Plan::quiet(vec![spec, pool("kept", "witness", 1)]);
    story(plan, async |world| {
        let late = 20 * MINUTE;
        let millis = u64::try_from(late.as_millis()).expect("a short time");
        world.next_create(ostler_actors::testing::CreatePlan::Hangs(Some(millis)));
        let job = world.queue(&["linux"], MINUTE);
        let id = world.first().await.id;
        world.run_for(SECOND).await;
        world.cancel(job);
        world.reload(vec![pool("kept", "witness", 1)]);
        let gone = |world: &Watched| world.rows().is_empty();
        world.wait_for("its row is closed", 15 * MINUTE, gone).await;
        world.wait_for("the machine", late, |world| world.exists(&machine(&id))).await;
        let adopted = |seen: &Seen| matches!(seen, Seen::Saved { after, .. } if after.adopted);
        world.wait_for("its end", 20 * MINUTE, |world| !world.exists(&machine(&id))).await;
        assert!(world.count(adopted) > 0, "it had no owner");
    });
}
