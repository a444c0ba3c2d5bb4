//! The two walks in `actors/README.md` are the code: each file is there, and has the functions that it is
//! said to have. A walk visits a file once and stays short.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The heading of a walk, and how many files it may visit.
const WALKTHROUGHS: [(&str, usize); 2] = [
    ("### From a webhook to the provider's create", 25),
    ("### From an operator's delete to the provider's delete", 15),
];

/// One line of a walk: a file, and what happens there.
struct Stop {
    file: String,
    functions: Vec<String>,
}

#[test]
fn both_walkthroughs_name_files_and_functions_that_exist_and_visit_each_file_once() {
    let readme = read("actors/README.md");
    for (heading, most) in WALKTHROUGHS {
        let stops = stops(&readme, heading);
        let mut visited = BTreeSet::new();
        for stop in &stops {
            assert!(visited.insert(&stop.file), "{heading}: visits `{}` twice", stop.file);
            assert!(!stop.functions.is_empty(), "{heading}: nothing happens in `{}`", stop.file);
            let missing = missing_functions(&read(&stop.file), &stop.functions);
            assert!(missing.is_empty(), "{heading}: `{}` has no {missing:?}", stop.file);
        }
        assert!(stops.len() > 5, "{heading}: only {} files are a summary", stops.len());
        assert!(stops.len() <= most, "{heading}: {} files, at most {most}", stops.len());
    }
}

#[test]
fn a_missing_function_is_found() {
    let code = "pub(super) fn drive_retiring(&mut self) {}\nasync fn save<T>(row: T) {}\n";
    let missing = |names: &[&str]| {
        missing_functions(code, &names.iter().map(|&it| it.to_owned()).collect::<Vec<_>>())
    };
    assert!(missing(&["drive_retiring", "save"]).is_empty());
    assert_eq!(missing(&["drive", "save"]), ["drive"]);
}

fn read(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let text = fs::read_to_string(&path);
    assert!(text.is_ok(), "`{file}` is not there: {text:?}");
    text.unwrap_or_default()
}

/// Returns the numbered items below a heading: "1. `file`: `function`, `function`, and what they do". What
/// else is quoted there is taken for a function too.
fn stops(readme: &str, heading: &str) -> Vec<Stop> {
    let (_, below) = readme.split_once(heading).expect("a walk has its heading");
    let section = below.split("\n#").next().unwrap_or_default();
    // An item that is too long for a line goes on, indented, on the next.
    let section = section.replace("\n   ", " ");
    let mut stops = Vec::new();
    for line in section.lines() {
        let number = format!("{}. `", stops.len() + 1);
        let Some(rest) = line.strip_prefix(&number) else { continue };
        let (file, rest) = rest.split_once("`: ").expect("a colon after the file");
        let functions = rest.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        stops.push(Stop { file: file.to_owned(), functions });
    }
    stops
}

fn missing_functions(code: &str, functions: &[String]) -> Vec<String> {
    let is_declared =
        |name: &&String| ["(", "<"].iter().any(|after| code.contains(&format!("fn {name}{after}")));
    functions.iter().filter(|name| !is_declared(name)).cloned().collect()
}
