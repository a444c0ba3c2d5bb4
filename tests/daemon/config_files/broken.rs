//! Every broken file beside this test must be fixable from its message alone. The messages are kept
//! as `.txt`; `UPDATE=1` writes them anew, read the difference as a new user would.

use std::fs;
use std::path::{Path, PathBuf};

use ostler::config::Severity;
use proptest::prelude::*;

use super::{load_here, load_text};

/// Relative, so that messages name the files in the same way on every machine.
const FOLDER: &str = "tests/daemon/broken";

#[test]
fn every_broken_file_says_how_to_mend_it() {
    let update = std::env::var_os("UPDATE").is_some();
    let cases = cases();
    assert!(cases.len() >= 30, "only {} broken files were found", cases.len());
    let mut differing = Vec::new();
    for case in cases {
        let said = match load_here(&case) {
            Ok(loaded) => format!("this file is fine\n{}", loaded.warnings),
            Err(problems) => problems.to_string(),
        };
        let kept = case.with_extension("txt");
        if update {
            fs::write(&kept, &said).expect("the message can be written");
        }
        let expected = fs::read_to_string(&kept).unwrap_or_default();
        if said != expected {
            differing
                .push(format!("{}:\n--- expected\n{expected}\n--- said\n{said}", case.display()));
        }
    }
    assert!(differing.is_empty(), "messages differ:\n{}", differing.join("\n"));
}

#[test]
fn every_error_has_a_place_a_key_and_a_way_out() {
    for case in cases() {
        let Err(problems) = load_here(&case) else { panic!("{} is not broken", case.display()) };
        assert!(!problems.is_empty(), "{} is refused without a word", case.display());
        for report in
            problems.reports().into_iter().filter(|report| report.severity == Severity::Error)
        {
            assert!(!report.help.is_empty(), "{}: no way out of: {}", case.display(), report.what);
            let about_the_folder = report.what.contains("the directory");
            assert!(
                about_the_folder || report.line.is_some(),
                "{}: no place for: {}",
                case.display(),
                report.what
            );
        }
    }
}

#[test]
fn deep_nesting_is_refused_and_does_not_exhaust_the_stack() {
    for text in [
        format!("a = {}", "[".repeat(100_000)),
        format!("a = {}1{}", "{ b = ".repeat(50_000), "}".repeat(50_000)),
        format!("{}x = 1", "a.".repeat(100_000)),
        format!("[{}x]", "a.".repeat(100_000)),
        "[a]\n".repeat(10_000),
        "a = [\n".repeat(50_000),
        "a = [\n[\n[\n[\n".repeat(20_000),
    ] {
        assert!(load_text(text.as_bytes()).is_err());
    }
}

#[test]
fn the_wrong_file_is_not_explained_line_by_line() {
    for line in ["key", "= 1"] {
        let lines: Vec<String> = (0..5_000).map(|at| format!("{line}{at} = \n")).collect();
        let Err(problems) = load_text(lines.concat().as_bytes()) else { panic!("it was accepted") };
        assert_eq!(problems.len(), 501);
        assert!(problems.to_string().contains("more than 500 problems"));
    }
}

fn cases() -> Vec<PathBuf> {
    let entries = fs::read_dir(Path::new(FOLDER)).expect("tests run in the root of the project");
    let mut cases: Vec<PathBuf> =
        entries.map(|entry| entry.expect("a readable entry").path()).collect();
    cases.retain(|path| path.extension().is_none_or(|ending| ending == "toml"));
    cases.sort();
    cases
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_panic_the_loader(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let outcome = load_text(&bytes);
        drop(outcome.map_err(|problems| problems.to_string()));
    }

    #[test]
    fn no_damage_to_a_good_file_panics_the_loader(
        from in 0_usize..10_000, length in 0_usize..40, put in "[\\[\\]{}=\"'#.,\n a-z0-9é_-]{0,12}",
    ) {
        let text = fs::read_to_string("config/example.toml").expect("the example is there");
        let mut bytes = text.into_bytes();
        let from = from.min(bytes.len());
        let to = (from + length).min(bytes.len());
        bytes.splice(from..to, put.bytes());
        let outcome = load_text(&bytes);
        drop(outcome.map_err(|problems| (problems.to_string(), problems.reports())));
    }
}
