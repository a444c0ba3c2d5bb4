//! What keeps the fleet from its work: one list for status, API and metrics.

use ostler_actors::model::Timestamp;

/// Something that keeps the fleet from its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concern {
    pub kind: ConcernKind,
    /// The pool, image, forge or provider.
    pub subject: String,
    pub since: Timestamp,
    /// What is wrong, with the last error.
    pub sentence: String,
    /// What a person may do about it.
    pub advice: String,
}

/// Names the kinds of concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConcernKind {
    /// The instances of a pool fail.
    Pool,
    /// Several pools fail with one image.
    Image,
    /// The calls to a provider fail.
    Provider,
    /// The calls to a forge fail.
    Forge,
    /// A forge or provider refuses our credential.
    Credential,
}

impl ConcernKind {
    pub const ALL: [Self; 5] =
        [Self::Pool, Self::Image, Self::Provider, Self::Forge, Self::Credential];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pool => "pool",
            Self::Image => "image",
            Self::Provider => "provider",
            Self::Forge => "forge",
            Self::Credential => "credential",
        }
    }
}
