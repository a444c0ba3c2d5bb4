//! Decides when GitHub may be asked, so that what must be said can always be said.
//!
//! GitHub counts: a budget an hour for each identity (a token, or one installation of an App),
//! another for registrations, some hundred points a minute, and a hundred calls at once. A
//! caller that overdraws is blocked altogether, and then cannot even remove a runner. So calls go in
//! *lanes*, and a lane may not spend what the lanes above it will need:
//!
//! ```text
//!   Remove   takes a registration away      spends the last point of the hour
//!   Mint     registers a runner             leaves 5 %; at most `jit_per_minute`, evenly
//!   Check    asks about one job or runner   leaves 15 %
//!   List     lists                          leaves 30 %; at most `poll_budget` of the hour, evenly
//! ```
//!
//! `Budget` is the decision: a plain value that takes `now`. `Governor` is the thin shell around
//! it that waits. Calls that must wait get different moments, and the lanes come back in their order, so
//! that they do not all return at once. A call that may not be made is *held*, which
//! means "cannot ask" and is never an answer about the world.

mod budget;
mod pace;
mod rate_limit_headers;
mod shell;
#[cfg(test)]
mod tests;

pub use budget::{Budget, Limits, Ruling};
pub use rate_limit_headers::{RateLimitHeaders, Resource};
pub use shell::{Governor, Held, Permit};

/// Names the urgency of a call; the order is the order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Takes a registration away, or fetches what every call needs: tokens, numbers of groups.
    Remove,
    Mint,
    /// Asks about one job or runner.
    Check,
    List,
}

impl Lane {
    /// Every lane, the most urgent first.
    pub const ALL: [Self; 4] = [Self::Remove, Self::Mint, Self::Check, Self::List];
}
