//! What the leader does for pods beside its fleet: marks what others must not evict, takes spent
//! secrets away, and asks idle instances to leave nodes that are being drained.
//!
//! Marks are output: nothing of ours reads them back, so a lost one costs a pod its protection for
//! a while and never its life. Whoever is asked to leave a node answers for itself: one with a job
//! refuses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use ostler_actors::backoff::doubled;
use ostler_actors::fleet::ToFleet;
use ostler_actors::instance::Retire;
use ostler_actors::mail::{ActorRef, Reply};
use ostler_actors::model::{
    Binding, HostName, Instance, InstanceId, ProviderId, Reason, State, Subject, Urgency,
};
use ostler_actors::ports::{MachineRef, Records};
use ostler_actors::registry::Registry;
use tokio::sync::Semaphore;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::{JoinHandle, JoinSet};
use tracing::{debug, info, warn};

use super::Daemon;
use crate::providers::kubernetes::{Kubernetes, Leaving, Protection, protection};

/// How often instances on such nodes are asked to leave, and how many at a time.
const NODES: Duration = Duration::from_secs(15);
const MAX_RETIRED_AT_ONCE: usize = 5;
/// How many marks are written at the same time, how often each is tried, and the pause between.
const WRITERS: usize = 8;
const TRIES: u32 = 4;
const LABEL_RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_LABEL_RETRY_DELAY: Duration = Duration::from_secs(4);

/// Looks after the marks of pods and the nodes they are on; ends when it is dropped.
pub(super) struct Pods(Vec<JoinHandle<()>>);

impl Pods {
    pub(super) fn begin(daemon: &Daemon, clusters: &BTreeMap<ProviderId, Kubernetes>) -> Self {
        let mut tasks = Vec::new();
        if !clusters.is_empty() {
            let marker = Marker::new(clusters.clone(), Arc::clone(&daemon.registry));
            tasks.push(tokio::spawn(marker.run()));
        }
        for (id, cluster) in clusters {
            let records: Arc<dyn Records> = Arc::new(daemon.store.clone());
            let fleet = daemon.actor_ref.clone();
            tasks.push(tokio::spawn(watch_nodes(id.clone(), cluster.clone(), records, fleet)));
        }
        Self(tasks)
    }
}

impl Drop for Pods {
    fn drop(&mut self) {
        for task in &self.0 {
            task.abort();
        }
    }
}

/// What a pod's marks say.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Marks {
    protection: Protection,
    job: Option<String>,
    /// Whether its secret is spent.
    spent: bool,
}

impl Marks {
    fn of(row: &Instance) -> Self {
        Self {
            protection: protection(row.binding, row.state),
            job: row.executing.as_ref().map(ToString::to_string),
            // The runner connected, or never will: nobody needs its JIT config any more.
            spent: row.binding == Binding::Early && row.state.is_booted(),
        }
    }

    /// Returns what a pod says that was just made.
    fn fresh(row: &Instance) -> Self {
        Self { protection: protection(row.binding, State::Starting), job: None, spent: false }
    }
}

/// Keeps the marks of pods as their instances are.
struct Marker {
    clusters: BTreeMap<ProviderId, Kubernetes>,
    registry: Arc<Registry>,
    reported: BTreeMap<InstanceId, Marks>,
    writers: Arc<Semaphore>,
    /// Writes under way; each pod has one at a time, so that the last word stands.
    writing: JoinSet<InstanceId>,
    written: BTreeSet<InstanceId>,
}

impl Marker {
    fn new(clusters: BTreeMap<ProviderId, Kubernetes>, registry: Arc<Registry>) -> Self {
        let writers = Arc::new(Semaphore::new(WRITERS));
        let (reported, writing, written) = (BTreeMap::new(), JoinSet::new(), BTreeSet::new());
        Self { clusters, registry, reported, writers, writing, written }
    }

    async fn run(mut self) {
        let mut feed = self.registry.subscribe();
        self.look_at_all();
        loop {
            tokio::select! {
                event = feed.recv() => match event {
                    Ok(event) => {
                        if let Subject::Instance(id) = &event.subject {
                            self.look_at(id);
                        }
                    }
                    Err(RecvError::Lagged(_)) => self.look_at_all(),
                    Err(RecvError::Closed) => return,
                },
                Some(done) = self.writing.join_next() => {
                    if let Ok(id) = done {
                        self.written.remove(&id);
                        self.look_at(&id);
                    }
                }
            }
        }
    }

    fn look_at_all(&mut self) {
        for row in self.registry.instances() {
            self.show(&row);
        }
        let registry = Arc::clone(&self.registry);
        self.reported.retain(|id, _| registry.holds(id));
    }

    fn look_at(&mut self, id: &InstanceId) {
        match self.registry.instance(id) {
            Some(row) => self.show(&row),
            None => drop(self.reported.remove(id)),
        }
    }

    /// Writes what changed since it was last written.
    fn show(&mut self, row: &Instance) {
        let Some(cluster) = self.clusters.get(&row.provider) else { return };
        // One that is over needs no protection, and its secret goes with its pod.
        let gone = row.machine_gone_at.is_some() || row.uid.is_none();
        if gone || row.state.is_over() || self.written.contains(&row.id) {
            return;
        }
        let marks = Marks::of(row);
        let before = self.reported.insert(row.id.clone(), marks.clone());
        let before = before.unwrap_or_else(|| Marks::fresh(row));
        if before == marks {
            return;
        }
        let machine = MachineRef { name: row.machine.clone(), uid: row.uid.clone() };
        let (cluster, writers, id) = (cluster.clone(), Arc::clone(&self.writers), row.id.clone());
        self.written.insert(id.clone());
        self.writing.spawn(async move {
            if let Ok(_turn) = writers.acquire().await {
                write(&cluster, &machine, &before, &marks).await;
            }
            id
        });
    }
}

async fn write(cluster: &Kubernetes, machine: &MachineRef, before: &Marks, marks: &Marks) {
    let flipped = (before.protection, &before.job) != (marks.protection, &marks.job);
    for attempt in 0..TRIES {
        let marked = async {
            if flipped {
                cluster.mark(machine, marks.protection, marks.job.as_deref()).await?;
            }
            if marks.spent && !before.spent {
                cluster.forget_jit(machine).await?;
            }
            Ok::<(), String>(())
        };
        match marked.await {
            Ok(()) => return,
            Err(why) if attempt + 1 == TRIES => {
                warn!(machine.name = %machine.name, "pod `{}` keeps its old marks: {why}", machine.name);
            }
            Err(why) => {
                debug!(machine.name = %machine.name, "pod `{}` is marked later: {why}", machine.name);
                tokio::time::sleep(doubled(LABEL_RETRY_DELAY, MAX_LABEL_RETRY_DELAY, attempt))
                    .await;
            }
        }
    }
}

/// Asks free instances to leave nodes that are being emptied.
async fn watch_nodes(
    provider: ProviderId,
    cluster: Kubernetes,
    records: Arc<dyn Records>,
    fleet: ActorRef<ToFleet>,
) {
    let mut nodes = loop {
        match cluster.leaving_nodes().await {
            Ok(nodes) => break Box::pin(nodes),
            Err(why) => debug!(provider.id = %provider, "nodes are not watched yet: {why}"),
        }
        tokio::time::sleep(NODES).await;
    };
    let mut ticks = tokio::time::interval(NODES);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut blind, mut known) = (false, Leaving::new());
    loop {
        tokio::select! {
            word = nodes.next() => match word {
                Some(Ok(leaving)) => {
                    let new = leaving.keys().any(|host| !known.contains_key(host));
                    (blind, known) = (false, leaving);
                    // Whoever announced that a node goes does not wait long.
                    if new {
                        ticks.reset_immediately();
                    }
                }
                Some(Err(why)) => {
                    if !blind {
                        info!(provider.id = %provider, "drained nodes are not noticed: {why}");
                    }
                    blind = true;
                }
                // It never ends by itself.
                None => return,
            },
            _ = ticks.tick(), if !known.is_empty() => {
                let Ok(rows) = records.live_instances(None).await else { continue };
                for (row, why) in leaving(&rows, &provider, &known) {
                    let ask = ask_to_leave(row, why);
                    let _: Result<(), _> = fleet.tell(ask);
                }
            }
        }
    }
}

/// Returns the wish that an instance leave its node; its pool's budget applies, and its owner refuses
/// while a job may be on it.
fn ask_to_leave(row: &Instance, why: &str) -> ToFleet {
    let host = row.host.as_ref().map_or("unknown", HostName::as_str);
    let evidence = format!("its node `{host}` is to be left: {why}");
    let (urgency, reason, reply) = (Urgency::Retire, Reason::HostDrain, Reply::discard());
    let ask = Retire { urgency, reason, evidence, by: None, reply };
    ToFleet::Reap { pool: row.pool.clone(), instance: row.id.clone(), ask }
}

/// Returns who is to be asked to leave: free ones on such nodes, a few at a time.
fn leaving<'a>(
    rows: &'a [Instance],
    provider: &ProviderId,
    nodes: &'a Leaving,
) -> Vec<(&'a Instance, &'a str)> {
    let free = |row: &&Instance| {
        let waits = matches!(row.state, State::Starting | State::Idle);
        waits && row.removal.is_none() && row.provider == *provider
    };
    let there = |row: &'a Instance| Some((row, nodes.get(row.host.as_ref()?)?.as_str()));
    rows.iter().filter(free).filter_map(there).take(MAX_RETIRED_AT_ONCE).collect()
}

#[cfg(test)]
mod tests;
