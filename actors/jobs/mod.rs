//! What is asked of us.

mod messages;

pub use messages::{Accepts, Finding, InstanceNews, News, ToLedger};
