//! Jobs nobody is serving.

mod messages;

pub use messages::ToRequeue;
