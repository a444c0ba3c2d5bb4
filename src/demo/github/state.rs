//! The truth of the simulated GitHub, and what it does wrong on demand ([`Lies`]).
//!
//! The counts of lies run down: each lie happens once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use ostler_actors::model::{Labels, Place, Scope};
use serde_json::Value;
use tokio::time::Instant;

/// Holds all of it, behind one lock.
pub(super) struct State {
    pub(super) url: String,
    pub(super) prefix: String,
    pub(super) token: String,
    pub(super) client_id: String,
    pub(super) app_public_key: Vec<u8>,
    pub(super) rate_limit: Option<u32>,
    pub(super) lease: Duration,
    pub(super) lies: Lies,
    /// The paths of which a false 404 was told.
    pub(super) denied: BTreeSet<String>,
    /// The next number of anything.
    pub(super) last: u64,
    pub(super) installations: BTreeMap<u64, String>,
    pub(super) tokens: BTreeMap<String, (u64, Timestamp)>,
    /// Tokens that are shown one owner only.
    pub(super) guests: BTreeMap<String, String>,
    pub(super) spent: BTreeMap<(String, &'static str), (Timestamp, u32)>,
    pub(super) groups: Vec<(Scope, u64, String)>,
    pub(super) runners: BTreeMap<u64, SimRunner>,
    pub(super) secrets: BTreeMap<String, u64>,
    pub(super) jobs: BTreeMap<u64, SimJob>,
    /// Repositories without a job, and when they were pushed to last.
    pub(super) repositories: Vec<(Place, Timestamp)>,
    /// Jobs that want a runner.
    pub(super) queued: BTreeSet<u64>,
    /// Jobs that run, by the number of their runner, registered or not.
    pub(super) at_work: BTreeMap<u64, u64>,
    pub(super) hooks: BTreeMap<u64, SimHook>,
    pub(super) deliveries: Vec<Delivery>,
    pub(super) outbox: Vec<usize>,
    pub(super) calls: Vec<SeenCall>,
}

#[derive(Clone, Debug)]
pub struct SimRunner {
    pub id: u64,
    pub name: String,
    /// Where it is registered.
    pub scope: Scope,
    pub labels: Labels,
    /// The group it is in.
    pub group: u64,
    /// The job it has.
    pub job: Option<u64>,
    /// How many connections of it wait for work.
    pub listening: u32,
    /// When it last spoke, if ever.
    pub seen: Option<Instant>,
}

/// Says what a job is to be.
#[derive(Clone, Debug, Default)]
pub struct JobPlan {
    /// Its name; one is made up if it is empty.
    pub name: String,
    /// What it asks of a runner.
    pub labels: Labels,
    /// What is handed to the simulated runner with it, unread.
    pub script: Value,
}

/// Holds one job, which is a run of its own unless queued into another's.
#[derive(Clone, Debug)]
pub struct SimJob {
    pub id: u64,
    pub run: u64,
    /// Where it comes from.
    pub place: Place,
    pub plan: JobPlan,
    /// Where it is in its life.
    pub stage: SimStage,
    /// The runner it was given to, by number and name.
    pub runner: Option<(u64, String)>,
    /// When it was queued.
    pub queued_at: Timestamp,
    pub started_at: Option<Timestamp>,
    /// When it was over.
    pub completed_at: Option<Timestamp>,
    /// Whether its run is over though it is not.
    pub dead_run: bool,
    /// When its runner last said that it goes on.
    pub renewed: Option<Instant>,
    /// How often it was given to a runner.
    pub starts: u32,
}

/// Tells where a job is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SimStage {
    Waiting,
    Queued,
    InProgress,
    /// Is over, with GitHub's word for how.
    Completed(String),
}

impl SimStage {
    /// Returns GitHub's word for it.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Queued => "queued",
            Self::InProgress => "in_progress",
            Self::Completed(_) => "completed",
        }
    }
}

/// Says whose hook it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SimHookOwner {
    App,
    Scope(Scope),
}

#[derive(Clone, Debug)]
pub struct SimHook {
    pub id: u64,
    pub owner: SimHookOwner,
    pub url: String,
    /// What it signs with.
    pub secret: String,
    /// What it tells of.
    pub events: Vec<String>,
    /// `json` or `form`.
    pub content_type: String,
    /// Whether it is switched on.
    pub active: bool,
}

impl SimHook {
    /// Makes a hook that is told of jobs.
    pub(super) fn new(id: u64, owner: SimHookOwner, url: &str, secret: &str) -> Self {
        Self {
            id,
            owner,
            url: url.to_owned(),
            secret: secret.to_owned(),
            events: vec!["workflow_job".into()],
            content_type: "json".into(),
            active: true,
        }
    }
}

/// Holds one attempt to deliver.
pub(super) struct Delivery {
    pub(super) hook: u64,
    pub(super) attempt: Attempt,
    pub(super) body: String,
}

/// Shows one attempt to deliver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub id: u64,
    /// The delivery, equal for all attempts of it.
    pub guid: String,
    /// When it was made.
    pub at: Timestamp,
    /// Whether it is a repetition.
    pub redelivery: bool,
    /// What was answered; 0 while it is under way, 502 when no server answered.
    pub status: u16,
    /// What it tells of: `workflow_job`, or `ping`.
    pub event: &'static str,
    /// What happened to the job.
    pub action: String,
    pub job: u64,
}

/// Shows one REST call as it came and as it was answered.
#[derive(Clone, Debug)]
pub struct SeenCall {
    pub at: Timestamp,
    pub method: String,
    /// The path below the API's root.
    pub path: String,
    pub query: BTreeMap<String, String>,
    /// The caller's name for itself.
    pub agent: String,
    /// The edition of the API it asks for.
    pub edition: String,
    /// The body, if it was JSON.
    pub body: Value,
    /// The status of the answer.
    pub status: u16,
    /// The body of the answer.
    pub answer: Value,
}

impl State {
    /// Returns the next number.
    pub(super) fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Returns the date, as wrong as asked for.
    pub(super) fn date(&self) -> Timestamp {
        Timestamp::now().checked_add(self.lies.clock_ahead).unwrap_or(Timestamp::MAX)
    }

    /// Returns a runner of a scope by number.
    pub(super) fn runner_in(&self, scope: &Scope, id: u64) -> Option<&SimRunner> {
        self.runners.get(&id).filter(|runner| same_scope(&runner.scope, scope))
    }
}

/// Compares scopes as GitHub does, without case.
pub(super) fn same_scope(a: &Scope, b: &Scope) -> bool {
    a.to_string().eq_ignore_ascii_case(&b.to_string())
        && std::mem::discriminant(a) == std::mem::discriminant(b)
}

/// Holds the lies that are still to be told.
#[derive(Clone, Debug, Default)]
pub struct Lies {
    /// Deliveries that are logged as failed and never sent.
    pub lost_webhooks: u32,
    /// Jobs that are given out before older ones the same runner could have had: no lie, GitHub does
    /// that when it likes, but here it is certain.
    pub reordered: u32,
    /// Reads and removals of runners, and reads of jobs, that say 404; of each runner and job only
    /// once, because twice is the proof that everyone goes by.
    pub false_404: u32,
    /// 404s written by something else than GitHub.
    pub proxy_404: u32,
    /// Removals that say 422 though no job runs there.
    pub false_422: u32,
    /// Runners, listed or read, whose `busy` is told the wrong way round: GitHub's own word for it is
    /// minutes old at times.
    pub stale_busy: u32,
    /// Whether a runner at work is removed all the same.
    pub nasty_204: bool,
    /// Calls whose path ends so are refused, as by a missing permission.
    pub forbidden: Vec<&'static str>,
    /// Calls whose path ends so are answered 404, as for someone who is shown nothing there.
    pub missing: Vec<&'static str>,
    /// Calls that fail before anything happens.
    pub errors: u32,
    /// After how many more calls all others fail.
    pub errors_after: Option<u32>,
    /// Calls that are done and then answered 502.
    pub lost_answers: u32,
    /// Calls that are never answered.
    pub silence: u32,
    /// Lists whose last page is missing.
    pub short_lists: u32,
    /// Tokens that are no longer accepted though their time is not over.
    pub dropped_tokens: bool,
    /// Calls turned away for asking too much, and the silence asked for.
    pub turned_away: u32,
    /// How long callers that are turned away should be silent, in seconds; none is not said.
    pub retry_after: Option<u64>,
    /// When every version of the runner ends.
    pub version_ends: Option<Timestamp>,
    /// When every repository claims to have been pushed to last.
    pub pushed_at: Option<Timestamp>,
    /// The repositories the App is installed on, where it is not installed on all.
    pub selected: Option<Vec<String>>,
    /// What every runner group is, beside what it usually is.
    pub groups_are: Vec<(&'static str, Value)>,
    /// How wrong the server's clock is.
    pub clock_ahead: Duration,
}

impl Lies {
    /// Tells a lie if one is left.
    pub(super) fn tell(count: &mut u32) -> bool {
        let left = *count > 0;
        *count = count.saturating_sub(1);
        left
    }
}
