//! Machines of ours that no record knows.

use ostler_actors::fleet::{ToFleet, Victim};
use ostler_actors::model::{MachineName, MachineView, Observation, State};
use ostler_actors::ports::Inventory as _;
use ostler_actors::testing::{Plan, SimProvider, Watched, pool};

use super::super::story::Tell as _;
use super::super::{MINUTE, story};
use super::{ALWAYS, Retell as _};

/// Puts an orphan there and returns what a listing shows of it.
async fn an_orphan(world: &mut Watched, name: &str) -> MachineView {
    world.plant_orphan(0, name);
    let index = world.outside().machines.index_of(&"witness".into()).expect("the provider");
    let provider = SimProvider::new(world.shared().clone(), index);
    let Observation::Complete(mut views) = provider.list().await else { unreachable!("no faults") };
    assert_eq!(views.len(), 1, "one machine: {views:?}");
    views.remove(0)
}

fn owners(world: &Watched, machine: &MachineName) -> usize {
    world.outside().records.rows().filter(|row| row.machine == *machine).count()
}

#[test]
fn c8_two_adoptions_of_one_machine_leave_one_owner() {
    // The pool has not handled the first, or has forgotten it, when the second comes.
    for forgets in [false, true] {
        story(Plan::quiet(vec![pool("linux", "witness", 2)]), async |world| {
            world.run_for(MINUTE).await;
            let view = an_orphan(world, "linux-lost").await;
            let machine = view.name.clone();
            world.outside().faults.store.stalls = ALWAYS;
            world.say(ToFleet::Orphan("witness".into(), view.clone()));
            if forgets {
                world.say(ToFleet::Panic(Victim::Pool("linux".into())));
            }
            world.say(ToFleet::Orphan("witness".into(), view));
            assert_eq!(owners(world, &machine), 0, "neither is handled yet");
            // The sweeps find it too, again and again, while the records are slow.
            world.run_for(5 * MINUTE).await;
            world.outside().faults.store.stalls = 0;
            world.wait_for("an owner", 10 * MINUTE, |world| owners(world, &machine) > 0).await;
            let owner =
                world.outside().records.rows().next().map(|row| row.id.clone()).expect("it");
            world.until(&owner, State::Deleted, 30 * MINUTE).await;
            assert_eq!(owners(world, &machine), 1);
            assert_eq!(world.orders(&machine), 0);
        });
    }
}
