//! Who a machine is that asks for work: proven by its provider, whoever that is.

use async_trait::async_trait;
use secrecy::SecretString;

/// Names the one machine a token was given to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its name at the provider.
    pub name: String,
    /// The provider's id of this very machine.
    pub uid: String,
}

/// Tells what came of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reviewed {
    /// It belongs to this machine.
    Belongs(Identity),
    /// It is not good, and why.
    Refused(String),
    /// It could not be found out; ask again.
    Unknown(String),
}

/// Finds out whose a token is.
#[async_trait]
pub trait Reviewer: Send + Sync {
    /// Asks whose a token is.
    async fn review(&self, token: &SecretString) -> Reviewed;
}
