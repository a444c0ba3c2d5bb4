//! The instances that reported themselves, and the runner names they answer to.

use std::collections::BTreeMap;

use super::{InstanceChange, InstanceUpdate};
use crate::model::{
    ForgeId, Home, Instance, InstanceId, Job, NamedRunner, Place, PoolId, Registration, RunnerId,
    RunnerName,
};

/// Remembers the instances that reported themselves.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownInstances {
    known: BTreeMap<InstanceId, KnownInstance>,
    names: BTreeMap<RunnerName, InstanceId>,
}

#[derive(Clone, Debug)]
struct KnownInstance {
    pool: PoolId,
    /// Where its runners register, once it has reported that.
    home: Option<Home>,
    names: Vec<RunnerName>,
    /// The numbers that the forge gave to registrations of these names.
    numbers: BTreeMap<RunnerName, RunnerId>,
    /// Whether its machine is over.
    over: bool,
}

impl KnownInstances {
    /// Adds an instance, if it is new.
    pub(super) fn add(&mut self, id: &InstanceId, pool: &PoolId) {
        self.known(id, pool);
    }

    /// Sets the names an instance answers to, and where.
    pub(super) fn set_names(
        &mut self,
        id: &InstanceId,
        pool: &PoolId,
        home: Home,
        names: Vec<RunnerName>,
    ) -> NamesReport {
        for name in &names {
            self.names.insert(name.clone(), id.clone());
        }
        let known = self.known(id, pool);
        known.home = Some(home);
        let before = std::mem::replace(&mut known.names, names);
        if before.is_empty() || before == known.names {
            NamesReport::NewOwner
        } else {
            NamesReport::FurtherName
        }
    }

    /// Sets the number of one of its registrations.
    pub(super) fn set_number(&mut self, id: &InstanceId, name: RunnerName, number: RunnerId) {
        if let Some(known) = self.known.get_mut(id) {
            known.numbers.insert(name, number);
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

    /// Returns whose runner a job of this place names. A name alone is not enough: another scope
    /// may have a runner of the same name, and another registration of it has another number.
    pub(super) fn named(
        &self,
        runner: &NamedRunner,
        forge: &ForgeId,
        place: &Place,
    ) -> Option<&InstanceId> {
        let id = self.answers_to(&runner.name)?;
        self.known.get(id).is_some_and(|known| known.may_be(runner, forge, place)).then_some(id)
    }

    /// Returns who answers to a name. The first name is the instance's own, further ones are
    /// numbered; an adopted machine answers to another, which it reported, and to its numbers.
    fn answers_to(&self, name: &RunnerName) -> Option<&InstanceId> {
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
    pub(super) fn runner_of(&self, job: &Job, runner: &NamedRunner) -> Option<InstanceId> {
        if self.answers_to(&runner.name).is_some() {
            return self.named(runner, &job.id.forge, &job.place).cloned();
        }
        job.holder().filter(|holder| runner.name.is_of(holder.as_str())).cloned()
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
        let new = || KnownInstance {
            pool: pool.clone(),
            home: None,
            names: Vec::new(),
            numbers: BTreeMap::new(),
            over: false,
        };
        self.known.entry(id.clone()).or_insert_with(new)
    }
}

impl KnownInstance {
    /// Returns whether a runner of one of its names, at work on a job of this place, may be its
    /// own: it registers where the job may be served, and no number says otherwise.
    fn may_be(&self, runner: &NamedRunner, forge: &ForgeId, place: &Place) -> bool {
        let serves = self.home.as_ref().is_none_or(|home| home.may_serve(forge, place));
        let number = self.numbers.get(&runner.name);
        serves && number.zip(runner.id.as_ref()).is_none_or(|(ours, theirs)| ours == theirs)
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
    let names = (1..=row.mints.max(1)).map(|mint| row.runner_name(mint));
    let mut changes = Vec::new();
    if row.state.is_over() {
        changes.extend(row.worked_unnamed().then_some(InstanceChange::EndedUnnamed));
        changes.push(InstanceChange::Ended);
    } else if has_owner {
        changes.push(InstanceChange::Answers(row.home(), names.collect()));
        if let Registration::Known { name, id } = &row.registration {
            changes.push(InstanceChange::Registered(name.clone(), *id));
        }
    }
    let update = |what| InstanceUpdate { id: row.id.clone(), pool: row.pool.clone(), what };
    changes.into_iter().map(update).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(scope: &str) -> Home {
        Home { forge: "github".into(), scope: scope.parse().unwrap() }
    }

    fn known(scope: &str, names: &[&str]) -> KnownInstances {
        let mut instances = KnownInstances::default();
        let names = names.iter().map(|name| RunnerName::new(*name)).collect();
        instances.set_names(&"linux-k3".into(), &"linux".into(), home(scope), names);
        instances
    }

    fn place(owner: &str, repository: &str) -> Place {
        Place { owner: owner.into(), repository: repository.into(), enterprise: None }
    }

    /// Returns whether a job of this repository that names the runner is taken for ours.
    fn is_ours(instances: &KnownInstances, name: &str, id: Option<u64>, of: &Place) -> bool {
        let runner = NamedRunner { name: name.into(), id: id.map(RunnerId) };
        instances.named(&runner, &"github".into(), of).is_some()
    }

    #[test]
    fn a_runner_is_found_by_any_of_its_names() {
        let mut instances = known("acme", &["odd-name"]);
        let web = place("acme", "web");
        for name in ["odd-name", "odd-name-3", "linux-k3", "linux-k3-2"] {
            assert!(is_ours(&instances, name, None, &web), "{name}");
        }
        for name in ["linux", "linux-k3-x", "linux-k", "linux-k3-"] {
            assert!(!is_ours(&instances, name, None, &web), "{name}");
        }
        instances.remove(&"linux-k3".into());
        assert!(!is_ours(&instances, "odd-name", None, &web));
    }

    #[test]
    fn a_runner_of_our_name_in_a_scope_that_ours_does_not_serve_is_a_strangers() {
        let instances = known("acme/web", &["linux-k3"]);
        assert!(is_ours(&instances, "linux-k3", None, &place("Acme", "WEB")));
        assert!(!is_ours(&instances, "linux-k3", None, &place("acme", "api")));
        assert!(!is_ours(&instances, "linux-k3", None, &place("stranger", "web")));
        let runner = NamedRunner::from("linux-k3");
        assert!(instances.named(&runner, &"ghes".into(), &place("acme", "web")).is_none());
        // Not every notice names the enterprise of its organization.
        let enterprise = known("enterprises/acme", &["linux-k3"]);
        assert!(is_ours(&enterprise, "linux-k3", None, &place("acme", "web")));
    }

    #[test]
    fn a_runner_of_our_name_and_another_number_is_a_strangers() {
        let mut instances = known("acme", &["linux-k3"]);
        let web = place("acme", "web");
        assert!(is_ours(&instances, "linux-k3", Some(7), &web), "before our number is known");
        instances.set_number(&"linux-k3".into(), "linux-k3".into(), RunnerId(8));
        assert!(!is_ours(&instances, "linux-k3", Some(7), &web));
        assert!(is_ours(&instances, "linux-k3", Some(8), &web));
        assert!(is_ours(&instances, "linux-k3", None, &web), "the forge gave no number");
        assert!(is_ours(&instances, "linux-k3-2", Some(9), &web), "a mint that is not answered");
    }
}
