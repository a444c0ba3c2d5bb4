//! Promises to users, as stories: the real actors in a simulated world, on virtual time.
//!
//! Each story checks its own point; the numbered invariants, the world's oracle and the check for
//! leftovers run in all of them. The names `f01_…`, `c1_…`, `p1_…`, `i03_…` are the rows of
//! `tests/README.md`.

mod counterexamples;
mod counts;
mod deaths;
mod deletion;
mod draining;
mod intake;
mod lost;
mod operators;
mod pacing;
mod panics;
mod paperwork;
mod reaping;
mod registering;
mod requeueing;
mod restarts;
mod scaling;
mod shuffling;
mod silence;
mod slots;
mod story;

use ostler_actors::testing::{HOUR, MINUTE, SECOND};
use story::story;
