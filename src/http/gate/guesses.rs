//! Wrong tokens, counted by where they came from; a plain decision.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

/// How many wrong tokens are let through in a window.
const ALLOWED: u32 = 10;
/// How long they are counted, and how long an address is refused afterwards.
const WINDOW: Duration = Duration::from_mins(1);
/// How many addresses are remembered; an attacker with more can only make us forget.
const REMEMBERED: usize = 4096;

/// Counts wrong tokens.
#[derive(Debug, Default)]
pub(super) struct Guesses(BTreeMap<IpAddr, Window>);

#[derive(Clone, Copy, Debug)]
struct Window {
    began: Instant,
    count: u32,
}

impl Guesses {
    /// Returns whether this address is refused now.
    pub(super) fn is_shut_out(&self, peer: IpAddr, now: Instant) -> bool {
        let window = self.0.get(&place(peer));
        window.is_some_and(|it| it.count >= ALLOWED && now.duration_since(it.began) < WINDOW)
    }

    /// Notes a wrong token.
    pub(super) fn count(&mut self, peer: IpAddr, now: Instant) {
        // Looking for the oldest at each guess would make guessing dear for us alone.
        if self.0.len() >= REMEMBERED {
            self.0.clear();
        }
        let window = self.0.entry(place(peer)).or_insert(Window { began: now, count: 0 });
        if now.duration_since(window.began) >= WINDOW {
            *window = Window { began: now, count: 0 };
        }
        window.count += 1;
        if window.count == ALLOWED {
            // The minute of silence begins with the last guess, not with the first.
            window.began = now;
        }
    }
}

/// Returns the network that one party commands: with IPv6 that is a whole /64.
fn place(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(four) => IpAddr::V4(four),
        IpAddr::V6(six) => {
            let mut parts = six.segments();
            parts[4..].fill(0);
            IpAddr::V6(parts.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn ten_wrong_tokens_bring_a_minute_of_silence() {
        let mut guesses = Guesses::default();
        let (one, other): (IpAddr, IpAddr) =
            ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
        for _ in 0..ALLOWED {
            assert!(!guesses.is_shut_out(one, Instant::now()));
            guesses.count(one, Instant::now());
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert!(guesses.is_shut_out(one, Instant::now()));
        assert!(guesses.is_shut_out(other, Instant::now()), "the same network");
        assert!(!guesses.is_shut_out("192.0.2.1".parse().unwrap(), Instant::now()));
        tokio::time::advance(WINDOW).await;
        assert!(!guesses.is_shut_out(one, Instant::now()));
        guesses.count(one, Instant::now());
        assert!(!guesses.is_shut_out(one, Instant::now()), "counted anew");
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_addresses_fills_no_memory() {
        let mut guesses = Guesses::default();
        for number in 0..10_000_u32 {
            guesses.count(IpAddr::V4(number.into()), Instant::now());
        }
        assert!(guesses.0.len() <= REMEMBERED);
    }
}
