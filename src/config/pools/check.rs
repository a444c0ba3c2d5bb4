//! The contradictions of a pool: with itself, with its provider, with the rest of the document.

use std::collections::BTreeMap;

use ostler_actors::model::{Binding, Scope};

use super::Pool;
use crate::config::credentials::Auth;
use crate::config::forges::ForgeSettings;
use crate::config::http::Http;
use crate::config::mask::looks_private;
use crate::config::names::LONGEST_PREFIX;
use crate::config::nearest::{listed, nearest};
use crate::config::providers::ProviderSettings;
use crate::config::section::Section;
use crate::config::tree::Mark;

/// Holds what pools refer to.
pub(crate) struct Known<'a> {
    pub(crate) forges: &'a BTreeMap<String, ForgeSettings>,
    pub(crate) providers: &'a BTreeMap<String, ProviderSettings>,
    /// Every `[forge.NAME]` and `[provider.NAME]`, also those with a problem of their own.
    pub(crate) named: (Vec<&'a str>, Vec<&'a str>),
    pub(crate) http: &'a Http,
    pub(crate) http_at: Option<Mark>,
    pub(crate) retire_budget: u32,
}

/// Finds the pool's provider.
pub(crate) fn provider<'a>(section: &Section<'a>, known: &Known<'_>) -> Option<&'a str> {
    named(section, "provider", &known.named.1)
}

/// Finds the pool's forge.
pub(crate) fn forge<'a>(section: &Section<'a>, known: &Known<'_>) -> Option<&'a str> {
    named(section, "forge", &known.named.0)
}

fn named<'a>(section: &Section<'a>, key: &str, names: &[&str]) -> Option<&'a str> {
    let name = needed(section, key)?;
    if names.contains(&name) {
        return Some(name);
    }
    let help = match nearest(name, names.iter().copied()) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None if names.is_empty() => format!("add a table [{key}.{name}] with its kind"),
        None => format!("write one of {}, or add a table [{key}.{name}]", listed(names)),
    };
    section.note(section.error(key, format!("there is no {key} `{name}`")).help(help));
    None
}

/// Returns a text that a pool or the defaults must have.
fn needed<'a>(section: &Section<'a>, key: &str) -> Option<&'a str> {
    if section.node(key).is_none() {
        section.note(
            section
                .error(key, format!("`{}` is missing", section.key(key)))
                .help(format!("add {key} = \"…\" to the pool, or to [defaults] for all pools")),
        );
    }
    section.text(key)
}

/// Reads the scope.
pub(crate) fn scope(section: &Section<'_>) -> Option<Scope> {
    let text = needed(section, "scope")?;
    let of_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let plain = text.split('/').all(|part| part.chars().all(of_name));
    match text.parse() {
        Ok(scope) if plain => Some(scope),
        Ok(_) | Err(_) => {
            let path =
                text.trim_start_matches("https://").trim_start_matches("http://").trim_matches('/');
            let short = path.split_once('/').filter(|_| text.contains("://")).map(|(_, rest)| rest);
            let help = short.map_or_else(
                || {
                    "write an organization \"acme\", a repository \"acme/web\" or an \
                    enterprise \"enterprises/acme\""
                        .into()
                },
                |rest| format!("did you mean \"{rest}\"?"),
            );
            section.note(section.error("scope", format!("`{text}` is not a scope")).help(help));
            None
        }
    }
}

/// Reads `max`, and compares it with `min_idle`.
pub(crate) fn max(section: &Section<'_>) -> Option<u32> {
    if section.node("max").is_none() {
        section.note(
            section
                .error("max", format!("`{}` is missing", section.key("max")))
                .help("say how many machines may exist at once: max = 10"),
        );
    }
    let (max, min_idle) = (section.whole("max")?, section.whole("min_idle").unwrap_or(0));
    if min_idle > max {
        section.note(
            section
                .error(
                    "min_idle",
                    format!(
                        "`{}` = {max} leaves no room for `{}` = {min_idle}",
                        section.key("max"),
                        section.key("min_idle")
                    ),
                )
                .label(format!("{min_idle} idle runners wanted"))
                .also(section.at("max"), format!("but at most {max} machines"))
                .help(format!("raise max to {min_idle} or more, or lower min_idle")),
        );
    }
    Some(max)
}

/// Checks a pool that could be read.
pub(crate) fn pool(pool: &Pool, section: &Section<'_>, known: &Known<'_>) {
    let Some(provider) = known.providers.get(&pool.provider) else { return };
    binding(pool, section, provider, known);
    machine(pool, section, provider);
    credentials(pool, section, known);
    names(pool, section);
    if section.text("intake") == Some("scale-set") {
        section.note(
            section
                .error("intake", "`intake = \"scale-set\"`: not in this release")
                .help("write intake = \"webhook\", or leave it out"),
        );
    }
    for name in pool.env.keys() {
        if name.is_empty() || name.contains(['=', '\0']) {
            section.note(
                section
                    .error("env", format!("`{name}` cannot be the name of a variable"))
                    .help("write env = { NAME = \"value\" }"),
            );
        }
        if looks_private(name) {
            section.note(
                section
                    .warning(
                        "env",
                        format!("`{name}` sounds like a secret, and every job can read it"),
                    )
                    .help("give jobs their secrets through the forge"),
            );
        }
    }
}

fn binding(pool: &Pool, section: &Section<'_>, provider: &ProviderSettings, known: &Known<'_>) {
    let (name, kind) = (&pool.name, provider.kind());
    let late = pool.binding == Binding::Late;
    let reached = known.http.public_url.is_some();
    let pods = matches!(provider, ProviderSettings::Kubernetes(_));
    if late && !pods {
        section.note(
            section
                .error(
                    "binding",
                    format!(
                        "pool `{name}` binds late, which provider `{}` ({kind}) cannot: only pods \
                can prove who they are before they are registered",
                        pool.provider
                    ),
                )
                .help("write binding = \"early\", or leave it out"),
        );
    } else if late && !reached {
        let why =
            if section.node("binding").is_none() { " (the default for kubernetes)" } else { "" };
        section.note(
            section
                .error(
                    "binding",
                    format!(
                        "pool `{name}` binds late{why}: its pods ask this daemon for work, and \
                    `http.public_url` does not say where it is"
                    ),
                )
                .also(known.http_at, "public_url belongs here")
                .help(
                    "add public_url = \"https://…\" to [http], or write binding = \"early\" \
                        in the pool",
                ),
        );
    }
    if matches!(provider, ProviderSettings::External(_)) && !reached {
        section.note(
            section
                .error(
                    "provider",
                    format!(
                        "machines of provider `{}` (external) fetch their credentials from this \
                    daemon, and `http.public_url` does not say where it is",
                        pool.provider
                    ),
                )
                .also(known.http_at, "public_url belongs here")
                .help("add public_url = \"https://…\" to [http]"),
        );
    }
}

fn machine(pool: &Pool, section: &Section<'_>, provider: &ProviderSettings) {
    let kind = provider.kind();
    let useless: &[&str] = match provider {
        ProviderSettings::Kubernetes(_) => &["flavor", "extra_specs"],
        ProviderSettings::Process(_) => &["image", "flavor", "extra_specs", "pod"],
        ProviderSettings::External(_) => &["pod"],
    };
    for key in useless.iter().filter(|key| {
        section.wrote(key)
            && section.text(key) != Some("")
            && section.free(key) != Some(serde_json::json!({}))
    }) {
        section.note(
            section
                .error(
                    key,
                    format!(
                        "`{}` means nothing to provider `{}` ({kind})",
                        section.key(key),
                        pool.provider
                    ),
                )
                .help("remove it, or choose the provider it is for"),
        );
    }
    let needed: &[&str] = match provider {
        ProviderSettings::Kubernetes(_) => &["image"],
        ProviderSettings::Process(_) => &[],
        ProviderSettings::External(_) => &["image", "flavor"],
    };
    for key in needed.iter().filter(|key| section.text(key).is_none_or(str::is_empty)) {
        section.note(
            section
                .error(
                    key,
                    format!(
                        "`{}` is missing: provider `{}` ({kind}) needs it",
                        section.key(key),
                        pool.provider
                    ),
                )
                .help(format!("add {key} = \"…\"")),
        );
    }
    if kind == "kubernetes" && pool.os == "macos" {
        section.note(
            section
                .error("os", "there are no macOS pods")
                .help("write os = \"linux\" or \"windows\", or choose another provider"),
        );
    }
}

fn credentials(pool: &Pool, section: &Section<'_>, known: &Known<'_>) {
    let Some(forge) = known.forges.get(&pool.forge) else { return };
    let credential = forge.credential(&pool.scope);
    if credential.is_none() && !forge.credentials.is_empty() {
        let names: Vec<&str> = forge.credentials.iter().map(|one| one.name.as_str()).collect();
        section.note(
            section
                .error(
                    "scope",
                    format!(
                        "no credential of forge `{}` is for scope `{}`",
                        pool.forge, pool.scope
                    ),
                )
                .help(format!(
                    "add it to the scopes of {}, or add a [[forge.{}.credential]]",
                    listed(&names),
                    pool.forge
                )),
        );
    }
    let app = credential.is_some_and(|credential| matches!(credential.auth, Auth::App { .. }));
    if app && matches!(pool.scope, Scope::Enterprise(_)) {
        section.note(
            section.error("scope", "a GitHub App cannot register runners for an enterprise").help(
                "use a classic token with manage_runners:enterprise for this scope, or \
                serve its organizations one by one",
            ),
        );
    }
    if matches!(pool.scope, Scope::Repository { .. }) && pool.runner_group != "Default" {
        section.note(
            section
                .error(
                    "runner_group",
                    format!(
                        "runner group `{}`: a repository has no runner groups",
                        pool.runner_group
                    ),
                )
                .help("remove runner_group, or serve the organization"),
        );
    }
}

fn names(pool: &Pool, section: &Section<'_>) {
    let key = if section.node("prefix").is_some() { "prefix" } else { "name" };
    if pool.prefix.len() > LONGEST_PREFIX {
        let help = if key == "prefix" {
            format!("shorten it to {LONGEST_PREFIX}")
        } else {
            "add a shorter prefix = \"…\"".into()
        };
        section.note(
            section
                .error(
                    key,
                    format!(
                        "`{}` has {} letters; names of instances begin with it and must fit 63, \
                so {LONGEST_PREFIX} are allowed",
                        section.key(key),
                        pool.prefix.len()
                    ),
                )
                .help(help),
        );
    }
}
