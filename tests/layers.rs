//! Who may name what: every name has a home, and this is the table of homes.
//!
//! The compiler keeps the core away from libraries that are not in its `Cargo.toml`. The rest is
//! held here: which file may speak SQL, which may ask the time, and above all which may *do* things
//! to a machine. Reaper, requeue, pools and the web page ask the owner of a runner; they cannot
//! delete it, because the names for it are not theirs. Which module of `src` may name which other is
//! in `graph`.
//!
//! A broken rule fails with a sentence: "src/http/api.rs names `sqlx` on line 12; …". Comments and
//! `#[cfg(test)]` modules (`tests.rs`, `tests/`, `fixtures.rs`) are not read. A new home is a change
//! of architecture: argue it in the commit.

mod graph;

use std::fs;
use std::path::{Path, PathBuf};

/// Says where names are at home, and why nowhere else.
struct Rule {
    /// Names of things, or pieces of calls such as `.mint(`.
    names: &'static [&'static str],
    /// A folder (`src/store/`), a file (`src/main.rs`), or a file name anywhere (`*/actor.rs`).
    homes: &'static [&'static str],
    why: &'static str,
}

const RULES: &[Rule] = &[
    // Libraries: each behind one wall, so that it can be replaced and cannot leak its types.
    Rule {
        names: &["actix", "actix_rt", "actix_web"],
        homes: &[
            "*/actor.rs",
            "actors/fleet/actor/",
            "actors/pool/actor/",
            "actors/testing/",
            "src/http/",
            "src/demo/",
            "src/daemon/",
        ],
        why: "decisions are plain functions, and the actor library stays replaceable",
    },
    Rule {
        names: &["dashmap"],
        homes: &["actors/registry.rs"],
        why: "the board is the only shared memory, and its order is random",
    },
    Rule {
        names: &["sqlx"],
        homes: &["src/store/", "src/import/garm/db.rs"],
        why: "only the store speaks SQL, and the import reads another program's database",
    },
    Rule {
        names: &["hyper_util", "hyper_rustls", "rustls_native_certs"],
        homes: &["src/client.rs"],
        why: "there is one outgoing HTTP client: certificates, proxy and timeouts are decided once",
    },
    Rule {
        names: &["octocrab::"],
        homes: &["src/github/"],
        why: "only the GitHub adapter speaks to GitHub",
    },
    Rule {
        names: &["kube::", "k8s_openapi"],
        homes: &["src/providers/kubernetes/"],
        why: "only the Kubernetes provider speaks to a cluster",
    },
    Rule {
        names: &["prometheus_client"],
        homes: &["src/telemetry/"],
        why: "figures are kept in one place, with bounded labels",
    },
    Rule {
        names: &["std::env", "env::"],
        homes: &["src/config/load.rs", "src/main.rs"],
        why: "the environment is read once, where it is checked and explained",
    },
    // Time: a decision takes `now`, so that a test or a replay can choose it.
    Rule {
        names: &[".now()", "Clock::now"],
        homes: &[
            "*/actor.rs",
            "actors/fleet/actor/",
            "actors/pool/actor/",
            "actors/testing/",
            "src/github/watch.rs",
            "src/daemon/",
            "src/http/",
        ],
        why: "only the shell of an actor asks the clock, and an adapter that compares it with another",
    },
    // Doing: one author for everything that happens to a machine, a registration or a row.
    Rule {
        names: &[
            "dyn Provider",
            "impl Provider",
            "Provider::create",
            "Provider::delete",
            "provider.create(",
            ".delete(",
        ],
        homes: INSTANCE_DOERS,
        why: "a machine is created and deleted by its instance alone; everyone else asks it",
    },
    Rule {
        names: &[
            "dyn Forge",
            "impl Forge",
            "Forge::mint",
            "Forge::deregister",
            ".mint(",
            ".deregister(",
        ],
        homes: INSTANCE_DOERS,
        why: "a runner is registered and removed by its instance alone; everyone else asks it",
    },
    Rule {
        names: &["dyn ForgeAdapter", "impl ForgeAdapter"],
        homes: &["src/github/", "src/daemon/"],
        why: "it can register and remove runners; surfaces get its services",
    },
    Rule {
        names: &[
            "ostler_actors::fleet",
            "ostler_actors::instance",
            "ostler_actors::jobs",
            "ostler_actors::mail",
            "ostler_actors::pool",
            "ostler_actors::registry",
        ],
        homes: &["src/daemon/", "src/http/", "src/telemetry/", "src/demo/"],
        why: "an adapter knows the model and the ports of the core, and none of its actors",
    },
    Rule {
        names: &["dyn InstanceRows", "impl InstanceRows"],
        homes: INSTANCE_DOERS,
        why: "the row of an instance has one writer, its actor",
    },
    Rule {
        names: &["dyn JobRows", "impl JobRows"],
        homes: &["actors/jobs/", "actors/ports/", "actors/testing/", "src/store/", "src/daemon/"],
        why: "job rows have one writer, the ledger",
    },
    Rule {
        names: &["dyn PoolRows", "impl PoolRows"],
        homes: &["actors/fleet/", "actors/ports/", "actors/testing/", "src/store/", "src/daemon/"],
        why: "pool rows have one writer, the fleet",
    },
];

/// The owner, the ports it acts through, their doubles, their adapters, and the composition root.
const INSTANCE_DOERS: &[&str] = &[
    "actors/instance/",
    "actors/ports/",
    "actors/testing/",
    "src/github/",
    "src/providers/",
    "src/store/",
    "src/daemon/",
];

#[test]
fn every_name_stays_in_its_home() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["actors", "src"] {
        collect_sources(&root.join(folder), &mut files);
    }
    assert!(
        files.len() > 2,
        "found no sources under {}: this test would prove nothing",
        root.display()
    );

    let mut strays = Vec::new();
    for (path, text) in sources_of(root, files) {
        if !is_test_only(&path) {
            strays.extend(strays_in(&path, &text));
        }
    }
    assert!(strays.is_empty(), "\n{}\n", strays.join("\n"));
}

/// Reads source files, each under its path from the root.
fn sources_of(root: &Path, files: Vec<PathBuf>) -> Vec<(String, String)> {
    let read = |file: PathBuf| {
        let path = file.strip_prefix(root).expect("found below the root").to_string_lossy();
        let text = fs::read_to_string(&file).expect("a source file is readable text");
        (path.replace('\\', "/"), text)
    };
    files.into_iter().map(read).collect()
}

/// Tells whether a file is declared under `#[cfg(test)]`, which the names of files say here.
fn is_test_only(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs") || path.ends_with("/fixtures.rs")
}

/// Returns one sentence for each word that is not at home in this file.
fn strays_in(path: &str, text: &str) -> Vec<String> {
    let mut strays = Vec::new();
    for rule in RULES.iter().filter(|rule| !rule.homes.iter().any(|home| is_home(home, path))) {
        for (number, line) in product_lines(text) {
            if let Some(word) = rule.names.iter().find(|word| names(line, word)) {
                let homes = rule.homes.join(", ");
                strays.push(format!(
                    "{path} names `{word}` on line {number}; its home is {homes}: {}",
                    rule.why
                ));
            }
        }
    }
    strays
}

fn is_home(home: &str, path: &str) -> bool {
    match home.strip_prefix('*') {
        Some(file_name) => path.ends_with(file_name),
        None if home.ends_with('/') => path.starts_with(home),
        None => path == home,
    }
}

/// Returns the numbered lines that ship: no comments, no `#[cfg(test)]` modules.
fn product_lines(text: &str) -> Vec<(usize, &str)> {
    let mut shipped = Vec::new();
    let mut after_cfg_test = false;
    let mut in_test_module = false;
    for (number, line) in (1..).zip(text.lines()) {
        if in_test_module {
            in_test_module = line != "}";
        } else if after_cfg_test && line.starts_with("mod ") && line.ends_with('{') {
            in_test_module = true;
        } else {
            let code = if line.trim_start().starts_with("//") { "" } else { line };
            shipped.push((number, code.split(" // ").next().unwrap_or_default()));
        }
        // Further attributes may stand between the `cfg` and its module.
        after_cfg_test = line == "#[cfg(test)]" || (after_cfg_test && line.starts_with("#["));
    }
    shipped
}

/// Tells whether a line holds a word, and not merely a longer name that contains it.
fn names(line: &str, word: &str) -> bool {
    let in_name = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let runs_on_before = word.starts_with(in_name) && before.is_some_and(in_name);
        let runs_on_after = word.ends_with(in_name) && after.is_some_and(in_name);
        !runs_on_before && !runs_on_after
    })
}

fn collect_sources(folder: &Path, files: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).expect("a source folder can be listed");
    for path in entries.map(|entry| entry.expect("a folder entry can be read").path()) {
        if path.is_dir() {
            collect_sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
}

/// The rules must be able to fail, or they prove nothing.
mod rules {
    use super::strays_in;

    #[test]
    fn a_stray_name_is_reported_with_file_line_home_and_reason() {
        let page = "use serde::Serialize;\n\nlet rows = sqlx::query(\"select 1\");\n";
        assert_eq!(
            strays_in("src/http/api.rs", page),
            [
                "src/http/api.rs names `sqlx` on line 3; its home is src/store/, src/import/garm/db.rs: only the store speaks SQL, and the import reads another program's database"
            ]
        );
        assert!(strays_in("src/store/jobs.rs", page).is_empty());
    }

    #[test]
    fn only_the_instance_can_delete_a_machine() {
        for step in [
            "kit.provider.delete(&machine).await?;",
            "    .delete(&machine)",
            "Provider::delete(&*provider, &machine).await?;",
            "fn new(provider: Arc<dyn Provider>) -> Self {",
            "fn new(provider: impl Provider) -> Self {",
            "forge.deregister(runner).await?;",
            "forge.mint(&name).await?;",
            "rows: Arc<dyn InstanceRows>,",
        ] {
            for stranger in [
                "actors/reaper/actor.rs",
                "actors/requeue/actor.rs",
                "actors/pool/actor.rs",
                "actors/fleet/actor.rs",
                "actors/jobs/actor.rs",
                "src/http/api.rs",
                "src/cli.rs",
            ] {
                assert_eq!(strays_in(stranger, step).len(), 1, "{stranger} may say {step}");
            }
            assert!(strays_in("actors/instance/actor.rs", step).is_empty(), "{step}");
        }
    }

    #[test]
    fn the_seeing_halves_are_for_everyone() {
        let looks = "fn new(machines: Arc<dyn Inventory>, runners: Arc<dyn Roster>, rows: Arc<dyn Records>)";
        assert!(strays_in("actors/reaper/actor.rs", looks).is_empty());
    }

    #[test]
    fn time_is_asked_for_in_the_shell_and_handed_to_the_decision() {
        let asks = "let now = self.clock.now();";
        assert!(strays_in("actors/pool/actor.rs", asks).is_empty());
        assert_eq!(strays_in("actors/pool/plan.rs", asks).len(), 1);
    }

    #[test]
    fn longer_names_comments_and_test_modules_do_not_count() {
        let fine = "\
//! Told by actix, kept by dashmap.
use crate::providers::kubernetes::Pod; // not kube::Client
fn new(errors: Box<dyn ProviderLike>) {}

#[cfg(test)]
#[expect(clippy::panic, reason = \"a test may\")]
mod tests {
    use actix::prelude::*;
}
";
        assert_eq!(strays_in("src/cli.rs", fine), [""; 0]);
    }

    #[test]
    fn code_after_a_test_module_or_under_a_lone_cfg_counts() {
        let after = "#[cfg(test)]\nmod tests {\n    use actix::Addr;\n}\n\nuse actix::Addr;\n";
        assert!(strays_in("actors/pool/plan.rs", after)[0].contains("on line 6"));
        let lone = "#[cfg(test)]\nuse proptest::prelude::*;\n\nuse actix::Addr;\n";
        assert!(strays_in("actors/pool/plan.rs", lone)[0].contains("on line 4"));
    }
}
