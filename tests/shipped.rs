//! What ships is the product: no simulated world, no test clock, no deliberate mistakes, no panics on request.
//!
//! Two tests hold that. One asks cargo which features a build has, in a second, in every run. The other
//! searches the binary that `make dist` built for the traces of all four, and runs in `make dist-check`.
//! Each makes the same search where the traces must be found, because a search that finds nothing anywhere
//! proves nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Returns the features of each package that a build of the program has.
fn features(edges: &str, flags: &[&str]) -> BTreeMap<String, Vec<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--package", "ostler", "--prefix", "none"])
        .args(["--format", "{p}|{f}", "--edges", edges])
        .args(flags)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let listing = String::from_utf8(output.stdout).expect("cargo prints text");
    let mut features = BTreeMap::new();
    for line in listing.lines() {
        let (package, list) = line.split_once('|').expect("the format of the line");
        let name = package.split(' ').next().expect("a package has a name");
        let list = list.trim_end_matches(" (*)").split(',').map(str::to_owned).collect();
        features.insert(name.to_owned(), list);
    }
    features
}

fn has(features: &BTreeMap<String, Vec<String>>, package: &str, feature: &str) -> bool {
    features[package].iter().any(|name| name == feature)
}

#[test]
fn a_build_for_users_has_no_simulated_world_no_test_clock_and_no_mistakes() {
    let dist = features("normal,build", &["--no-default-features"]);
    assert!(!has(&dist, "ostler", "lab"));
    assert!(!has(&dist, "ostler-actors", "testing"));
    assert!(!has(&dist, "ostler-actors", "mutants"));
    assert!(!has(&dist, "tokio", "test-util"));

    // `cargo run -- demo` and `-- sim` need the first two, and no mistakes either.
    let lab = features("normal,build", &[]);
    assert!(has(&lab, "ostler-actors", "testing"));
    assert!(has(&lab, "tokio", "test-util"));
    assert!(!has(&lab, "ostler-actors", "mutants"));

    let tests = features("normal,build,dev", &[]);
    assert!(has(&tests, "ostler-actors", "mutants"), "the mistakes are compiled for tests");
}

#[test]
fn everything_that_is_handed_out_is_built_without_the_lab() {
    for file in ["Makefile", "config/docker/Dockerfile"] {
        let text = read(file);
        let mut builds = text.lines().filter(|line| line.contains("--profile dist")).peekable();
        assert!(builds.peek().is_some(), "{file} builds nothing with the profile `dist`");
        for line in builds {
            assert!(line.contains("--no-default-features"), "{file}: {line}");
        }
    }
}

fn read(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    std::fs::read_to_string(path).expect("a file of the repository")
}

/// Names the traces that the four leave in a binary: symbols, as rustc mangles them, and texts.
const TRACES: [(&str, &str); 5] = [
    ("the simulated world", "13ostler_actors7testing"),
    ("the demo", "6ostler4demo"),
    ("the deliberate mistakes", "13ostler_actors7mutants"),
    ("tokio's test clock", "time is already frozen"),
    ("panics on request", "told to panic"),
];

fn traces(binary: &Path) -> Vec<&'static str> {
    let bytes = std::fs::read(binary).expect("the binary is readable");
    let holds = |trace: &str| bytes.windows(trace.len()).any(|window| window == trace.as_bytes());
    assert!(holds("13ostler_actors"), "{} has no symbols to search", binary.display());
    TRACES.iter().filter(|(_, trace)| holds(trace)).map(|(name, _)| *name).collect()
}

#[test]
#[ignore = "wants the binary of make dist, which takes minutes to build: make dist-check"]
fn the_shipped_binary_has_no_trace_of_the_simulation_and_that_of_the_tests_has_every_trace() {
    let dist =
        PathBuf::from(std::env::var_os("OSTLER_DIST").expect("make dist-check names the binary"));
    let every = TRACES.map(|(name, _)| name);
    assert_eq!(traces(Path::new(env!("CARGO_BIN_EXE_ostler"))), every);
    assert_eq!(traces(&dist), [""; 0]);
    if let Some(lab) = std::env::var_os("OSTLER_LAB") {
        let found = traces(Path::new(&lab));
        assert!(!found.contains(&"the deliberate mistakes"), "{found:?}");
        assert!(found.contains(&"tokio's test clock") && found.contains(&"the demo"), "{found:?}");
    }

    // The names of the two commands answer with the way to them, and stand in no manual or completion.
    let run = |arguments: &[&str]| -> Output {
        Command::new(&dist).args(arguments).output().expect("the program starts")
    };
    for name in ["demo", "sim"] {
        let output = run(&[name, "--seeds", "3"]);
        assert_eq!(output.status.code(), Some(2));
        let error = String::from_utf8(output.stderr).expect("text");
        assert!(error.contains(&format!("cargo run --release -- {name}")), "{error}");
    }
    for arguments in [
        &["--help"] as &[_],
        &["man"],
        &["completions", "bash"],
        &["completions", "zsh"],
        &["completions", "fish"],
    ] {
        let text = String::from_utf8(run(arguments).stdout).expect("text");
        assert!(text.contains("timeline"), "{text}");
        assert!(!text.contains("simulated") && !text.contains("demo"), "{text}");
    }
}
