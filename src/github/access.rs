//! Whether an identity may look at all: GitHub says 404 of what is not there, and of what it does
//! not show to this caller.
//!
//! A 404 becomes absence only when the same identity can read the list that the thing would be
//! in. The proof is short-lived, because rights are taken away without a word, and shorter than
//! the time between the two looks that the core wants.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ostler_actors::model::Scope;
use tokio::time::Instant;

use super::api::{ApiClient, Question};
use super::failure::Failure;
use super::governor::Lane;
use super::identity::Identity;
use super::route::Route;

/// How long access is believed: less than the ten seconds between two looks.
const GOOD_FOR: Duration = Duration::from_secs(5);

/// Holds what an identity could read lately, by path.
#[derive(Default)]
pub(super) struct Proofs(Mutex<BTreeMap<String, Instant>>);

impl Proofs {
    fn holds(&self, path: &str) -> bool {
        let proven = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        proven.get(path).is_some_and(|at| at.elapsed() < GOOD_FOR)
    }

    fn keep(&self, path: &str) {
        let mut proven = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        proven.retain(|_, at| at.elapsed() < GOOD_FOR);
        proven.insert(path.to_owned(), Instant::now());
    }
}

impl ApiClient {
    /// Makes sure that the identity may look; else says why its 404 is no answer.
    pub(super) async fn prove_access(
        &self,
        identity: &Identity,
        scope: &Scope,
        proof: &Route,
    ) -> Result<(), Failure> {
        if identity.proofs.holds(&proof.path) {
            return Ok(());
        }
        let answer = self.ask_as(identity, Lane::Check, &Question::get(proof.clone())).await?;
        if answer.status == 200 {
            identity.proofs.keep(&proof.path);
            return Ok(());
        }
        let why = format!(
            "{} may not look into `{scope}` ({}), so its 404 proves nothing; give it access, or name its `scopes`",
            identity.name,
            answer.message()
        );
        Err(Failure::Denied { why })
    }
}
