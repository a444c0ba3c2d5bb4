//! The page as people see it: a real daemon, a real browser, real jobs.
//!
//! Where there is no Chromium, each test says `SKIPPED` and the reason. Pictures are kept in
//! `target/screenshots`.

mod access;
mod hostile;
mod looking;
mod signing_in;

use ostler::demo::agent::{Deed, Script};
use ostler::demo::github::JobWish;
use ostler_actors::model::{Labels, Place};
use serde_json::json;

use crate::support::browser::Browser;
use crate::support::daemon::{Daemon, Stage};

/// Returns where the page of a daemon is.
fn page_of(daemon: &mut Daemon) -> String {
    format!("http://{}/", daemon.address().expect("it listens"))
}

/// Waits until the first pool counts so many, for instance `2 busy`.
async fn until_counted(browser: &Browser, text: &str) {
    let counts = "document.querySelector('.pool .counts')?.textContent";
    browser.until(text, &format!("return ({counts} ?? '').includes({})", json!(text))).await;
}

/// Queues a job of any name and labels.
fn queue(stage: &Stage, name: &str, labels: &[&str], deed: Deed, millis: u64) -> u64 {
    let wish = JobWish {
        name: name.to_owned(),
        labels: labels.iter().copied().collect::<Labels>(),
        script: json!(Script { deed, millis }),
    };
    let place = Place { owner: "acme".into(), repository: "web".into(), enterprise: None };
    stage.github.queue(&place, wish)
}
