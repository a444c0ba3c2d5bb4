//! What a pool must say or refer to: its forge, its provider, its scope, its size.

use std::collections::BTreeMap;

use ostler_actors::model::Scope;

use crate::config::forges::ForgeSettings;
use crate::config::http::Http;
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

pub(crate) fn scope(section: &Section<'_>) -> Option<Scope> {
    let text = needed(section, "scope")?;
    let of_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let plain = text.split('/').all(|part| part.chars().all(of_name));
    match text.parse() {
        Ok(scope) if plain => {
            // GitHub keeps these names to itself; nobody's repository begins with them.
            let meant = match text.split_once('/') {
                Some(("enterprise", slug)) => Some(format!("enterprises/{slug}")),
                Some(("org" | "orgs" | "organizations" | "users", owner)) => Some(owner.into()),
                Some(_) | None => None,
            };
            if let Some(meant) = meant {
                let what = format!("`{text}` would be a repository of `{}`", scope_owner(text));
                section
                    .note(section.error("scope", what).help(format!("did you mean \"{meant}\"?")));
            }
            Some(scope)
        }
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

fn scope_owner(text: &str) -> &str {
    text.split('/').next().unwrap_or_default()
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
