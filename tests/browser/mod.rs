//! The page as people see it: a real daemon, a real browser, real jobs.
//!
//! Where there is no Chromium, each test says `SKIPPED` and the reason. Pictures are kept in
//! `target/screenshots`.

mod access;
mod hostile;
mod looking;
mod signing_in;

use serde_json::json;

use crate::support::browser::{Browser, Scheme};
use crate::support::daemon::Daemon;

/// How the page is looked at: so wide, in these colours.
const VIEWPORTS: [(u32, Scheme, &str); 4] = [
    (360, Scheme::Light, "light"),
    (360, Scheme::Dark, "dark"),
    (1280, Scheme::Light, "light"),
    (1280, Scheme::Dark, "dark"),
];

/// Returns where the page of a daemon is.
fn page_of(daemon: &mut Daemon) -> String {
    format!("http://{}/", daemon.address().expect("it listens"))
}

/// Waits until the first pool counts so many, for instance `2 busy`.
async fn until_figure(browser: &Browser, text: &str) {
    let counts = "document.querySelector('.pool .counts')?.textContent";
    browser.until(text, &format!("return ({counts} ?? '').includes({})", json!(text))).await;
}
