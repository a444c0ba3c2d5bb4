//! Calls that brought no answer to judge, by what can be said about the world afterwards.

use std::time::Duration;

use ostler_actors::model::{Observation, Sighting};
use ostler_actors::ports::{ForgeError, MintError};

/// Tells why a call brought nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// Not sent, or turned away at the door: nothing was made, and later it may go.
    Held { after: Option<Duration>, why: String },
    /// Not sent or refused, and repeating will not help: somebody must change a right or a setting.
    Denied { why: String },
    /// Sent, perhaps, and no usable answer came: something may have been made.
    Lost { why: String },
}

impl Failure {
    pub(super) fn why(self) -> String {
        match self {
            Self::Held { why, .. } | Self::Denied { why } | Self::Lost { why } => why,
        }
    }

    /// Says of a call made before the one that matters: whatever was lost, that one was not sent.
    pub(super) fn before_the_call(self) -> Self {
        match self {
            Self::Lost { why } => Self::Held { after: None, why },
            failure @ (Self::Held { .. } | Self::Denied { .. }) => failure,
        }
    }

    /// Says what it means for a registration.
    pub(super) fn of_mint(self) -> MintError {
        match self {
            Self::Held { after, why } => MintError::Later { after, why },
            Self::Denied { why } => MintError::Refused { why },
            Self::Lost { why } => MintError::Unanswered { why },
        }
    }

    /// Says what it means for a removal: it is always worth another attempt.
    pub(super) fn of_removal(self) -> ForgeError {
        match self {
            Self::Held { after, why } => ForgeError::Later { after, why },
            Self::Denied { why } | Self::Lost { why } => ForgeError::Later { after: None, why },
        }
    }
}

impl<T> From<Failure> for Sighting<T> {
    fn from(failure: Failure) -> Self {
        Self::Unknown(failure.why())
    }
}

impl<T> From<Failure> for Observation<T> {
    fn from(failure: Failure) -> Self {
        Self::Unusable(failure.why())
    }
}
