//! What a machine says while it is set up is heard once, believed little, and kept.

use ostler_actors::fleet::ToFleet;
use ostler_actors::instance::MachineCall;
use ostler_actors::mail::Reply;
use ostler_actors::model::{InstanceId, Setup, State, VerdictClass, What};
use ostler_actors::testing::{Fate, Plan, Watched, pool};

use super::deaths::record;
use super::story::Tell as _;
use super::{MINUTE, SECOND, story};

fn say(world: &Watched, id: &InstanceId, said: MachineCall) {
    let (instance, attempt) = (id.clone(), 1);
    world.say(ToFleet::MachineCalled { instance, attempt, call: said, reply: Reply::discard() });
}

#[test]
fn a_machine_that_gives_up_is_deleted_the_safe_way_with_its_own_explanation() {
    story(Plan::quiet(vec![pool("linux", "witness", 2)]), async |world| {
        world.next_machine(Fate::NeverConnects);
        world.queue(&["linux"], MINUTE);
        let id = world.first().await.id;
        world.until(&id, State::Starting, 10 * MINUTE).await;
        say(world, &id, MachineCall::ReportSetup(Setup::Installing, "unpacking".into()));
        say(world, &id, MachineCall::ReportSetup(Setup::Failed, "no disk left".into()));
        world.until(&id, State::Retiring, MINUTE).await;
        world.until(&id, State::Deleted, 30 * MINUTE).await;
        let exit = record(world, &id);
        assert_eq!(exit.verdict.class, VerdictClass::BootFailed);
        let evidence = exit.verdict.evidence.join("; ");
        assert!(evidence.contains("no disk left"), "{evidence}");
        let told = world.timeline(&id);
        assert!(
            told.iter()
                .any(|it| matches!(it.what, What::SetupReported { setup: Setup::Installing, .. }))
        );
    });
}

#[test]
fn a_setup_report_after_the_fact_changes_no_state() {
    story(Plan::quiet(vec![pool("linux", "witness", 2)]), async |world| {
        world.queue(&["linux"], 10 * MINUTE);
        let id = world.first().await.id;
        world.until(&id, State::Busy, 10 * MINUTE).await;
        say(world, &id, MachineCall::ReportSetup(Setup::Failed, "a liar, or late".into()));
        world.run_for(30 * SECOND).await;
        assert_eq!(world.row(&id).map(|row| row.state), Some(State::Busy));
        assert_eq!(world.row(&id).and_then(|row| row.removal), None);
    });
}
