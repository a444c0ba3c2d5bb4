//! The providers: creates that are lost or late, deletes that lie, witnesses.

use std::sync::Arc;

use super::naive;
use crate::model::{
    MachineName, MachinePhase, MachineView, Observation, PoolSpec, Sighting, Stamp, Tail, Worker,
};
use crate::ports::{
    CreateError, CreateOrder, Deletion, Grace, Inventory as _, MachineRef, Provider as _,
};
use crate::testing::{
    CreatePlan, Death, DeletePlan, Kind, MINUTE, Plan, SimProvider, World, in_virtual_time, pool,
};

fn quiet(provider: &str) -> World {
    naive::world(Plan::quiet(vec![pool("linux", provider, 4)])).remembering()
}

fn order(spec: &PoolSpec, name: &str) -> CreateOrder {
    CreateOrder {
        name: MachineName::new(name),
        stamp: Stamp::default(),
        machine: spec.machine.clone(),
        pool: Arc::new(spec.clone()),
        avoid: Vec::new(),
        attempt: 1,
        jit: None,
        slot: crate::ports::CreateSlot::default(),
    }
}

fn target(name: &str) -> MachineRef {
    MachineRef { name: MachineName::new(name), uid: None }
}

fn provider(world: &World) -> SimProvider {
    let index = world.outside().machines.index_of(&world.plan().pools[0].provider);
    SimProvider::new(world.shared().clone(), index.expect("a provider"))
}

#[test]
fn a_lost_create_makes_a_machine_and_a_repetition_finds_the_name_taken() {
    in_virtual_time(async {
        let mut world = quiet("split");
        let (split, spec) = (provider(&world), world.plan().pools[0].clone());
        world.next_create(CreatePlan::Lost);
        let lost = split.create(order(&spec, "m1")).await;
        assert!(matches!(lost, Err(CreateError::Unanswered { .. })), "{lost:?}");
        world.run_for(MINUTE).await;
        assert!(matches!(split.read(&target("m1")).await, Sighting::Seen(_)));
        let again = split.create(order(&spec, "m1")).await;
        assert!(matches!(again, Err(CreateError::Unanswered { .. })), "{again:?}");
        assert_eq!(world.outside().machines.appeared[&MachineName::new("m1")], 1);
    });
}

#[test]
fn a_machine_may_come_after_its_create_was_refused_or_never_answered() {
    in_virtual_time(async {
        let mut world = quiet("split");
        let (split, spec) = (provider(&world), world.plan().pools[0].clone());
        world.next_create(CreatePlan::RefusedComes(120_000));
        split.create(order(&spec, "m1")).await.expect_err("an error");
        assert_eq!(split.read(&target("m1")).await, Sighting::Absent);
        world.next_create(CreatePlan::Hangs(Some(180_000)));
        let hanging = split.create(order(&spec, "m2"));
        assert!(tokio::time::timeout(MINUTE, hanging).await.is_err());
        world.run_for(5 * MINUTE).await;
        for name in ["m1", "m2"] {
            assert!(matches!(split.read(&target(name)).await, Sighting::Seen(_)), "{name}");
        }
    });
}

#[test]
fn a_lying_delete_leaves_the_machine_and_a_repeated_one_takes_it() {
    in_virtual_time(async {
        let mut world = quiet("split");
        let (split, spec) = (provider(&world), world.plan().pools[0].clone());
        let view = split.create(order(&spec, "m1")).await.expect("a machine");
        world.next_delete(DeletePlan::Lies);
        let exact = MachineRef { name: view.name.clone(), uid: view.uid.clone() };
        for _ in 0..2 {
            let answer = split.delete(&exact, Grace::Usual).await.expect("an answer");
            assert_eq!(answer, Deletion::Accepted);
            world.run_for(MINUTE).await;
        }
        assert_eq!(split.read(&exact).await, Sighting::Absent);
        let answer = split.delete(&exact, Grace::Usual).await.expect("an answer");
        assert_eq!(answer, Deletion::NotFound);
        assert_eq!(world.deletes().iter().filter(|it| it.exists).count(), 2);
    });
}

#[test]
fn a_delete_of_another_uid_touches_nothing() {
    in_virtual_time(async {
        let world = quiet("split");
        let (split, spec) = (provider(&world), world.plan().pools[0].clone());
        split.create(order(&spec, "m1")).await.expect("a machine");
        let other = MachineRef { name: MachineName::new("m1"), uid: Some("another".into()) };
        assert_eq!(split.read(&other).await, Sighting::Absent);
        let answer = split.delete(&other, Grace::Usual).await.expect("an answer");
        assert_eq!(answer, Deletion::NotFound);
        assert_eq!(world.outside().machines.existing().count(), 1);
    });
}

#[test]
fn a_machine_is_never_falsely_absent_twice_running() {
    in_virtual_time(async {
        let world = quiet("split");
        let (split, spec) = (provider(&world), world.plan().pools[0].clone());
        split.create(order(&spec, "m1")).await.expect("a machine");
        world.outside().faults.provider.read_false_absent = 9_000;
        world.outside().faults.provider.read_fails = 3_000;
        let mut lied = false;
        for _ in 0..200 {
            match split.read(&target("m1")).await {
                Sighting::Absent => {
                    assert!(!lied, "two lies with no truth between them");
                    lied = true;
                }
                Sighting::Seen(_) => lied = false,
                Sighting::Unknown(_) => {}
            }
        }
    });
}

#[test]
fn an_empty_listing_calls_itself_complete() {
    in_virtual_time(async {
        let world = quiet("split");
        let (split, spec) = (provider(&world), world.plan().pools[0].clone());
        split.create(order(&spec, "m1")).await.expect("a machine");
        world.empty_listings_for(MINUTE);
        assert_eq!(split.list().await, Observation::Complete(Vec::new()));
        tokio::time::sleep(MINUTE).await;
        assert!(matches!(split.list().await, Observation::Complete(all) if all.len() == 1));
    });
}

async fn working(name: &str) -> (World, MachineView) {
    let mut world = quiet(name);
    let job = world.queue(&["linux"], 10 * MINUTE);
    world.run_for(2 * MINUTE).await;
    assert_eq!(world.outside().forge.jobs[&job].starts, 1);
    let machine = world.outside().machines.existing().next().map(|it| it.name.clone());
    let exact = target(machine.expect("a machine").as_str());
    let Sighting::Seen(view) = provider(&world).read(&exact).await else { panic!("not seen") };
    (world, view)
}

#[test]
fn each_kind_of_machine_shows_what_it_can_of_a_job() {
    in_virtual_time(async {
        use crate::model::Began;
        for (name, kind, worker, began) in [
            ("split", Kind::Split, Worker::Present, Began::Yes),
            ("witness", Kind::Witness, Worker::Present, Began::Unknown),
            ("blind", Kind::Blind, Worker::NoWitness, Began::Unknown),
        ] {
            let (world, view) = working(name).await;
            assert_eq!((view.worker, view.began), (worker, began), "{name}");
            assert_eq!(world.outside().machines.existing().next().map(|it| it.kind), Some(kind));
        }
    });
}

#[test]
fn a_hung_machine_runs_on_without_a_worker_for_ever() {
    in_virtual_time(async {
        let (mut world, view) = working("witness").await;
        world.kill(&view.name, Death::Hung);
        world.run_for(60 * MINUTE).await;
        let seen = provider(&world).read(&target(view.name.as_str())).await;
        let Sighting::Seen(view) = seen else { panic!("not seen") };
        assert_eq!((view.phase, view.worker), (MachinePhase::Running, Worker::Absent));
    });
}

#[test]
fn a_delete_under_a_job_is_seen_as_wrongful() {
    in_virtual_time(async {
        let (mut world, view) = working("witness").await;
        let exact = MachineRef { name: view.name, uid: view.uid };
        drop(provider(&world).delete(&exact, Grace::Usual).await);
        world.run_for(15 * MINUTE).await;
        let wrongful: Vec<_> =
            world.deletes().into_iter().filter(crate::testing::DeleteCalled::is_wrongful).collect();
        assert_eq!(wrongful.len(), 1);
        let killed = wrongful[0].working.expect("a job");
        assert!(world.outside().forge.jobs[&killed].killed_by_us);
    });
}

#[test]
fn every_end_leaves_its_facts_or_nothing() {
    in_virtual_time(async {
        for death in Death::ALL {
            let (mut world, view) = working("witness").await;
            world.kill(&view.name, death);
            let exit_report = provider(&world).exit_report(&target(view.name.as_str()), true).await;
            let facts = death.facts(world.outside().date());
            match death {
                Death::Hung => assert_eq!(exit_report.exit, None),
                Death::Vanished => assert!(matches!(exit_report.tail, Tail::Unavailable(_))),
                Death::Wordless => {
                    let seen = provider(&world).read(&target(view.name.as_str())).await;
                    let Sighting::Seen(view) = seen else { panic!("not seen") };
                    assert_eq!(view.phase, MachinePhase::Over(facts));
                }
                _ => {
                    assert_eq!(
                        exit_report.exit.and_then(|exit| exit.code),
                        facts.code,
                        "{death:?}"
                    );
                }
            }
            world.run_for(MINUTE).await;
        }
    });
}

#[test]
fn a_lost_host_puts_all_its_machines_in_doubt_first() {
    in_virtual_time(async {
        let (mut world, view) = working("split").await;
        world.lose_host_of(&view.name);
        let seen = provider(&world).read(&target(view.name.as_str())).await;
        let Sighting::Seen(view) = seen else { panic!("not seen") };
        assert!(matches!(view.phase, MachinePhase::Doubt(_)));
        assert_eq!(view.worker, Worker::Unknown);
        world.run_for(20 * MINUTE).await;
        let doubt = world.outside().machines.existing().any(|machine| machine.doubt);
        assert!(!doubt, "doubt ends, one way or another");
    });
}
