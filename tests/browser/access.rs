//! Everybody can use the page: names, landmarks, contrast, keyboard, narrow screens.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests may stop at the first surprise, as tests may"
)]

use std::collections::BTreeSet;

use ostler::demo::agent::Step;
use serde_json::{Value, json};

use super::page_of;
use crate::support::browser::{Browser, Scheme};
use crate::support::daemon::{ENDLESS_JOB, Stage, pool};

/// Looks for what keeps people out; returns a sentence for each finding.
const CHECK: &str = include_str!("access.js");

/// Roles that mean nothing to a listener without a name.
const NAMED: [&str; 17] = [
    "button",
    "link",
    "textbox",
    "searchbox",
    "combobox",
    "checkbox",
    "image",
    "img",
    "meter",
    "table",
    "dialog",
    "navigation",
    "form",
    "search",
    "region",
    "progressbar",
    "heading",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_view_can_be_heard_seen_and_reached_by_keyboard() {
    let Some(browser) = Browser::start() else { return };
    let mut stage = Stage::on_sqlite(&pool(1, 3));
    let mut daemon = stage.lead().await;
    stage.queue_as("job that dies", &["self-hosted", "linux"], Step::Abort, 300);
    stage.queue_as("long build", &["self-hosted", "linux"], Step::Succeed, ENDLESS_JOB);
    stage.queue_as("build for windows", &["self-hosted", "windows"], Step::Succeed, 1000);
    let page = page_of(&mut daemon);
    browser.open(&format!("{page}#/deaths"));
    browser.until_shown("aborted").await;
    let dead = browser.run("return document.querySelector('.dead a').getAttribute('href')");
    let dead = dead.as_str().unwrap().to_owned();
    let views = ["#/", "#/instances", "#/jobs", "#/deaths", "#/pools/linux", &dead];
    for scheme in [Scheme::Light, Scheme::Dark] {
        browser.prefer(scheme);
        for (width, view) in [1280, 360].iter().flat_map(|width| views.map(|view| (*width, view))) {
            browser.size(width, 900);
            browser.open(&format!("{page}{view}"));
            browser.until("the view is drawn", "return document.querySelector('main h1') && !document.querySelector('main').innerText.includes('Loading')").await;
            let findings = browser.run(CHECK);
            assert_eq!(findings, json!([]), "{view} at {width} px, {scheme:?}");
            must_have_names(&browser, view);
        }
    }
    browser.size(1280, 900);
    for view in views {
        must_be_reached_by_keyboard(&browser, &format!("{page}{view}")).await;
    }
    browser.must_be_quiet();
    stage.leave();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dialog_takes_the_focus_and_gives_it_back() {
    let Some(browser) = Browser::start() else { return };
    let stage = Stage::on_sqlite(&pool(0, 1));
    let mut daemon = stage.lead().await;
    browser.open(&page_of(&mut daemon));
    browser.until_shown("linux").await;
    browser.run("document.querySelector('.pool button').focus()");
    browser.press(&["\u{e007}"]);
    browser.until("the dialog is open", "return document.getElementById('ask').open").await;
    assert_eq!(
        browser.run("return document.getElementById('ask').contains(document.activeElement)"),
        json!(true)
    );
    assert_eq!(browser.run(CHECK), json!([]));
    must_have_names(&browser, "the dialog");
    browser.press(&["\u{e00c}"]);
    browser.until("it is closed", "return !document.getElementById('ask').open").await;
    let back = "return document.activeElement === document.querySelector('.pool button')";
    assert_eq!(browser.run(back), json!(true), "the focus is lost");
}

/// A checker that cannot fail proves nothing: each rule is broken once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_check_finds_what_keeps_people_out() {
    let Some(browser) = Browser::start() else { return };
    let good = "<header>x</header><nav aria-label='n'><a href='#a'>a</a></nav><main><h1>t</h1>BODY</main><footer>f</footer>";
    for (broken, word) in [
        ("<p style='color:#999;background:#fff'>pale</p>", "contrast"),
        ("<input id=i>", "label"),
        ("<h3>too deep</h3>", "heading"),
        ("<b id=d></b><b id=d></b>", "twice"),
        ("<a href='#x' tabindex=3>first</a>", "tabindex"),
        ("<div style='width:3000px'>wide</div>", "sideways"),
        ("<main>another</main>", "main"),
        ("<img src='data:,' alt='x'><table><tr><td>1</table>", "caption"),
    ] {
        let html = good.replace("BODY", broken);
        browser.open("about:blank");
        browser.run_with(
            "document.documentElement.lang = 'en'; document.title = 't'; document.body.style.background = '#fff'; document.body.innerHTML = arguments[0]",
            &[json!(html)],
        );
        let findings = browser.run(CHECK).to_string();
        assert!(findings.contains(word), "{broken}: {findings}");
    }
    browser.run_with(
        "document.body.innerHTML = arguments[0]",
        &[json!(good.replace("BODY", "<p>fine</p>"))],
    );
    assert_eq!(browser.run(CHECK), json!([]));
}

/// Asks the browser's own accessibility tree: what has a role has a name.
fn must_have_names(browser: &Browser, view: &str) {
    let tree = browser.devtools("Accessibility.getFullAXTree", &json!({}));
    let nodes = tree["nodes"].as_array().expect("a tree");
    assert!(nodes.len() > 10, "{view}: the tree is empty");
    for node in nodes.iter().filter(|node| node["ignored"] != json!(true)) {
        let role = node["role"]["value"].as_str().unwrap_or_default();
        let name = node["name"]["value"].as_str().unwrap_or_default().trim();
        assert!(
            !NAMED.contains(&role) || !name.is_empty(),
            "{view}: a {role} without a name: {node:#}"
        );
    }
}

/// Goes through the page with the Tab key alone.
async fn must_be_reached_by_keyboard(browser: &Browser, address: &str) {
    browser.open("about:blank");
    browser.open(address);
    browser.until("the view is drawn", "return document.querySelector('main h1') && !document.querySelector('main').innerText.includes('Loading')").await;
    // What comes and goes with the news would change the count under our feet.
    let mark = "const all = [...document.querySelectorAll('a[href], button, input, select, summary, [tabindex=\"0\"]')]
        .filter(it => it.checkVisibility({ visibilityProperty: true }) && !it.disabled && !it.closest('.news, dialog:not([open])'));
        all.forEach((it, at) => it.dataset.stop = at); return all.length";
    let stops = browser.run(mark).as_u64().expect("a number");
    assert!(stops >= 6, "{address}: only {stops} things can be reached");
    browser.run("document.body.tabIndex = -1; document.body.focus(); document.body.removeAttribute('tabindex')");
    let mut reached = BTreeSet::new();
    let mut last = -1;
    for _ in 0..stops + 60 {
        browser.press(&["\u{e004}"]);
        let now = browser.run("const it = document.activeElement; const style = getComputedStyle(it);
            return [it.dataset.stop === undefined ? -1 : Number(it.dataset.stop), style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0]");
        let stop = now[0].as_i64().unwrap_or(-1);
        if stop < 0 {
            continue;
        }
        assert_eq!(
            now[1],
            Value::Bool(true),
            "{address}: stop {stop} does not show that it has the focus"
        );
        if !reached.insert(stop) {
            break;
        }
        assert!(stop > last, "{address}: the order jumps from {last} to {stop}");
        last = stop;
    }
    let missing: Vec<u64> =
        (0..stops).filter(|stop| !reached.contains(&i64::try_from(*stop).unwrap())).collect();
    // What left the page meanwhile is no stop any more: the fleet lives on while we walk.
    let names = browser.run_with(
        "return arguments[0].map(it => document.querySelector(`[data-stop=\"${it}\"]`)?.outerHTML).filter(it => it)",
        &[json!(missing)],
    );
    let is_none = names.as_array().is_some_and(Vec::is_empty);
    assert!(is_none, "{address}: the keyboard does not reach {names:#}");
}
