//! `[forge.NAME]`: where jobs come from, and with whose rights they are served.

use std::collections::BTreeMap;

use ostler_actors::model::Scope;
use serde::Serialize;

use super::credentials::{self, AUTH, CREDENTIAL, Credential};
use super::keys::{Key, Kind, Variant};
use super::load::Cx;
use super::names;
use super::secrets::Secret;
use super::section::Section;
use super::tree::Table;

/// What `kind` may be.
pub(crate) const KINDS: &[Variant] = &[Variant { kind: "github", keys: &[GITHUB, AUTH] }];

const GITHUB: &[Key] = &[
    Key::new("kind", Kind::Choice(&["github"]), "What it is: GitHub, in the cloud or your own.")
        .required(),
    Key::new("api_url", Kind::Url, "Its API; GHES: https://HOST/api/v3.")
        .or("\"https://api.github.com\""),
    Key::new(
        "webhook_secret",
        Kind::Secrets,
        "What the webhooks are signed with; two while the new one replaces the old.",
    ),
    Key::new(
        "jit_per_minute",
        Kind::Whole { least: 0, most: 1_000_000 },
        "How many registrations a minute; 0 lifts the limit.",
    )
    .or("166"),
    Key::new(
        "poll_budget",
        Kind::Number { least: 0.0, most: 1.0 },
        "The share of the rate limit that listings may use.",
    )
    .or("0.1"),
    Key::new(
        "credential",
        Kind::Tables(CREDENTIAL),
        "Several credentials, each for its scopes, in place of app or token.",
    ),
];

/// Holds one `[forge.NAME]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ForgeSettings {
    /// Its API, without a slash at its end: `"https://api.github.com"`.
    pub api_url: String,
    /// What webhooks are signed with: none, one, or two.
    pub webhook_secrets: Vec<Secret>,
    /// How many registrations a minute: 166; 0 lifts the limit.
    pub jit_per_minute: u32,
    /// The share of the rate limit that listings may use: 0.1.
    pub poll_budget: f64,
    /// With whose rights; those that cover a scope are used for it.
    pub credentials: Vec<Credential>,
}

impl ForgeSettings {
    /// Returns the credential for a scope.
    pub fn credential(&self, scope: &Scope) -> Option<&Credential> {
        self.credentials.iter().find(|credential| credential.covers(scope))
    }
}

/// Reads every `[forge.NAME]`.
pub(crate) fn read<'a>(cx: &'a Cx<'a>, whole: &'a Table) -> BTreeMap<String, ForgeSettings> {
    let Some(named) = whole.get("forge").and_then(|node| node.value.table()) else {
        return BTreeMap::new();
    };
    let mut found = BTreeMap::new();
    for (name, entry) in &named.entries {
        let section = Section::new(cx, entry.node.value.table(), format!("forge.{name}"));
        if section.text("kind") == Some("github") {
            found.insert(name.clone(), forge(&section, name));
        }
    }
    found
}

fn forge(section: &Section<'_>, name: &str) -> ForgeSettings {
    if let Err(why) = names::label(name) {
        let help = "the name is part of the webhook's address: /webhooks/NAME";
        section.note(section.error("kind", format!("the name of forge `{name}` {why}")).help(help));
    }
    if !section.wrote("webhook_secret") {
        let what = format!(
            "forge `{name}` has no webhook_secret: jobs are heard of only by asking, \
                    up to a minute late"
        );
        section.note(section.warning("webhook_secret", what).help(
            "add webhook_secret = { env = \"NAME\" }, and a webhook to /webhooks/NAME \
                of this daemon",
        ));
    }
    let url = section.text_or("api_url", "https://api.github.com");
    check_url(section, &url);
    ForgeSettings {
        api_url: url.trim_end_matches('/').to_owned(),
        webhook_secrets: section.secrets("webhook_secret"),
        jit_per_minute: section.whole("jit_per_minute").unwrap_or(166),
        poll_budget: section.number("poll_budget").unwrap_or(0.1),
        credentials: credentials::read(section, name),
    }
}

fn check_url(section: &Section<'_>, url: &str) {
    let Ok(uri) = names::url(url) else { return };
    let host = uri.host().unwrap_or("");
    if host == "github.com" || host == "www.github.com" {
        let what = format!("`{url}` is GitHub's page, not its API");
        section.note(
            section.error("api_url", what).help("write https://api.github.com, or leave it out"),
        );
    } else if !host.starts_with("api.")
        && !names::is_loopback(host)
        && !uri.path().trim_end_matches('/').ends_with("/api/v3")
    {
        let what = format!("`{url}` does not look like a GitHub API");
        section.note(
            section
                .warning("api_url", what)
                .help(format!("for GitHub Enterprise Server write https://{host}/api/v3")),
        );
    }
    if uri.scheme_str() == Some("http") && !names::is_loopback(host) {
        let what = format!("credentials travel to `{url}` in clear text");
        section.note(section.warning("api_url", what).help("write https://"));
    }
}
