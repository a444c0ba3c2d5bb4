//! How long to wait before trying again, and trying again until it works.
//!
//! Waits double and are capped. Where many would try again in step they are spread as well; the
//! spread comes from a name, not from chance, so that a replay waits as long as the first run did.

use std::time::Duration;

/// The waits between attempts to reach the store.
pub const STORE_RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Returns `first` doubled `tries` times, at most `cap`.
pub fn doubled(first: Duration, cap: Duration, tries: u32) -> Duration {
    first.saturating_mul(1 << tries.min(20)).min(cap)
}

/// Returns the same, spread by up to a quarter by a name.
pub fn backoff(first: Duration, cap: Duration, tries: u32, name: &str) -> Duration {
    let wait = doubled(first, cap, tries);
    let spread = u32::try_from(scatter(name, tries) % 256).unwrap_or(0);
    wait + wait * spread / 1024
}

/// Repeats an attempt until it brings something, with [`STORE_RETRY`] between the attempts.
pub(crate) async fn until_some<T, F>(mut attempt: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let (first, cap) = STORE_RETRY;
    let mut tries = 0;
    loop {
        if let Some(found) = attempt().await {
            return found;
        }
        tokio::time::sleep(doubled(first, cap, tries)).await;
        tries = tries.saturating_add(1);
    }
}

/// Mixes a name and a number (FNV-1a).
fn scatter(name: &str, salt: u32) -> u64 {
    name.bytes().chain(salt.to_le_bytes()).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
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
            assert!(wait >= exact && wait <= exact + exact / 4, "{tries}: {wait:?}");
        }
        assert_ne!(backoff(first, cap, 3, "linux-1"), backoff(first, cap, 3, "linux-2"));
    }

    #[test]
    fn an_attempt_is_repeated_until_it_brings_something() {
        let paused =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        paused.unwrap().block_on(async {
            let begun = tokio::time::Instant::now();
            let mut tries = 0;
            let found = until_some(|| {
                tries += 1;
                let tries = tries;
                async move { (tries == 9).then_some(tries) }
            });
            assert_eq!(found.await, 9);
            // 0.1 + 0.2 + 0.4 + 0.8 + 1.6 + 3.2 + 5 + 5 seconds.
            assert_eq!(begun.elapsed(), Duration::from_millis(16_300));
        });
    }
}
