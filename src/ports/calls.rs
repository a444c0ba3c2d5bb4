//! How calls to forges and providers go, for people: who does not answer, and who refuses us.
//!
//! An adapter or its meter reports each call; a call that is served ends the trouble. One failure is
//! no trouble yet, unless it says that the credential was refused.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use ostler_actors::model::{Timestamp, refuses_credential};

/// From how many failures in a row on a caller is in trouble.
const FAILURES_TO_SHOW: u32 = 3;

/// Remembers how the last calls went, by whom they were made to or in whose name.
#[derive(Default)]
pub struct CallHealth(Mutex<BTreeMap<String, FailingCalls>>);

struct FailingCalls {
    failures: u32,
    since: Timestamp,
    error: String,
    credential: bool,
}

/// Tells which calls fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallTrouble {
    /// To whom, or in whose name.
    pub who: String,
    /// Since when.
    pub since: Timestamp,
    /// What was said last.
    pub error: String,
    /// Whether the credential was refused.
    pub credential: bool,
}

impl CallHealth {
    /// Takes a call that was served, whatever the answer.
    pub fn served(&self, who: &str) {
        self.failing().remove(who);
    }

    /// Takes a call that was not.
    pub fn failed(&self, who: &str, error: &str, now: Timestamp) {
        let credential = refuses_credential(error);
        let mut all = self.failing();
        let calls = all.entry(who.to_owned()).or_insert_with(|| FailingCalls {
            failures: 0,
            since: now,
            error: String::new(),
            credential,
        });
        calls.failures = calls.failures.saturating_add(1);
        calls.credential = credential;
        error.clone_into(&mut calls.error);
    }

    /// Returns who is in trouble now.
    pub fn troubles(&self) -> Vec<CallTrouble> {
        let shown = |(who, calls): (&String, &FailingCalls)| CallTrouble {
            who: who.clone(),
            since: calls.since,
            error: calls.error.clone(),
            credential: calls.credential,
        };
        let all = self.failing();
        all.iter()
            .filter(|(_, calls)| calls.credential || calls.failures >= FAILURES_TO_SHOW)
            .map(shown)
            .collect()
    }

    fn failing(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, FailingCalls>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_failures_in_a_row_or_one_refused_credential_are_a_trouble() {
        let (health, now) = (CallHealth::default(), Timestamp::UNIX_EPOCH);
        for _ in 0..2 {
            health.failed("aws", "connection refused", now);
        }
        assert!(health.troubles().is_empty());
        health.served("aws");
        health.failed("aws", "connection refused", now);
        assert!(health.troubles().is_empty(), "they were not in a row");
        for _ in 0..2 {
            health.failed("aws", "connection refused", now);
        }
        health.failed("box", "401 Unauthorized", now);
        let troubles = health.troubles();
        let said: Vec<_> = troubles.iter().map(|it| (it.who.as_str(), it.credential)).collect();
        assert_eq!(said, [("aws", false), ("box", true)]);
        health.served("aws");
        health.served("box");
        assert!(health.troubles().is_empty());
    }
}
