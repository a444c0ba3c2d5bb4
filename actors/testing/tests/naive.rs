//! A daemon of a few lines: a machine for every queued job, and away with what is over.

use std::sync::Arc;
use std::time::Duration;

use crate::fleet::ToFleet;
use crate::instance::Dispatch;
use crate::mail::{Gone, Mailbox};
use crate::model::{JobFact, JobNotice, MachinePhase, Observation, PoolSpec, RunnerName, Stamp};
use crate::model::{MachineName, WriteId};
use crate::ports::{
    CreateOrder, Forge, Grace, Inventory, JobSave, MachineRef, MintGate, MintOrder, Provider,
    Records as _,
};
use crate::testing::{Plan, Shared, SimForge, SimPorts, SimProvider, SimStore, World};

/// Makes a world with the naive daemon in it.
pub(super) fn world(plan: Plan) -> World {
    World::new(plan, start)
}

fn start(ports: SimPorts) -> Mailbox<ToFleet> {
    let ports = Arc::new(ports);
    let (sender, mut messages) = tokio::sync::mpsc::unbounded_channel();
    tokio::task::spawn_local(clean(Arc::clone(&ports)));
    tokio::task::spawn_local(async move {
        while let Some(message) = messages.recv().await {
            match message {
                ToFleet::Notice(notice) => {
                    tokio::task::spawn_local(serve(Arc::clone(&ports), notice));
                }
                ToFleet::Dispatch { reply, .. } => reply.send(Dispatch::Wait),
                _ => {}
            }
        }
    });
    Mailbox::new(move |message| sender.send(message).map_err(|_| Gone))
}

async fn serve(ports: Arc<SimPorts>, notice: JobNotice) {
    let pool = ports.specs.iter().find(|pool| pool.labels.serve(&notice.labels));
    let Some(pool) = pool else { return };
    let handled = notice.delivery.clone().into_iter().collect();
    let write = WriteId(ports.base.chance.bits());
    let save = JobSave { handled, epoch: ports.base.epoch, write, ..JobSave::default() };
    while ports.jobs.save(save.clone()).await.is_err() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    if notice.fact == JobFact::Queued {
        create_registered(&ports.truth, pool, &format!("m{}-{}", notice.id.number, write.0 % 1000))
            .await;
    }
}

/// Makes a registered machine of this name.
pub(super) async fn create_registered(shared: &Arc<Shared>, pool: &PoolSpec, name: &str) {
    let forge = SimForge::new(Arc::clone(shared));
    let order = MintOrder {
        scope: pool.scope.clone(),
        name: RunnerName::new(name),
        labels: pool.labels.clone(),
        group: String::new(),
        gate: MintGate::default(),
    };
    let Ok(minted) = forge.mint(order).await else { return };
    let index = shared.lock().machines.index_of(&pool.provider).unwrap_or(0);
    let order = CreateOrder {
        name: MachineName::new(name),
        stamp: Stamp::default(),
        machine: pool.machine.clone(),
        pool: Arc::new(pool.clone()),
        avoid: Vec::new(),
        attempt: 1,
        jit: Some(minted.jit),
        slot: crate::ports::CreateSlot::default(),
    };
    drop(SimProvider::new(Arc::clone(shared), index).create(order).await);
}

async fn clean(ports: Arc<SimPorts>) {
    let shared = Arc::clone(&ports.truth);
    let store = SimStore::new(Arc::clone(&shared));
    loop {
        tokio::time::sleep(Duration::from_secs(30)).await;
        drop(store.open_jobs().await);
        for index in 0..ports.inventories.len() {
            let provider = SimProvider::new(Arc::clone(&shared), index);
            let Observation::Complete(machines) = provider.list().await else { continue };
            for view in machines {
                if matches!(view.phase, MachinePhase::Over(_)) {
                    let target = MachineRef { name: view.name, uid: view.uid };
                    drop(provider.delete(&target, Grace::Usual).await);
                }
            }
        }
    }
}
