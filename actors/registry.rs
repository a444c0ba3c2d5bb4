//! The registry: every instance and pool as its owner last showed it, readable by anyone.
//!
//! Each entry is written by one owner and read without a message. The owner's `Drop`
//! removes the entry only after `deleted`; otherwise it leaves it, marked ownerless, until
//! the respawn takes it over, so a live row always has an entry. Claiming an entry is
//! exclusive: there are never two owners of one instance in a process.
//!
//! No decision iterates the registry: its order is random, and the reaper takes from it only which
//! owners to ask. For people, who read it page by page, the names are kept in order beside it
//! (`Names`), so that a page costs what it shows.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use dashmap::DashMap;
use dashmap::mapref::entry::Entry as SlotEntry;
use tokio::sync::broadcast;

use crate::instance::ToInstance;
use crate::mail::Mailbox;
use crate::model::{
    Event, Failure, HolderId, HostName, Instance, InstanceId, Job, JobFact, JobId, MachineName,
    PoolId, ProviderId, Reason, StateCounts, Timestamp,
};

/// How many events a slow reader may lag behind before it gets an error that it missed some.
const FEED_CAPACITY: usize = 4096;

/// Holds what owners show, and the feed of events.
pub struct Registry {
    instances: DashMap<InstanceId, RegistrySlot>,
    names: Names,
    pools: DashMap<PoolId, Arc<PoolView>>,
    foreign: DashMap<ProviderId, BTreeMap<MachineName, Foreign>>,
    jobs: DashMap<JobId, Arc<Job>>,
    ledger: RwLock<LedgerView>,
    feed: broadcast::Sender<Arc<Event>>,
    changes: AtomicU64,
    violations: AtomicU64,
    request_counts: DashMap<(Reason, &'static str), u64>,
}

/// Holds the names of all entries, in order.
///
/// Written when an entry comes or goes, never when its owner shows a row. A holder of the lock may
/// read the instances; a holder of a part of the instances must not wait for the lock (deadlock).
#[derive(Default)]
struct Names(RwLock<BTreeSet<InstanceId>>);

/// How many names are copied at once: a reader blocks entries that come and go for no longer.
const COPY_BATCH: usize = 256;

impl Names {
    /// Lists an entry exactly if it is there. The last caller sees the instances as they are, so a
    /// removal that is listed late cannot hide an entry that was claimed anew.
    fn refresh(&self, instances: &DashMap<InstanceId, RegistrySlot>, id: &InstanceId) {
        let mut names = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if instances.contains_key(id) {
            names.insert(id.clone());
        } else {
            names.remove(id);
        }
    }

    /// Returns the next names after this one, the first ones after nothing.
    fn after(&self, last: Option<&str>) -> Vec<InstanceId> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        let names = self.0.read().unwrap_or_else(PoisonError::into_inner);
        names.range::<str, _>((from, Bound::Unbounded)).take(COPY_BATCH).cloned().collect()
    }
}

struct RegistrySlot {
    row: Option<Arc<Instance>>,
    mailbox: Option<Mailbox<ToInstance>>,
}

/// Shows a pool as its supervisor last saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolView {
    /// The pool.
    pub id: PoolId,
    /// How many instances are in each state.
    pub states: StateCounts,
    /// How many jobs wait for it.
    pub demand: u32,
    /// When the oldest job was queued that it could serve and has not served.
    pub oldest: Option<Timestamp>,
    /// How many instances it wants.
    pub want: u32,
    /// How many it may have.
    pub max: u32,
    /// Whether it drains.
    pub draining: bool,
    /// Whether creation is held after failures, and since when.
    pub breaker: Option<Timestamp>,
    /// Whether every row has been looked at since the start, so that it may create.
    pub settled: bool,
    /// How many are stuck.
    pub stuck: u32,
    /// Hosts that new machines avoid, with the number of failures in a row there.
    pub shunned: Vec<(HostName, u32)>,
    /// How its instances fail, if the last ones did.
    pub failing: Option<PoolFailure>,
    /// When the last instance of its present revision began that works.
    pub proven: Option<Timestamp>,
    /// How many machines stopped asking for work together, if so many that the cause is in doubt.
    pub silent: Option<u32>,
}

/// Shows how the instances of a pool fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolFailure {
    /// How many failed since the last one that served.
    pub failures: u32,
    /// When the first of them began.
    pub since: Timestamp,
    /// The last of them.
    pub instance: InstanceId,
    /// When its failure counted.
    pub at: Timestamp,
    /// How it failed.
    pub failure: Failure,
    /// When the next probe may start, where creation is held and none is under way.
    pub next_probe: Option<Timestamp>,
}

/// Shows whether the ledger has read its records, so that it takes notices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerView {
    /// Whether it has.
    pub open: bool,
    /// Since when; nothing before it began to read.
    pub since: Option<Timestamp>,
}

/// Shows a machine that carries our controller's stamp and a holder we never had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// When it was first seen.
    pub since: Timestamp,
    /// Whose it says it is.
    pub holder: Option<HolderId>,
}

impl Default for Registry {
    fn default() -> Self {
        Self {
            instances: DashMap::new(),
            names: Names::default(),
            pools: DashMap::new(),
            foreign: DashMap::new(),
            jobs: DashMap::new(),
            ledger: RwLock::default(),
            feed: broadcast::channel(FEED_CAPACITY).0,
            changes: AtomicU64::new(0),
            violations: AtomicU64::new(0),
            request_counts: DashMap::new(),
        }
    }
}

impl Registry {
    /// Claims the entry of an instance for its new owner; fails while another owner lives.
    pub fn claim(
        self: &Arc<Self>,
        id: InstanceId,
        mailbox: Mailbox<ToInstance>,
    ) -> Result<Entry, AlreadyOwned> {
        match self.instances.entry(id.clone()) {
            SlotEntry::Occupied(mut slot) => {
                if slot.get().mailbox.is_some() {
                    return Err(AlreadyOwned);
                }
                slot.get_mut().mailbox = Some(mailbox);
            }
            SlotEntry::Vacant(vacant) => {
                drop(vacant.insert(RegistrySlot { row: None, mailbox: Some(mailbox) }));
                self.names.refresh(&self.instances, &id);
            }
        }
        Ok(Entry { registry: Arc::clone(self), id, finished: false })
    }

    /// Removes an ownerless entry that has no row in the store; its parent has checked.
    pub(crate) fn dismiss(&self, id: &InstanceId) {
        self.instances.remove_if(id, |_, slot| slot.mailbox.is_none());
        self.names.refresh(&self.instances, id);
    }

    /// Removes the entries without an owner. For the beginning of an epoch: between two owners in one
    /// epoch an entry must stay, but what an earlier epoch showed may have ended under another daemon.
    pub fn clear_ownerless(&self) {
        let ownerless = self.instances.iter().filter(|slot| slot.mailbox.is_none());
        let ownerless: Vec<_> = ownerless.map(|slot| slot.key().clone()).collect();
        for id in &ownerless {
            self.dismiss(id);
        }
        self.pools.clear();
        self.jobs.clear();
        *self.ledger.write().unwrap_or_else(PoisonError::into_inner) = LedgerView::default();
    }

    /// Returns how to reach the owner of an instance.
    pub(crate) fn mailbox(&self, id: &InstanceId) -> Option<Mailbox<ToInstance>> {
        self.instances.get(id).and_then(|slot| slot.mailbox.clone())
    }

    /// Returns an instance as its owner last showed it.
    pub fn instance(&self, id: &InstanceId) -> Option<Arc<Instance>> {
        self.instances.get(id).and_then(|slot| slot.row.clone())
    }

    /// Returns whether an entry exists, owned or not.
    pub fn holds(&self, id: &InstanceId) -> bool {
        self.instances.contains_key(id)
    }

    /// Returns whether an entry waits for a new owner.
    pub fn is_ownerless(&self, id: &InstanceId) -> bool {
        self.instances.get(id).is_some_and(|slot| slot.mailbox.is_none())
    }

    /// Returns all instances, in the order of their names.
    pub fn instances(&self) -> Vec<Arc<Instance>> {
        let mut rows: Vec<_> = self.instances.iter().filter_map(|slot| slot.row.clone()).collect();
        rows.sort_by(|a, b| a.id.cmp(&b.id));
        rows
    }

    /// Returns the first instances that fit, by name, at most so many; from the beginning, or after
    /// a name. Looks no further than it must.
    pub fn instances_after(
        &self,
        last: Option<&str>,
        limit: usize,
        fits: impl Fn(&Instance) -> bool,
    ) -> Vec<Arc<Instance>> {
        let mut rows = Vec::new();
        let mut names = self.names.after(last);
        while let Some(last) = names.last().cloned() {
            for id in &names {
                if rows.len() == limit {
                    return rows;
                }
                let slot = self.instances.get(id);
                rows.extend(slot.and_then(|slot| slot.row.clone()).filter(|row| fits(row)));
            }
            names = self.names.after(Some(last.as_str()));
        }
        rows
    }

    /// Returns the instances that fit, in no order. Asks each of them.
    pub fn instances_where(&self, fits: impl Fn(&Instance) -> bool) -> Vec<Arc<Instance>> {
        let rows = self.instances.iter();
        let fitting = |slot: &RegistrySlot| slot.row.as_ref().filter(|row| fits(row)).cloned();
        rows.filter_map(|slot| fitting(&slot)).collect()
    }

    /// Returns how many entries there are.
    pub fn len(&self) -> usize {
        self.instances.len()
    }

    /// Returns whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.instances.is_empty()
    }

    /// Shows a pool.
    pub(crate) fn show_pool(&self, view: PoolView) {
        self.pools.insert(view.id.clone(), Arc::new(view));
    }

    /// Removes a pool.
    pub(crate) fn drop_pool(&self, id: &PoolId) {
        self.pools.remove(id);
    }

    /// Returns all pools, in the order of their names.
    pub fn pools(&self) -> Vec<Arc<PoolView>> {
        let mut views: Vec<_> = self.pools.iter().map(|view| Arc::clone(&view)).collect();
        views.sort_by(|a, b| a.id.cmp(&b.id));
        views
    }

    /// Shows whether the ledger is open.
    pub(crate) fn show_ledger(&self, open: bool, now: Timestamp) {
        let view = LedgerView { open, since: Some(now) };
        *self.ledger.write().unwrap_or_else(PoisonError::into_inner) = view;
    }

    /// Returns whether the ledger is open, and since when.
    pub fn ledger(&self) -> LedgerView {
        *self.ledger.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows a job as the ledger last saved it; one that is over is removed, and so is one that
    /// runs though no pool of ours could serve it: it runs on a runner that is not ours.
    pub(crate) fn show_job(&self, job: Job) {
        let elsewhere = job.pool.is_none()
            && job.execution.is_none()
            && job.fact.rank() >= JobFact::InProgress.rank();
        if job.is_live() && !elsewhere {
            self.jobs.insert(job.id.clone(), Arc::new(job));
        } else {
            self.jobs.remove(&job.id);
        }
    }

    /// Shows the jobs a new ledger begins with, and no others.
    pub(crate) fn show_jobs(&self, jobs: &[Job]) {
        self.jobs.clear();
        for job in jobs {
            self.show_job(job.clone());
        }
    }

    /// Removes a job that the ledger does not track any more.
    pub(crate) fn hide_job(&self, id: &JobId) {
        self.jobs.remove(id);
    }

    /// Returns the jobs that wait or run, those that no pool serves included, oldest first.
    pub fn jobs(&self) -> Vec<Arc<Job>> {
        let mut jobs: Vec<_> = self.jobs.iter().map(|job| Arc::clone(&job)).collect();
        jobs.sort_by(|a, b| (a.queued_at, &a.id).cmp(&(b.queued_at, &b.id)));
        jobs
    }

    /// Returns how many jobs wait or run, by kind.
    pub fn count_jobs<K: Ord>(&self, kind: impl Fn(&Job) -> K) -> BTreeMap<K, u32> {
        let mut counts = BTreeMap::new();
        for job in &self.jobs {
            *counts.entry(kind(&job)).or_default() += 1;
        }
        counts
    }

    /// Returns a job that waits or runs.
    pub fn job(&self, id: &JobId) -> Option<Arc<Job>> {
        self.jobs.get(id).map(|job| Arc::clone(&job))
    }

    /// Shows which machines of a provider carry our stamp and a holder we never had.
    pub(crate) fn show_foreign(
        &self,
        provider: &ProviderId,
        machines: BTreeMap<MachineName, Foreign>,
    ) {
        self.foreign.insert(provider.clone(), machines);
    }

    /// Returns the foreign machines; they are not touched until an operator adopts them.
    pub fn foreign(&self) -> BTreeMap<MachineName, Foreign> {
        self.foreign.iter().flat_map(|seen| seen.value().clone()).collect()
    }

    /// Sends an event to the followers of the feed.
    pub(crate) fn announce(&self, event: &Event) {
        self.changes.fetch_add(1, Ordering::Relaxed);
        if self.feed.receiver_count() > 0 {
            // The last reader may just have left.
            drop(self.feed.send(Arc::new(event.clone())));
        }
    }

    /// Returns how many events were announced: as long as it stays the same, nothing has happened.
    pub(crate) fn change_count(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Follows the feed from now on; a reader that lags gets an error that says so.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<Event>> {
        self.feed.subscribe()
    }

    /// Counts what came of a request of the reaper.
    pub(crate) fn count_ask(&self, reason: Reason, answer: &'static str) {
        *self.request_counts.entry((reason, answer)).or_default() += 1;
    }

    /// Returns what came of the reaper's requests since the start.
    pub fn request_counts(&self) -> BTreeMap<(Reason, &'static str), u64> {
        self.request_counts.iter().map(|counted| (*counted.key(), *counted.value())).collect()
    }

    /// Counts a broken invariant.
    pub(crate) fn count_violation(&self) {
        self.violations.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many invariants were found broken since the start; must read 0.
    pub fn violations(&self) -> u64 {
        self.violations.load(Ordering::Relaxed)
    }
}

/// The entry cannot be claimed: another owner lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the instance has an owner")]
pub struct AlreadyOwned;

/// The owner's hold on its entry.
pub struct Entry {
    registry: Arc<Registry>,
    id: InstanceId,
    finished: bool,
}

impl Entry {
    /// Shows the row; call it after the row is durable.
    pub(crate) fn show(&self, row: Arc<Instance>) {
        if let Some(mut slot) = self.registry.instances.get_mut(&self.id) {
            slot.row = Some(row);
        }
    }

    /// Lets the entry go with its owner: `deleted` is durable, or nothing ever was.
    pub(crate) fn finish(&mut self) {
        self.finished = true;
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if self.finished {
            self.registry.instances.remove(&self.id);
            self.registry.names.refresh(&self.registry.instances, &self.id);
        } else if let Some(mut slot) = self.registry.instances.get_mut(&self.id) {
            slot.mailbox = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_epoch_begins_with_the_entries_that_have_an_owner() {
        let registry = Arc::<Registry>::default();
        let claim =
            |id: &str| registry.claim(InstanceId::new(id), Mailbox::new(|_| Ok(()))).unwrap();
        let (owned, left) = (claim("owned"), claim("left"));
        drop(left);
        assert!(registry.is_ownerless(&InstanceId::new("left")), "its successor must find it");
        registry.clear_ownerless();
        assert!(registry.holds(&owned.id) && !registry.holds(&InstanceId::new("left")));
        assert_eq!(registry.names.after(None), [InstanceId::new("owned")]);
    }

    fn show(registry: &Arc<Registry>, id: &str) -> Entry {
        let entry = registry.claim(InstanceId::new(id), Mailbox::new(|_| Ok(()))).unwrap();
        entry.show(Arc::new(crate::testing::contract::instance(id)));
        entry
    }

    fn page(registry: &Registry, last: Option<&str>, limit: usize) -> Vec<String> {
        let rows = registry.instances_after(last, limit, |row| !row.id.as_str().ends_with('9'));
        rows.iter().map(|row| row.id.to_string()).collect()
    }

    #[test]
    fn a_page_continues_after_a_name_although_entries_came_and_went() {
        let registry = Arc::<Registry>::default();
        let mut entries: Vec<_> =
            (0..1000).rev().map(|number| show(&registry, &format!("i{number:03}"))).collect();
        let silent = registry.claim(InstanceId::new("i000a"), Mailbox::new(|_| Ok(()))).unwrap();
        assert_eq!(page(&registry, None, 3), ["i000", "i001", "i002"], "nothing is shown of i000a");
        assert_eq!(page(&registry, Some("i007"), 3), ["i008", "i010", "i011"]);
        assert_eq!(page(&registry, Some("i0075"), 1), ["i008"], "the name itself may be gone");
        assert_eq!(page(&registry, Some("i998"), 3), [""; 0]);
        assert_eq!(page(&registry, None, 2000).len(), 900, "across parts");
        for mut entry in entries.drain(..500) {
            entry.finish();
        }
        assert_eq!(page(&registry, None, 2000).len(), 450);
        drop((silent, entries));
        assert_eq!(page(&registry, None, 2000).len(), 450, "the ownerless are still shown");
        let again = show(&registry, "i999");
        assert_eq!(registry.instances_after(Some("i998"), 1, |_| true)[0].id, again.id);
    }

    #[test]
    fn a_name_is_listed_exactly_while_its_entry_is_there() {
        let registry = Arc::<Registry>::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        if let Ok(mut entry) =
                            registry.claim(InstanceId::new("one"), Mailbox::new(|_| Ok(())))
                        {
                            entry.finish();
                        }
                    }
                });
            }
        });
        assert!(registry.names.after(None).is_empty(), "all are gone");
        let entry = show(&registry, "one");
        assert_eq!(registry.names.after(None), std::slice::from_ref(&entry.id));
    }
}
