//! How many, and whom to let go.

mod messages;

pub use messages::{Demand, Outcome, Report, RetireAnswer, ToPool};
