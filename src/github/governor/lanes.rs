//! What the lanes owe each other.

use std::time::Duration;

use super::Lane;

/// Returns what a lane must leave for the lanes above it.
pub(super) fn floor(lane: Lane, limit: u32) -> u32 {
    match lane {
        Lane::Remove => 0,
        Lane::Mint => limit / 20,
        Lane::Check => limit / 20 * 3,
        Lane::List => limit / 10 * 3,
    }
}

/// Returns how long a lane waits in place; longer waits are the caller's to plan.
pub(super) fn wait_limit(lane: Lane) -> Duration {
    match lane {
        Lane::Remove => Duration::from_secs(20),
        Lane::Mint => Duration::from_secs(10),
        Lane::Check | Lane::List => Duration::from_secs(5),
    }
}

/// Returns a moment within the lane's own stretch after a silence: urgent lanes come back first.
pub(super) fn spread(lane: Lane, roll: u64) -> Duration {
    let stretch = match lane {
        Lane::Remove => 1_000,
        Lane::Mint => 5_000,
        Lane::Check => 15_000,
        Lane::List => 30_000,
    };
    Duration::from_millis(roll % stretch)
}
