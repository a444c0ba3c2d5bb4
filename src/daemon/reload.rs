//! What an edit of the configuration means for a running daemon; a plain decision.

use crate::config::Config;

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

/// Decides what an edit asks for.
pub(super) fn edit(old: &Config, new: &Config) -> Edit {
    if old.store != new.store || old.daemon.state_dir != new.daemon.state_dir {
        return Edit::Refused("`[store]` and `daemon.state_dir` take a restart".into());
    }
    if old.http != new.http {
        return Edit::Refused("`[http]` takes a restart".into());
    }
    if let Some(why) = still_used(old, new) {
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

/// Returns why a forge or provider may not go yet: machines of its pools still have to.
fn still_used(old: &Config, new: &Config) -> Option<String> {
    let gone = |kind: &str, name: &str| {
        let pool = old.pools.iter().find(|pool| pool.forge == name || pool.provider == name)?;
        Some(format!(
            "{kind} `{name}` is still used by pool `{}`: remove the pool first, and `{name}` when it has drained",
            pool.name
        ))
    };
    let forge = old.forges.keys().find(|name| !new.forges.contains_key(*name));
    let provider = old.providers.keys().find(|name| !new.providers.contains_key(*name));
    forge
        .and_then(|name| gone("forge", name))
        .or_else(|| provider.and_then(|name| gone("provider", name)))
}
