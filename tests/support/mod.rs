//! Real servers for tests, started and removed by the test that needs them.

pub(crate) mod browser;
pub(crate) mod certificates;
pub(crate) mod cluster;
pub(crate) mod cut;
pub(crate) mod daemon;
pub(crate) mod external;
pub(crate) mod http;
pub(crate) mod kubelet;
pub(crate) mod port;
pub(crate) mod postgres;
pub(crate) mod process;
pub(crate) mod skip;

use std::time::Duration;

/// A wait of this length is a hang. It is a guard, not a measure: it must be long enough on a busy
/// machine, so no test may assert anything by it.
pub(crate) const HANG_LIMIT: Duration = Duration::from_mins(10);
