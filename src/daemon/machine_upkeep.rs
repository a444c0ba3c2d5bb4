//! What the leader does for machines beside its fleet: marks those that others must not evict,
//! removes spent secrets, and asks idle instances to leave hosts that are being drained.
//!
//! Only providers that declare `marks` or `host_drains` are looked after. Marks are output: nothing
//! of ours reads them back. An instance that is asked to leave a host answers for itself: one with a
//! job refuses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ostler_actors::backoff::doubled;
use ostler_actors::fleet::ToFleet;
use ostler_actors::instance::Retire;
use ostler_actors::mail::{ActorRef, Reply};
use ostler_actors::model::{
    Binding, HostCondition, HostName, Instance, InstanceId, ProviderId, Reason, State, Subject,
    Urgency,
};
use ostler_actors::ports::{DrainSink, MachineMarks, MachineRef, Protection, Records, Watching};
use ostler_actors::registry::Registry;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinHandle, JoinSet};
use tracing::{debug, info, warn};

use super::Daemon;
use super::adapters::Providers;

/// How often instances on drained hosts are asked to leave.
const DRAIN_INTERVAL: Duration = Duration::from_secs(15);
/// How many of them at a time.
const MAX_RETIRED_AT_ONCE: usize = 5;
/// How many marks are written at the same time.
const MAX_MARK_WRITERS: usize = 8;
/// How often each is tried.
const MAX_MARK_TRIES: u32 = 4;
/// How long is waited after the first failed try; doubled after each.
const MARK_RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_MARK_RETRY_DELAY: Duration = Duration::from_secs(4);

/// Hosts that are being emptied, and why.
type Draining = BTreeMap<HostName, String>;

/// The tasks of this module; they end when it is dropped.
pub(super) struct MachineUpkeep {
    tasks: Vec<JoinHandle<()>>,
    _watching: Vec<Watching>,
}

impl MachineUpkeep {
    pub(super) fn begin(daemon: &Daemon, providers: &Providers) -> Self {
        let (mut tasks, mut watching) = (Vec::new(), Vec::new());
        let marks = providers.capable(|it| it.marks);
        if !marks.is_empty() {
            let marker = Marker::new(marks, Arc::clone(&daemon.registry));
            tasks.push(tokio::spawn(marker.run()));
        }
        for (id, drains) in providers.capable(|it| it.host_drains) {
            let (tell, reports) = mpsc::unbounded_channel();
            watching.push(drains.watch_drains(Arc::new(DrainReports(tell))));
            let records: Arc<dyn Records> = Arc::new(daemon.store.clone());
            tasks.push(tokio::spawn(leave_drained_hosts(
                id,
                reports,
                records,
                daemon.actor_ref.clone(),
            )));
        }
        Self { tasks, _watching: watching }
    }
}

impl Drop for MachineUpkeep {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// What a machine's marks say.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Marks {
    protection: Protection,
    job: Option<String>,
    /// Whether its JIT config is spent.
    spent: bool,
}

impl Marks {
    fn of(row: &Instance) -> Self {
        Self {
            protection: Protection::of(row.binding, row.state),
            job: row.executing.as_ref().map(ToString::to_string),
            // The runner connected, or never will: its JIT config is of no use any more.
            spent: row.binding == Binding::Early && row.state.is_booted(),
        }
    }

    /// Returns the marks that a machine is created with.
    fn initial(row: &Instance) -> Self {
        Self { protection: Protection::of(row.binding, State::Starting), job: None, spent: false }
    }
}

/// Keeps the marks of machines as their instances are.
struct Marker {
    providers: BTreeMap<ProviderId, Arc<dyn MachineMarks>>,
    registry: Arc<Registry>,
    reported: BTreeMap<InstanceId, Marks>,
    writers: Arc<Semaphore>,
    /// Writes under way; each machine has one at a time, so that the last write wins.
    writing: JoinSet<InstanceId>,
    written: BTreeSet<InstanceId>,
}

impl Marker {
    fn new(
        providers: BTreeMap<ProviderId, Arc<dyn MachineMarks>>,
        registry: Arc<Registry>,
    ) -> Self {
        let writers = Arc::new(Semaphore::new(MAX_MARK_WRITERS));
        let (reported, writing, written) = (BTreeMap::new(), JoinSet::new(), BTreeSet::new());
        Self { providers, registry, reported, writers, writing, written }
    }

    async fn run(mut self) {
        let mut feed = self.registry.subscribe();
        self.update_all();
        loop {
            tokio::select! {
                event = feed.recv() => match event {
                    Ok(event) => {
                        if let Subject::Instance(id) = &event.subject {
                            self.update(id);
                        }
                    }
                    Err(RecvError::Lagged(_)) => self.update_all(),
                    Err(RecvError::Closed) => return,
                },
                Some(done) = self.writing.join_next() => {
                    if let Ok(id) = done {
                        self.written.remove(&id);
                        self.update(&id);
                    }
                }
            }
        }
    }

    fn update_all(&mut self) {
        for row in self.registry.instances() {
            self.write_if_changed(&row);
        }
        let registry = Arc::clone(&self.registry);
        self.reported.retain(|id, _| registry.holds(id));
    }

    fn update(&mut self, id: &InstanceId) {
        match self.registry.instance(id) {
            Some(row) => self.write_if_changed(&row),
            None => drop(self.reported.remove(id)),
        }
    }

    /// Writes what changed since it was last written.
    fn write_if_changed(&mut self, row: &Instance) {
        let Some(provider) = self.providers.get(&row.provider) else { return };
        // One that is over needs no protection, and its secret goes with its machine.
        let gone = row.machine_gone_at.is_some() || row.uid.is_none();
        if gone || row.state.is_over() || self.written.contains(&row.id) {
            return;
        }
        let marks = Marks::of(row);
        let before = self.reported.insert(row.id.clone(), marks.clone());
        let before = before.unwrap_or_else(|| Marks::initial(row));
        if before == marks {
            return;
        }
        let machine = MachineRef { name: row.machine.clone(), uid: row.uid.clone() };
        let (provider, writers, id) =
            (Arc::clone(provider), Arc::clone(&self.writers), row.id.clone());
        self.written.insert(id.clone());
        self.writing.spawn(async move {
            if let Ok(_permit) = writers.acquire().await {
                write(&*provider, &machine, &before, &marks).await;
            }
            id
        });
    }
}

async fn write(provider: &dyn MachineMarks, machine: &MachineRef, before: &Marks, marks: &Marks) {
    let flipped = (before.protection, &before.job) != (marks.protection, &marks.job);
    for attempt in 0..MAX_MARK_TRIES {
        let marked = async {
            if flipped {
                provider.mark(machine, marks.protection, marks.job.as_deref()).await?;
            }
            if marks.spent && !before.spent {
                provider.forget_jit(machine).await?;
            }
            Ok::<(), String>(())
        };
        match marked.await {
            Ok(()) => return,
            Err(why) if attempt + 1 == MAX_MARK_TRIES => {
                warn!(machine.name = %machine.name, "machine `{}` keeps its old marks: {why}", machine.name);
            }
            Err(why) => {
                debug!(machine.name = %machine.name, "machine `{}` is marked later: {why}", machine.name);
                let delay = doubled(MARK_RETRY_DELAY, MAX_MARK_RETRY_DELAY, attempt);
                tokio::time::sleep(delay).await;
            }
        }
    }
}

/// Passes on what a provider reports about its hosts.
struct DrainReports(mpsc::UnboundedSender<HostReport>);

/// What a provider reports about its hosts.
enum HostReport {
    Draining(Draining),
    Unreachable(BTreeSet<HostName>),
    Blind(String),
}

impl DrainSink for DrainReports {
    fn draining(&self, hosts: Draining) {
        // The receiver is gone when the fleet ends; the watch ends with it.
        drop(self.0.send(HostReport::Draining(hosts)));
    }

    fn unreachable(&self, hosts: BTreeSet<HostName>) {
        drop(self.0.send(HostReport::Unreachable(hosts)));
    }

    fn blind(&self, why: String) {
        drop(self.0.send(HostReport::Blind(why)));
    }
}

/// Tells the fleet which hosts should get no new work, and asks free instances to leave those that
/// are being emptied.
async fn leave_drained_hosts(
    provider: ProviderId,
    mut reports: mpsc::UnboundedReceiver<HostReport>,
    records: Arc<dyn Records>,
    fleet: ActorRef<ToFleet>,
) {
    let mut ticks = tokio::time::interval(DRAIN_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut blind, mut known, mut unreachable) = (false, Draining::new(), BTreeSet::new());
    loop {
        tokio::select! {
            report = reports.recv() => match report {
                Some(HostReport::Unreachable(hosts)) => {
                    unreachable = hosts;
                    let _: Result<(), _> = fleet.tell(conditions(&provider, &known, &unreachable));
                }
                Some(HostReport::Draining(draining)) => {
                    let new = draining.keys().any(|host| !known.contains_key(host));
                    (blind, known) = (false, draining);
                    let _: Result<(), _> = fleet.tell(conditions(&provider, &known, &unreachable));
                    // A cloud that announces a drain gives little time.
                    if new {
                        ticks.reset_immediately();
                    }
                }
                Some(HostReport::Blind(why)) => {
                    if !blind {
                        info!(provider.id = %provider, "drained hosts are not noticed: {why}");
                    }
                    blind = true;
                }
                None => return,
            },
            _ = ticks.tick(), if !known.is_empty() || !unreachable.is_empty() => {
                // A fleet that was started anew has heard nothing yet.
                let _: Result<(), _> = fleet.tell(conditions(&provider, &known, &unreachable));
                if known.is_empty() {
                    continue;
                }
                let Ok(rows) = records.live_instances(None).await else { continue };
                for (row, why) in on_drained_hosts(&rows, &provider, &known) {
                    let _: Result<(), _> = fleet.tell(retire(row, why));
                }
            }
        }
    }
}

/// Returns what the fleet is told of a provider's hosts; one that does not answer is worse than one
/// that is being emptied.
fn conditions(
    provider: &ProviderId,
    draining: &Draining,
    unreachable: &BTreeSet<HostName>,
) -> ToFleet {
    let leaving = draining.keys().map(|host| (host.clone(), HostCondition::Leaving));
    let silent = unreachable.iter().map(|host| (host.clone(), HostCondition::Unreachable));
    let hosts = Arc::new(leaving.chain(silent).collect());
    ToFleet::Hosts { provider: provider.clone(), hosts }
}

/// Returns the request that an instance leave its host; its pool's budget applies, and its owner
/// refuses while a job may be on it.
fn retire(row: &Instance, why: &str) -> ToFleet {
    let host = row.host.as_ref().map_or("unknown", HostName::as_str);
    let evidence = format!("its node `{host}` is to be left: {why}");
    let (urgency, reason, reply) = (Urgency::Retire, Reason::HostDrain, Reply::discard());
    let ask = Retire { urgency, reason, evidence, by: None, reply };
    ToFleet::Reap { pool: row.pool.clone(), instance: row.id.clone(), ask }
}

/// Returns the instances that are to leave: free ones on drained hosts, a few at a time.
fn on_drained_hosts<'a>(
    rows: &'a [Instance],
    provider: &ProviderId,
    draining: &'a Draining,
) -> Vec<(&'a Instance, &'a str)> {
    let free = |row: &&Instance| {
        let waits = matches!(row.state, State::Starting | State::Idle);
        waits && row.removal.is_none() && row.provider == *provider
    };
    let there = |row: &'a Instance| Some((row, draining.get(row.host.as_ref()?)?.as_str()));
    rows.iter().filter(free).filter_map(there).take(MAX_RETIRED_AT_ONCE).collect()
}

#[cfg(test)]
mod tests;
