//! A fault that never strikes tests nothing: every one there is strikes within some hundred worlds.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ostler_actors::testing::{Death, EpisodeKind, Plan, Watched, Weather, in_virtual_time};

use super::mutants::small;

/// Within how many small worlds each fault has struck.
const SEEDS: u64 = 800;
/// Within how many worlds of its kind each fault that heals has struck.
const SEEDS_OF_AN_EPISODE: u64 = 8;

/// The lies and failures of the forge.
const FORGE: [&str; 32] = [
    "assignment missed",
    "busy, so 422",
    "cancelled before pick-up",
    "delivery given up",
    "deregister answer lost",
    "deregister fails",
    "false 404",
    "false 404 on removal",
    "forge is slow",
    "forge listing fails",
    "forge read fails",
    "hook doubled",
    "hook doubled under one id",
    "hook hours late",
    "hook lost",
    "hook of a stranger",
    "hook overtaken",
    "job cancelled",
    "job false 404",
    "job given back",
    "job listing lags",
    "lying 422",
    "mint answer lost",
    "mint answered 409",
    "mint in vain",
    "mint put off",
    "mint refused",
    "nasty removal",
    "out of points",
    "runner listing lags",
    "stale runner",
    "stale runner listed",
];

/// The same of the providers.
const PROVIDER: [&str; 25] = [
    "adapter panics",
    "change not told",
    "change told late",
    "create answer lost",
    "create hangs",
    "create in vain",
    "create refused",
    "delete answer lost",
    "delete fails",
    "delete lies",
    "dispatch answer lost",
    "machine falsely absent",
    "machine listing empty",
    "machine listing fails",
    "machine listing lags",
    "machine listing partial",
    "machine read fails",
    "machine too late",
    "provider in doubt",
    "provider is slow",
    "refused, comes anyway",
    "remains are slow",
    "remains cannot be had",
    "report lost",
    "witness silent",
];

/// What happens to machines, to jobs, and by people.
const LIFE: [&str; 17] = [
    "deleted by others",
    "dies",
    "dies booting",
    "dies working",
    "hangs after work",
    "host lost",
    "never boots",
    "odd exit",
    "operator deletes",
    "operator drains",
    "operator forces",
    "orderly restart",
    "pool removed",
    "pool rolled",
    "registration removed by hand",
    "slow boot",
    "startup failure",
];

/// What befalls the store, and the daemon at it.
const STORE: [&str; 17] = [
    "crash after a create",
    "crash after a delete",
    "crash after a deregistration",
    "crash after a mint",
    "crash after a save",
    "crash after an inbox write",
    "crash at a read",
    "crash before a save",
    "inbox answer lost",
    "inbox fails",
    "record lost",
    "record lost, registered under a further name",
    "row unreadable",
    "save answer lost",
    "save fails",
    "store read fails",
    "store stalls",
];

/// What strikes while an episode lasts.
const EPISODES: [&str; 14] = [
    "call with a revoked token",
    "deadly job",
    "end that the forge learns late",
    "forge list fails again",
    "job out of sight",
    "machine of a bad image",
    "machine on a bad host",
    "machine out of sight",
    "poller silent",
    "runner busy after death",
    "runner killed by its job",
    "runner of a bad version",
    "search in repositories out of sight",
    "webhook lost in an outage",
];

/// What struck in a world: its faults, and the ways its machines ended.
fn struck(seed: u64) -> (BTreeMap<&'static str, u64>, BTreeSet<Death>) {
    in_virtual_time(async {
        let mut world = Watched::new(small(Weather::Everything, seed));
        world.storm(Duration::from_mins(30)).await;
        let outside = world.outside();
        (outside.injected.clone(), outside.machines.deaths.keys().copied().collect())
    })
}

#[test]
fn every_fault_there_is_strikes_within_some_hundred_worlds() {
    let named = FORGE.into_iter().chain(PROVIDER).chain(LIFE).chain(STORE).chain(["writer panics"]);
    let named: BTreeSet<&str> = named.collect();
    let (mut faults, mut deaths): (BTreeSet<&str>, _) = (named.clone(), BTreeSet::from(Death::ALL));
    let mut nameless = BTreeSet::new();
    for seed in 0..SEEDS {
        let (injected, died) = struck(seed);
        nameless.extend(injected.keys().copied().filter(|name| !named.contains(name)));
        faults.retain(|name| !injected.contains_key(name));
        deaths.retain(|death| !died.contains(death));
        if faults.is_empty() && deaths.is_empty() {
            println!("every fault and every end struck within {} worlds", seed + 1);
            break;
        }
    }
    assert!(faults.is_empty() && deaths.is_empty(), "never struck: {faults:?}, {deaths:?}");
    assert!(nameless.is_empty(), "struck and not in the list: {nameless:?}");
}

#[test]
fn every_fault_that_heals_strikes_within_some_worlds_of_its_kind() {
    let kinds = EpisodeKind::ALL.map(EpisodeKind::name);
    let named: BTreeSet<&str> = EPISODES.into_iter().chain(kinds).collect();
    let (mut faults, mut nameless) = (named.clone(), BTreeSet::new());
    for kind in EpisodeKind::ALL {
        for seed in 0..SEEDS_OF_AN_EPISODE {
            let injected = in_virtual_time(async {
                let mut world = Watched::new(Plan::with_episode(kind, seed, 30));
                world.storm(Duration::from_mins(30)).await;
                world.outside().injected.clone()
            });
            let usual = [
                "busy, so 422",
                "delivery given up",
                "forge is slow",
                "provider is slow",
                "slow boot",
            ];
            nameless.extend(
                injected.keys().copied().filter(|it| !named.contains(it) && !usual.contains(it)),
            );
            faults.retain(|name| !injected.contains_key(name));
        }
    }
    assert!(faults.is_empty(), "never struck: {faults:?}");
    assert!(nameless.is_empty(), "struck and not in the list: {nameless:?}");
}
