//! Machines that wait unregistered and ask for work.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::fleet::ToFleet;
use crate::instance::Dispatch;
use crate::mail::{Gone, Mailbox};
use crate::model::{InstanceId, RunnerName};
use crate::ports::{Forge as _, Jit, MintGate, MintOrder};
use crate::testing::{MINUTE, Plan, Seen, SimForge, SimPorts, Stage, World, in_virtual_time, pool};

/// A daemon that answers every question for work with the same JIT config, or lets it wait.
fn generous(asked: Arc<AtomicU32>, waits: bool) -> impl Fn(SimPorts) -> Mailbox<ToFleet> {
    move |ports: SimPorts| {
        let (sender, mut messages) = tokio::sync::mpsc::unbounded_channel();
        let asked = Arc::clone(&asked);
        tokio::task::spawn_local(async move {
            let mut minted: Option<Jit> = None;
            let mut held = Vec::new();
            while let Some(message) = messages.recv().await {
                let ToFleet::Dispatch { instance, reply, .. } = message else { continue };
                asked.fetch_add(1, Ordering::Relaxed);
                if waits {
                    held.push(reply);
                    continue;
                }
                if minted.is_none() {
                    minted = mint(&ports, &instance).await;
                }
                reply.send(minted.clone().map_or(Dispatch::Wait, Dispatch::Work));
            }
        });
        Mailbox::new(move |message| sender.send(message).map_err(|_| Gone))
    }
}

async fn mint(ports: &SimPorts, instance: &InstanceId) -> Option<Jit> {
    let order = MintOrder {
        scope: ports.specs[0].scope.clone(),
        name: RunnerName::new(instance.as_str()),
        labels: ports.specs[0].labels.clone(),
        group: String::new(),
        gate: MintGate::default(),
    };
    SimForge::new(Arc::clone(&ports.truth)).mint(order).await.ok().map(|minted| minted.jit)
}

fn world(asked: &Arc<AtomicU32>, waits: bool) -> World {
    let plan = Plan::quiet(vec![pool("linux", "split", 4)]);
    World::new(plan, generous(Arc::clone(asked), waits)).remembering()
}

#[test]
fn a_machine_that_gets_its_jit_config_registers_and_works() {
    in_virtual_time(async {
        let asked = Arc::default();
        let mut world = world(&asked, false);
        world.plant_orphan(0, "m1");
        let job = world.queue(&["linux"], MINUTE);
        world.run_for(5 * MINUTE).await;
        assert!(world.is_over(job));
        let handed = world.history().iter().find_map(|seen| match &seen.what {
            Seen::HandedOut { delivered, registered, .. } => Some((*delivered, *registered)),
            _ => None,
        });
        assert_eq!(handed, Some((false, true)), "no offer was durable, and the world saw it");
    });
}

#[test]
fn a_machine_whose_answer_is_lost_repeats_its_request() {
    in_virtual_time(async {
        let asked: Arc<AtomicU32> = Arc::default();
        let mut world = world(&asked, false);
        world.outside().faults.provider.dispatch_lost = 10_000;
        world.plant_orphan(0, "m1");
        world.run_for(2 * MINUTE).await;
        assert!(asked.load(Ordering::Relaxed) > 5);
        world.outside().faults.calm();
        world.run_for(MINUTE).await;
        let stages: Vec<Stage> =
            world.outside().machines.existing().map(|machine| machine.stage.clone()).collect();
        assert_eq!(stages, [Stage::Listening]);
        assert_eq!(world.outside().forge.runners.len(), 1, "one JIT config in all");
    });
}

#[test]
fn a_machine_whose_request_died_with_the_daemon_repeats_it_to_the_next_one() {
    in_virtual_time(async {
        let asked: Arc<AtomicU32> = Arc::default();
        let mut world = world(&asked, true);
        world.plant_orphan(0, "m1");
        world.run_for(Duration::from_secs(50)).await;
        assert_eq!(asked.load(Ordering::Relaxed), 1, "a long poll is one question");
        world.crash(2 * MINUTE);
        world.run_for(Duration::from_secs(150)).await;
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    });
}
