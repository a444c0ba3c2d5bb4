//! Who may name whom inside `src`: the direction of the program around the core.
//!
//! ```text
//!   ports, config, small helpers ◀─ adapters ◀─ daemon ─▶ surfaces ─▶ ports, config
//!                         store, github, providers        http, telemetry
//! ```
//!
//! The graph is computed from the paths in the sources (`crate::x`, `super::x`), test modules left
//! out. A module that is missing in the table, a path that the table does not allow, and a circle each
//! fail with a sentence. A new edge is a change of architecture: argue it beside its row.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{collect_sources, is_test_only, product_lines, sources_of};

/// A module of `src` and the modules it may name.
struct Layer {
    /// `http`, or `providers/*` for every folder of `src/providers`.
    name: &'static str,
    may_name: &'static [&'static str],
    why: &'static str,
}

const LAYERS: &[Layer] = &[
    // Leaves: plain helpers that know nothing of the program.
    Layer { name: "client", may_name: &[], why: "the outgoing HTTP client serves everyone" },
    Layer {
        name: "errors",
        may_name: &[],
        why: "printing an error with its causes needs no module",
    },
    Layer { name: "memory", may_name: &[], why: "the allocator is chosen before anything runs" },
    Layer {
        name: "tokens",
        may_name: &[],
        why: "tokens are created and checked by plain functions",
    },
    Layer {
        name: "config",
        may_name: &["errors"],
        why: "every module may read its section, so the configuration may know none of them",
    },
    Layer {
        name: "ports",
        may_name: &[],
        why: "traits and plain types are what lets adapters and surfaces not know each other",
    },
    // Adapters: one technology each. They never name each other, a surface, or the daemon.
    Layer {
        name: "store",
        may_name: &["errors", "ports"],
        why: "an adapter implements ports and knows no other adapter and no surface",
    },
    Layer {
        name: "github",
        may_name: &["client", "config", "errors", "ports"],
        why: "an adapter implements ports and knows no other adapter and no surface",
    },
    Layer {
        name: "providers",
        may_name: &["client", "config", "errors", "ports", "tokens"],
        why: "what providers share knows none of them, nor a surface",
    },
    Layer {
        name: "providers/*",
        may_name: &["client", "config", "errors", "ports", "providers", "tokens"],
        why: "a provider implements ports and knows no other adapter and no surface",
    },
    Layer {
        name: "import",
        may_name: &["client", "errors"],
        why: "it reads another program's data and writes a configuration, beside any daemon",
    },
    // Surfaces: they show and ask. They depend on the core's registry and on ports.
    Layer {
        name: "telemetry",
        may_name: &["client", "config", "errors", "ports"],
        why: "a surface depends on ports, never on an adapter or on the daemon",
    },
    Layer {
        name: "http",
        // The metrics route prints what telemetry counted; telemetry does not know HTTP.
        may_name: &["config", "errors", "ports", "telemetry", "tokens"],
        why: "a surface depends on ports, never on an adapter or on the daemon",
    },
    // The composition root: the one module that knows adapters and surfaces.
    Layer {
        name: "daemon",
        may_name: &[
            "client",
            "config",
            "errors",
            "github",
            "http",
            "ports",
            "providers",
            "providers/*",
            "store",
            "telemetry",
            "tokens",
        ],
        why: "it wires everything but the programs that start it",
    },
    // Programs: they start the composition root, and nothing names them but `main.rs`.
    Layer {
        name: "demo",
        // It shows what a real daemon recorded, from that daemon's own store.
        may_name: &["client", "config", "daemon", "errors", "ports", "store", "telemetry"],
        why: "a show around a whole daemon, which no daemon needs",
    },
    Layer {
        name: "cli",
        // `run`, `check --live`, `hook`, `store`, `keeper` and `poller` need what only the
        // composition root may pick: they reach it, and through `daemon::tools` adapters' programs.
        // `openapi` prints the description of the HTTP API.
        may_name: &[
            "client",
            "config",
            "daemon",
            "demo",
            "errors",
            "http",
            "import",
            "ports",
            "telemetry",
        ],
        why: "commands reach adapters through the composition root alone",
    },
];

/// One path in a source that leads to another module.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Edge {
    file: String,
    line: usize,
    from: String,
    to: String,
}

#[test]
fn every_module_names_only_those_below_it() {
    let edges = edges_of_src();
    assert!(edges.len() > 100, "found {} paths in src: this test would prove nothing", edges.len());
    let faults = faults(&edges);
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn no_modules_know_each_other_in_a_circle() {
    let edges = edges_of_src();
    let found = circle(edges.iter().map(|edge| (edge.from.as_str(), edge.to.as_str())));
    assert_eq!(found, None, "modules of src know each other in a circle");
    let allowed = LAYERS.iter().flat_map(|layer| layer.may_name.iter().map(|to| (layer.name, *to)));
    assert_eq!(circle(allowed), None, "the table allows a circle");
}

/// Returns a sentence for each path that the table does not allow.
fn faults(edges: &[Edge]) -> Vec<String> {
    let mut faults = BTreeSet::new();
    for Edge { file, line, from, to } in edges {
        let Some(layer) = layer(from) else {
            faults.insert(format!(
                "{file}: `{from}` is missing in the table of tests/layers/graph.rs"
            ));
            continue;
        };
        let Some(target) = layer_name(to) else {
            faults.insert(format!(
                "{file} names `{to}` on line {line}, which is missing in the table"
            ));
            continue;
        };
        if !layer.may_name.contains(&target) {
            let allowed = match layer.may_name {
                [] => "no other module".to_owned(),
                some => some.join(", "),
            };
            faults.insert(format!(
                "{file} names `{to}` on line {line}; `{}` may name {allowed}: {}",
                layer.name, layer.why
            ));
        }
    }
    faults.into_iter().collect()
}

fn layer(module: &str) -> Option<&'static Layer> {
    let name = layer_name(module)?;
    LAYERS.iter().find(|layer| layer.name == name)
}

/// Returns the row of a module: its own, or that of its folder.
fn layer_name(module: &str) -> Option<&'static str> {
    let of_folder = module.split_once('/').map(|(folder, _)| format!("{folder}/*"));
    let names = LAYERS.iter().map(|layer| layer.name);
    names.into_iter().find(|name| *name == module || of_folder.as_deref() == Some(*name))
}

fn edges_of_src() -> Vec<Edge> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    collect_sources(&root.join("src"), &mut files);
    let sources = sources_of(root, files).into_iter().filter(|(path, _)| !is_test_only(path));
    sources.flat_map(|(path, text)| edges(&path, &text)).collect()
}

/// Returns the paths of one file that lead to other modules.
fn edges(path: &str, text: &str) -> Vec<Edge> {
    let place = module_path(path);
    let Some(from) = place.first().map(|_| module_of(&place)) else { return Vec::new() };
    let mut edges = Vec::new();
    for (line, names) in paths(&place, text) {
        let to = module_of(&names);
        if !names.is_empty() && to != from {
            edges.push(Edge { file: path.to_owned(), line, from: from.clone(), to });
        }
    }
    edges
}

/// Returns the module path of a file: `src/http/api/mod.rs` is `http`, `api`. `main.rs` and `lib.rs`
/// are the root.
fn module_path(path: &str) -> Vec<String> {
    let inner = path.trim_start_matches("src/").trim_end_matches(".rs");
    let mut parts: Vec<String> = inner.split('/').map(str::to_owned).collect();
    if parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    if parts.len() == 1 && matches!(parts[0].as_str(), "main" | "lib") {
        parts.clear();
    }
    parts
}

/// Returns the module of the table that a path is in: its first name, and for providers the folder.
fn module_of(names: &[String]) -> String {
    match names {
        [first, second, ..] if first == "providers" && is_provider_folder(second) => {
            format!("providers/{second}")
        }
        [first, ..] => first.clone(),
        [] => String::new(),
    }
}

fn is_provider_folder(name: &str) -> bool {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/providers").join(name).is_dir()
}

/// Returns every path from the root of the crate that a file names, with its line.
fn paths(place: &[String], text: &str) -> Vec<(usize, Vec<String>)> {
    // One text, so that a `use` may run over several lines; an offset tells its line.
    let mut code = String::new();
    let mut starts = Vec::new();
    for (number, line) in product_lines(text) {
        starts.push((code.len(), number));
        code.push_str(line);
        code.push('\n');
    }
    let line_of = |at: usize| {
        let after = starts.partition_point(|(start, _)| *start <= at);
        starts.get(after.saturating_sub(1)).map_or(0, |(_, number)| *number)
    };
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        if !runs_on(&code, at) {
            let trees = tree(&code[at + "crate::".len()..]);
            found.extend(trees.into_iter().map(|names| (line_of(at), names)));
        }
    }
    for (at, _) in code.match_indices("super::") {
        let is_first = !runs_on(&code, at) && !code[..at].ends_with("::");
        if !is_first {
            continue;
        }
        let (mut up, mut rest) = (0, &code[at..]);
        while let Some(after) = rest.strip_prefix("super::") {
            (up, rest) = (up + 1, after);
        }
        let Some(kept) = place.len().checked_sub(up) else { continue };
        for names in tree(rest) {
            let full = place[..kept].iter().cloned().chain(names).collect();
            found.push((line_of(at), full));
        }
    }
    found
}

/// Tells whether a word begins in the middle of a longer name.
fn runs_on(code: &str, at: usize) -> bool {
    code[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_')
}

/// Reads the names of a path or of a tree of paths in braces.
fn tree(code: &str) -> Vec<Vec<String>> {
    let code = code.trim_start();
    if let Some(inner) = code.strip_prefix('{') {
        return branches(inner).into_iter().flat_map(tree).collect();
    }
    let end = code.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(code.len());
    let (name, rest) = code.split_at(end);
    if name.is_empty() {
        return Vec::new();
    }
    let below = rest.strip_prefix("::").map(tree).unwrap_or_default();
    if below.is_empty() {
        return vec![vec![name.to_owned()]];
    }
    let with_name = |names: Vec<String>| std::iter::once(name.to_owned()).chain(names).collect();
    below.into_iter().map(with_name).collect()
}

/// Splits the inside of braces at its own commas.
fn branches(inner: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                parts.push(&inner[start..at]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&inner[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts
}

/// Returns a circle among modules as a sentence, if there is one.
fn circle<'a>(edges: impl Iterator<Item = (&'a str, &'a str)>) -> Option<String> {
    let mut graph: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, to) in edges {
        graph.entry(from).or_default().insert(to);
    }
    let mut done = BTreeSet::new();
    let found = graph.keys().find_map(|start| visit(start, &graph, &mut Vec::new(), &mut done));
    found.map(|modules| modules.join(" → "))
}

fn visit<'a>(
    module: &'a str,
    graph: &BTreeMap<&'a str, BTreeSet<&'a str>>,
    way: &mut Vec<&'a str>,
    done: &mut BTreeSet<&'a str>,
) -> Option<Vec<&'a str>> {
    if let Some(at) = way.iter().position(|it| *it == module) {
        let mut found = way[at..].to_vec();
        found.push(module);
        return Some(found);
    }
    if !done.insert(module) {
        return None;
    }
    way.push(module);
    let targets = graph.get(module).into_iter().flatten();
    let found = targets.copied().find_map(|target| visit(target, graph, way, done));
    way.pop();
    found
}

/// The checks must be able to fail, or they prove nothing.
mod checks {
    use super::{circle, edges, faults};

    fn sentences(path: &str, text: &str) -> Vec<String> {
        faults(&edges(path, text))
    }

    #[test]
    fn a_surface_that_names_an_adapter_is_reported_with_file_line_and_reason() {
        let route = "use serde::Serialize;\nuse crate::github::webhook::open;\n";
        assert_eq!(
            sentences("src/http/webhook.rs", route),
            [
                "src/http/webhook.rs names `github` on line 2; `http` may name config, errors, ports, telemetry, tokens: a surface depends on ports, never on an adapter or on the daemon"
            ]
        );
        assert!(sentences("src/daemon/adapters.rs", route).is_empty());
    }

    #[test]
    fn every_forbidden_direction_fails() {
        for (path, code) in [
            ("src/http/health.rs", "use crate::daemon::Daemon;"),
            ("src/telemetry/mod.rs", "fn f(it: crate::http::AppState) {}"),
            ("src/telemetry/metrics/mod.rs", "use super::super::daemon::Daemon;"),
            ("src/store/mod.rs", "use crate::{errors::chain, providers::asking};"),
            ("src/github/mod.rs", "use crate::{\n    store::{\n        SqlStore,\n    },\n};"),
            ("src/providers/process/mod.rs", "use crate::providers::kubernetes::Kubernetes;"),
            ("src/providers/process/mod.rs", "use super::external::External;"),
            ("src/providers/process/jit.rs", "use super::super::external::External;"),
            ("src/providers/asking.rs", "use super::process::LocalProcess;"),
            ("src/config/mod.rs", "use crate::providers::process::Limits;"),
            ("src/ports/forge.rs", "use crate::github::GitHub;"),
            ("src/cli/store.rs", "use crate::store::backup;"),
            ("src/daemon/mod.rs", "use crate::cli::Cli;"),
            ("src/unlisted.rs", "use crate::ports::Status;"),
            ("src/cli/mod.rs", "use crate::unlisted::Thing;"),
        ] {
            assert_eq!(sentences(path, code).len(), 1, "{path} may say {code}");
        }
    }

    #[test]
    fn what_is_allowed_own_paths_tests_and_comments_do_not_fail() {
        for (path, code) in [
            ("src/http/webhook.rs", "use super::AppState;\nuse crate::http::gate::Gate;"),
            ("src/http/api/actions.rs", "use super::super::problem::Problem;"),
            ("src/providers/process/jit.rs", "use crate::providers::jit::unpack;"),
            ("src/providers/process/mod.rs", "use super::asking::Asking;"),
            (
                "src/store/mod.rs",
                "//! Not crate::http.\nuse crate::ports::History; // crate::daemon",
            ),
            ("src/http/mod.rs", "#[cfg(test)]\nmod tests {\n    use crate::store::SqlStore;\n}"),
            ("src/main.rs", "use ostler::cli::Cli;"),
        ] {
            assert_eq!(sentences(path, code), [""; 0], "{path}: {code}");
        }
    }

    #[test]
    fn a_circle_is_found_and_reported_in_order() {
        let straight = [("http", "telemetry"), ("telemetry", "ports"), ("daemon", "http")];
        assert_eq!(circle(straight.into_iter()), None);
        let round = straight.into_iter().chain([("telemetry", "daemon")]);
        assert_eq!(circle(round).as_deref(), Some("daemon → http → telemetry → daemon"));
    }
}
