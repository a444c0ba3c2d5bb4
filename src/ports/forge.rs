//! What a forge brings along beside the core's `Roster` and `Forge`: webhooks, their installation,
//! lost deliveries, figures, and a live check.
//!
//! A forge's folder implements [`ForgeAdapter`]; everything else sees [`ForgeServices`], which can
//! neither register nor remove a runner. What a forge cannot do is `None` there: one without job
//! webhooks is polled, one without a delivery log is not swept.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ostler_actors::model::{JobNotice, Place, RunnerName, Scope, Timestamp};
use ostler_actors::ports::{Finding, Forge};
use secrecy::SecretString;
use serde::Serialize;

use super::CallTrouble;

/// A configured forge, as the composition root holds it.
pub trait ForgeAdapter: Forge {
    /// Returns what surfaces and background tasks may use of it.
    fn services(&self) -> ForgeServices;
}

/// What a forge offers to surfaces and background tasks. Clones share it.
#[derive(Clone)]
pub struct ForgeServices {
    /// The configuration's word for it: `github`.
    pub kind: &'static str,
    /// Where its pages are, without a slash at the end: `https://github.com`.
    pub web_url: String,
    pub monitor: Arc<dyn ForgeMonitor>,
    /// None where the forge sends no webhooks about jobs.
    pub webhooks: Option<Arc<dyn ForgeWebhooks>>,
    /// None where hooks cannot be installed or inspected by program.
    pub hooks: Option<Arc<dyn ForgeHooks>>,
}

/// Reads webhooks.
pub trait ForgeWebhooks: Send + Sync {
    /// Returns the largest body the forge sends; a larger one is not read.
    fn max_body_bytes(&self) -> usize;

    /// Refuses a delivery that its headers alone condemn, so that no room is given to its body.
    fn screen(&self, header: HeaderLookup<'_>) -> Result<(), DeliveryRefusal>;

    /// Verifies a delivery on the bytes as they came, then reads it. `scopes` are ours; `now` dates
    /// jobs that the forge does not date.
    fn receive(
        &self,
        header: HeaderLookup<'_>,
        body: &[u8],
        scopes: &[Scope],
        now: Timestamp,
    ) -> Result<Received, DeliveryRefusal>;
}

/// Returns the value of a header by name, if it is text.
pub type HeaderLookup<'a> = &'a dyn Fn(&str) -> Option<&'a str>;

/// Tells what a verified delivery holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Received {
    /// A notice of a job in one of our scopes, dated by our clock.
    Job(Box<JobNotice>),
    /// Nothing for us; the word is its outcome in the metrics (`ping`, `elsewhere`, `ignored`).
    NoJob(&'static str),
}

/// Tells why a delivery was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeliveryRefusal {
    /// Larger than what the forge sends.
    #[error("the delivery is larger than {} MiB", .limit >> 20)]
    TooLarge {
        /// In bytes.
        limit: usize,
    },
    /// No signature at all.
    #[error("the delivery is not signed; set the hook's secret")]
    Unsigned,
    /// Signed with another secret.
    #[error(
        "the delivery is signed with another secret; compare the hook's secret with `webhook_secret`"
    )]
    BadSignature,
    #[error("the delivery cannot be read: {0}")]
    Malformed(String),
}

impl DeliveryRefusal {
    /// Returns its outcome in the metrics.
    pub fn outcome(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "too_large",
            Self::Unsigned => "unsigned",
            Self::BadSignature => "bad_signature",
            Self::Malformed(_) => "malformed",
        }
    }
}

/// Installs and inspects webhooks, and asks for lost deliveries again. Errors are sentences.
#[async_trait]
pub trait ForgeHooks: Send + Sync {
    /// Returns the hook of our application, if there is one and it sends to the address.
    async fn shared_hook(&self, url: &str) -> Result<Option<HookView>, String>;

    /// Returns the hooks of a scope that send to an address: one, if all is well.
    async fn hooks_to(&self, scope: &Scope, url: &str) -> Result<Vec<HookView>, String>;

    /// Creates the hook, or updates the one that sends to the address already.
    async fn install_hook(
        &self,
        scope: &Scope,
        url: &str,
        secret: &SecretString,
    ) -> Result<Installed, String>;

    /// Returns the newest attempts of a hook to deliver, the last one first.
    async fn delivery_log(&self, hook: &HookRef) -> Result<Vec<DeliveryAttempt>, String>;

    /// Says what is wrong with a hook, each in a sentence with the way out.
    fn faults(&self, hook: &HookView, log: &[DeliveryAttempt]) -> Vec<String>;

    /// Returns the hooks whose deliveries can be asked for again: those that send to `url`, or the
    /// shared one where we have no public address. What could not be looked at is said beside.
    async fn hooks_to_sweep(
        &self,
        url: Option<&str>,
        scopes: &[Scope],
    ) -> (Vec<HookRef>, Vec<String>);

    /// Asks for lost deliveries of a hook again, from where the last sweep ended. Returns the
    /// cursor of the next sweep, to be kept as it is.
    async fn sweep(&self, hook: &HookRef, cursor: Option<&str>) -> Result<String, String>;
}

/// Names a hook.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookRef {
    /// The one hook of the application we authenticate as, such as a GitHub App.
    Shared,
    /// A hook of an organization or a repository.
    Scope { scope: Scope, id: u64 },
}

/// Shows a hook as the forge has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HookView {
    /// Its number; a shared hook has none.
    pub id: Option<u64>,
    pub url: String,
    /// Whether it is switched on.
    pub active: bool,
    /// The events it sends.
    pub events: Vec<String>,
    /// `json` or `form`.
    pub content_type: String,
    /// Whether it signs; the forge does not say with which secret.
    pub signed: bool,
    /// Whether it sends to any server, whatever the certificate.
    pub careless: bool,
}

/// Tells what an installation did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Installed {
    /// There was none; this one was created.
    Created(u64),
    /// This one was there and is now as configured, its secret included.
    Updated(u64),
}

/// Shows one attempt to deliver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeliveryAttempt {
    pub id: u64,
    /// The delivery, equal for all attempts of it.
    pub guid: String,
    pub delivered_at: Option<Timestamp>,
    /// What was answered; 0 without an answer.
    pub status_code: u16,
    pub event: String,
}

/// Watches a forge and tries what it lets us do. Changes nothing there.
#[async_trait]
pub trait ForgeMonitor: Send + Sync {
    /// Returns the figures so far.
    fn figures(&self) -> ForgeFigures;

    /// Returns since when, and why, the forge could not say whether a runner works.
    fn doubt_about(&self, runner: &RunnerName) -> Option<(Timestamp, String)>;

    /// Remembers that a repository is active, for forges whose jobs cannot be listed otherwise.
    fn remember(&self, place: &Place);

    /// Returns the runner versions in use that the forge will soon send no more jobs, and keeps
    /// them for [`figures`](Self::figures). `images` may be tagged with a version.
    async fn ending_versions(
        &self,
        scope: &Scope,
        images: &[&str],
        now: Timestamp,
    ) -> Vec<EndingVersion>;

    /// Tries everything a scope needs; one finding for each right.
    async fn check_scope(&self, check: &ScopeCheck<'_>) -> Vec<Finding>;
}

/// Holds the figures of one forge.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ForgeFigures {
    /// Calls so far by kind and status; status 0 is a call without an answer.
    pub requests: BTreeMap<(&'static str, u16), u64>,
    /// What is left of the rate limits.
    pub rates: Vec<RateBudget>,
    pub webhooks: WebhookFigures,
    /// By how many seconds our clock is ahead of the forge's.
    pub clock_ahead_seconds: i64,
    /// Runner versions in use that the forge will soon send no more jobs.
    pub ending: Vec<EndingVersion>,
    /// Which credentials are refused or get no answer.
    pub troubles: Vec<CallTrouble>,
}

/// Holds the rate limit of one identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateBudget {
    pub identity: String,
    /// Of what, in the forge's word (`core`, `search`).
    pub resource: &'static str,
    /// Calls an hour.
    pub limit: u32,
    /// Calls that are left.
    pub left: u32,
    pub resets_in: Duration,
}

/// Shows how well webhooks arrive.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WebhookFigures {
    /// Notices of jobs that webhooks brought, repetitions included.
    pub deliveries: u64,
    /// Deliveries about jobs that the forge's log names, each once however often it was tried.
    pub logged: u64,
    /// Those of them that were not taken at the first try.
    pub missed: u64,
    /// Jobs older than a minute that were found by polling, without a webhook before.
    pub found_by_asking: u64,
    pub lateness: Lateness,
}

/// The upper ends of the steps that lateness is counted in, in seconds.
pub const LATENESS_STEPS: [f64; 11] =
    [0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3_600.0, 21_600.0];

/// Counts how late webhooks came, in the manner of a Prometheus histogram.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lateness {
    /// How many were at most as late as each of [`LATENESS_STEPS`], steps below included.
    pub at_most: [u64; LATENESS_STEPS.len()],
    pub count: u64,
    /// The sum of all, in seconds.
    pub sum: f64,
}

impl Lateness {
    pub fn add(&mut self, seconds: f64) {
        for (step, end) in self.at_most.iter_mut().zip(LATENESS_STEPS) {
            *step += u64::from(seconds <= end);
        }
        self.count += 1;
        self.sum += seconds;
    }
}

/// Tells that a runner version ends soon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndingVersion {
    pub version: String,
    /// When it gets no more jobs, or no longer registers, whichever is earlier.
    pub ends_at: Timestamp,
}

impl EndingVersion {
    /// Returns how many whole days are left; negative when it has ended.
    pub fn days_left(&self, now: Timestamp) -> i64 {
        self.ends_at.duration_since(now).as_hours().div_euclid(24)
    }

    /// Says it to a person.
    pub fn sentence(&self, now: Timestamp) -> String {
        let version = &self.version;
        let cure = "replace the image or `runner_dir` by a newer release of actions/runner";
        match (self.ends_at <= now, self.days_left(now)) {
            (true, _) => format!("runner {version} is no longer sent jobs by the forge; {cure}"),
            (false, ..=0) => {
                format!("runner {version} is sent no more jobs within a day; {cure}")
            }
            (false, 1) => format!("runner {version} is sent jobs for one more day; {cure}"),
            (false, days) => {
                format!("runner {version} is sent jobs for {days} more days; {cure}")
            }
        }
    }
}

/// Says what a scope is wanted for.
pub struct ScopeCheck<'a> {
    pub scope: &'a Scope,
    /// The runner groups its pools name.
    pub groups: &'a [&'a str],
    /// Where its hook should send; none where jobs are found by polling alone.
    pub url: Option<&'a str>,
}
