//! Edits as an operator makes them, against machines that are left.

use std::path::Path;

use ostler_actors::testing::contract::instance;

use super::*;
use crate::config::{Outside, ProviderSettings, load};

/// Returns the configuration that ships for processes.
fn shipped() -> Config {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/process.toml");
    load(&path, &Outside::text_only()).expect("a shipped configuration").config
}

/// Ties a pool that is configured no more to the forge and provider of one that is.
fn left_of(config: &Config) -> Vec<Tie> {
    let pool = &config.pools[0];
    vec![Tie { pool: "removed".into(), ..Tie::from(pool) }]
}

/// Returns a configuration from which the pools were removed.
fn without_pools(config: &Config) -> Config {
    Config { pools: Vec::new(), ..config.clone() }
}

fn is_refused(edit: &Edit) -> bool {
    matches!(edit, Edit::NotYet(_))
}

#[test]
fn what_machines_of_a_removed_pool_use_may_not_go() {
    let first = shipped();
    let old = without_pools(&first);
    let mut new = old.clone();
    new.providers.clear();
    let refused = edit(&old, &new, Some(&left_of(&first)));
    assert!(matches!(&refused, Edit::NotYet(why) if why.contains("pool removed")), "{refused:?}");
    assert_eq!(edit(&old, &new, Some(&[])), Edit::Adapters, "all of it has drained");
    let mut new = old.clone();
    new.forges.clear();
    assert!(is_refused(&edit(&old, &new, Some(&left_of(&first)))));
}

#[test]
fn what_machines_are_left_of_may_not_move() {
    let first = shipped();
    let old = without_pools(&first);
    let mut new = old.clone();
    for provider in new.providers.values_mut() {
        if let ProviderSettings::Process(process) = provider {
            process.work_dir = "/elsewhere".into();
        }
    }
    assert!(is_refused(&edit(&old, &new, Some(&left_of(&first)))), "they would be out of sight");
    assert_eq!(edit(&old, &new, Some(&[])), Edit::Adapters);
    let mut new = old.clone();
    for forge in new.forges.values_mut() {
        forge.api_url = "https://ghes.example/api/v3".into();
    }
    assert!(is_refused(&edit(&old, &new, Some(&left_of(&first)))));
}

#[test]
fn a_pool_that_is_configured_counts_as_having_machines() {
    let old = shipped();
    let mut new = without_pools(&old);
    new.providers.clear();
    assert!(is_refused(&edit(&old, &new, Some(&[]))));
}

#[test]
fn without_the_records_pools_may_change_and_providers_may_not() {
    let old = shipped();
    assert_eq!(edit(&old, &without_pools(&old), None), Edit::Pools);
    let mut new = without_pools(&old);
    new.providers.clear();
    assert!(is_refused(&edit(&without_pools(&old), &new, None)));
}

#[test]
fn rows_say_what_is_left_once_each() {
    let rows = [instance("linux-1"), instance("linux-2")];
    assert_eq!(ties(&rows).len(), 1);
    assert_eq!(scopes_left(&rows), [(rows[0].forge.clone(), rows[0].scope.clone())]);
}
