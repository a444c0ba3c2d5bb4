//! What a scrape looks like before anything has happened.

use std::collections::BTreeMap;

use super::*;

#[test]
fn known_pools_forges_and_providers_have_explicit_zeros() {
    let metrics = Metrics::default();
    metrics.know_pool("linux");
    metrics.know_forge("github");
    metrics.know_provider("local");
    let pools = BTreeMap::from([("linux".to_owned(), BoardPool::default())]);
    let text = metrics.written(&Board { pools, ..Board::default() });
    for line in [
        r#"ostler_instances{pool="linux",state="idle"} 0"#,
        r#"ostler_jobs{pool="linux",state="queued"} 0"#,
        r#"ostler_instance_stuck{pool="linux"} 0"#,
        r#"ostler_oldest_queued_job_seconds{pool="linux"} 0.0"#,
        r#"ostler_create_seconds_count{pool="linux"} 0"#,
        r#"ostler_deaths_total{pool="linux",verdict="host_oom",fault="host"} 0"#,
        r#"ostler_webhooks_total{forge="github",outcome="bad_signature"} 0"#,
        r#"ostler_provider_calls_total{provider="local",op="create",outcome="failed"} 0"#,
        r#"ostler_config_reloads_total{outcome="refused"} 0"#,
        "ostler_leaks 0",
        "ostler_leader 0",
        "ostler_invariant_violations_total 0",
        "ostler_store_batch_size_count 0",
    ] {
        assert!(text.lines().any(|it| it == line), "{line}\n{text}");
    }
    assert!(text.contains("ostler_build_info{version="), "{text}");
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn how_well_webhooks_arrive_is_shown() {
    use crate::ports::{EndingVersion, ForgeFigures, Lateness, WebhookFigures};
    let now = jiff::Timestamp::from_second(1_000_000).unwrap();
    let lateness = Lateness { at_most: [1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2], count: 3, sum: 90_000.5 };
    let webhooks =
        WebhookFigures { deliveries: 3, logged: 10, missed: 2, found_by_asking: 1, lateness };
    let ends_at = jiff::Timestamp::from_second(1_000_000 + 3 * 86_400 + 60).unwrap();
    let ending = vec![EndingVersion { version: "2.300.0".into(), ends_at }];
    let figures =
        ForgeFigures { webhooks, ending, clock_ahead_seconds: -7, ..ForgeFigures::default() };
    let quiet = ForgeFigures::default();
    let forges = BTreeMap::from([("github".to_owned(), figures), ("ghes".to_owned(), quiet)]);
    let text = Metrics::default().written(&Board { forges, now, ..Board::default() });
    for line in [
        r#"ostler_webhooks_missed_total{forge="github"} 2"#,
        r#"ostler_webhooks_missed_total{forge="ghes"} 0"#,
        r#"ostler_webhooks_logged_total{forge="github"} 10"#,
        r#"ostler_jobs_found_by_asking_total{forge="github"} 1"#,
        r#"ostler_webhook_lateness_seconds_count{forge="github"} 3"#,
        r#"ostler_webhook_lateness_seconds_sum{forge="github"} 90000.5"#,
        r#"ostler_webhook_lateness_seconds_bucket{le="0.5",forge="github"} 1"#,
        r#"ostler_webhook_lateness_seconds_bucket{le="5.0",forge="github"} 2"#,
        r#"ostler_webhook_lateness_seconds_bucket{le="21600.0",forge="github"} 2"#,
        r#"ostler_webhook_lateness_seconds_bucket{le="+Inf",forge="github"} 3"#,
        r#"ostler_webhook_lateness_seconds_bucket{le="+Inf",forge="ghes"} 0"#,
        r#"ostler_forge_clock_ahead_seconds{forge="github"} -7"#,
        r#"ostler_runner_version_days_left{forge="github"} 3"#,
        r#"ostler_runner_version_days_left{forge="ghes"} 999"#,
    ] {
        assert!(text.lines().any(|it| it == line), "{line}\n{text}");
    }
}

#[test]
fn calls_and_commits_raise_their_figures() {
    let metrics = Metrics::default();
    metrics.count_call("local", "create", "refused", Duration::from_millis(30));
    metrics.count_commit(7, Duration::from_millis(2));
    metrics.count_webhook("github", "accepted");
    let text = metrics.written(&Board::default());
    for line in [
        r#"ostler_provider_calls_total{provider="local",op="create",outcome="refused"} 1"#,
        r#"ostler_provider_call_seconds_bucket{le="0.05",provider="local",op="create"} 1"#,
        "ostler_store_batch_size_sum 7.0",
        r#"ostler_webhooks_total{forge="github",outcome="accepted"} 1"#,
    ] {
        assert!(text.lines().any(|it| it == line), "{line}\n{text}");
    }
}
