//! The figures: every name of the contract and of `config/grafana` is in a real scrape.

use std::collections::BTreeSet;
use std::path::Path;

use ostler::demo::agent::Step;

use crate::support::daemon::{Stage, pool, until};
use crate::support::http::Client;

/// The names of the contract, as a scrape spells them.
const CONTRACT: &[&str] = &[
    "ostler_instances",
    "ostler_instance_transitions_total",
    "ostler_instance_stuck",
    "ostler_create_seconds_bucket",
    "ostler_boot_seconds_bucket",
    "ostler_ready_seconds_bucket",
    "ostler_delete_seconds_bucket",
    "ostler_job_queue_seconds_bucket",
    "ostler_job_run_seconds_bucket",
    "ostler_webhook_to_create_seconds_bucket",
    "ostler_webhooks_total",
    "ostler_jobs",
    "ostler_oldest_queued_job_seconds",
    "ostler_deaths_total",
    "ostler_reaper_asks_total",
    "ostler_requeued_total",
    "ostler_stranded_seconds_bucket",
    "ostler_provider_calls_total",
    "ostler_provider_call_seconds_bucket",
    "ostler_forge_requests_total",
    "ostler_forge_rate_remaining",
    "ostler_store_commit_seconds_bucket",
    "ostler_store_batch_size_bucket",
    "ostler_webhooks_missed_total",
    "ostler_webhooks_logged_total",
    "ostler_jobs_found_by_asking_total",
    "ostler_webhook_lateness_seconds_bucket",
    "ostler_forge_clock_ahead_seconds",
    "ostler_runner_version_days_left",
    "ostler_leaks",
    "ostler_concerns",
    "ostler_invariant_violations_total",
    "ostler_config_reloads_total",
    "ostler_leader",
    "ostler_build_info",
];

/// Returns the value of a line of a scrape.
fn value(text: &str, series: &str) -> f64 {
    let rest = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    rest.and_then(|rest| rest.parse().ok()).unwrap_or(-1.0)
}

/// Returns every `ostler_…` word of a text.
fn names(text: &str) -> BTreeSet<String> {
    let in_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c: char| !in_name(c));
    words.filter(|word| word.starts_with("ostler_")).map(ToOwned::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_name_people_rely_on_is_in_a_real_scrape_and_counts() {
    let mut stage = Stage::limited(&pool(0, 2), 5_000);
    let mut daemon = stage.lead().await;
    let client = Client::new(daemon.address().expect("it listens"));
    stage.queue(Step::Succeed, 50);
    stage.queue(Step::Crash, 50);
    let scrape = || client.get("/metrics").body;
    let deaths = |text: &str, verdict: &str, fault: &str| {
        let labels = format!("pool=\"linux\",verdict=\"{verdict}\",fault=\"{fault}\"");
        value(text, &format!("ostler_deaths_total{{{labels}}}"))
    };
    until("both ends are counted", async || {
        daemon.must_live();
        let text = scrape();
        deaths(&text, "clean", "job") >= 1.0 && deaths(&text, "crashed", "runner") >= 1.0
    })
    .await;
    let moves =
        "ostler_instance_transitions_total{pool=\"linux\",from=\"deleting\",to=\"deleted\"}";
    until("both are gone", async || value(&scrape(), moves) >= 2.0).await;
    let text = scrape();
    let scraped = names(&text);
    for name in CONTRACT {
        assert!(scraped.contains(*name), "{name} is not in the scrape:\n{text}");
    }
    for file in ["dashboard.json", "alerts.yaml"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/grafana").join(file);
        let written = std::fs::read_to_string(path).expect("it is there");
        let used = names(&written);
        assert!(used.len() > 8, "{file} names nothing");
        for name in used {
            assert!(scraped.contains(&name), "{file} names `{name}`, which no scrape has");
        }
    }
    for (series, least) in [
        ("ostler_webhooks_total{forge=\"github\",outcome=\"accepted\"}", 4.0),
        ("ostler_webhook_lateness_seconds_count{forge=\"github\"}", 4.0),
        ("ostler_create_seconds_count{pool=\"linux\"}", 2.0),
        ("ostler_boot_seconds_count{pool=\"linux\"}", 2.0),
        ("ostler_ready_seconds_count{pool=\"linux\"}", 2.0),
        ("ostler_delete_seconds_count{pool=\"linux\"}", 2.0),
        ("ostler_job_queue_seconds_count{pool=\"linux\"}", 2.0),
        ("ostler_webhook_to_create_seconds_count{pool=\"linux\"}", 2.0),
        ("ostler_provider_calls_total{provider=\"local\",op=\"create\",outcome=\"ok\"}", 2.0),
        ("ostler_provider_call_seconds_count{provider=\"local\",op=\"delete\"}", 2.0),
        ("ostler_leader", 1.0),
    ] {
        assert!(value(&text, series) >= least, "{series} is {}:\n{text}", value(&text, series));
    }
    for zero in ["ostler_leaks", "ostler_invariant_violations_total"] {
        assert!(value(&text, zero).abs() < f64::EPSILON, "{zero}:\n{text}");
    }
    let stuck = value(&text, "ostler_instance_stuck{pool=\"linux\"}");
    assert!(stuck.abs() < f64::EPSILON, "zeros are explicit: {stuck}");

    // A client behind a proxy on this machine is not this machine.
    let address = client.address;
    let proxied = "GET /metrics HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-For: 192.0.2.1\r\n\
                   Connection: close\r\n\r\n";
    assert_eq!(client.raw(proxied).status, 403);
    assert_eq!(Client::new(address).get("/metrics").status, 200);
    stage.leave();
}

#[test]
fn every_alert_says_what_to_do_first() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/grafana/alerts.yaml");
    let text = std::fs::read_to_string(path).expect("it is there");
    let count =
        |what: &str| text.lines().filter(|line| line.trim_start().starts_with(what)).count();
    let alerts = count("- alert: ");
    assert!(alerts >= 10);
    assert_eq!(
        (count("first_step: "), count("summary: "), count("expr: ")),
        (alerts, alerts, alerts)
    );
}
