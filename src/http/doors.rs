//! What the handlers share.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use ostler_actors::fleet::ToFleet;
use ostler_actors::mail::Office;
use ostler_actors::model::{ForgeId, Scope};
use ostler_actors::ports::{Clock, Inbox, Records};
use ostler_actors::registry::Registry;

use super::runner::Reviewers;
use crate::config::Config;
use crate::daemon::Status;
use crate::github::GitHub;
use crate::github::webhook::Secrets;
use crate::store::{SaveHealth, SqlStore};

/// Holds what handlers may see, and the inbox. Cheap to clone; clones share it.
#[derive(Clone)]
pub struct Doors {
    pub(super) inbox: Arc<dyn Inbox>,
    pub(super) records: Arc<dyn Records>,
    pub(super) saves: SaveHealth,
    pub(super) fleet: Office<ToFleet>,
    pub(super) registry: Arc<Registry>,
    pub(super) status: Arc<Status>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) reviewers: Reviewers,
    /// Who may deliver; nothing while nobody may.
    hooks: Arc<ArcSwapOption<BTreeMap<String, Arc<Hook>>>>,
}

/// Tells who stands at the door.
pub(super) enum Visitor {
    /// A forge of ours.
    Known(Arc<Hook>),
    /// No forge of ours.
    Stranger,
    /// Whoever it is: nothing is taken now.
    Shut,
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
    pub fn new(
        store: &SqlStore,
        fleet: Office<ToFleet>,
        registry: Arc<Registry>,
        status: Arc<Status>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let (inbox, records) = (Arc::new(store.clone()) as _, Arc::new(store.clone()) as _);
        let saves = store.health();
        let (reviewers, hooks) = (Reviewers::default(), Arc::default());
        Self { inbox, records, saves, fleet, registry, status, clock, reviewers, hooks }
    }

    /// Lets the forges of a configuration deliver: for its pools, and for `left`, where runners
    /// of pools are left that are configured no more.
    pub fn open(
        &self,
        config: &Config,
        forges: &BTreeMap<ForgeId, GitHub>,
        left: &[(ForgeId, Scope)],
    ) {
        let hook = |(id, github): (&ForgeId, &GitHub)| {
            let secrets: Vec<_> = config
                .forges
                .get(id.as_str())
                .map(|forge| forge.webhook_secrets.iter().map(|it| it.text().clone()).collect())
                .unwrap_or_default();
            let pools = config.pools.iter().filter(|pool| pool.forge == id.as_str());
            let left = left.iter().filter(|(forge, _)| forge == id).map(|(_, scope)| scope);
            let hook = Hook {
                forge: id.clone(),
                secrets: Secrets::new(&secrets),
                scopes: pools.map(|pool| &pool.scope).chain(left).cloned().collect(),
                github: github.clone(),
            };
            (id.as_str().to_owned(), Arc::new(hook))
        };
        self.hooks.store(Some(Arc::new(forges.iter().map(hook).collect())));
    }

    /// Returns who can tell whose a machine's token is.
    pub fn reviewers(&self) -> &Reviewers {
        &self.reviewers
    }

    /// Takes no deliveries any more: the sender keeps them and is asked later.
    pub fn shut(&self) {
        self.hooks.store(None);
    }

    pub(super) fn visitor(&self, forge: &str) -> Visitor {
        match &*self.hooks.load() {
            None => Visitor::Shut,
            Some(hooks) => {
                hooks.get(forge).map_or(Visitor::Stranger, |hook| Visitor::Known(Arc::clone(hook)))
            }
        }
    }
}
