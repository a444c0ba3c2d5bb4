//! The chart renders what the plain manifests say, and the server takes it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ostler::config::{Outside, load};
use serde_json::{Value, json};

use super::fixture::Fixture;
use crate::support::cluster::documents;

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/config/helm");
/// The manifests that a chart can hold; its namespace is there before it.
const PLAIN: [&str; 4] = ["rbac.yaml", "network.yaml", "disruption.yaml", "daemon.yaml"];

/// Finds helm: that of `make helm`, or the machine's own.
fn helm() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let own = cache.map(|cache| cache.join("ostler/tools/helm/bin/helm")).unwrap_or_default();
    let found = [own, PathBuf::from("helm")].into_iter().find(|helm| {
        Command::new(helm).arg("version").output().is_ok_and(|out| out.status.success())
    });
    if found.is_none() {
        crate::support::skip::say(
            "the chart is not rendered, there is no helm (make helm fetches it)",
        );
    }
    found
}

/// Renders the chart into a namespace.
fn rendered(helm: &Path, namespace: &str, more: &[&str]) -> Vec<Value> {
    let mut command = Command::new(helm);
    command.args(["template", "ostler", CHART, "--namespace", namespace]).args(more);
    let out = command.output().expect("helm starts");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    documents(&String::from_utf8_lossy(&out.stdout))
}

fn by_name(objects: Vec<Value>) -> BTreeMap<String, Value> {
    let key = |it: &Value| format!("{} {}", it["kind"], it["metadata"]["name"]);
    objects.into_iter().map(|object| (key(&object), object)).collect()
}

#[test]
fn the_chart_as_shipped_is_the_plain_manifests() {
    let Some(helm) = helm() else { return };
    let plain = |file: &&str| {
        let path = Path::new(CHART).join("../kubernetes").join(file);
        // Two releases share a cluster, so what is of the whole cluster is named by namespace.
        let text = fs::read_to_string(path).unwrap();
        documents(&text.replace("name: ostler-cluster", "name: ostler-cluster-ostler"))
    };
    let wanted = by_name(PLAIN.iter().flat_map(plain).collect());
    assert_eq!(by_name(rendered(&helm, "ostler", &[])), wanted);
}

#[test]
fn what_the_chart_leaves_out_is_left_out() {
    let Some(helm) = helm() else { return };
    let all = rendered(&helm, "ostler", &[]).len();
    let off = ["--set", "network.enabled=false,disruptionBudget=false"];
    let left = rendered(&helm, "ostler", &off);
    assert_eq!(left.len(), all - 2);
    assert!(
        left.iter().all(|it| it["kind"] != "NetworkPolicy" && it["kind"] != "PodDisruptionBudget")
    );
}

#[test]
fn the_configuration_in_the_chart_loads_in_any_namespace() {
    let Some(helm) = helm() else { return };
    let set = ["--set", "image=registry.example.com/ostler:0.1.0"];
    let objects = by_name(rendered(&helm, "runners", &set));
    let text = objects["\"ConfigMap\" \"ostler\""]["data"]["ostler.toml"].as_str().unwrap();
    assert!(text.contains("http://ostler.runners.svc:7481"), "{text}");
    assert!(text.contains("poller_image = \"registry.example.com/ostler:0.1.0\""), "{text}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ostler.toml");
    fs::write(&file, text).unwrap();
    let loaded = load(&file, &Outside::text_only()).map_err(|problems| problems.to_string());
    assert_eq!(loaded.unwrap().config.pools.len(), 1);
}

#[tokio::test]
async fn the_server_takes_what_the_chart_renders() {
    let Some(helm) = helm() else { return };
    let Some(fixture) = Fixture::open().await else { return };
    for object in rendered(&helm, &fixture.place.namespace, &[]) {
        // The server of the tests has no policy/v1.
        if object["kind"] != "PodDisruptionBudget" {
            fixture.place.apply_object(object).await;
        }
    }
}

#[test]
fn every_value_of_the_chart_is_used_and_every_use_has_a_value() {
    let read = |file: &str| fs::read_to_string(Path::new(CHART).join(file)).unwrap();
    let chart: Value = serde_saphyr::from_str(&read("Chart.yaml")).unwrap();
    for key in ["version", "appVersion"] {
        assert_eq!(chart[key], json!(env!("CARGO_PKG_VERSION")), "{key}");
    }
    let values: Value = serde_saphyr::from_str(&read("values.yaml")).unwrap();
    let mut text = read("values.yaml");
    let folder = fs::read_dir(Path::new(CHART).join("templates")).unwrap();
    for file in folder.map(|entry| entry.unwrap().path()) {
        text.push_str(&fs::read_to_string(file).unwrap());
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '_';
    let used: BTreeSet<String> = text
        .split(".Values.")
        .skip(1)
        .map(|rest| rest.chars().take_while(|c| is_part(*c)).collect::<String>())
        .collect();
    for path in &used {
        let pointer = format!("/{}", path.replace('.', "/"));
        assert!(values.pointer(&pointer).is_some(), "values.yaml has no `{path}`");
    }
    for key in values.as_object().unwrap().keys() {
        let is_used = used.iter().any(|path| path.split('.').next() == Some(key));
        assert!(is_used, "no template uses the value `{key}`");
    }
    let image = values["image"].as_str().unwrap();
    assert_eq!(image, format!("ostler:{}", env!("CARGO_PKG_VERSION")), "the image of this version");
}
