//! What must always hold, numbered, with one text for tests, simulation and production.
//!
//! I1…I30 are the lessons of other fleets; I31 and up are what our own contract adds. Three
//! kinds of checker share the numbers: a *step* checker looks at one save beside the row it
//! replaces and costs a few comparisons, so it runs after every step; a *scan* looks at all
//! live rows, the board and the jobs, so it runs now and then; the rest is held by types, or
//! by a test named in the table.
//!
//! A checker decides nothing and repairs nothing. It returns what is broken, in words; tests
//! fail on it, and production [reports](report) it: `invariant_violations_total` must read 0.

mod jobs;
mod moves;
mod rows;
mod scan;
mod table;

use std::fmt;

pub use jobs::check_job;
pub use moves::{Passage, passage};
pub use rows::{check_rows, check_save};
pub use scan::{Snapshot, check_budget, scan};
pub use table::{Checked, INVARIANTS, Invariant};

use crate::registry::Registry;

/// Tells which invariant is broken, by whom, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its number in [`INVARIANTS`].
    pub number: u8,
    /// The instance, job or pool.
    pub about: String,
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "I{} is broken by `{}`: {}", self.number, self.about, self.text)
    }
}

/// Counts and logs what is broken; nothing else happens, for a checker must not do harm.
pub fn report(registry: &Registry, violations: &[Violation]) {
    for violation in violations {
        registry.count_violation();
        tracing::error!(invariant.number = violation.number, "{violation}");
    }
}

/// Collects what is broken about one thing; costs nothing while nothing is.
struct Inquest<'a> {
    about: &'a dyn fmt::Display,
    broken: Vec<Violation>,
}

impl<'a> Inquest<'a> {
    fn about(about: &'a dyn fmt::Display) -> Self {
        Self { about, broken: Vec::new() }
    }

    fn demand(&mut self, holds: bool, number: u8, text: impl FnOnce() -> String) {
        if !holds {
            let about = self.about.to_string();
            self.broken.push(Violation { number, about, text: text() });
        }
    }
}

#[cfg(test)]
mod tests;
