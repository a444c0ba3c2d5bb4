//! What the life of an instance says about the pool that made it.
//!
//! ```text
//!   served    a job was proven to run there
//!   unneeded  asked to go while it was free
//!   failed    everything else: it ended by itself without serving, whatever its exit code
//! ```
//!
//! A failed life has a stage, the class of what is to blame, the last error as the provider, the
//! forge or the runner said it, and what a person may do about it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::judge::is_image_reason;
use super::{End, ExitRecord, Fault, Instance, VerdictClass};

/// Tells what a life came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LifeOutcome {
    /// A job was proven to run there.
    Served,
    /// It was asked to go while it was free.
    Unneeded,
    /// It came to nothing.
    Failed(Failure),
}

/// Tells how a life failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// How far it had come.
    pub stage: LifeStage,
    /// What is to blame.
    pub class: FailureClass,
    /// Whether proof of a job may still come that explains the end.
    pub provisional: bool,
    /// What the provider, the forge or the runner said.
    pub error: Arc<str>,
    /// What a person may do about it.
    pub advice: Arc<str>,
}

/// How long the notice of a job may take that explains why a runner left with exit 0.
const NOTICE_GRACE: Duration = Duration::from_secs(15);
/// How long a runner may take to start after its JIT config was handed out and its offer ended.
const START_GRACE: Duration = Duration::from_mins(1);

impl Failure {
    /// Returns how long to wait for what may still explain it before it counts.
    pub fn grace(&self) -> Duration {
        match (self.provisional, self.stage) {
            (false, _) => Duration::ZERO,
            (true, LifeStage::Pickup) => START_GRACE,
            (true, LifeStage::Create | LifeStage::Boot | LifeStage::Idle) => NOTICE_GRACE,
        }
    }
}

/// Names how far a life had come when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LifeStage {
    /// No machine came to be.
    Create,
    /// Its runner was never ready.
    Boot,
    /// Its runner was ready and waited for a job.
    Idle,
    /// It had the JIT config for a job, and no job ran.
    Pickup,
}

impl LifeStage {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Create, Self::Boot, Self::Idle, Self::Pickup];

    /// Returns the word used everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Boot => "boot",
            Self::Idle => "idle",
            Self::Pickup => "pickup",
        }
    }
}

impl fmt::Display for LifeStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Names what is to blame for a failed life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureClass {
    /// What the machine is made from.
    Image,
    /// The runner program.
    Runner,
    /// Where the machine runs.
    Host,
    /// The forge.
    Forge,
    /// What we identify ourselves with.
    Credential,
    /// The provider.
    Provider,
}

impl FailureClass {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Image, Self::Runner, Self::Host, Self::Forge, Self::Credential, Self::Provider];

    /// Returns the word used everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Runner => "runner",
            Self::Host => "host",
            Self::Forge => "forge",
            Self::Credential => "credential",
            Self::Provider => "provider",
        }
    }
}

impl fmt::Display for FailureClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Returns what is to blame for an end, as far as it is known.
pub fn failure_class(row: &Instance, exit: Option<&ExitRecord>) -> FailureClass {
    if let Some(End::NotCreated { why }) = &row.end {
        return match row.create_called_at {
            _ if refuses_credential(why) => FailureClass::Credential,
            // The forge refused the registration, so that the provider was never called.
            None => FailureClass::Forge,
            Some(_) => FailureClass::Provider,
        };
    }
    let image = |exit: &ExitRecord| {
        let facts = exit.exit.as_ref();
        facts.and_then(|facts| facts.machine_reason.as_deref()).is_some_and(is_image_reason)
    };
    if exit.is_some_and(image) {
        return FailureClass::Image;
    }
    let fault = exit.map(|exit| exit.verdict.fault);
    match fault.or_else(|| row.verdict.map(VerdictClass::usual_fault)) {
        Some(Fault::Image) => FailureClass::Image,
        Some(Fault::Host) => FailureClass::Host,
        // A machine that another hand takes away is the provider's to explain.
        Some(Fault::Provider | Fault::Operator | Fault::Ostler) => FailureClass::Provider,
        Some(Fault::Forge) => FailureClass::Forge,
        // No job ran: what killed it from inside was the runner itself.
        Some(Fault::Runner | Fault::Job) | None => FailureClass::Runner,
    }
}

/// What an error says where the caller, not the call, is refused. Providers are programs of other
/// people, and only their text tells this from a lack of room.
const CREDENTIAL_PHRASES: [&str; 18] = [
    "401",
    "unauthorized",
    "unauthorised",
    "unauthenticated",
    "bad credentials",
    "invalid credentials",
    "does not accept",
    "authentication failed",
    "authentication required",
    "authfailure",
    "invalidclienttokenid",
    "signaturedoesnotmatch",
    "expiredtoken",
    "token expired",
    "token has expired",
    "accessdenied",
    "access denied",
    "permission denied",
];

/// Returns whether an error says that the credential was refused.
pub fn refuses_credential(error: &str) -> bool {
    let error = error.to_lowercase();
    CREDENTIAL_PHRASES.iter().any(|phrase| holds_whole(&error, phrase))
}

/// Returns whether a text has a phrase with nothing but punctuation or space beside it.
fn holds_whole(text: &str, phrase: &str) -> bool {
    text.match_indices(phrase).any(|(at, _)| {
        let is_open = |side: Option<char>| side.is_none_or(|it| !it.is_alphanumeric());
        is_open(text[..at].chars().next_back()) && is_open(text[at + phrase.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_about_the_credential_differs_from_a_lack_of_room() {
        for error in [
            "GitHub does not accept token `ci`: 401 Bad credentials; renew the credential",
            "exit status 1: AuthFailure: AWS was not able to validate the provided access",
            "googleapi: Error 401: Request had invalid authentication credentials",
            "pods is forbidden: Unauthorized",
        ] {
            assert!(refuses_credential(error), "{error}");
        }
        for error in [
            "exceeded quota: pods=40",
            "no machine type `m401x`",
            "request 14019 timed out",
            "cannot register `linux-a` in `acme`: GitHub answered 422 already exists",
        ] {
            assert!(!refuses_credential(error), "{error}");
        }
    }
}
