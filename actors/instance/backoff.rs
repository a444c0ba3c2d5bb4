//! How long to wait before trying again: doubling, capped, spread.

use std::time::Duration;

/// Returns `first` doubled `tries` times, at most `cap`, spread by up to a quarter. The spread
/// comes from the name, so a fleet does not retry in step and a replay does the same again.
pub(super) fn backoff(first: Duration, cap: Duration, tries: u32, name: &str) -> Duration {
    let wait = first.saturating_mul(1 << tries.min(20)).min(cap);
    let spread = u32::try_from(scatter(name, tries) % 256).unwrap_or(0);
    wait + wait * spread / 1024
}

/// Mixes a name and a number (FNV-1a).
fn scatter(name: &str, salt: u32) -> u64 {
    name.bytes()
        .chain(salt.to_le_bytes())
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_cap_and_spread_by_a_quarter() {
        let (first, cap) = (Duration::from_secs(1), Duration::from_mins(5));
        for tries in 0..40 {
            let exact = first.saturating_mul(1 << tries.min(20)).min(cap);
            let wait = backoff(first, cap, tries, "linux-1");
            assert!(
                wait >= exact && wait <= exact + exact / 4,
                "{tries}: {wait:?}"
            );
        }
        assert_ne!(
            backoff(first, cap, 3, "linux-1"),
            backoff(first, cap, 3, "linux-2")
        );
    }
}
