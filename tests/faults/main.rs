//! The fault campaign (`make campaign NAME=faults`) and the soak (`make campaign NAME=soak`): the real daemon with real processes,
//! store and HTTP, and everything that goes wrong around it.
//!
//! Each fault has a stage of its own: a daemon under load, the fault, and then the same questions. Is
//! every job over, run once, ended as its script says? Is nothing left, at the provider, among the
//! processes, at GitHub, in the records? Did the daemon break a promise or panic? A fault that cannot
//! be injected on this machine (no root, no libfaketime) is named as skipped.
//!
//! `FAULTS=disk,clock` runs a few; `MINUTES=10` is how long the daemon is killed every five seconds;
//! `RUNNERS=200` is the load of that; `LOAD=40` the load of the others. The soak takes `HOURS=72` and
//! `SEED=1` for its days in virtual time, `MINUTES=30` and `LOAD=20` for those of reality.

#![expect(clippy::disallowed_methods, reason = "real processes in real time")]

mod days;
mod herd;
mod soak;
#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "the campaign needs a part of it")]
mod support;
mod table;
mod trouble;
mod weight;

use table::Row;
use weight::Weighed;

#[global_allocator]
static ALLOCATOR: Weighed = Weighed;

/// Names a fault and how it is brought about.
type Fault = (&'static str, fn(&mut Row));

const FAULTS: &[Fault] = &[
    ("kill", trouble::killed_every_five_seconds),
    ("postgres", trouble::postgresql_restarts),
    ("disk", trouble::disk_is_full),
    ("outage", trouble::github_is_down),
    ("lies", trouble::github_lies),
    ("hang", trouble::provider_hangs),
    ("clock", trouble::clock_jumps),
    ("sleep", trouble::daemon_sleeps),
    ("storm", trouble::storm_of_bad_signatures),
    ("memory", trouble::memory_is_capped),
];

fn main() -> std::process::ExitCode {
    if std::env::args().any(|word| word == "soak") {
        return soak::run();
    }
    let only = std::env::var("FAULTS").unwrap_or_default();
    let mut rows = Vec::new();
    for (name, fault) in FAULTS {
        if !only.is_empty() && !only.split(',').any(|it| it == *name) {
            continue;
        }
        println!("== {name}");
        let row = Row::of(name, *fault);
        println!("   {row}");
        rows.push(row);
    }
    table::show("faults", &rows)
}
