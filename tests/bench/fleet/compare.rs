//! This build against another build of the same bench, in turn and in one run.
//!
//! `BENCH_AGAINST` names the other build's `fleet` bench: only its daemon is used, measured by the same
//! code as ours. Each round also runs the other build a second time, so that the spread of one build
//! against itself is known: a ratio inside it says nothing.

use std::fmt::Write as _;
use std::path::Path;

use super::churn::{Reading, run_churn};
use super::lives::resting_cost;
use super::measure::{Setting, number};
use super::part::{Figure, Part};
use super::speed::{burst_time, latencies};

/// What the median ratio may be; a part in twenty is the noise of a quiet machine.
const MAX_RATIO: f64 = 1.05;

/// What one build needed, in the order of [`FIGURES`].
type Sample = [f64; FIGURES.len()];

const FIGURES: [(&str, &str, bool); 6] = [
    ("webhook sent to create at 200/s, p50", "ms", true),
    ("webhook sent to create at 200/s, p99", "ms", false),
    ("burst of 1,000 jobs to the last create", "ms", true),
    ("5,000 jobs of 0.2 s through 500 slots", "s", true),
    ("10,000 idle instances: CPU", "s a minute", true),
    ("10,000 idle instances: RSS", "MiB", true),
];

/// Measures `BENCH_PAIRS` rounds and reports the median ratios.
pub(crate) fn compare(part: &mut Part, ours: &Setting, other: &Path) {
    let mut theirs = ours.clone();
    theirs.house = Some(other.to_path_buf());
    let rounds = number("BENCH_PAIRS", 5);
    part.condition(format!("{rounds} rounds of: other build, this build, other build again"));
    let (mut ratios, mut spreads) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        // The middle place goes to each in turn, so that a machine that warms up favours no build.
        let (other, this, again);
        if round % 2 == 1 {
            (other, this) = (sample(&theirs), sample(ours));
        } else {
            this = sample(ours);
            other = sample(&theirs);
        }
        again = sample(&theirs);
        println!("   round {round}: other {other:.1?}, this {this:.1?}, other again {again:.1?}");
        ratios.push(quotient(&this, &other));
        spreads.push(quotient(&again, &other));
    }
    for (at, (name, unit, judged)) in FIGURES.into_iter().enumerate() {
        let (ratio, spread) = (column(&ratios, at), column(&spreads, at));
        let mut note = format!("median of {}; ", all(&ratio));
        write!(note, "the other build against itself {}", all(&spread)).expect("a string");
        let limit = spread.last().copied().unwrap_or(MAX_RATIO).max(MAX_RATIO);
        let figure = Figure::new(format!("{name} ({unit}), this / other"), median(&ratio), "times");
        part.take(if judged { figure.at_most(limit) } else { figure }.remark(note));
    }
}

fn sample(setting: &Setting) -> Sample {
    let (p50, p99) = latencies(setting, 200);
    let burst = burst_time(setting, 1_000);
    let churn = run_churn(setting, 500, 5_000, Reading::No).took;
    let (cpu, rss) = resting_cost(setting, number("BENCH_LARGE", 10_000));
    [p50, p99, burst, churn, cpu, rss]
}

fn quotient(this: &Sample, other: &Sample) -> Sample {
    std::array::from_fn(|at| this[at] / other[at])
}

/// Returns one figure of all rounds, sorted.
fn column(rounds: &[Sample], at: usize) -> Vec<f64> {
    let mut values: Vec<f64> = rounds.iter().map(|round| round[at]).collect();
    values.sort_by(f64::total_cmp);
    values
}

fn median(sorted: &[f64]) -> f64 {
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

fn all(sorted: &[f64]) -> String {
    sorted.iter().map(|it| format!("{it:.2}")).collect::<Vec<_>>().join(" ")
}
