//! The simulated forge keeps the contract that the real adapter keeps.

use std::sync::Arc;

use tokio::sync::Mutex;

use super::naive;
use crate::model::{RunnerName, Scope};
use crate::ports::RunnerRef;
use crate::testing::contract::{BenchJob, ForgeBench, forge_contract};
use crate::testing::{HookKind, MINUTE, Plan, SimForge, World, in_virtual_time, pool};

/// A quiet world, made anew for every part of the contract.
struct Bench(Mutex<World>);

fn quiet() -> World {
    naive::world(Plan::quiet(vec![pool("linux", "witness", 4)]))
}

fn pointer(world: &World, number: u64) -> BenchJob {
    let outside = world.outside();
    let place = outside.forge.jobs[&number].place.clone();
    BenchJob { id: outside.forge.job_id(number), place, run: number }
}

impl ForgeBench for Bench {
    type Forge = SimForge;

    async fn open(&self) -> Arc<SimForge> {
        let mut world = self.0.lock().await;
        *world = quiet();
        world.run_for(MINUTE).await;
        Arc::new(SimForge::new(world.shared().clone()))
    }

    fn scope(&self) -> Scope {
        Scope::Organization("acme".into())
    }

    async fn queue(&self) -> BenchJob {
        let world = self.0.lock().await;
        let number = world.queue(&["linux", "no-runner-has-this"], MINUTE);
        pointer(&world, number)
    }

    async fn put_to_work(&self, name: &str) -> (RunnerRef, BenchJob) {
        let mut world = self.0.lock().await;
        let (shared, spec) = (world.shared().clone(), world.plan().pools[0].clone());
        let text = name.to_owned();
        world.spawn(async move { naive::create_registered(&shared, &spec, &text).await });
        world.run_for(MINUTE).await;
        world.lose_hooks(HookKind::Queued, 1);
        let number = world.queue(&["linux"], 60 * MINUTE);
        world.run_for(MINUTE).await;
        let name = RunnerName::new(name);
        let id = world.outside().forge.runner_named(&name).map(|runner| runner.id);
        (RunnerRef { name, id }, pointer(&world, number))
    }

    async fn finish(&self, job: &BenchJob) {
        let mut world = self.0.lock().await;
        world.cancel(job.id.number);
        world.run_for(MINUTE).await;
    }
}

#[test]
fn the_simulated_forge_keeps_the_contract() {
    in_virtual_time(async {
        forge_contract(&Bench(Mutex::new(quiet()))).await;
    });
}
