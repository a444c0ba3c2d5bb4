//! The page as people see it: a real daemon, a real browser, real jobs.
//!
//! Where there is no Chromium, each test says `SKIPPED` and the reason. Pictures are kept in
//! `target/screenshots`.

mod access;
mod hostile;
mod looking;
mod signing_in;

use ostler::demo::agent::Deed;
use ostler::demo::agent::Script;
use ostler::demo::github::JobWish;
use ostler_actors::model::{Labels, Place};

use crate::support::daemon::{Daemon, Stage};

/// Returns where the page of a daemon is.
fn page_of(daemon: &mut Daemon) -> String {
    format!("http://{}/", daemon.address().expect("it listens"))
}

/// Queues a job of any name and labels.
fn queue(stage: &Stage, name: &str, labels: &[&str], deed: Deed, millis: u64) -> u64 {
    let wish = JobWish {
        name: name.to_owned(),
        labels: labels.iter().copied().collect::<Labels>(),
        script: serde_json::json!(Script { deed, millis }),
    };
    let place = Place { owner: "acme".into(), repository: "web".into(), enterprise: None };
    stage.github.queue(&place, wish)
}
