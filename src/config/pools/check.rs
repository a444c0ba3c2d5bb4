//! The contradictions of a pool: with itself, with its provider, with the rest of the document.

use ostler_actors::model::{Binding, Scope};

use super::Pool;
use super::refers::Known;
use crate::config::credentials::Auth;
use crate::config::mask::looks_private;
use crate::config::names::LONGEST_PREFIX;
use crate::config::nearest::listed;
use crate::config::providers::ProviderSettings;
use crate::config::section::Section;

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
    let external = matches!(provider, ProviderSettings::External(_));
    if late && external {
        section.note(
            section
                .error(
                    "binding",
                    format!(
                        "pool `{name}` binds late, which provider `{}` ({kind}) cannot: only pods \
                and local processes can prove who they are before they are registered",
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
                        "pool `{name}` binds late{why}: its machines ask this daemon for work, and \
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
    if external && !reached {
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
