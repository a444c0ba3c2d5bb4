//! The instances that reported themselves, and the runner names they answer to.

use std::collections::BTreeMap;

use super::{InstanceChange, InstanceUpdate};
use crate::model::{Instance, InstanceId, Job, PoolId, RunnerName};

/// Remembers the instances that reported themselves.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownInstances {
    known: BTreeMap<InstanceId, KnownInstance>,
    names: BTreeMap<RunnerName, InstanceId>,
}

#[derive(Clone, Debug)]
struct KnownInstance {
    pool: PoolId,
    names: Vec<RunnerName>,
    /// Whether its machine is over.
    over: bool,
}

impl KnownInstances {
    /// Adds an instance, if it is new.
    pub(super) fn add(&mut self, id: &InstanceId, pool: &PoolId) {
        self.known(id, pool);
    }

    /// Sets the names an instance answers to.
    pub(super) fn set_names(
        &mut self,
        id: &InstanceId,
        pool: &PoolId,
        names: Vec<RunnerName>,
    ) -> NamesReport {
        for name in &names {
            self.names.insert(name.clone(), id.clone());
        }
        let known = self.known(id, pool);
        let before = std::mem::replace(&mut known.names, names);
        if before.is_empty() || before == known.names {
            NamesReport::NewOwner
        } else {
            NamesReport::FurtherName
        }
    }

    /// Sets that the machine is over, and returns whether that is new.
    pub(super) fn end(&mut self, id: &InstanceId, pool: &PoolId) -> bool {
        !std::mem::replace(&mut self.known(id, pool).over, true)
    }

    /// Removes an instance that is deleted.
    pub(super) fn remove(&mut self, id: &InstanceId) {
        if let Some(known) = self.known.remove(id) {
            for name in known.names {
                self.names.remove(&name);
            }
        }
    }

    /// Returns whose runner this is. The first name is the instance's own, further ones are
    /// numbered; an adopted machine answers to another, which it reported, and to its numbers.
    pub(super) fn named(&self, name: &RunnerName) -> Option<&InstanceId> {
        if let Some(id) = self.names.get(name) {
            return Some(id);
        }
        let first = name.unnumbered();
        if let Some(id) = first.and_then(|first| self.names.get(first)) {
            return Some(id);
        }
        let by_form = [Some(name.as_str()), first];
        let known = by_form.into_iter().flatten().find_map(|id| self.known.get_key_value(id));
        known.map(|(id, _)| id)
    }

    /// Returns whose runner a job names; after a restart the job's own holder may not have
    /// reported its names yet, and is recognised by the form of the name.
    pub(super) fn runner_of(&self, job: &Job, name: &RunnerName) -> Option<InstanceId> {
        let holder = job.holder().filter(|holder| name.is_of(holder.as_str()));
        self.named(name).or(holder).cloned()
    }

    /// Returns whether an instance has reported its names since the ledger began.
    pub(super) fn has_names(&self, id: &InstanceId) -> bool {
        self.known.get(id).is_some_and(|known| !known.names.is_empty())
    }

    pub(super) fn pool_of(&self, id: &InstanceId) -> Option<&PoolId> {
        self.known.get(id).map(|known| &known.pool)
    }

    /// Returns whether an instance is known whose machine is not over.
    pub(super) fn is_alive(&self, id: &InstanceId) -> bool {
        self.known.get(id).is_some_and(|known| !known.over)
    }

    pub(super) fn is_over(&self, id: &InstanceId) -> bool {
        self.known.get(id).is_some_and(|known| known.over)
    }

    fn known(&mut self, id: &InstanceId, pool: &PoolId) -> &mut KnownInstance {
        let new = || KnownInstance { pool: pool.clone(), names: Vec::new(), over: false };
        self.known.entry(id.clone()).or_insert_with(new)
    }
}

/// Tells why an instance reported its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NamesReport {
    /// Its owner is new: what it holds must be sent again.
    NewOwner,
    /// It mints under a further name.
    FurtherName,
}

/// Returns what an instance's row shows, as its owner would have reported it; a new ledger finds
/// owners who believe that they have reported everything.
pub(super) fn updates_of_row(row: &Instance, has_owner: bool) -> Vec<InstanceUpdate> {
    let names = || (1..=row.mints.max(1)).map(|mint| row.runner_name(mint)).collect();
    let mut changes = Vec::new();
    if row.state.is_over() {
        changes.push(InstanceChange::Ended);
    } else if has_owner {
        changes.push(InstanceChange::Answers(names()));
        changes.extend(row.is_offerable().then_some(InstanceChange::Offerable));
    }
    let update = |what| InstanceUpdate { id: row.id.clone(), pool: row.pool.clone(), what };
    changes.into_iter().map(update).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runner_is_found_by_any_of_its_names() {
        let mut instances = KnownInstances::default();
        let (a, pool) = (InstanceId::from("linux-k3"), PoolId::from("linux"));
        instances.set_names(&a, &pool, vec!["odd-name".into()]);
        for name in ["odd-name", "odd-name-3", "linux-k3", "linux-k3-2"] {
            assert_eq!(instances.named(&name.into()), Some(&a), "{name}");
        }
        for name in ["linux", "linux-k3-x", "linux-k", "linux-k3-"] {
            assert_eq!(instances.named(&name.into()), None, "{name}");
        }
        instances.remove(&a);
        assert_eq!(instances.named(&"odd-name".into()), None);
    }
}
