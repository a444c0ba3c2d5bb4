//! Proves that an identity may look: GitHub answers 404 for what does not exist, and for what it does
//! not show to this caller.
//!
//! A 404 becomes absence only when the same identity can read the list that the thing would be
//! in. The proof is short-lived, because rights are revoked without notice, and shorter than the
//! time between the two looks that the core wants.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ostler_actors::model::Scope;
use tokio::time::Instant;

use super::answer::ApiFailure;
use super::api::{ApiClient, ApiRequest};
use super::governor::Lane;
use super::identity::Identity;
use super::route::Route;

/// How long a proof of access holds: less than the ten seconds between two looks of the core.
const PROOF_TTL: Duration = Duration::from_secs(5);

/// What an identity could read lately, by path.
#[derive(Default)]
pub(super) struct Proofs(Mutex<BTreeMap<String, Instant>>);

impl Proofs {
    fn holds(&self, path: &str) -> bool {
        let proven = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        proven.get(path).is_some_and(|at| at.elapsed() < PROOF_TTL)
    }

    fn keep(&self, path: &str) {
        let mut proven = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        proven.retain(|_, at| at.elapsed() < PROOF_TTL);
        proven.insert(path.to_owned(), Instant::now());
    }
}

impl ApiClient {
    /// Proves that the identity may look, or returns why its 404 proves nothing.
    pub(super) async fn prove_access(
        &self,
        identity: &Identity,
        scope: &Scope,
        proof: &Route,
    ) -> Result<(), ApiFailure> {
        if identity.proofs.holds(&proof.path) {
            return Ok(());
        }
        let answer = self.ask_as(identity, Lane::Check, &ApiRequest::get(proof.clone())).await?;
        if answer.status == 200 {
            identity.proofs.keep(&proof.path);
            return Ok(());
        }
        let why = format!(
            "{} may not look into `{scope}` ({}), so its 404 proves nothing; give it access, or name its `scopes`",
            identity.name,
            answer.message()
        );
        Err(ApiFailure::Denied { why })
    }
}
