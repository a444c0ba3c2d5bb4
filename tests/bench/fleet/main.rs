//! The whole daemon under load: `make bench`.
//!
//! Three processes: this one measures; `forge` is the played GitHub; `house` is the daemon with the
//! simulated provider lent to it (or `ostler run` itself, with real processes as machines).
//! `BENCH_ONLY=latency,idle` runs a few, `BENCH_IDLE_SECONDS` and `BENCH_REST_SECONDS` set how long idleness is watched,
//! `BENCH_LARGE` the size of the large fleet (10,000).
//! `BENCH_AGAINST=PATH` compares with another build of this bench instead (`make campaign NAME=compare`).

#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark measures real time and waits for real processes"
)]
#![expect(clippy::panic, reason = "a bench that cannot measure stops")]
#![expect(clippy::cast_precision_loss, reason = "figures are for people")]

mod churn;
mod compare;
#[path = "../../support/external.rs"]
#[expect(dead_code, reason = "the bench looks into no cloud")]
mod external;
mod floor;
mod forge;
mod house;
mod lent_provider;
mod lives;
mod measure;
#[path = "../part.rs"]
mod part;
#[path = "../../support/postgres.rs"]
#[expect(dead_code, reason = "the bench kills no servers")]
mod postgres;
mod reader;
#[path = "../../support/skip.rs"]
mod skip;
mod speed;
mod stage;

use std::path::Path;
use std::time::Duration;

use ostler::memory::{self, Allocator};

/// As in the program: `house` is the daemon.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() {
    memory::give_back_at_once();
    let words: Vec<String> = std::env::args().skip(1).filter(|it| !it.starts_with("--")).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["forge"] => forge::serve().expect("a server"),
        ["house", folder] => house::run(Path::new(folder), None),
        ["house", folder, late] => {
            house::run(Path::new(folder), late.parse().ok().map(Duration::from_secs));
        }
        _ => measure::all(),
    }
}
