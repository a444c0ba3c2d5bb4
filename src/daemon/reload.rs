//! What an edit of the configuration means for a running daemon: decided plainly, then put in
//! force whole or not at all.

use std::error::Error;
use std::sync::Arc;

use ostler_actors::model::Instance;
use tracing::{error, info};

use super::adapters::{self, Adapters};
use super::{Daemon, StartError};
use crate::config::watch::News;
use crate::config::{Config, Pool};

/// Tells what an edit asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Edit {
    /// Nothing that matters while running.
    Nothing,
    /// Pools alone: the fleet is told.
    Pools,
    /// Forges, providers or sweeps: the fleet is started again.
    Adapters,
    /// It cannot be done while running, and why.
    Refused(String),
}

impl Daemon {
    /// Puts an edit in force, or says why not; a refused one changes nothing.
    pub(super) fn take_news(&mut self, news: News) -> Edit {
        let taken = match news {
            Err(problems) => Edit::Refused(problems.to_string()),
            Ok(config) => self.put_in_force(config),
        };
        match &taken {
            Edit::Refused(why) => {
                error!("the configuration is not reloaded, nothing changed: {why}");
                self.status.config(Some(why.clone()));
            }
            Edit::Nothing | Edit::Pools | Edit::Adapters => {
                info!("the configuration is reloaded");
                self.status.config(None);
            }
        }
        taken
    }

    fn put_in_force(&mut self, config: Arc<Config>) -> Edit {
        let edit = edit(&self.config, &config, &self.registry.instances());
        match &edit {
            Edit::Refused(_) => return edit,
            Edit::Nothing | Edit::Pools => {}
            Edit::Adapters => match self.try_adapters(&config) {
                Ok(forges) => self.forges = forges,
                Err(error) => return Edit::Refused(told(&error)),
            },
        }
        self.config = config;
        self.doors.open(&self.config, &self.forges);
        edit
    }

    /// Makes everything that a configuration names, and keeps the forges.
    fn try_adapters(&self, config: &Config) -> Result<adapters::Forges, StartError> {
        let forges = adapters::forges(config, &self.clock, &self.chance)?;
        Adapters::build(config, forges).map(|adapters| adapters.forges)
    }
}

/// Returns an error with what led to it.
fn told(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |error: &&dyn Error| (*error).source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Decides what an edit asks for; `rows` are the instances that live.
fn edit(old: &Config, new: &Config, rows: &[Arc<Instance>]) -> Edit {
    if old.store != new.store || old.daemon.state_dir != new.daemon.state_dir {
        return Edit::Refused("`[store]` and `daemon.state_dir` take a restart".into());
    }
    if old.http != new.http {
        return Edit::Refused("`[http]` takes a restart".into());
    }
    if let Some(why) = still_used(old, new, rows) {
        return Edit::Refused(why);
    }
    let adapters = old.forges != new.forges || old.providers != new.providers;
    if adapters || old.reaper != new.reaper || old.requeue != new.requeue {
        Edit::Adapters
    } else if old.pools == new.pools {
        Edit::Nothing
    } else {
        Edit::Pools
    }
}

/// Returns why a forge or provider may not go yet: machines still have to.
fn still_used(old: &Config, new: &Config, rows: &[Arc<Instance>]) -> Option<String> {
    let refused = |kind: &str, name: &str, by: &str| {
        format!(
            "{kind} `{name}` is still used by {by}: remove the pool first, and `{name}` when it has drained"
        )
    };
    for name in old.forges.keys().filter(|name| !new.forges.contains_key(*name)) {
        let pool = old.pools.iter().find(|pool| pool.forge == *name);
        let row = rows.iter().find(|row| row.forge.as_str() == name);
        if let Some(by) = user(pool, row) {
            return Some(refused("forge", name, &by));
        }
    }
    for name in old.providers.keys().filter(|name| !new.providers.contains_key(*name)) {
        let pool = old.pools.iter().find(|pool| pool.provider == *name);
        let row = rows.iter().find(|row| row.provider.as_str() == name);
        if let Some(by) = user(pool, row) {
            return Some(refused("provider", name, &by));
        }
    }
    None
}

fn user(pool: Option<&Pool>, row: Option<&Arc<Instance>>) -> Option<String> {
    let pool = pool.map(|pool| format!("pool `{}`", pool.name));
    pool.or_else(|| row.map(|row| format!("instance `{}`, which is on its way out", row.id)))
}
