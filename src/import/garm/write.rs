//! Writes the configuration, and says what it could not take over.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::Value;

use super::providers::GarmProvider;
use super::survey::{Credential, GarmPool, Survey, number, text};

/// Holds a configuration and what is missing in it.
#[derive(Clone, Debug)]
pub struct Written {
    pub toml: String,
    /// What an operator must fill in, and what has no equivalent; a sentence each.
    pub remarks: Vec<String>,
}

/// Writes what was found as a configuration.
pub fn write(survey: &Survey, providers: &[GarmProvider]) -> Written {
    let mut remarks = Vec::new();
    let mut out = String::from(
        "# Written by `ostler import garm`. Secrets are named, not copied: set the variables.\n\
         # `ostler check` says what is missing; GARM must be drained before this daemon runs.\n\n",
    );
    let public = survey.public_url.clone().unwrap_or_else(|| {
        remarks.push(
            "http.public_url: GARM does not tell its own; write where machines reach you".into(),
        );
        "https://ostler.example.com".into()
    });
    let _: Result<(), _> = writeln!(
        out,
        "[http]\nlisten = \"127.0.0.1:7480\"\npublic_listen = \"0.0.0.0:7481\"\npublic_url = {}\n",
        quoted(&public)
    );
    let forges = forges(&mut out, survey, &mut remarks);
    let used: BTreeSet<&str> =
        survey.pools.iter().filter_map(|pool| text(&pool.row, &["provider_name"])).collect();
    for name in used {
        let known = providers.iter().find(|provider| provider.name == name);
        provider(&mut out, name, known, &mut remarks);
    }
    let mut taken = BTreeSet::new();
    for found in &survey.pools {
        match forges.get(&found.endpoint) {
            Some(forge) => pool(&mut out, found, forge, &mut taken, &mut remarks),
            None => remarks.push(format!(
                "a pool of {}: its endpoint `{}` is not GitHub",
                found.scope, found.endpoint
            )),
        }
    }
    remarks.extend(survey.lost.iter().cloned());
    Written { toml: out, remarks }
}

/// Writes the forges that pools use; returns their names by endpoint.
fn forges(
    out: &mut String,
    survey: &Survey,
    remarks: &mut Vec<String>,
) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    let used: BTreeSet<&String> = survey.pools.iter().map(|pool| &pool.endpoint).collect();
    for endpoint in used {
        let known = survey.endpoints.get(endpoint);
        if known.is_some_and(|it| it.gitea) {
            continue;
        }
        let name = label(endpoint.strip_suffix(".com").unwrap_or(endpoint), "github");
        let api_url = known.map_or("https://api.github.com", |it| it.api_url.as_str());
        let variable = upper(&name);
        let _: Result<(), _> = writeln!(
            out,
            "[forge.{name}]\nkind = \"github\"\napi_url = {}\n\
             webhook_secret = {{ env = \"{variable}_WEBHOOK_SECRET\" }}\n",
            quoted(api_url)
        );
        remarks.push(format!(
            "set {variable}_WEBHOOK_SECRET: GARM has a secret for each entity, a forge here has one \
             (`ostler hook install` puts it in place)"
        ));
        let ours = survey.credentials.iter().filter(|(_, it)| it.endpoint == *endpoint);
        for (credential, it) in ours {
            self::credential(out, &name, credential, it, remarks);
        }
        names.insert(endpoint.clone(), name);
    }
    names
}

fn credential(
    out: &mut String,
    forge: &str,
    name: &str,
    it: &Credential,
    remarks: &mut Vec<String>,
) {
    if it.scopes.is_empty() {
        remarks.push(format!("credential `{name}` is used by nothing and left out"));
        return;
    }
    let (name, variable) = (label(name, "credential"), upper(name));
    let scopes: Vec<String> = it.scopes.iter().map(|scope| quoted(scope)).collect();
    let auth = if it.app {
        remarks.push(format!(
            "set client_id of credential `{name}` and put its key into {name}.pem: GARM keeps both sealed"
        ));
        format!(
            "app = {{ client_id = \"Iv1.FILL-ME-IN\", private_key = {{ file = \"{name}.pem\" }} }}"
        )
    } else {
        remarks.push(format!("set {variable}_TOKEN to the token of credential `{name}`"));
        format!("token = {{ env = \"{variable}_TOKEN\" }}")
    };
    let _: Result<(), _> = writeln!(
        out,
        "[[forge.{forge}.credential]]\nname = \"{name}\"\nscopes = [{}]\n{auth}\n",
        scopes.join(", ")
    );
}

fn provider(out: &mut String, name: &str, known: Option<&GarmProvider>, remarks: &mut Vec<String>) {
    let section = label(name, "provider");
    let _: Result<(), _> = writeln!(out, "[provider.{section}]\nkind = \"external\"");
    let mut add = |key: &str, value: String| {
        let _: Result<(), _> = writeln!(out, "{key} = {value}");
    };
    if let Some(it) = known {
        add("executable", quoted(&it.executable.display().to_string()));
        if let Some(file) = &it.config_file {
            add("config_file", quoted(file));
        }
        if let Some(interface) = &it.interface {
            add("interface", quoted(interface));
        }
        if !it.pass_env.is_empty() {
            add("pass_env", list(&it.pass_env));
        }
    } else {
        add("executable", quoted(&format!("/opt/garm/providers.d/garm-provider-{section}")));
        remarks.push(format!(
            "provider `{name}`: set executable and config_file, or give GARM's config.toml with --garm-config"
        ));
    }
    out.push('\n');
}

fn pool(
    out: &mut String,
    found: &GarmPool,
    forge: &str,
    taken: &mut BTreeSet<String>,
    remarks: &mut Vec<String>,
) {
    let row = &found.row;
    let prefix = text(row, &["runner_prefix"]).unwrap_or("garm");
    let name = name_for(found, prefix, taken);
    let mut add = |key: &str, value: String| {
        let _: Result<(), _> = writeln!(out, "{key} = {value}");
    };
    add("\n[[pool]]\nname", quoted(&name));
    add("forge", quoted(forge));
    add("scope", quoted(&found.scope));
    add("provider", quoted(&label(text(row, &["provider_name"]).unwrap_or("garm"), "provider")));
    add("labels", list(&found.labels));
    add("prefix", quoted(&label(prefix, "garm")));
    let max = number(row, "max_runners").unwrap_or(1).max(0);
    let enabled = number(row, "enabled") != Some(0);
    add("max", if enabled { max } else { 0 }.to_string());
    let idle = number(row, "min_idle_runners").unwrap_or(0).clamp(0, max);
    add("min_idle", if enabled { idle } else { 0 }.to_string());
    add("image", quoted(text(row, &["image"]).unwrap_or_default()));
    add("flavor", quoted(text(row, &["flavor"]).unwrap_or_default()));
    add("os", quoted(text(row, &["os_type"]).unwrap_or("linux")));
    add("arch", quoted(arch(text(row, &["os_arch"]).unwrap_or("amd64"), &name, remarks)));
    if let Some(minutes) = number(row, "runner_bootstrap_timeout").filter(|it| *it > 0) {
        add("boot_timeout", quoted(&format!("{minutes}m")));
    }
    if let Some(group) = text(row, &["git_hub_runner_group", "github-runner-group"]) {
        add("runner_group", quoted(group));
    }
    if let Some(specs) = specs(row, &name, remarks) {
        add("extra_specs", specs);
    }
    if !enabled {
        remarks.push(format!("pool `{name}` is disabled in GARM and has max = 0 here (was {max})"));
    }
    if found.labels.is_empty() {
        remarks.push(format!("pool `{name}` has no labels; no job would reach it"));
    }
    if number(row, "priority").is_some_and(|it| it != 0) {
        remarks.push(format!(
            "pool `{name}`: priorities are no more; of pools that fit equally the first written is taken"
        ));
    }
    if number(row, "template_id").is_some() {
        remarks.push(format!(
            "pool `{name}` has a template of its own; put it into extra_specs.runner_install_template, or use ours"
        ));
    }
    if number(row, "enable_shell").is_some_and(|it| it != 0) {
        remarks.push(format!("pool `{name}`: there is no agent, and so no shell into machines"));
    }
}

/// Returns a name that no other pool has: what it serves, and its prefix if that is not enough.
fn name_for(found: &GarmPool, prefix: &str, taken: &mut BTreeSet<String>) -> String {
    let scope = found.scope.trim_start_matches("enterprises/").replace('/', "-");
    let first = label(&scope, "pool");
    let second = label(&format!("{scope}-{prefix}"), "pool");
    let rest = (2..).map(|number| format!("{second}-{number}"));
    let name = [first, second.clone()].into_iter().chain(rest).find(|it| !taken.contains(it));
    let name = name.unwrap_or(second);
    taken.insert(name.clone());
    name
}

fn arch<'a>(theirs: &str, pool: &str, remarks: &mut Vec<String>) -> &'a str {
    match theirs {
        "amd64" | "x64" => "x64",
        "arm64" => "arm64",
        "arm" => "arm",
        other => {
            remarks
                .push(format!("pool `{pool}`: there are no runners for `{other}`; x64 is written"));
            "x64"
        }
    }
}

/// Returns the specs as TOML, if there are any.
fn specs(row: &Value, pool: &str, remarks: &mut Vec<String>) -> Option<String> {
    let written = row.get("extra_specs")?;
    let parsed = match written.as_str() {
        Some(text) => serde_json::from_str(text).ok()?,
        None => written.clone(),
    };
    let object = parsed.as_object().filter(|it| !it.is_empty())?;
    // TOML has no null.
    let kept = object.iter().filter(|(_, value)| !value.is_null());
    let kept: serde_json::Map<String, Value> =
        kept.map(|(key, value)| (key.clone(), value.clone())).collect();
    let value = toml::Value::try_from(&kept);
    if value.is_err() {
        remarks.push(format!("pool `{pool}`: its extra_specs cannot be written as TOML"));
    }
    value.ok().map(|value| inline(&value))
}

/// Writes a value in one line.
fn inline(value: &toml::Value) -> String {
    match value {
        toml::Value::Table(table) => {
            let pairs: Vec<String> = table
                .iter()
                .map(|(key, value)| format!("{} = {}", quoted(key), inline(value)))
                .collect();
            format!("{{ {} }}", pairs.join(", "))
        }
        toml::Value::Array(all) => {
            format!("[{}]", all.iter().map(inline).collect::<Vec<_>>().join(", "))
        }
        toml::Value::String(_)
        | toml::Value::Integer(_)
        | toml::Value::Float(_)
        | toml::Value::Boolean(_)
        | toml::Value::Datetime(_) => value.to_string(),
    }
}

fn list(words: &[String]) -> String {
    format!("[{}]", words.iter().map(|it| quoted(it)).collect::<Vec<_>>().join(", "))
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Returns a name as ours may be: lower case, digits and dashes.
fn label(text: &str, otherwise: &str) -> String {
    let fits = |it: char| if it.is_ascii_alphanumeric() { it.to_ascii_lowercase() } else { '-' };
    let name: String = text.chars().map(fits).collect();
    let name = name.trim_matches('-');
    let name: String = name.chars().take(40).collect();
    match name.trim_matches('-') {
        "" => otherwise.to_owned(),
        name if name.starts_with(|it: char| it.is_ascii_digit()) => format!("{otherwise}-{name}"),
        name => name.to_owned(),
    }
}

fn upper(text: &str) -> String {
    label(text, "github").to_ascii_uppercase().replace('-', "_")
}
