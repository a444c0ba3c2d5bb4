//! Deliveries that GitHub would not send: signature and parser against mutated bytes.
//!
//! Every test run tries each file of the corpus with a few thousand mutations. `make fuzz` prefers
//! the fuzzer that is guided by coverage (`tests/fuzz`), which wants a nightly compiler; without one
//! it runs this for `FUZZ_SECONDS`. What must hold is written once, in `tests/fuzz/judge.rs`.

use std::time::Duration;

use jiff::Timestamp;
use ostler::github::webhook;
use tokio::time::Instant;

#[path = "../fuzz/judge.rs"]
mod judge;

use judge::Judge;

/// Pieces that mean something to the parser.
const FRAGMENTS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "null",
    "true",
    "-1",
    "1e999",
    "18446744073709551616",
    "\"workflow_job\":",
    "\"action\":",
    "\"queued\"",
    "\"in_progress\"",
    "\"completed\"",
    "\"waiting\"",
    "\"repository\":",
    "\"owner\":",
    "\"login\":",
    "\"labels\":",
    "\"created_at\":",
    "\"9999-12-31T23:59:60Z\"",
    "\"-009999-01-01T00:00:00Z\"",
    "\\u0000",
    "\\ud800",
    "\u{feff}",
    "payload=",
    "\"runner_name\":",
    "\"enterprise\":{\"slug\":null}",
    "\"acme\"",
    "\"id\":",
];

/// Chance from a seed (splitmix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// Returns a number below `end`, which is not 0.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.roll() % u64::try_from(end).unwrap()).unwrap()
    }
}

fn mutate(dice: &mut Dice, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = corpus[dice.below(corpus.len())].clone();
    for _ in 0..=dice.below(6) {
        let at = dice.below(bytes.len() + 1);
        let until = (at + dice.below(48)).min(bytes.len());
        match dice.below(7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
            1 => bytes.insert(at, u8::try_from(dice.below(256)).unwrap()),
            2 => drop(bytes.drain(at..until)),
            3 => {
                let word = FRAGMENTS[dice.below(FRAGMENTS.len())].bytes();
                drop(bytes.splice(at..until, word));
            }
            4 => {
                let other = &corpus[dice.below(corpus.len())];
                let from = dice.below(other.len() + 1);
                drop(bytes.splice(at.., other[from..].iter().copied()));
            }
            5 => {
                let copy = bytes[at..until].to_vec();
                drop(bytes.splice(at..at, copy));
            }
            _ => bytes.truncate(at),
        }
    }
    bytes
}

fn corpus() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fuzz/corpus");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect();
    paths.sort();
    let corpus: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).unwrap()).collect();
    assert!(!corpus.is_empty());
    corpus
}

/// Mutates until it is told to stop; returns how many bodies were tried and how many were jobs.
fn run(seed: u64, goes_on: impl Fn(u64) -> bool) -> (u64, u64) {
    let (judge, mut corpus) = (Judge::new(), corpus());
    let (mut tried, mut jobs) = (0, 0);
    let mut dice = Dice(seed);
    for body in &corpus {
        judge.judge(body);
    }
    while goes_on(tried) {
        let state = dice.0;
        let body = mutate(&mut dice, &corpus);
        let judged = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| judge.judge(&body)));
        let Ok(job) = judged else {
            let text = String::from_utf8_lossy(&body);
            panic!("seed {state}: add this to tests/fuzz/corpus and mend it:\n{text}");
        };
        tried += 1;
        jobs += u64::from(job);
        // Mutants that are still jobs breed, so that later ones go deeper.
        if job && body.len() < 65_536 {
            if corpus.len() < 256 {
                corpus.push(body);
            } else {
                let at = 8 + dice.below(248);
                corpus[at] = body;
            }
        }
    }
    (tried, jobs)
}

#[test]
fn mutated_deliveries_are_refused_in_order_or_read_in_order() {
    let (tried, jobs) = run(1, |tried| tried < 3_000);
    assert!(jobs * 50 > tried, "{jobs} of {tried} got through to the parser's end: too few");
}

#[test]
#[ignore = "runs as long as it is told to: make fuzz FUZZ_SECONDS=60"]
fn fuzz() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seconds = number("FUZZ_SECONDS").unwrap_or(60);
    let now = u64::try_from(Timestamp::now().as_nanosecond() & i128::from(u32::MAX)).unwrap();
    let seed = number("FUZZ_SEED").unwrap_or(now);
    let until = Instant::now() + Duration::from_secs(seconds);
    let (tried, jobs) = run(seed, |_| Instant::now() < until);
    println!("fuzz: seed={seed} seconds={seconds} deliveries={tried} jobs={jobs} faults=0");
}
