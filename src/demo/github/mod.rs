//! A simulated GitHub that speaks real HTTP.
//!
//! ```text
//!   adapter ──REST──▶ gate (who, budget, lies) ──▶ router ──▶ State ◀── handle (queue jobs, read the truth)
//!   daemon ◀─signed webhooks── hooks ◀── deliveries ───────────┘ ▲
//!   simulated runners ──POST /_sim/runners/listen, renew, done──┘
//! ```
//!
//! It keeps jobs, runs, runners, groups, hooks, deliveries, installations, tokens and budgets,
//! pages with `Link`, answers 304, and assigns like the real one: any queued job to any idle
//! runner whose labels suffice. It tells the truth unless told to lie ([`Lies`]). The demo runs
//! on it, and every test of the adapter.
//!
//! Runners connect by three calls of ours, with the JIT config (or the token in its
//! `.credentials`) as bearer:
//! - `POST /_sim/runners/listen` waits for work: 200 with the job, 204 to ask again, 410 to leave;
//! - `POST /_sim/runners/renew` says that the job goes on; without it the job is lost after `lease`;
//! - `POST /_sim/runners/done` with `{"conclusion": "success"}` ends the job and the registration.
//!
//! The server has a thread and a runtime of its own, so it can be started from anywhere, and goes
//! away with its handle.

mod apps;
mod assign;
mod gate;
mod handle;
mod hooks;
mod jobs;
mod router;
mod runners;
mod server;
mod shapes;
mod state;

pub use handle::{Options, SimGitHub};
pub use state::{
    Attempt, JobPlan, Lies, SeenCall, SimHook, SimHookOwner, SimJob, SimRunner, SimStage,
};
