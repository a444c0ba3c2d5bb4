//! Runners as pods: one bare pod a runner, nothing of ours in the cluster beside it.
//!
//! ```text
//!   order ─▶ pod ─POST─▶ API server ─▶ init `poller` ──asks for work──▶ daemon
//!             ▲                           │ 200: JIT config, staged as files
//!      [pool.pod]                         ▼
//!   view ◀─ guard, exit ◀──watch──── container `runner` ──▶ job
//! ```
//!
//! No custom resource, no finalizer. A pod carries whose it is as labels; everything else is read
//! from its status by plain functions: `guard` says what its shape proves about the runner,
//! `exit` how it ended, `marks` what other programs read about evicting it, `nodes` which nodes are
//! being emptied. The shell around
//! them makes one call each, with a deadline and without retries of its own.
//!
//! A late-bound pod is warm and unregistered: its init container proves by a token that is bound to
//! this very pod (`review`) who it is, and gets its JIT config over HTTP, so that it never passes
//! through the API server. An early-bound one finds it in a Secret that the pod owns.
//!
//! What it cannot do: see a job on a running container (the forge is asked instead), and tell a
//! container that runs on an unreachable node from one that does not.

mod client;
mod create;
mod delete;
mod ending;
mod exit;
mod exit_report;
#[cfg(test)]
mod fixtures;
mod guard;
mod marks;
mod names;
mod nodes;
mod overlay;
mod pod;
pub mod poller;
mod provider;
mod review;
mod rights;
mod secret;
mod seen;
mod settings;
mod watch;

pub use client::OpenError;
pub use nodes::{DrainedNodes, NodeConditions};
pub use provider::{Kubernetes, open};
pub use rights::{Granted, Need, RIGHTS, Right};
pub use settings::{AUDIENCE, KubernetesSettings};
