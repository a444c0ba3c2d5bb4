//! Names, labels and logs come from strangers: whatever they hold is text.

use ostler::demo::agent::Step;
use serde_json::json;

use super::page_of;
use crate::support::browser::Browser;
use crate::support::daemon::{Stage, pool};

/// Does something bad in every place where text might be taken for markup.
const BAD: &str = "\"'><img src=x onerror=window.pwned=1><script>window.pwned=1</script>";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_jobs_name_labels_and_log_are_shown_and_do_nothing() {
    let Some(browser) = Browser::start() else { return };
    let mut stage = Stage::on_sqlite(&pool(0, 2));
    let mut daemon = stage.lead().await;
    // Its runner prints the job's name, so it is in the log tail too.
    stage.queue_as(BAD, &["self-hosted", "linux"], Step::Abort, 500);
    stage.queue_as("for no runner", &["self-hosted", BAD], Step::Succeed, 500);
    let page = page_of(&mut daemon);
    browser.open(&format!("{page}#/jobs"));
    browser.until_shown("for no runner").await;
    browser.until_shown(BAD).await;
    browser.open(&format!("{page}#/deaths"));
    browser.until_shown("aborted").await;
    browser.click("summary");
    browser.click(".dead a");
    browser
        .until(
            "the log holds it",
            &format!(
                "return document.querySelector('.tail')?.textContent.includes({})",
                json!(BAD)
            ),
        )
        .await;
    browser.open(&format!("{page}#/jobs?show=over"));
    browser.until_shown(BAD).await;
    must_be_harmless(&browser);
    stage.leave();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_answer_of_the_api_can_act_on_the_page() {
    let Some(browser) = Browser::start() else { return };
    let mut stage = Stage::on_sqlite(&pool(1, 2));
    let mut daemon = stage.lead().await;
    stage.queue_as("long", &["self-hosted", "linux"], Step::Abort, 1500);
    let page = page_of(&mut daemon);
    // Every text that a stranger could have a hand in is made bad on its way to the page.
    let poison = format!(
        r"const bad = {}; const real = window.fetch;
        const keys = new Set(['name', 'machine', 'host', 'text', 'why', 'reason', 'advice', 'repository', 'url', 'scope', 'image', 'detail', 'config_problem', 'credential', 'resource']);
        const poisoned = (value, key) => Array.isArray(value) ? value.map((it) => poisoned(it, key === 'labels' || key === 'lines' || key === 'evidence' || key === 'log_tail' || key === 'explain' ? 'text' : key))
          : value && typeof value === 'object' ? Object.fromEntries(Object.entries(value).map(([k, v]) => [k, poisoned(v, k)]))
          : typeof value === 'string' && key === 'url' ? 'javascript:window.pwned=1'
          : typeof value === 'string' && keys.has(key) ? value + bad : value;
        window.fetch = async (...given) => {{
          const answer = await real(...given);
          if (!String(given[0]).startsWith('/api/v1') || String(given[0]).includes('/events')) return answer;
          return new Response(JSON.stringify({{ ...poisoned(await answer.json()), config_problem: bad }}), {{ status: answer.status, headers: {{ 'Content-Type': 'application/json' }} }});
        }};",
        json!(BAD)
    );
    browser.devtools("Page.addScriptToEvaluateOnNewDocument", &json!({ "source": poison }));
    for view in [
        "",
        "instances",
        "jobs",
        "jobs?show=over",
        "deaths",
        "pools/linux",
        "instances/%3Cimg%20src=x%20onerror=window.pwned=1%3E",
    ] {
        browser.open("about:blank");
        browser.open(&format!("{page}#/{view}"));
        browser.until("the view is drawn", "return document.querySelector('main').innerText.length > 5 && !document.querySelector('main').innerText.includes('Loading')").await;
    }
    browser.open(&format!("{page}#/"));
    browser.until_shown("onerror").await;
    must_be_harmless(&browser);
    // A job's address is a link only if it leads to the web.
    assert_eq!(
        browser.run("return document.querySelectorAll('a[href^=javascript]').length"),
        json!(0)
    );
    stage.leave();
}

fn must_be_harmless(browser: &Browser) {
    assert_eq!(
        browser.run("return window.pwned === undefined"),
        json!(true),
        "a stranger's script ran"
    );
    let strays = "return document.querySelectorAll('main img, main script, main iframe, main [onerror]').length";
    assert_eq!(browser.run(strays), json!(0), "a stranger's text became markup");
    // No instance has this name, and every browser logs a request that found nothing.
    let noise: Vec<String> =
        browser.console().into_iter().filter(|line| !line.contains("404 (Not Found)")).collect();
    assert!(noise.is_empty(), "the console says: {noise:#?}");
}
