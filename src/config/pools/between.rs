//! The contradictions between pools.

use std::collections::BTreeMap;

use super::Pool;
use crate::config::providers::ProviderSettings;
use crate::config::section::Section;

/// Checks pools against each other.
pub(crate) fn between(
    pools: &[(Section<'_>, Option<Pool>)],
    providers: &BTreeMap<String, ProviderSettings>,
) {
    for (at, (section, _)) in pools.iter().enumerate() {
        let name = section.text("name");
        let same = |(first, _): &&(Section<'_>, Option<Pool>)| {
            name.is_some() && first.text("name") == name
        };
        if let Some((first, _)) = pools[..at].iter().find(same) {
            let what = format!("two pools are called `{}`", name.unwrap_or(""));
            section.note(
                section
                    .error("name", what)
                    .also(first.at("name"), "first here")
                    .help("give each pool its own name"),
            );
        }
    }
    for (name, provider) in providers {
        let ProviderSettings::Process(process) = provider else { continue };
        let of_provider = || {
            pools
                .iter()
                .filter_map(|(section, pool)| Some((section, pool.as_ref()?)))
                .filter(|(_, pool)| pool.provider == *name)
        };
        let idle: u64 = of_provider().map(|(_, pool)| u64::from(pool.min_idle)).sum();
        if let (Some(most), Some((section, _))) = (process.max_parallel, of_provider().next_back())
            && idle > u64::from(most)
        {
            section.note(
                section
                    .error(
                        "min_idle",
                        format!(
                            "the pools of provider `{name}` want {idle} idle runners together, and \
                    its max_parallel is {most}"
                        ),
                    )
                    .help("raise max_parallel or lower min_idle"),
            );
        }
    }
}
