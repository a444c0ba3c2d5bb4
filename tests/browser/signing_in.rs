//! With tokens the page asks for one; it stays in the tab and out of every address.

use serde_json::json;

use super::page_of;
use crate::support::browser::Browser;
use crate::support::daemon::{Stage, pool};

const OPERATOR: &str = "operator-token-of-the-tests-0123456789";
const VIEWER: &str = "viewer-token-of-the-tests-0123456789abc";

/// Builds a stage whose daemon wants tokens.
fn guarded() -> Stage {
    let stage = Stage::on_sqlite(&pool(0, 2));
    stage.write("operator.token", OPERATOR);
    stage.write("viewer.token", VIEWER);
    let tokens = r#"
[[http.token]]
name = "ops"
role = "operator"
secret = { file = "operator.token" }
[[http.token]]
name = "board"
role = "viewer"
secret = { file = "viewer.token" }
"#;
    stage.configure(&format!("{tokens}\n{}", pool(0, 2)));
    stage
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_signs_in_with_a_token_which_stays_in_the_tab() {
    let Some(browser) = Browser::start() else { return };
    let stage = guarded();
    let mut daemon = stage.lead().await;
    browser.open(&page_of(&mut daemon));
    browser.until_shown("Access token").await;
    assert!(!browser.text().contains("linux"), "nothing is shown before the token");

    browser.type_into("#token", "not-a-token-of-theirs");
    browser.click(".sign-in button");
    browser.until_shown("Unknown token.").await;

    browser.type_into("#token", OPERATOR);
    browser.click(".sign-in button");
    browser.until_shown("linux").await;
    browser
        .until("the line is live", "return document.getElementById('line').dataset.line === 'live'")
        .await;
    assert!(!browser.address().contains("token"), "{}", browser.address());
    let asked =
        browser.run("return performance.getEntriesByType('resource').map(it => it.name).join()");
    assert!(!asked.to_string().contains(OPERATOR), "{asked}");
    assert_eq!(
        browser.run("return [document.cookie, Object.values(localStorage).join()]"),
        json!(["", "auto"])
    );

    // A refused question is a line in every browser's console; nothing else may be there.
    let noise = browser.console();
    assert!(noise.iter().all(|line| line.contains("401 (Unauthorized)")), "{noise:#?}");

    browser.click("#leave");
    browser.until_shown("Access token").await;
    assert_eq!(browser.run("return sessionStorage.length"), json!(0));
    assert!(!daemon.log().contains(OPERATOR), "the daemon writes no tokens");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_viewer_sees_everything_and_why_a_drain_is_refused() {
    let Some(browser) = Browser::start() else { return };
    let stage = guarded();
    let mut daemon = stage.lead().await;
    browser.open(&page_of(&mut daemon));
    browser.until_shown("Access token").await;
    browser.type_into("#token", VIEWER);
    browser.click(".sign-in button");
    browser.until_shown("linux").await;
    browser.click(".pool button");
    browser.click("#ask-yes");
    browser
        .until(
            "the refusal is shown",
            "return document.getElementById('ask-trouble').textContent.includes('operator')",
        )
        .await;
    browser.click("#ask-no");
    browser.until("the dialog is gone", "return !document.getElementById('ask').open").await;
    assert!(!browser.text().contains("draining"));
}
