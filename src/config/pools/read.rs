//! Reads one `[[pool]]` over its defaults.

use std::collections::BTreeMap;

use ostler_actors::model::{Binding, Revision};

use super::refers::{self, Known};
use super::{Ca, Pool, Proxy, check, labels};
use crate::config::providers::ProviderSettings;
use crate::config::schedule::Schedule;
use crate::config::section::Section;
use crate::config::{policy, revision};

impl Pool {
    /// Reads a pool; `None` when too little of it is there to go on.
    pub(crate) fn read(section: &Section<'_>, known: &Known<'_>) -> Option<Self> {
        let provider = refers::provider(section, known);
        let forge = refers::forge(section, known);
        let scope = refers::scope(section);
        let max = refers::max(section);
        let name = section.text("name")?.to_owned();
        labels::check(section);
        let (provider, call_timeout) = (
            provider?,
            provider.and_then(|name| known.providers.get(name)).map(ProviderSettings::call_timeout),
        );
        let kind = known.providers.get(provider);
        let mut pool = Self {
            forge: forge?.to_owned(),
            scope: scope?,
            provider: provider.to_owned(),
            binding: binding(section, kind),
            labels: section.texts("labels"),
            accept_unlabelled: section.flag("accept_unlabelled").unwrap_or(false),
            runner_group: section.text_or("runner_group", "Default"),
            min_idle: section.whole("min_idle").unwrap_or(0),
            max: max?,
            image: section.text_or("image", ""),
            flavor: section.text_or("flavor", ""),
            os: section.text_or("os", "linux"),
            arch: section.text_or("arch", "x64"),
            prefix: section.text_or("prefix", &name),
            env: section
                .node("env")
                .and_then(|node| node.value.table())
                .map_or_else(BTreeMap::new, texts_of),
            proxy: section.inner("proxy").map(|proxy| Proxy::read(&proxy)),
            ca: ca(section),
            pod: section.free("pod"),
            extra_specs: section.free("extra_specs"),
            schedule: section
                .inners("schedule")
                .iter()
                .filter_map(|entry| Schedule::read(entry, max?))
                .collect(),
            policy: policy::read(section, call_timeout.unwrap_or_default(), known.retire_budget),
            revision: Revision::new(""),
            name,
        };
        pool.revision = revision::of(&pool, kind?, known.http.public_url.as_deref());
        check::pool(&pool, section, known);
        Some(pool)
    }
}

/// Returns the binding: as written, or what suits the provider.
fn binding(section: &Section<'_>, provider: Option<&ProviderSettings>) -> Binding {
    match (section.text("binding"), provider) {
        (Some("late"), _) | (None, Some(ProviderSettings::Kubernetes(_))) => Binding::Late,
        (_, _) => Binding::Early,
    }
}

fn texts_of(table: &crate::config::tree::Table) -> BTreeMap<String, String> {
    let texts = table
        .entries
        .iter()
        .filter_map(|(key, entry)| Some((key.clone(), entry.node.value.text()?.to_owned())));
    texts.collect()
}

fn ca(section: &Section<'_>) -> Option<Ca> {
    let path = section.path("ca")?;
    let pem = match section.cx.file(&path) {
        Ok(pem) => pem,
        Err(why) => {
            section.note(
                section
                    .error(
                        "ca",
                        format!("cannot read the certificates `{}`: {why}", path.display()),
                    )
                    .help("relative paths start beside this file"),
            );
            return None;
        }
    };
    if section.cx.looks() && (!pem.contains("BEGIN CERTIFICATE") || pem.contains("PRIVATE KEY")) {
        section.note(
            section
                .error(
                    "ca",
                    format!("`{}` must hold PEM certificates and nothing else", path.display()),
                )
                .help("every job can read it; it begins with -----BEGIN CERTIFICATE-----"),
        );
    }
    Some(Ca { path, pem })
}

impl Proxy {
    fn read(section: &Section<'_>) -> Self {
        let text = |key: &str| section.text(key).map(str::to_owned);
        Self { http: text("http"), https: text("https"), no_proxy: section.texts("no_proxy") }
    }
}
