//! Crashes of the daemon: all of it at once, and what was durable stays.

use super::naive;
use crate::testing::{MINUTE, Plan, Point, Seen, in_virtual_time, pool};

#[test]
fn a_crash_ends_every_task_and_the_next_daemon_has_a_new_epoch() {
    in_virtual_time(async {
        let mut world = naive::world(Plan::quiet(vec![pool("linux", "witness", 4)])).remembering();
        world.run_for(MINUTE).await;
        world.crash(5 * MINUTE);
        assert!(world.registry().is_none() && world.fleet().is_none());
        world.run_for(4 * MINUTE).await;
        assert!(world.registry().is_none());
        world.run_for(2 * MINUTE).await;
        assert!(world.registry().is_some());
        let epochs: Vec<u64> = world
            .history()
            .iter()
            .filter_map(|seen| match &seen.what {
                Seen::Started { epoch, .. } => Some(epoch.0),
                _ => None,
            })
            .collect();
        assert_eq!(epochs, [1, 2]);
        assert_eq!(world.outside().records.controller().holders.len(), 2);
    });
}

#[test]
fn a_crash_at_a_save_is_noticed_at_once() {
    in_virtual_time(async {
        for point in [Point::Before, Point::After] {
            let mut world =
                naive::world(Plan::quiet(vec![pool("linux", "witness", 4)])).remembering();
            world.crash_at_save(1, point);
            world.queue(&["linux"], MINUTE);
            let before = world.now();
            world.run_for(30 * MINUTE).await;
            let crash = world.history().iter().find(|seen| matches!(seen.what, Seen::Crashed(_)));
            let crash = crash.expect("a crash");
            assert!(crash.at < before + 5_000);
            // The delivery was durable before the crash, whatever became of the save.
            let unhandled = world.outside().records.unhandled_count();
            assert_eq!(unhandled, usize::from(point == Point::Before));
        }
    });
}

#[test]
fn machines_and_jobs_go_on_while_the_daemon_is_down() {
    in_virtual_time(async {
        let mut world = naive::world(Plan::quiet(vec![pool("linux", "witness", 4)])).remembering();
        let job = world.queue(&["linux"], 5 * MINUTE);
        world.run_for(2 * MINUTE).await;
        world.crash(60 * MINUTE);
        world.run_for(20 * MINUTE).await;
        assert!(world.is_over(job));
        assert!(world.registry().is_none());
        assert_eq!(
            world.outside().machines.existing().count(),
            1,
            "no owner is there to delete it"
        );
    });
}
