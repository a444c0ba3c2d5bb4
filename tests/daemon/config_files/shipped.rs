//! What ships in `config/` loads and means what it says.

use std::path::Path;
use std::time::Duration;

use ostler::config::{Config, Outside, Problems, ProviderSettings, load, plan, schema};
use ostler_actors::model::{Binding, Policy, Timestamp};
use ostler_actors::settings::{ReaperMode, Settings};

fn shipped(name: &str) -> Config {
    let loaded = load(&Path::new("config").join(name), &Outside::text_only());
    let loaded = loaded.map_err(|problems| problems.to_string()).expect(name);
    if name != "minimal.toml" {
        assert!(loaded.warnings.is_empty(), "{name} warns:\n{}", loaded.warnings);
    }
    loaded.config
}

#[test]
fn every_shipped_file_loads() {
    for name in ["minimal.toml", "example.toml", "kubernetes.toml", "process.toml", "external.toml"]
    {
        assert!(!shipped(name).pools.is_empty(), "{name} has no pool");
    }
}

#[test]
fn the_least_configuration_has_the_documented_defaults() {
    let config = shipped("minimal.toml");
    assert_eq!(config.http.listen.to_string(), "127.0.0.1:7480");
    assert_eq!(config.store.url.expose(), "sqlite://var/ostler.db");
    assert_eq!(config.store.lease, Duration::from_secs(15));
    assert_eq!(config.settings(), Settings::default());
    let spec = &config.pool_specs(Timestamp::UNIX_EPOCH)[0];
    assert_eq!(
        (spec.binding, spec.min_idle, spec.max, spec.prefix.as_str()),
        (Binding::Early, 0, 2, "linux")
    );
    let settle = spec.policy.create_settle;
    assert_eq!(spec.policy, Policy { create_settle: settle, ..Policy::default() });
    assert_eq!(settle, config.providers["local"].call_timeout());
}

#[test]
fn what_is_written_reaches_the_core() {
    let config = shipped("example.toml");
    let day = config.pool_specs("2026-11-17T09:30:00Z".parse().unwrap());
    let linux = &day[0];
    assert_eq!(
        (linux.binding, linux.min_idle, linux.max),
        (Binding::Late, 8, 10),
        "working hours in Berlin"
    );
    assert_eq!(linux.scope.to_string(), "acme", "from the defaults");
    assert_eq!(linux.machine.extra["pod"]["spec"]["nodeSelector"]["pool"], "ci");
    assert_eq!(linux.machine.extra["env"]["TZ"], "UTC");
    assert_eq!(linux.machine.extra["proxy"]["no_proxy"][1], ".svc");
    assert_eq!(linux.policy.max_lifetime, Some(Duration::from_hours(12)));
    let night = config.pool_specs("2026-11-17T20:00:00Z".parse().unwrap());
    assert_eq!(night[0].min_idle, 2);
    assert_eq!(night[0].revision, linux.revision, "an hour of the day replaces no machine");
    let vm = &shipped("external.toml").pool_specs(Timestamp::UNIX_EPOCH)[0];
    assert_eq!((vm.binding, vm.machine.flavor.as_str()), (Binding::Early, "m7i.large"));
    assert_eq!(vm.policy.create_settle, Duration::from_mins(10), "the provider's call timeout");
}

#[test]
fn the_revisions_of_shipped_files_are_those_of_every_release() {
    for (file, revisions) in [
        ("kubernetes.toml", &["f08801b10d5c", "60433045ba0e"][..]),
        ("external.toml", &["3aa55e024b46"]),
        ("process.toml", &["2b353563b98f"]),
        ("minimal.toml", &["7db17e6b2cf5"]),
    ] {
        let pools = shipped(file).pools;
        let found: Vec<&str> = pools.iter().map(|pool| pool.revision.as_str()).collect();
        assert_eq!(found, revisions, "{file}: an upgrade would replace every machine");
    }
}

#[test]
fn a_revision_changes_with_the_machine_and_with_nothing_else() {
    let text = |labels: &str, image: &str, max: u32| {
        format!(
            "[forge.g]\nkind = \"github\"\ntoken = {{ env = \"SECRET\" }}\n[provider.k]\nkind = \"kubernetes\"\n\
             [reaper]\nmode = \"shadow\"\n[[pool]]\nname = \"p\"\nforge = \"g\"\nscope = \"acme\"\nprovider = \"k\"\n\
             binding = \"early\"\nlabels = {labels}\nimage = \"{image}\"\nmax = {max}\n"
        )
    };
    let read = |labels, image, max| -> Config {
        super::load_text(text(labels, image, max).as_bytes())
            .unwrap_or_else(|problems: Problems| panic!("{problems}"))
            .config
    };
    let first = read(r#"["a", "b"]"#, "runner:1", 5);
    assert_eq!(first.settings().reaper.mode, ReaperMode::Shadow);
    let revision = |config: &Config| config.pools[0].revision.clone();
    assert_eq!(
        revision(&first).as_str(),
        "25ed6b88bce8",
        "a new release must not replace every machine"
    );
    assert_eq!(revision(&first), revision(&read(r#"["B", "a"]"#, "runner:1", 9)));
    assert_ne!(revision(&first), revision(&read(r#"["a"]"#, "runner:1", 5)));
    assert_ne!(revision(&first), revision(&read(r#"["a", "b"]"#, "runner:2", 5)));
}

#[test]
fn a_plan_says_what_drains_what_rolls_and_what_is_refused() {
    let (old, new) = (shipped("kubernetes.toml"), shipped("external.toml"));
    assert!(plan(&old, &old).is_empty());
    let lines: Vec<String> = plan(&old, &new).iter().map(ToString::to_string).collect();
    let text = lines.join("\n");
    assert!(text.contains("+ pool linux-vm: new; keeps 0 idle, at most 20 machines"), "{text}");
    assert!(text.contains("- pool linux-large: drains"), "{text}");
    assert!(
        text.contains("! provider k8s: refused while machines of pool linux, linux-large are left"),
        "{text}"
    );
    let mut moved = old.clone();
    if let Some(ProviderSettings::Kubernetes(cluster)) = moved.providers.get_mut("k8s") {
        cluster.namespace = Some("elsewhere".into());
    }
    assert!(plan(&old, &moved)[0].is_refused(), "machines would be out of sight");
    let mut rolled = old.clone();
    rolled.pools[0].image = "runner:2".into();
    rolled.pools[0].revision = "other".into();
    rolled.pools[1].max = 11;
    let lines: Vec<String> = plan(&old, &rolled).iter().map(ToString::to_string).collect();
    assert!(
        lines[0].starts_with("~ pool linux: rolls from ") && lines[0].contains("runner:2"),
        "{lines:?}"
    );
    assert_eq!(
        lines[1],
        "~ pool linux-large: takes effect at once; no machine is replaced\n    max: 10 -> 11"
    );
}

#[test]
fn the_schema_knows_every_key_and_refuses_others() {
    let schema = schema();
    assert_eq!(schema["additionalProperties"], false);
    let pool = &schema["properties"]["pool"]["items"];
    assert_eq!(pool["required"], serde_json::json!(["name", "labels"]));
    assert_eq!(pool["properties"]["idle_confirm"]["default"], "90s");
    let providers =
        schema["properties"]["provider"]["additionalProperties"]["oneOf"].as_array().unwrap();
    for kind in ["kubernetes", "process", "external"] {
        let is_shown = |it: &&serde_json::Value| it["properties"]["kind"]["const"] == kind;
        assert_eq!(providers.iter().filter(is_shown).count(), 1, "{kind}");
    }
    assert_eq!(schema["properties"]["notify"]["properties"]["on"]["items"]["enum"][0], "death");
    let text = schema.to_string();
    let example = std::fs::read_to_string("config/example.toml").expect("the example is there");
    for line in example.lines().filter(|line| !line.starts_with("# ")) {
        let Some((key, _)) = line.trim_start_matches('#').split_once(" = ") else { continue };
        assert!(text.contains(&format!("\"{key}\":{{")), "the schema does not know {key}");
    }
}
