//! The hand on the simulated GitHub: starts it, queues jobs, reads the truth, makes it lie.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use actix_web::dev::ServerHandle;
use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::KeyPair as _;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use ostler_actors::model::{Place, Scope};

use super::server::{self, Shared};
use super::state::Lies;
use super::state::{
    Attempt, JobPlan, SeenCall, SimHook, SimHookOwner, SimJob, SimRunner, SimStage, State,
};

/// Says what kind of GitHub to simulate.
#[derive(Clone, Debug)]
pub struct Options {
    /// The port; 0 lets the system choose.
    pub port: u16,
    /// What stands before every path: `/api/v3` on GitHub Enterprise Server.
    pub prefix: String,
    /// How many calls an hour an identity has; none is without limit, as on a server of one's own.
    pub rate_limit: Option<u32>,
    /// How long a job lives without a word from its runner.
    pub lease: Duration,
    /// The owners the App is installed on.
    pub installed_on: Vec<String>,
    /// How to speak https; without it plain http is spoken.
    pub tls: Option<rustls::ServerConfig>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            port: 0,
            prefix: String::new(),
            rate_limit: Some(15_000),
            lease: Duration::from_mins(10),
            installed_on: vec!["acme".into()],
            tls: None,
        }
    }
}

/// Holds a running simulated GitHub; it goes away when dropped.
pub struct SimGitHub {
    shared: Arc<Shared>,
    server: ServerHandle,
    thread: Option<JoinHandle<()>>,
    url: String,
    prefix: String,
    private_key: String,
}

impl SimGitHub {
    /// Starts one. Works inside and outside of any runtime.
    pub fn start(options: Options) -> io::Result<Self> {
        let (key, private_key) = app_key()?;
        let mut state = State::new(&options, key);
        for owner in &options.installed_on {
            let id = state.number();
            state.installations.insert(id, owner.clone());
        }
        let shared = Arc::new(Shared::new(state));
        let scheme = if options.tls.is_some() { "https" } else { "http" };
        let place = server::Place { port: options.port, tls: options.tls };
        let (port, server, thread) = server::run(Arc::clone(&shared), place)?;
        let url = format!("{scheme}://127.0.0.1:{port}");
        shared.state().url.clone_from(&url);
        Ok(Self { shared, server, thread: Some(thread), url, prefix: options.prefix, private_key })
    }

    /// Returns the address of the server, where runners connect.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the address of its API, for `api_url`.
    pub fn api_url(&self) -> String {
        format!("{}{}", self.url, self.prefix)
    }

    /// Returns a token that may do everything.
    pub fn token(&self) -> String {
        self.shared.state().token.clone()
    }

    /// Returns a token that may do everything at one owner and is shown nothing else.
    pub fn token_for(&self, owner: &str) -> String {
        let token = format!("ghp_guest_of_{owner}");
        self.shared.change(|state| state.guests.insert(token.clone(), owner.to_owned()));
        token
    }

    /// Takes such a token's rights away; it stays a token.
    pub fn shut_out(&self, token: &str) {
        self.shared.change(|state| state.guests.insert(token.to_owned(), String::new()));
    }

    /// Returns the client id of the App, and the private key it began with.
    pub fn app(&self) -> (String, String) {
        (self.shared.state().client_id.clone(), self.private_key.clone())
    }

    /// Gives the App another key and forgets the one before; its tokens are worth nothing either.
    /// Returns the new private key.
    pub fn change_app_key(&self) -> io::Result<String> {
        let (key, private) = app_key()?;
        self.shared.change(|state| {
            state.app_public_key = key;
            state.tokens.clear();
        });
        Ok(private)
    }

    pub fn lie(&self, lies: impl FnOnce(&mut Lies)) {
        self.shared.change(|state| lies(&mut state.lies));
    }

    /// Installs the App anew: another number, and the old tokens are worth nothing.
    pub fn reinstall(&self, owner: &str) {
        self.shared.change(|state| {
            state.installations.retain(|_, it| it != owner);
            state.tokens.clear();
            let id = state.number();
            state.installations.insert(id, owner.to_owned());
        });
    }

    /// Makes a runner group.
    pub fn add_group(&self, scope: &Scope, name: &str) -> u64 {
        self.shared.change(|state| {
            let id = state.number();
            state.groups.push((scope.clone(), id, name.to_owned()));
            id
        })
    }

    /// Makes a hook that is told of jobs.
    pub fn add_hook(&self, owner: SimHookOwner, url: &str, secret: &str) -> u64 {
        self.shared.change(|state| {
            let id = state.number();
            state.hooks.insert(id, SimHook::new(id, owner, url, secret));
            id
        })
    }

    /// Lets a hook lead elsewhere: its listener has moved.
    pub fn move_hook(&self, hook: u64, url: &str) {
        self.shared.change(|state| {
            if let Some(hook) = state.hooks.get_mut(&hook) {
                url.clone_into(&mut hook.url);
            }
        });
    }

    /// Changes a hook behind everybody's back.
    pub fn edit_hook(&self, id: u64, edit: impl FnOnce(&mut SimHook)) {
        self.shared.change(|state| {
            if let Some(hook) = state.hooks.get_mut(&id) {
                edit(hook);
            }
        });
    }

    /// Returns the hooks of everybody.
    pub fn hooks(&self) -> Vec<SimHook> {
        self.shared.state().hooks.values().cloned().collect()
    }

    /// Makes a repository in which no job ever ran.
    pub fn add_repository(&self, place: &Place, pushed_at: Timestamp) {
        self.shared.change(|state| state.repositories.push((place.clone(), pushed_at)));
    }

    pub fn queue(&self, place: &Place, plan: JobPlan) -> u64 {
        self.shared.change(|state| state.queue(place.clone(), plan, SimStage::Queued, None))
    }

    /// Queues a job into the run of another.
    pub fn queue_beside(&self, job: u64, plan: JobPlan) -> Option<u64> {
        self.shared.change(|state| {
            let (place, run) = state.jobs.get(&job).map(|job| (job.place.clone(), job.run))?;
            Some(state.queue(place, plan, SimStage::Queued, Some(run)))
        })
    }

    /// Makes a job that waits for leave.
    pub fn hold(&self, place: &Place, plan: JobPlan) -> u64 {
        self.shared.change(|state| state.queue(place.clone(), plan, SimStage::Waiting, None))
    }

    /// Gives a waiting job leave.
    pub fn release(&self, job: u64) {
        self.shared.change(|state| state.release(job));
    }

    /// Ends a job from outside, with GitHub's word for how: `cancelled`, for instance.
    pub fn finish(&self, job: u64, conclusion: &str) {
        self.shared.change(|state| state.finish(job, conclusion));
    }

    /// Lets the run of a job be over though the job is not: it will never run.
    pub fn end_run_of(&self, job: u64) {
        self.shared.change(|state| {
            state.queued.remove(&job);
            if let Some(job) = state.jobs.get_mut(&job) {
                job.dead_run = true;
            }
        });
    }

    /// Returns all jobs that ever were.
    pub fn jobs(&self) -> Vec<SimJob> {
        self.shared.state().jobs.values().cloned().collect()
    }

    pub fn runners(&self) -> Vec<SimRunner> {
        self.shared.state().runners.values().cloned().collect()
    }

    /// Returns the REST calls so far.
    pub fn calls(&self) -> Vec<SeenCall> {
        self.shared.state().calls.clone()
    }

    /// Returns what was sent to a hook.
    pub fn attempts(&self, hook: u64) -> Vec<Attempt> {
        let state = self.shared.state();
        let sent = state.deliveries.iter().filter(|delivery| delivery.hook == hook);
        sent.map(|delivery| delivery.attempt.clone()).collect()
    }

    /// Waits until something is true; looks again whenever anything changed.
    pub async fn until(&self, is_true: impl Fn(&Self) -> bool) {
        let mut changes = self.shared.changes();
        while !is_true(self) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }
}

impl Drop for SimGitHub {
    fn drop(&mut self) {
        // The order is sent before the answer is waited for, and here the answer is dropped.
        drop(self.server.stop(false));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl State {
    fn new(options: &Options, app_public_key: Vec<u8>) -> Self {
        Self {
            url: String::new(),
            prefix: options.prefix.clone(),
            token: format!("ghp_simulated{}", uuid::Uuid::new_v4().simple()),
            client_id: "Iv23simulated".into(),
            app_public_key,
            rate_limit: options.rate_limit,
            lease: options.lease,
            lies: Lies::default(),
            denied: BTreeSet::new(),
            last: 100,
            installations: BTreeMap::new(),
            tokens: BTreeMap::new(),
            guests: BTreeMap::new(),
            spent: BTreeMap::new(),
            groups: Vec::new(),
            runners: BTreeMap::new(),
            secrets: BTreeMap::new(),
            jobs: BTreeMap::new(),
            repositories: Vec::new(),
            queued: BTreeSet::new(),
            at_work: BTreeMap::new(),
            hooks: BTreeMap::new(),
            deliveries: Vec::new(),
            outbox: Vec::new(),
            calls: Vec::new(),
        }
    }
}

/// Makes a key for an App: the public half, and the private one as PEM.
fn app_key() -> io::Result<(Vec<u8>, String)> {
    let unspecified = |_| io::Error::other("no key could be made");
    let key = KeyPair::generate(KeySize::Rsa2048).map_err(unspecified)?;
    let private = pem(key.as_der().map_err(unspecified)?.as_ref());
    Ok((key.public_key().as_ref().to_vec(), private))
}

/// Writes a key as PEM.
fn pem(der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    let lines: Vec<String> =
        text.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line).into_owned()).collect();
    format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n"))
}
