//! The root.

mod messages;

pub use messages::{Part, ToFleet};
