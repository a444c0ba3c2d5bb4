//! What the handlers share.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use ostler_actors::fleet::ToFleet;
use ostler_actors::mail::Office;
use ostler_actors::model::{ForgeId, Scope};
use ostler_actors::ports::{Clock, Inbox, Records};
use ostler_actors::registry::Registry;

use crate::config::Config;
use crate::daemon::Status;
use crate::github::GitHub;
use crate::github::webhook::Secrets;

/// Holds what handlers may see, and the inbox. Cheap to clone; clones share it.
#[derive(Clone)]
pub struct Doors {
    pub(super) inbox: Arc<dyn Inbox>,
    pub(super) records: Arc<dyn Records>,
    pub(super) fleet: Office<ToFleet>,
    pub(super) registry: Arc<Registry>,
    pub(super) status: Arc<Status>,
    pub(super) clock: Arc<dyn Clock>,
    hooks: Arc<ArcSwap<BTreeMap<String, Arc<Hook>>>>,
}

/// What is known about the sender of webhooks.
pub(super) struct Hook {
    pub(super) forge: ForgeId,
    pub(super) secrets: Secrets,
    pub(super) scopes: Vec<Scope>,
    pub(super) github: GitHub,
}

impl Doors {
    /// Makes the doors; no forge may deliver yet.
    pub fn new<S: Inbox + Records + 'static>(
        store: Arc<S>,
        fleet: Office<ToFleet>,
        registry: Arc<Registry>,
        status: Arc<Status>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let (inbox, records) = (Arc::clone(&store) as _, store as _);
        Self { inbox, records, fleet, registry, status, clock, hooks: Arc::default() }
    }

    /// Lets the forges of a configuration deliver.
    pub fn open(&self, config: &Config, forges: &BTreeMap<ForgeId, GitHub>) {
        let hook = |(id, github): (&ForgeId, &GitHub)| {
            let secrets: Vec<_> = config
                .forges
                .get(id.as_str())
                .map(|forge| forge.webhook_secrets.iter().map(|it| it.text().clone()).collect())
                .unwrap_or_default();
            let pools = config.pools.iter().filter(|pool| pool.forge == id.as_str());
            let hook = Hook {
                forge: id.clone(),
                secrets: Secrets::new(&secrets),
                scopes: pools.map(|pool| pool.scope.clone()).collect(),
                github: github.clone(),
            };
            (id.as_str().to_owned(), Arc::new(hook))
        };
        self.hooks.store(Arc::new(forges.iter().map(hook).collect()));
    }

    /// Takes no deliveries any more: the sender keeps them and is asked later.
    pub fn shut(&self) {
        self.hooks.store(Arc::default());
    }

    pub(super) fn hook(&self, forge: &str) -> Option<Arc<Hook>> {
        self.hooks.load().get(forge).map(Arc::clone)
    }
}
