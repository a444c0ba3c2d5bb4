//! The world as a whole: the same seed tells the same story.

use std::time::Duration;

use super::naive;
use crate::testing::{Plan, Weather, in_virtual_time};

struct End {
    hash: u64,
    remarks: u64,
    injected: u64,
    steps: u64,
}

fn play(seed: u64) -> End {
    in_virtual_time(async {
        let mut world = naive::world(Plan::random(seed, 30));
        world.storm(Duration::from_hours(2)).await;
        let steps = world.steps();
        let outside = world.outside();
        End {
            hash: outside.trace.hash(),
            remarks: outside.trace.count(),
            injected: outside.injected.values().sum(),
            steps,
        }
    })
}

#[test]
fn the_same_seed_tells_the_same_story_byte_for_byte() {
    for seed in 0..20 {
        let (first, second) = (play(seed), play(seed));
        assert_eq!((first.hash, first.remarks), (second.hash, second.remarks), "seed {seed}");
        assert!(first.steps > 50, "seed {seed} is empty");
    }
    assert_ne!(play(1).hash, play(2).hash);
}

#[test]
fn worlds_of_all_weathers_come_up_and_every_fault_strikes_somewhere() {
    let weathers: std::collections::BTreeSet<Weather> =
        (0..100).map(|seed| Plan::random(seed, 1).weather).collect();
    assert_eq!(weathers.len(), Weather::ALL.len());
    assert!((0..20).map(|seed| play(seed).injected).sum::<u64>() > 100);
}

#[test]
fn a_story_is_printed_on_request_and_changes_nothing() {
    let silent = play(3).hash;
    let detail = in_virtual_time(async {
        let mut world = naive::world(Plan::random(3, 30)).telling_stories();
        world.storm(Duration::from_hours(2)).await;
        let outside = world.outside();
        assert!(outside.trace.lines().len() > 100);
        outside.trace.hash()
    });
    assert_eq!(silent, detail);
}
