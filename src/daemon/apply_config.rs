//! Puts edits of the configuration in force: wholly, or not at all.
//!
//! An edit that is turned down for a reason that passes (machines are left, a disk is not mounted, the
//! store is away) is kept, shown, and tried again by itself until it is in force or another edit
//! takes its place.

use std::sync::Arc;
use std::time::Duration;

use ostler_actors::model::Instance;
use ostler_actors::ports::Records as _;
use tracing::{error, info, warn};

use super::adapters::{Forges, Providers, try_new_pools};
use super::reload::{Edit, edit, scopes_left, scopes_of, ties};
use super::{Daemon, StartError};
use crate::config::Config;
use crate::config::watch::ConfigChange;
use crate::errors::chain;

/// How long the records may take to say which machines are left.
const LIVE_ROWS_TIMEOUT: Duration = Duration::from_secs(5);

/// Holds what an edit needs that can fail; made before anything is changed.
struct Ready {
    config: Arc<Config>,
    forges: Forges,
    live: Option<Vec<Instance>>,
}

/// Says why an edit is not in force.
struct TurnedDown {
    why: String,
    /// The edit, if the reason passes.
    again: Option<Arc<Config>>,
}

/// Holds an edit that waits for its hour.
pub(super) struct Deferred {
    config: Arc<Config>,
    why: String,
}

impl Daemon {
    /// Puts an edit in force while a fleet runs, or says why not. Returns the providers for the
    /// next fleet if this one must be started again.
    pub(super) async fn apply_while_leading(
        &mut self,
        config_changes: ConfigChange,
    ) -> Option<Providers> {
        match self.prepare(config_changes).await {
            Ok((ready, providers)) => {
                self.put_in_force(ready);
                providers
            }
            Err(down) => {
                self.refuse(down);
                None
            }
        }
    }

    /// Decides on an edit and makes everything it needs; nothing is changed yet.
    async fn prepare(
        &self,
        config_changes: ConfigChange,
    ) -> Result<(Ready, Option<Providers>), TurnedDown> {
        let (ready, edit) = self.judge(config_changes).await?;
        let again = || Some(Arc::clone(&ready.config));
        let turned_down = |error: StartError| TurnedDown { why: chain(&error), again: again() };
        let context = self.open_context(&ready.config, &ready.forges);
        let providers = match edit {
            Edit::Adapters => Some(Providers::build(&context, &self.lent).map_err(turned_down)?),
            Edit::Nothing | Edit::Pools | Edit::TakesRestart(_) | Edit::NotYet(_) => None,
        };
        let tried = try_new_pools(&context, Some(&self.config), self.clock.now()).await;
        tried.map_err(turned_down)?;
        Ok((ready, providers))
    }

    /// Tries an edit once more that was turned down for a reason that passes.
    pub(super) async fn try_again_leading(&mut self) -> Option<Providers> {
        let config = Arc::clone(&self.deferred.as_ref()?.config);
        self.apply_while_leading(Ok(config)).await
    }

    /// Puts an edit in force while another leads, or says why not.
    pub(super) async fn apply_in_standby(&mut self, config_changes: ConfigChange) {
        match self.judge(config_changes).await {
            Ok((ready, _)) => {
                self.put_in_force(ready);
                self.starting = false;
            }
            Err(down) => self.refuse(down),
        }
    }

    /// Accepts webhooks for what the records say now: another daemon may have led meanwhile.
    pub(super) async fn accept_webhooks(&mut self) {
        if let Some(live) = self.live().await {
            self.left = scopes_left(&live);
        }
        self.app_state.open(&self.config, self.forges.services(), &self.left);
    }

    /// Decides on an edit and makes its forges; nothing is changed yet.
    async fn judge(&self, config_changes: ConfigChange) -> Result<(Ready, Edit), TurnedDown> {
        let config = config_changes
            .map_err(|problems| TurnedDown { why: format!("\n{problems}"), again: None })?;
        let passes = |why: String| TurnedDown { why, again: Some(Arc::clone(&config)) };
        let live = self.live().await;
        let ties = live.as_deref().map(ties);
        let edit = edit(&self.config, &config, ties.as_deref());
        match edit {
            Edit::Nothing | Edit::Pools | Edit::Adapters => {}
            Edit::TakesRestart(why) => return Err(TurnedDown { why, again: None }),
            Edit::NotYet(why) => return Err(passes(why)),
        }
        let forges = if config.forges == self.config.forges {
            self.forges.clone()
        } else {
            self.forges_of(&config).map_err(|it| passes(chain(&it)))?
        };
        Ok((Ready { config, forges, live }, edit))
    }

    fn forges_of(&self, config: &Config) -> Result<Forges, StartError> {
        Forges::build(config, &self.clock, &self.chance)
    }

    fn put_in_force(&mut self, ready: Ready) {
        let Ready { config, forges, live } = ready;
        // Pools that go now may make a last machine before they hear of it.
        let going = scopes_of(&self.config);
        if let Some(live) = live {
            self.left = scopes_left(&live);
        } else {
            warn!("the store does not answer; who still has runners is not known anew");
        }
        self.left.extend(going);
        (self.config, self.forges) = (config, forges);
        self.app_state.open(&self.config, self.forges.services(), &self.left);
        self.deferred = None;
        self.status.config(None);
        self.service.ready();
        self.metrics.count_reload("applied");
        info!("the configuration is reloaded");
    }

    fn refuse(&mut self, down: TurnedDown) {
        let TurnedDown { why, again } = down;
        let known = self.deferred.take().filter(|it| again.is_some() && it.why == why);
        self.deferred = again.map(|config| Deferred { config, why: why.clone() });
        if known.is_some() {
            return;
        }
        let hope = if self.deferred.is_some() { "; it is tried again by itself" } else { "" };
        self.metrics.count_reload("refused");
        error!("the configuration is not reloaded, nothing changed: {why}{hope}");
        self.status.config(Some(format!("{}{hope}", why.trim_start())));
        self.service.ready();
    }

    /// Returns the machines that are left, if the records answer.
    async fn live(&self) -> Option<Vec<Instance>> {
        match tokio::time::timeout(LIVE_ROWS_TIMEOUT, self.store.live_instances(None)).await {
            Ok(Ok(live)) => Some(live),
            Ok(Err(_)) | Err(_) => None,
        }
    }
}

#[cfg(test)]
mod tests;
