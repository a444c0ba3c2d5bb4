//! What speaks against new work on the hosts of a pool's machines, and which of its instances were
//! told so.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{HostCondition, HostName, InstanceId};

/// The hosts of a provider that should get no new work, each with the reason.
pub type HostConditions = Arc<BTreeMap<HostName, HostCondition>>;

/// What an instance is told of its host: what speaks against new work there, if anything does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostUpdate(pub(crate) Option<HostCondition>);

/// Remembers the condition of hosts, and what each instance was told of its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownConditions {
    hosts: HostConditions,
    sent: BTreeMap<InstanceId, HostCondition>,
}

impl KnownConditions {
    /// Takes over what is known of the hosts now.
    pub(crate) fn set(&mut self, hosts: HostConditions) {
        self.hosts = hosts;
    }

    /// Returns what an instance on this host is to be told, if that is new to it.
    pub(crate) fn update_for(
        &mut self,
        id: &InstanceId,
        host: Option<&HostName>,
    ) -> Option<HostUpdate> {
        let now = host.and_then(|host| self.hosts.get(host)).copied();
        let before = match now {
            Some(condition) => self.sent.insert(id.clone(), condition),
            None => self.sent.remove(id),
        };
        (before != now).then_some(HostUpdate(now))
    }

    /// Forgets what an instance was told: its owner is gone.
    pub(crate) fn owner_gone(&mut self, id: &InstanceId) {
        self.sent.remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_learns_of_its_host_once_and_again_when_that_changes_or_its_owner_is_new() {
        let mut known = KnownConditions::default();
        let (id, host) = (InstanceId::from("a"), HostName::from("n1"));
        assert_eq!(known.update_for(&id, Some(&host)), None);
        known.set(Arc::new(BTreeMap::from([(host.clone(), HostCondition::Unreachable)])));
        assert_eq!(known.update_for(&id, None), None, "it has no host yet");
        assert_eq!(
            known.update_for(&id, Some(&host)),
            Some(HostUpdate(Some(HostCondition::Unreachable)))
        );
        assert_eq!(known.update_for(&id, Some(&host)), None);
        known.owner_gone(&id);
        assert_eq!(
            known.update_for(&id, Some(&host)),
            Some(HostUpdate(Some(HostCondition::Unreachable)))
        );
        known.set(HostConditions::default());
        assert_eq!(known.update_for(&id, Some(&host)), Some(HostUpdate(None)));
        assert_eq!(known.update_for(&id, Some(&host)), None);
    }
}
