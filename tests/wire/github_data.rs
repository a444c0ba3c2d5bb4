//! GitHub's own descriptions, which come from npm and are not kept in the tree.
//!
//! `make test` fetches the npm packages `@octokit/openapi` and `@octokit/webhooks-examples`
//! (both MIT), pinned, into the cache. Where they are missing, the tests that need them say so
//! and pass; with `OSTLER_NEED_DATA=1` they fail instead.

use std::path::PathBuf;

use serde_json::Value;

/// Returns the folder of the fetched data, if there is one.
fn folder() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache");
    cache.unwrap_or_else(home).join("ostler/data")
}

fn missing<T>(what: &str) -> Option<T> {
    assert!(
        std::env::var_os("OSTLER_NEED_DATA").is_none(),
        "{what} is not in the cache; `make data` fetches it"
    );
    crate::support::skip::say(&format!("{what} is not in the cache (make data fetches it)"));
    None
}

/// Returns GitHub's description of its REST API.
pub(super) fn openapi() -> Option<Value> {
    let path = folder().join("openapi/generated/ghec.json");
    let Ok(text) = std::fs::read(path) else { return missing("GitHub's OpenAPI description") };
    Some(serde_json::from_slice(&text).expect("a description in JSON"))
}

/// Returns real deliveries by name, `workflow_job.queued…` and `ping…`.
pub(super) fn webhook_examples() -> Option<Vec<(String, Vec<u8>)>> {
    let path = folder().join("webhooks-examples/api.github.com/index.json");
    let Ok(text) = std::fs::read(path) else { return missing("GitHub's example deliveries") };
    let all: Vec<Value> = serde_json::from_slice(&text).expect("examples in JSON");
    let mut examples = Vec::new();
    for event in all {
        let name = event["name"].as_str().unwrap_or_default().to_owned();
        if name == "ping" || name == "workflow_job" {
            for (at, example) in event["examples"].as_array().into_iter().flatten().enumerate() {
                examples.push((format!("{name}.{at}"), example.to_string().into_bytes()));
            }
        }
    }
    Some(examples)
}
