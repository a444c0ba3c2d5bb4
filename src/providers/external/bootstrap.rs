//! What a provider is told to make: the text on the standard input of `CreateInstance`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ostler_actors::model::{MachineSpec, Scope};
use ostler_actors::ports::CreateOrder;
use serde::Serialize;
use serde_json::{Map, Value};

use super::settings::ExternalSettings;
use super::wrapper::{self, Home, KEY};
use crate::ports::Release;

/// The platforms there are runners for, in GitHub's words.
const PLATFORMS: &[(&str, &str)] = &[
    ("linux", "x64"),
    ("linux", "arm64"),
    ("linux", "arm"),
    ("win", "x64"),
    ("win", "arm64"),
    ("osx", "x64"),
    ("osx", "arm64"),
];

/// Is what a provider reads; names and spelling are GARM's.
#[derive(Debug, Serialize)]
pub(super) struct Bootstrap {
    name: String,
    tools: Vec<Tool>,
    repo_url: String,
    #[serde(rename = "callback-url")]
    callback_url: String,
    #[serde(rename = "metadata-url")]
    metadata_url: String,
    #[serde(rename = "instance-token")]
    instance_token: String,
    #[serde(rename = "ssh-keys")]
    ssh_keys: Option<Vec<String>>,
    pub(super) extra_specs: Value,
    #[serde(rename = "github-runner-group")]
    runner_group: String,
    #[serde(rename = "ca-cert-bundle")]
    ca_cert_bundle: Option<String>,
    arch: &'static str,
    os_type: &'static str,
    flavor: String,
    image: String,
    labels: Option<Vec<String>>,
    pool_id: String,
    user_data_options: UserData,
    jit_config_enabled: bool,
    proxy_config: Proxies,
}

#[derive(Debug, Serialize)]
struct Tool {
    os: &'static str,
    architecture: &'static str,
    download_url: String,
    filename: String,
}

#[derive(Debug, Default, Serialize)]
struct UserData {
    disable_updates_on_boot: bool,
    extra_packages: Option<Vec<String>>,
    enable_boot_debug: bool,
}

#[derive(Debug, Default, Serialize)]
struct Proxies {
    #[serde(rename = "http_proxy")]
    http: String,
    #[serde(rename = "https_proxy")]
    https: String,
    #[serde(rename = "no_proxy")]
    none: String,
}

impl Bootstrap {
    /// Returns what an order says to a provider.
    pub(super) fn of(
        order: &CreateOrder,
        pool_id: &str,
        token: &str,
        settings: &ExternalSettings,
    ) -> Self {
        let machine = &order.machine;
        let home = Home::of(&settings.home, token, &machine.extra);
        Self {
            name: order.name.to_string(),
            tools: tools(&settings.release),
            repo_url: repo_url(settings, order),
            callback_url: home.callbacks(),
            metadata_url: home.metadata(),
            instance_token: token.to_owned(),
            ssh_keys: None,
            extra_specs: specs(machine, &home),
            runner_group: order.pool.runner_group.clone(),
            ca_cert_bundle: machine
                .extra
                .get("ca")
                .and_then(Value::as_str)
                .map(|pem| STANDARD.encode(pem)),
            arch: arch(&machine.arch),
            os_type: os_type(&machine.os),
            flavor: machine.flavor.clone(),
            image: machine.image.clone(),
            labels: None,
            pool_id: pool_id.to_owned(),
            user_data_options: UserData::default(),
            jit_config_enabled: true,
            proxy_config: Proxies {
                http: home.proxy("http"),
                https: home.proxy("https"),
                none: home.no_proxy(),
            },
        }
    }
}

fn tools(release: &Release) -> Vec<Tool> {
    let tool = |(os, arch): &(&'static str, &'static str)| Tool {
        os,
        architecture: arch,
        download_url: release.url(os, arch),
        filename: release.filename(os, arch),
    };
    PLATFORMS.iter().map(tool).collect()
}

fn repo_url(settings: &ExternalSettings, order: &CreateOrder) -> String {
    let web = settings.forges.get(&order.pool.forge).map_or("https://github.com", String::as_str);
    match &order.pool.scope {
        scope @ (Scope::Repository { .. } | Scope::Organization(_)) => format!("{web}/{scope}"),
        Scope::Enterprise(slug) => format!("{web}/enterprises/{slug}"),
    }
}

/// Returns the pool's specs with our script in them. Who brings a script of his own keeps it; specs
/// that are no object are passed on as they are.
fn specs(machine: &MachineSpec, home: &Home) -> Value {
    let written = machine.extra.get("extra_specs").cloned();
    let mut specs = written.unwrap_or_else(|| Value::Object(Map::new()));
    if let Some(specs) = specs.as_object_mut().filter(|specs| !specs.contains_key(KEY)) {
        let script = wrapper::script(&machine.os, home);
        specs.insert(KEY.into(), STANDARD.encode(script).into());
    }
    specs
}

fn arch(ours: &str) -> &'static str {
    match ours {
        "arm64" => "arm64",
        "arm" => "arm",
        "x86" | "i386" => "i386",
        _ => "amd64",
    }
}

fn os_type(ours: &str) -> &'static str {
    match ours {
        "linux" => "linux",
        "windows" => "windows",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ostler_actors::model::Stamp;
    use ostler_actors::testing::pool;
    use serde_json::json;

    use super::*;
    use crate::providers::external::state::tests::settings;

    fn order(extra: Value) -> CreateOrder {
        let mut spec = pool("linux", "vm", 4);
        spec.forge = "github".into();
        spec.scope = Scope::Repository { owner: "acme".into(), name: "web".into() };
        let machine = MachineSpec {
            image: "ami-1".into(),
            flavor: "large".into(),
            os: "linux".into(),
            arch: "x64".into(),
            extra,
        };
        CreateOrder {
            name: "linux-1".into(),
            stamp: Stamp::default(),
            machine,
            pool: Arc::new(spec),
            avoid: vec![],
            attempt: 1,
            jit: None,
            slot: ostler_actors::ports::CreateSlot::default(),
        }
    }

    fn said(extra: Value) -> Value {
        let settings = settings("/opt/provider");
        serde_json::to_value(Bootstrap::of(&order(extra), "p-uuid", "v1.token", &settings)).unwrap()
    }

    #[test]
    fn every_name_is_spelt_as_providers_expect_it() {
        let said = said(json!({ "ca": "PEM", "proxy": { "http": "http://p:1", "https": null,
            "no_proxy": ["a", "b"] } }));
        let mut names: Vec<&str> = said.as_object().unwrap().keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            [
                "arch",
                "ca-cert-bundle",
                "callback-url",
                "extra_specs",
                "flavor",
                "github-runner-group",
                "image",
                "instance-token",
                "jit_config_enabled",
                "labels",
                "metadata-url",
                "name",
                "os_type",
                "pool_id",
                "proxy_config",
                "repo_url",
                "ssh-keys",
                "tools",
                "user_data_options",
            ]
        );
        assert_eq!(said["arch"], "amd64");
        assert_eq!(said["repo_url"], "https://github.com/acme/web");
        assert_eq!(said["callback-url"], "https://ci.example.com/runner/v1/callbacks");
        assert_eq!(said["metadata-url"], "https://ci.example.com/runner/v1/metadata");
        assert_eq!(said["ca-cert-bundle"], STANDARD.encode("PEM"));
        assert_eq!(
            said["proxy_config"],
            json!({ "http_proxy": "http://p:1", "https_proxy": "", "no_proxy": "a,b" })
        );
        assert_eq!(said["tools"].as_array().unwrap().len(), PLATFORMS.len());
        assert_eq!(said["jit_config_enabled"], true);
    }

    #[test]
    fn our_script_rides_in_the_specs_and_no_template_language_finds_work_in_it() {
        for os in ["linux", "windows"] {
            let mut order = order(json!({ "extra_specs": { "disk": 1 } }));
            order.machine.os = os.into();
            let said = Bootstrap::of(&order, "p", "v1.token", &settings("/opt/provider"));
            assert_eq!(said.extra_specs["disk"], 1);
            let script = STANDARD.decode(said.extra_specs[KEY].as_str().unwrap()).unwrap();
            let script = String::from_utf8(script).unwrap();
            assert!(!script.contains("{{"), "providers render it as a template");
            assert!(script.contains("v1.token") && script.contains("/install-script"));
        }
    }

    #[test]
    fn who_brings_a_script_or_no_object_keeps_it() {
        let own = json!({ "extra_specs": { "runner_install_template": "b3du" } });
        assert_eq!(said(own)["extra_specs"]["runner_install_template"], "b3du");
        assert_eq!(said(json!({ "extra_specs": null }))["extra_specs"], Value::Null);
    }
}
