//! What an edit of the configuration means for a running daemon; plain decisions.

use ostler_actors::model::{ForgeId, Instance, Scope};

use crate::config::{Config, Http, Tie, refusals};

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
    TakesRestart(String),
    /// It cannot be done now, and why: that passes.
    NotYet(String),
}

/// Decides what an edit asks for. `live` ties the machines that are left, whether their pools
/// are still configured or not; nothing if the records could not be read.
pub(super) fn edit(old: &Config, new: &Config, live: Option<&[Tie]>) -> Edit {
    if old.store != new.store || old.daemon.state_dir != new.daemon.state_dir {
        return Edit::TakesRestart("`[store]` and `daemon.state_dir` take a restart".into());
    }
    if !same_servers(&old.http, &new.http) {
        return Edit::TakesRestart("`[http]` takes a restart".into());
    }
    let adapters = old.forges != new.forges || old.providers != new.providers;
    if adapters && let Some(why) = refused(old, new, live) {
        return Edit::NotYet(why);
    }
    if adapters || old.reaper != new.reaper || old.requeue != new.requeue {
        Edit::Adapters
    } else if old.pools == new.pools {
        Edit::Nothing
    } else {
        Edit::Pools
    }
}

/// Returns whether the servers need no restart: a renewed key is noticed by them.
fn same_servers(old: &Http, new: &Http) -> bool {
    let mut new = new.clone();
    if let (Some(old), Some(new)) = (&old.tls, &mut new.tls)
        && old.key.source() == new.key.source()
    {
        new.key = old.key.clone();
    }
    *old == new
}

/// Returns why forges and providers may not go or move yet: machines are left there.
fn refused(old: &Config, new: &Config, live: Option<&[Tie]>) -> Option<String> {
    let Some(live) = live else {
        let why = "the store does not answer, so it is not known which forges and providers still \
                   have machines";
        return Some(why.into());
    };
    let refusals = refusals(old, new, live);
    let told: Vec<String> =
        refusals.iter().map(|change| format!("{}: {}", change.what, change.effect)).collect();
    (!told.is_empty()).then(|| told.join("; "))
}

/// Returns what ties the machines that are left to forges and providers, each tie once.
pub(super) fn ties(live: &[Instance]) -> Vec<Tie> {
    let mut ties = Vec::new();
    for row in live {
        let tie = Tie {
            pool: row.pool.to_string(),
            forge: row.forge.to_string(),
            provider: row.provider.to_string(),
        };
        if !ties.contains(&tie) {
            ties.push(tie);
        }
    }
    ties
}

/// Returns where jobs must still be heard of though no pool may be configured for it: their
/// runners are left.
pub(super) fn scopes_left(live: &[Instance]) -> Vec<(ForgeId, Scope)> {
    let mut left = Vec::new();
    for row in live {
        let place = (row.forge.clone(), row.scope.clone());
        if !left.contains(&place) {
            left.push(place);
        }
    }
    left
}

/// Returns the places of the pools of a configuration.
pub(super) fn scopes_of(config: &Config) -> Vec<(ForgeId, Scope)> {
    let place =
        |pool: &crate::config::Pool| (ForgeId::new(pool.forge.as_str()), pool.scope.clone());
    config.pools.iter().map(place).collect()
}

#[cfg(test)]
mod tests;
