//! The same seed tells the same story, here and in any other process.

use std::process::{Command, Output};

use ostler_actors::mutants::Mutant;
use ostler_actors::testing::sim::{self, Detail, Worlds};

use super::mutants::Mistake;

fn ostler(arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_ostler");
    Command::new(program).arg("sim").args(arguments).output().expect("the program starts")
}

fn said(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("words")
}

#[test]
fn the_same_seed_tells_the_same_story_in_another_process() {
    for seed in ["1", "11"] {
        let (first, second) = (ostler(&["--replay", seed]), ostler(&["--replay", seed]));
        assert!(first.status.success(), "{}", said(&first));
        assert!(said(&first).lines().count() > 1_000, "the whole story is told");
        // Not `assert_eq`: two stories of a megabyte help no reader.
        assert!(first.stdout == second.stdout, "seed {seed} told two stories");
        assert_eq!(first.status, second.status);
    }
}

#[test]
fn different_seeds_tell_different_stories() {
    let hash = |seed| sim::run_seed(seed, Detail::Nothing).hash;
    assert_ne!(hash(1), hash(2));
    assert_eq!(hash(1), hash(1));
}

#[test]
fn a_simulation_ends_with_the_one_line_that_programs_read() {
    let output = ostler(&["--seeds", "4", "--from", "20"]);
    assert!(output.status.success(), "{}", said(&output));
    let lines: Vec<&str> = said(&output).lines().collect();
    let [.., places, leaving, stranded, line] = lines[..] else { panic!("four lines: {lines:#?}") };
    for (waits, name) in [(places, "places"), (leaving, "leaving"), (stranded, "stranded")] {
        let words: Vec<&str> = waits.split(' ').collect();
        let [first, half, most, max] = words[..] else { panic!("{waits}") };
        assert_eq!(first, name);
        let figure = |word: &str, key: &str| {
            let text = word.strip_prefix(key).unwrap_or_else(|| panic!("{key} in {waits}"));
            text.parse::<u64>().expect("whole seconds")
        };
        let (half, most) = (figure(half, "p50="), figure(most, "p99="));
        assert!(half <= most && most <= figure(max, "max="), "{waits}");
    }
    let words: Vec<&str> = line.split(' ').collect();
    let [sim, fields @ ..] = &words[..] else { panic!("{line}") };
    assert_eq!(*sim, "sim:");
    let (names, figures): (Vec<&str>, Vec<&str>) =
        fields.iter().filter_map(|field| field.split_once('=')).unzip();
    assert_eq!(names, ["seeds", "lifetimes", "faults", "violations", "years"]);
    let whole: Vec<u64> =
        figures[..4].iter().map(|figure| figure.parse().expect("a count")).collect();
    assert!(whole[0] == 4 && whole[1] > 0 && whole[2] > 0 && whole[3] == 0, "{line}");
    assert!(figures[4].parse::<f64>().is_ok_and(f64::is_finite), "{line}");
}

#[test]
fn how_many_worlds_run_at_once_changes_nothing() {
    let arguments = |threads| ["--seeds", "4", "--from", "30", "--threads", threads];
    assert_eq!(said(&ostler(&arguments("1"))), said(&ostler(&arguments("2"))));
}

#[test]
fn a_failing_seed_is_printed_with_what_it_broke_and_its_story() {
    let _made = Mistake::commit(Mutant::RecordAfterDelete);
    let (tally, story) = sim::replay(Worlds::StormAndHealing, 1);
    let [failure] = &tally.failures[..] else { panic!("one seed, one failure: {tally:?}") };
    assert_eq!(failure.seed, 1);
    assert!(failure.what.contains("I14") && tally.violations > 0, "{}", failure.what);
    let about = failure.what.split('`').nth(1).expect("a name");
    assert!(!failure.story.is_empty() && failure.story.iter().all(|line| line.contains(about)));
    assert!(failure.story.iter().all(|line| story.contains(line)), "it is part of the whole story");
    let words = super::report(&tally);
    assert!(words.starts_with("seed 1: I14") && words.contains(&failure.story[0]), "{words}");
}
