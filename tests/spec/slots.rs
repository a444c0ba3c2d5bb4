//! A slot is given back by the exit of its instance: once, and whatever else gets lost.

use ostler_actors::model::{JobState, State};
use ostler_actors::testing::{Death, DeletePlan, Fate, Plan, Point, Seen, Watched, pool};

use super::paperwork::{Paperwork as _, machine};
use super::story::Tell as _;
use super::{HOUR, MINUTE, SECOND, story};

#[test]
fn f10_crash_between_any_two_saves_leaks_no_slot() {
    for point in [Point::Before, Point::After] {
        let saves = (1..500).take_while(|nth| crashes_at(*nth, point)).count();
        assert!(saves > 20, "the daemon crashed at {saves} saves only");
    }
}

/// Tells the story with a crash at its n-th save; returns whether there was such a save.
fn crashes_at(nth: u64, point: Point) -> bool {
    let mut struck = false;
    story(Plan::quiet(vec![pool("linux", "split", 1)]), async |world| {
        world.crash_at_save(nth, point);
        let jobs = [world.queue(&["linux"], MINUTE), world.queue(&["linux"], MINUTE)];
        // The second needs the slot of the first; ten days would be too late.
        world.over(&jobs, HOUR).await;
        let free = |world: &Watched| {
            world.rows().is_empty() && world.outside().records.open_jobs().next().is_none()
        };
        world.wait_for("no slot and no claim is held", HOUR, free).await;
        assert!(jobs.iter().all(|job| world.at_forge(*job).starts == 1));
        struck = world.count(|seen| matches!(seen, Seen::Crashed(_))) > 0;
    });
    struck
}

#[test]
fn f11_completion_whose_release_was_lost_still_frees_the_slot() {
    story(Plan::quiet(vec![pool("linux", "split", 1)]), async |world| {
        world.hold_assignments();
        let job = world.queue(&["linux"], MINUTE);
        let holder = world.delivered(job, 2 * MINUTE).await;
        // The ledger's save is durable and its message to the instance is never sent.
        world.crash_at_save(1, Point::After);
        world.cancel(job);
        let struck = |world: &Watched| world.count(|seen| matches!(seen, Seen::Crashed(_))) == 1;
        world.wait_for("a crash", 10 * SECOND, struck).await;
        assert!(world.is_buried(job), "completion is durable");
        let row = world.row(&holder).expect("a row");
        assert_eq!((row.state, row.offer.is_some()), (State::Reserved, true), "release is lost");
        world.until(&holder, State::Deleted, 20 * MINUTE).await;
        assert_eq!(world.job_state(job), Some(JobState::Completed));
        // Its slot was the only one.
        world.free_assignments();
        let next = world.queue(&["linux"], MINUTE);
        world.over(&[next], 5 * MINUTE).await;
    });
}

#[test]
fn f11_completion_of_a_job_that_ran_frees_the_slot_though_it_was_never_reported() {
    story(Plan::quiet(vec![pool("linux", "witness", 1)]), async |world| {
        world.next_machine(Fate::Ends(Death::Hung));
        let job = world.queue(&["linux"], 2 * MINUTE);
        let holder = world.running(job, 5 * MINUTE).await;
        world.crash_at_save(1, Point::After);
        world.over(&[job], 5 * MINUTE).await;
        let struck = |world: &Watched| world.count(|seen| matches!(seen, Seen::Crashed(_))) == 1;
        world.wait_for("a crash", 10 * SECOND, struck).await;
        assert!(world.is_buried(job), "completion is durable");
        let row = world.row(&holder).expect("a row");
        assert_eq!((row.state, row.job_over), (State::Busy, None), "release is lost");
        world.until(&holder, State::Deleted, 40 * MINUTE).await;
    });
}

#[test]
fn f12_job_that_ran_on_anothers_runner_frees_the_right_slot() {
    story(Plan::quiet(vec![pool("linux", "split", 2)]), async |world| {
        world.hold_assignments();
        let long = world.queue(&["linux"], 30 * MINUTE);
        let of_long = world.delivered(long, 2 * MINUTE).await;
        let short = world.queue(&["linux"], 2 * MINUTE);
        let of_short = world.delivered(short, 2 * MINUTE).await;
        // Each runs on the runner that was made for the other.
        world.pair(long, &machine(&of_short));
        world.pair(short, &machine(&of_long));
        assert_eq!(world.running(long, MINUTE).await, of_short);
        assert_eq!(world.running(short, MINUTE).await, of_long);
        world.free_assignments();
        // The next job needs the slot of the short one, which is slow to go.
        world.next_delete(DeletePlan::Good(60_000));
        let next = world.queue(&["linux"], MINUTE);
        world.over(&[short, next], 15 * MINUTE).await;
        assert!(!world.is_over(long));
        assert_eq!(world.row(&of_long).map(|row| row.state), Some(State::Deleted));
        assert_eq!(world.row(&of_short).map(|row| row.state), Some(State::Busy));
        assert_eq!(most_at_once(world), 2, "both slots were used, and no third");
        world.over(&[long], 30 * MINUTE).await;
        assert!(world.deletes().iter().all(|call| call.working.is_none()));
    });
}

/// Returns how many machines existed at once, at most.
fn most_at_once(world: &Watched) -> usize {
    let (mut there, mut most) = (0_usize, 0);
    for seen in world.history() {
        if matches!(seen.what, Seen::Appeared { .. }) {
            there += 1;
        } else if matches!(seen.what, Seen::MachineGone { .. }) {
            there = there.saturating_sub(1);
        }
        most = most.max(there);
    }
    most
}
