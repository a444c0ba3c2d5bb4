//! When a runner dies, its record says why, and it says so before the machine goes.

use ostler_actors::model::{State, Tail, VerdictClass};
use ostler_actors::testing::{Death, Fate, Plan, pool};

use super::story::Tell as _;
use super::{MINUTE, SECOND, story};

#[test]
fn f06_log_of_a_dead_runner_is_on_record_before_its_machine_goes() {
    story(Plan::quiet(vec![pool("linux", "witness", 2)]), async |world| {
        world.next_machine(Fate::DiesWorking(30_000, Death::GuestKilled));
        world.queue(&["linux"], 10 * MINUTE);
        world.wait_for("an instance", 10 * SECOND, |world| !world.rows().is_empty()).await;
        let id = world.only().id;
        world.until(&id, State::Deleted, 30 * MINUTE).await;
        let exit = world.outside().shelf.exit(&id).cloned().expect("a record of its end");
        assert_eq!(exit.verdict.class, VerdictClass::GuestKilled);
        assert!(matches!(exit.tail, Tail::Captured(_)), "{:?}", exit.tail);
        let deletes = world.deletes();
        assert!(!deletes.is_empty() && deletes.iter().all(|call| call.has_exit_record));
    });
}
