//! What an operator does on the page: watch, filter, read a death, drain and resume.

use ostler::demo::agent::Step;
use serde_json::json;

use super::{VIEWPORTS, page_of, until_figure};
use crate::support::browser::Browser;
use crate::support::daemon::{ENDLESS_JOB, LONG_JOB, Stage, pool};

const LINUX_LABELS: [&str; 2] = ["self-hosted", "linux"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_change_without_a_reload_while_jobs_run() {
    let Some(browser) = Browser::start() else { return };
    let mut stage = Stage::on_sqlite(&pool(1, 4));
    let mut daemon = stage.lead().await;
    browser.open(&page_of(&mut daemon));
    until_figure(&browser, "1 idle").await;
    browser.run("window.loadedOnce = 'yes'");
    let jobs = [1, 2].map(|number| {
        stage.queue_as(&format!("build {number}"), &LINUX_LABELS, Step::Succeed, LONG_JOB)
    });
    until_figure(&browser, "2 busy").await;
    browser
        .until(
            "the recent events show it",
            "return document.querySelectorAll('.news li').length > 3",
        )
        .await;
    stage.until_at_work(&jobs).await;
    browser.run("document.querySelector('.pool button').focus()");
    stage.until_all_jobs_are_over(&mut daemon).await;
    browser
        .until(
            "no instance is busy",
            "return !document.querySelector('.pool .counts').textContent.includes('busy')",
        )
        .await;
    assert_eq!(browser.run("return window.loadedOnce"), json!("yes"), "the page was loaded again");
    let focus = "return document.activeElement === document.querySelector('.pool button')";
    assert_eq!(browser.run(focus), json!(true), "an update took the focus away");
    browser.must_be_quiet();
    stage.leave();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_is_drained_and_resumed_after_a_confirmation() {
    let Some(browser) = Browser::start() else { return };
    let mut stage = Stage::on_sqlite(&pool(1, 2));
    let mut daemon = stage.lead().await;
    browser.open(&page_of(&mut daemon));
    until_figure(&browser, "1 idle").await;

    browser.click(".pool button");
    browser.until_shown("Drain linux?").await;
    browser.press(&["\u{e00c}"]);
    browser.until("escape closes", "return !document.getElementById('ask').open").await;
    assert!(!browser.text().contains("draining"), "a click is not enough");

    browser.click(".pool button");
    browser.click("#ask-yes");
    browser.until_shown("draining").await;
    until_figure(&browser, "no instances").await;
    browser
        .until(
            "the button offers the way back",
            "return document.querySelector('.pool button').textContent === 'Resume'",
        )
        .await;
    browser.click(".pool button");
    browser.until_shown("Resume linux?").await;
    browser.click("#ask-yes");
    until_figure(&browser, "1 idle").await;
    browser
        .until("nothing is said of draining", "return !document.querySelector('.pool .mark')")
        .await;
    browser.must_be_quiet();
    stage.leave();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_is_deleted_after_a_confirmation_and_its_timeline_says_why() {
    let Some(browser) = Browser::start() else { return };
    let mut stage = Stage::on_sqlite(&pool(1, 1));
    let mut daemon = stage.lead().await;
    browser.open(&format!("{}#/instances?state=idle", page_of(&mut daemon)));
    browser
        .until("one is idle", "return document.querySelectorAll('tbody tr a').length === 1")
        .await;
    let name = browser.run("return document.querySelector('tbody tr a').textContent");
    let name = name.as_str().expect("a name").to_owned();
    browser.click("tbody tr a");
    browser.until_shown("is ready and has no job").await;
    browser.click("main button.danger");
    browser.until_shown(&format!("Delete {name}?")).await;
    browser.click("#ask-no");
    browser.until("it is asked no more", "return !document.getElementById('ask').open").await;
    assert!(stage.machines().contains(&name), "no is no");

    browser.click("main button.danger");
    // Force needs a reason: the form does not go without one.
    browser.click("#ask-force");
    browser.click("#ask-yes");
    assert_eq!(browser.run("return document.getElementById('ask').open"), json!(true));
    browser.click("#ask-force");
    browser.type_into("#ask-why", "it <b>looks</b> odd");
    browser.click("#ask-yes");
    browser.until_shown(": it <b>looks</b> odd").await;
    browser
        .until("it is gone", "return Boolean(document.querySelector('.badge[data-state=deleted]'))")
        .await;
    browser
        .until(
            "nothing is left to delete",
            "return document.querySelector('main button.danger').hidden",
        )
        .await;
    assert!(!stage.machines().contains(&name));
    browser.must_be_quiet();
    stage.leave();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_death_is_found_by_its_cause_and_shows_timeline_verdict_and_log() {
    let Some(browser) = Browser::start() else { return };
    let mut stage = Stage::on_sqlite(&pool(0, 2));
    let mut daemon = stage.lead().await;
    stage.queue_as("job that fills the disk", &LINUX_LABELS, Step::Abort, 500);
    let page = page_of(&mut daemon);
    browser.open(&format!("{page}#/deaths"));
    browser.until_shown("aborted").await;
    browser.click("summary");
    browser.click(".dead a");
    browser.until_shown("No space left on device").await;
    browser.until_shown("Running job: job that fills the disk").await;
    browser.until_shown("free disk space").await;
    browser.until_shown("exit code 134").await;
    // The life is a picture, with a bar for each state it was in, and told to those who cannot see.
    browser
        .until(
            "it is gone",
            "return Boolean(document.querySelector('.life rect[data-state=deleted]'))",
        )
        .await;
    let bars = browser
        .run("return [...document.querySelectorAll('.life rect.bar')].map(it => it.dataset.state)");
    for state in ["creating", "busy", "ended", "deleting", "deleted"] {
        assert!(bars.as_array().unwrap().contains(&json!(state)), "{bars}");
    }
    let told = browser.run("return document.querySelector('.life').getAttribute('aria-label')");
    assert!(told.as_str().unwrap().contains("busy for"), "{told}");
    browser.must_be_quiet();
    for (width, scheme, word) in VIEWPORTS {
        browser.size(width, 900);
        browser.prefer(scheme);
        browser.until("it is drawn to fit", "return document.querySelector('.life').clientWidth <= document.querySelector('.picture').clientWidth").await;
        browser.picture(&format!("death-{width}-{word}"));
    }
    stage.leave();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_are_filtered_by_pool_state_and_name() {
    let Some(browser) = Browser::start() else { return };
    let other = "[[pool]]\nname = \"other\"\nlabels = [\"other\"]\nmin_idle = 1\nmax = 2\n";
    let mut stage = Stage::on_sqlite(&format!("{}{other}", pool(2, 3)));
    let mut daemon = stage.lead().await;
    browser.open(&format!("{}#/instances", page_of(&mut daemon)));
    let rows =
        |number: usize| format!("return document.querySelectorAll('tbody tr').length === {number}");
    browser.until("three are idle", &rows(3)).await;
    browser.until_shown("3 of 3 shown").await;
    browser.run("const it = document.getElementById('f-pool'); it.value = 'other'; it.dispatchEvent(new Event('change'))");
    browser.until("one is left", &rows(1)).await;
    assert!(browser.address().ends_with("#/instances?pool=other"), "{}", browser.address());
    browser.run("const it = document.getElementById('f-pool'); it.value = ''; it.dispatchEvent(new Event('change'))");
    browser.type_into("#f-text", "LINUX-");
    browser.until("two are left", &rows(2)).await;
    browser.type_into("#f-text", "no-such-name");
    browser.until_shown("No matching instances.").await;
    browser.type_into("#f-text", "");
    browser.run("const it = document.getElementById('f-text'); it.value = ''; it.dispatchEvent(new Event('input'))");
    browser.until("all are back", &rows(3)).await;
    browser.until("they are idle", "return [...document.querySelectorAll('tbody .badge')].every(it => it.dataset.state === 'idle')").await;
    browser.run("const it = document.getElementById('f-state'); it.value = 'busy'; it.dispatchEvent(new Event('change'))");
    browser.until_shown("No matching instances.").await;
    browser.must_be_quiet();
    stage.leave();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_job_says_why_and_pictures_are_kept_of_every_view() {
    let Some(browser) = Browser::start() else { return };
    let mut stage = Stage::on_sqlite(&pool(1, 1));
    let mut daemon = stage.lead().await;
    stage.queue_as("long build", &LINUX_LABELS, Step::Succeed, ENDLESS_JOB);
    stage.queue_as("build that waits", &LINUX_LABELS, Step::Succeed, 1000);
    stage.queue_as("build for windows", &["self-hosted", "windows"], Step::Succeed, 1000);
    let page = page_of(&mut daemon);
    browser.open(&format!("{page}#/jobs"));
    browser.until_shown("build that waits").await;
    browser
        .until(
            "it says why",
            "return [...document.querySelectorAll('.why')].some(it => it.textContent.length > 20)",
        )
        .await;
    browser.until_shown("build for windows").await;
    for (width, scheme, word) in VIEWPORTS {
        browser.size(width, 900);
        browser.prefer(scheme);
        for (view, name, shown) in [
            ("", "fleet", "linux"),
            ("instances", "instances", "linux-"),
            ("jobs", "jobs", "build that waits"),
            ("deaths", "deaths", "Deaths"),
            ("pools/linux", "pool", "Explanation"),
        ] {
            browser.open(&format!("{page}#/{view}"));
            browser.until(shown, &format!("return document.querySelector('main').innerText.toLowerCase().includes({})", json!(shown.to_lowercase()))).await;
            let wide = browser.run("return document.documentElement.scrollWidth > document.documentElement.clientWidth");
            assert_eq!(wide, json!(false), "{name} scrolls sideways at {width} px");
            browser.picture(&format!("{name}-{width}-{word}"));
        }
    }
    browser.must_be_quiet();
    stage.leave();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_instances_do_not_freeze_the_page() {
    let Some(browser) = Browser::start() else { return };
    let stage = Stage::on_sqlite(&pool(0, 1));
    let mut daemon = stage.lead().await;
    // The daemon has none; its answers are filled up on their way to the page.
    let crowd = r"
        const states = ['idle', 'busy', 'starting', 'retiring'];
        const all = Array.from({ length: 10000 }, (_, at) => ({ name: `linux-${at}`, pool: 'linux', state: states[at % 4],
          since: '2026-01-01T00:00:00Z', host: `node-${at % 97}`, job: null, offered_job: null, runner: null, stuck: false, owned: true, removal: null }));
        const real = window.fetch;
        window.fetch = async (...given) => {
          const url = new URL(given[0], location.href);
          if (url.pathname !== '/api/v1/instances') {
            const answer = await real(...given);
            if (url.pathname !== '/api/v1/fleet') return answer;
            const fleet = await answer.json();
            fleet.instances.total = 10000;
            return new Response(JSON.stringify(fleet), { headers: { 'Content-Type': 'application/json' } });
          }
          const [from, size] = [Number(url.searchParams.get('cursor') ?? 0), Number(url.searchParams.get('limit'))];
          window.asked.push(size);
          const fitting = all.filter((it) => it.name.includes(url.searchParams.get('q') ?? ''));
          const next = from + size < fitting.length ? String(from + size) : null;
          return new Response(JSON.stringify({ items: fitting.slice(from, from + size), next_cursor: next }), { headers: { 'Content-Type': 'application/json' } });
        };
        window.asked = [];";
    browser.devtools("Page.addScriptToEvaluateOnNewDocument", &json!({ "source": crowd }));
    browser.open(&format!("{}#/instances", page_of(&mut daemon)));
    browser.until_shown("100 of 10000 shown").await;
    let rows = || browser.run("return document.querySelectorAll('tbody tr').length");
    assert_eq!(rows(), json!(100));
    browser.click(".pages button:last-child");
    browser.until_shown("linux-100").await;
    browser.type_into("#f-text", "linux-9999");
    browser.until_shown("1 shown, 10000 in total").await;
    assert_eq!(rows(), json!(1));
    // How long it took depends on the machine; what it never asks for cannot freeze the page.
    let most = browser.run("return Math.max(...window.asked)");
    assert_eq!(most, json!(100), "the most that was asked for at once");
    browser.must_be_quiet();
}

#[test]
fn the_page_is_small_and_loads_nothing_from_elsewhere() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http/page");
    let mut size = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        size += text.len();
        let text = text.replace("http://www.w3.org/2000/svg", "");
        let elsewhere = text.lines().find(|line| {
            ["src=\"http", "href=\"http", "url(http", "@import", "innerHTML", "eval(", " style=\""]
                .iter()
                .any(|word| line.contains(word))
        });
        assert_eq!(elsewhere, None, "{}", path.display());
    }
    assert!(size < 100_000, "the page has {size} bytes");
}
