//! The contradictions of a pool: with itself, with other pools, with the rest of the document.

use std::collections::BTreeMap;
use std::time::Duration;

use ostler_actors::model::{Binding, Policy, Scope};
use serde_json::json;

use super::Pool;
use crate::config::declare::Key;
use crate::config::document::{Mark, Node, Value};
use crate::config::forges::{Auth, ForgeSettings};
use crate::config::http::Http;
use crate::config::mask::sounds_private;
use crate::config::problems::ConfigProblem;
use crate::config::providers::ProviderSettings;
use crate::config::section::Section;
use crate::config::units::written;
use crate::config::values::{listed, nearest};

/// The longest time from a job's assignment to its first process, as seen at GitHub.
const MAX_JOB_START: Duration = Duration::from_mins(1);

/// An instance is called `<prefix>-<12 characters>`, its later runners `<instance>-<n>`; the whole must
/// fit a DNS label, which has 63.
const MAX_PREFIX: usize = 63 - 13 - 4;

/// Holds what pools refer to.
pub(crate) struct References<'a> {
    pub(crate) forges: &'a BTreeMap<String, ForgeSettings>,
    pub(crate) providers: &'a BTreeMap<String, ProviderSettings>,
    /// Every `[forge.NAME]` and `[provider.NAME]`, also those with a problem of their own.
    pub(crate) named: (Vec<&'a str>, Vec<&'a str>),
    pub(crate) http: &'a Http,
    pub(crate) http_at: Option<Mark>,
    pub(crate) retire_budget: u32,
}

/// Checks that the pool's forge and provider are there.
pub(crate) fn references(section: &Section<'_>, known: &References<'_>) -> Option<()> {
    let forge = reference(section, "forge", &known.named.0);
    let provider = reference(section, "provider", &known.named.1);
    forge.and(provider)
}

fn reference(section: &Section<'_>, key: &str, names: &[&str]) -> Option<()> {
    let name = section.text(key)?;
    if names.contains(&name) {
        return Some(());
    }
    let help = match nearest(name, names.iter().copied()) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None if names.is_empty() => format!("add a table [{key}.{name}] with its kind"),
        None => format!("write one of {}, or add a table [{key}.{name}]", listed(names)),
    };
    section.error(key, format!("there is no {key} `{name}`"), help);
    None
}

/// Checks that `min_idle` is not above `max`.
pub(crate) fn room(section: &Section<'_>) {
    let whole = |key| u32::try_from(section.node(key)?.value.whole()?).ok();
    let (Some(max), Some(min_idle)) = (whole("max"), whole("min_idle")) else { return };
    if min_idle > max {
        let what = format!(
            "`{}` = {max} leaves no room for `{}` = {min_idle}",
            section.key("max"),
            section.key("min_idle")
        );
        let help = format!("raise max to {min_idle} or more, or lower min_idle");
        section.report(
            section
                .problem("min_idle", what, help)
                .label(format!("{min_idle} idle runners wanted"))
                .also(section.at("max"), format!("but at most {max} machines")),
        );
    }
}

pub(crate) fn scope(section: &Section<'_>, text: &str) -> Option<Scope> {
    let of_name = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    let Some(scope) = text.parse().ok().filter(|_| text.chars().all(of_name)) else {
        let path = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let help = match path.and_then(|path| path.trim_matches('/').split_once('/')) {
            Some((_, rest)) => format!("did you mean \"{rest}\"?"),
            None => "write an organization \"acme\", a repository \"acme/web\" or an enterprise \
                     \"enterprises/acme\""
                .into(),
        };
        section.error("scope", format!("`{text}` is not a scope"), help);
        return None;
    };
    // GitHub keeps these names to itself; no repository is below them.
    let meant = match text.split_once('/') {
        Some(("enterprise", slug)) => Some(("enterprise", format!("enterprises/{slug}"))),
        Some((first @ ("org" | "orgs" | "organizations" | "users"), owner)) => {
            Some((first, owner.to_owned()))
        }
        Some(_) | None => None,
    };
    if let Some((owner, meant)) = meant {
        section.error(
            "scope",
            format!("`{text}` would be a repository of `{owner}`"),
            format!("did you mean \"{meant}\"?"),
        );
    }
    Some(scope)
}

/// Checks labels: what GitHub takes, and what it would take for itself.
pub(crate) fn labels(section: &Section<'_>, key: &'static Key, node: &Node) {
    let key = section.key(key.name);
    let Value::List(nodes) = &node.value else { return };
    let problem =
        |at: &Node, what: String, help: &str| ConfigProblem::new(&key, what, help).at(Some(at.at));
    let error = |at: &Node, what: String, help: &str| section.report(problem(at, what, help));
    if nodes.is_empty() {
        let what = format!("`{key}` is empty, so no job could ask for these runners");
        error(node, what, "write labels = [\"self-hosted\", \"linux\", \"x64\"]");
    }
    if nodes.len() > 100 {
        let what = format!("`{key}` contains {} labels; GitHub takes 100", nodes.len());
        error(node, what, "remove some");
    }
    for (at, node) in nodes.iter().enumerate() {
        let Some(label) = node.value.text() else { continue };
        let odd = label.is_empty() || label.len() > 256 || label.trim() != label;
        if odd || label.contains(|c: char| c == ',' || c.is_control()) {
            error(
                node,
                format!("\"{label}\" cannot be a label"),
                "a label has 1 to 256 characters, no commas, and no spaces around it; write each \
                 label as a text of its own",
            );
        }
        let same = |earlier: &Node| {
            earlier.value.text().is_some_and(|earlier| earlier.eq_ignore_ascii_case(label))
        };
        if nodes[..at].iter().any(same) {
            let what =
                format!("label `{label}` is there twice; GitHub compares labels without case");
            error(node, what, "keep one of them");
        }
        if is_hosted(label) {
            let what = format!(
                "label `{label}` is one of GitHub's own runners; jobs that ask for it alone run \
                 there and never here"
            );
            let help = "choose another name, such as \"linux\"";
            section.report(problem(node, what, help).warning());
        }
    }
}

/// Returns whether a label belongs to GitHub's own runners: `ubuntu-latest`, `macos-15`.
fn is_hosted(label: &str) -> bool {
    let label = label.to_lowercase();
    let image =
        ["ubuntu-", "windows-", "macos-"].iter().find_map(|system| label.strip_prefix(system));
    image.is_some_and(|image| image == "latest" || image.starts_with(|c: char| c.is_ascii_digit()))
}

pub(crate) fn intake(section: &Section<'_>, _: &'static Key, node: &Node) {
    if node.value.text() == Some("scale-set") {
        section.error(
            "intake",
            "`intake = \"scale-set\"`: not in this release",
            "write intake = \"webhook\", or leave it out",
        );
    }
}

pub(crate) fn env(section: &Section<'_>, _: &'static Key, node: &Node) {
    for name in node.value.table().iter().flat_map(|table| table.entries.keys()) {
        if name.is_empty() || name.contains(['=', '\0']) {
            section.error(
                "env",
                format!("`{name}` cannot be the name of a variable"),
                "write env = { NAME = \"value\" }",
            );
        }
        if sounds_private(name) {
            section.warn(
                "env",
                format!("`{name}` sounds like a secret, and every job can read it"),
                "give jobs their secrets through the forge",
            );
        }
    }
}

/// Checks deadlines against each other and against the provider.
pub(crate) fn policy(section: &Section<'_>, policy: &Policy, call_timeout: Duration) {
    let is = |key: &str, value| format!("`{}` is {}", section.key(key), written(value));
    if policy.idle_confirm < MAX_JOB_START {
        section.warn(
            "idle_confirm",
            format!(
                "{}; GitHub may take {} from assigning a job to its first process, and a machine \
                 could be deleted in between",
                is("idle_confirm", policy.idle_confirm),
                written(MAX_JOB_START)
            ),
            "write at least \"60s\", or leave it out",
        );
    }
    if policy.create_settle < call_timeout {
        section.error(
            "create_settle",
            format!(
                "{}, but a call to the provider may act for {}",
                is("create_settle", policy.create_settle),
                written(call_timeout)
            ),
            "leave it out, or write at least the provider's call timeout: a machine could appear \
             after it was given up",
        );
    }
    if policy.zombie_after < policy.linger {
        section.error(
            "zombie_after",
            format!(
                "{}, shorter than `{}` = {}",
                is("zombie_after", policy.zombie_after),
                section.key("linger"),
                written(policy.linger)
            ),
            "a machine must be allowed to linger before it is a zombie: raise zombie_after or lower \
             linger",
        );
    }
    if let Some(lifetime) = policy.max_lifetime.filter(|it| *it <= policy.boot_timeout) {
        section.error(
            "max_lifetime",
            format!(
                "{}, no longer than `{}` = {}: runners would be replaced before they are ready",
                is("max_lifetime", lifetime),
                section.key("boot_timeout"),
                written(policy.boot_timeout)
            ),
            "raise max_lifetime to hours, or write \"off\"",
        );
    }
}

/// Checks a pool that could be read.
pub(crate) fn pool(pool: &Pool, section: &Section<'_>, known: &References<'_>) {
    let Some(provider) = known.providers.get(&pool.provider) else { return };
    binding(pool, section, provider, known);
    machine(pool, section, provider);
    credentials(pool, section, known);
    let key = if section.node("prefix").is_some() { "prefix" } else { "name" };
    if pool.prefix.len() > MAX_PREFIX {
        let help = if key == "prefix" {
            format!("shorten it to {MAX_PREFIX}")
        } else {
            "add a shorter prefix = \"…\"".into()
        };
        section.error(
            key,
            format!(
                "`{}` has {} characters; names of instances begin with it and must fit 63, so \
                 {MAX_PREFIX} are allowed",
                section.key(key),
                pool.prefix.len()
            ),
            help,
        );
    }
    for entry in section.inners("schedule") {
        let min_idle = entry.node("min_idle").and_then(|node| node.value.whole());
        if let Some(min_idle) = min_idle.filter(|it| *it > i64::from(pool.max)) {
            entry.error(
                "min_idle",
                format!(
                    "`{}` is {min_idle}, but the pool's `max` is {}",
                    entry.key("min_idle"),
                    pool.max
                ),
                "raise max or lower min_idle",
            );
        }
    }
}

fn binding(
    pool: &Pool,
    section: &Section<'_>,
    provider: &ProviderSettings,
    known: &References<'_>,
) {
    let (name, kind) = (&pool.name, provider.kind());
    let late = pool.binding == Binding::Late;
    let reached = known.http.public_url.is_some();
    let external = matches!(provider, ProviderSettings::External(_));
    if late && external {
        section.error(
            "binding",
            format!(
                "pool `{name}` binds late, which provider `{}` ({kind}) cannot: only pods and local \
                 processes can prove who they are before they are registered",
                pool.provider
            ),
            "write binding = \"early\", or leave it out",
        );
    } else if late && !reached {
        let why =
            if section.node("binding").is_none() { " (the default for kubernetes)" } else { "" };
        let what = format!(
            "pool `{name}` binds late{why}: its machines ask this daemon for work, and \
             `http.public_url` does not say where it is"
        );
        let help =
            "add public_url = \"https://…\" to [http], or write binding = \"early\" in the pool";
        let problem = section.problem("binding", what, help);
        section.report(problem.also(known.http_at, "public_url belongs here"));
    }
    if external && !reached {
        let what = format!(
            "machines of provider `{}` (external) fetch their credentials from this daemon, and \
             `http.public_url` does not say where it is",
            pool.provider
        );
        let problem = section.problem("provider", what, "add public_url = \"https://…\" to [http]");
        section.report(problem.also(known.http_at, "public_url belongs here"));
    }
}

fn machine(pool: &Pool, section: &Section<'_>, provider: &ProviderSettings) {
    let kind = provider.kind();
    let (useless, needed): (&[&str], &[&str]) = match provider {
        ProviderSettings::Kubernetes(_) => (&["flavor", "extra_specs"], &["image"]),
        ProviderSettings::Process(_) => (&["image", "flavor", "extra_specs", "pod"], &[]),
        ProviderSettings::External(_) => (&["pod"], &["image", "flavor"]),
    };
    for key in useless.iter().filter(|key| section.wrote(key)) {
        // Nothing is a way to take a default back.
        let value = section.node(key).map(|node| node.value.json());
        if value != Some(json!("")) && value != Some(json!({})) {
            section.error(
                key,
                format!(
                    "`{}` means nothing to provider `{}` ({kind})",
                    section.key(key),
                    pool.provider
                ),
                "remove it, or choose the provider it is for",
            );
        }
    }
    for key in needed.iter().filter(|key| section.text(key).is_none_or(str::is_empty)) {
        section.error(
            key,
            format!(
                "`{}` is missing: provider `{}` ({kind}) needs it",
                section.key(key),
                pool.provider
            ),
            format!("add {key} = \"…\""),
        );
    }
    if kind == "kubernetes" && pool.os == "macos" {
        section.error(
            "os",
            "there are no macOS pods",
            "write os = \"linux\" or \"windows\", or choose another provider",
        );
    }
}

fn credentials(pool: &Pool, section: &Section<'_>, known: &References<'_>) {
    let Some(forge) = known.forges.get(&pool.forge) else { return };
    let credential = forge.credential(&pool.scope);
    if credential.is_none() && !forge.credentials.is_empty() {
        let names: Vec<&str> = forge.credentials.iter().map(|one| one.name.as_str()).collect();
        section.error(
            "scope",
            format!("no credential of forge `{}` is for scope `{}`", pool.forge, pool.scope),
            format!(
                "add it to the scopes of {}, or add a [[forge.{}.credential]]",
                listed(&names),
                pool.forge
            ),
        );
    }
    let app = credential.is_some_and(|credential| matches!(credential.auth, Auth::App { .. }));
    if app && matches!(pool.scope, Scope::Enterprise(_)) {
        section.error(
            "scope",
            "a GitHub App cannot register runners for an enterprise",
            "use a classic token with manage_runners:enterprise for this scope, or serve its \
             organizations one by one",
        );
    }
    if matches!(pool.scope, Scope::Repository { .. }) && pool.runner_group != "Default" {
        section.error(
            "runner_group",
            format!("runner group `{}`: a repository has no runner groups", pool.runner_group),
            "remove runner_group, or serve the organization",
        );
    }
}

/// Checks pools against each other.
pub(crate) fn between(
    pools: &[(Section<'_>, Option<Pool>)],
    providers: &BTreeMap<String, ProviderSettings>,
) {
    for (at, (section, _)) in pools.iter().enumerate() {
        let Some(name) = section.text("name") else { continue };
        if let Some((first, _)) = pools[..at].iter().find(|(it, _)| it.text("name") == Some(name)) {
            let what = format!("two pools are called `{name}`");
            let problem = section.problem("name", what, "give each pool its own name");
            section.report(problem.also(first.at("name"), "first here"));
        }
    }
    for (name, provider) in providers {
        let ProviderSettings::Process(process) = provider else { continue };
        let users = pools.iter().filter_map(|(section, pool)| Some((section, pool.as_ref()?)));
        let users: Vec<_> = users.filter(|(_, pool)| pool.provider == *name).collect();
        let idle: u64 = users.iter().map(|(_, pool)| u64::from(pool.min_idle)).sum();
        if let (Some(most), Some((section, _))) = (process.max_parallel, users.last())
            && idle > u64::from(most)
        {
            section.error(
                "min_idle",
                format!(
                    "the pools of provider `{name}` want {idle} idle runners together, and its \
                     max_parallel is {most}"
                ),
                "raise max_parallel or lower min_idle",
            );
        }
    }
}
