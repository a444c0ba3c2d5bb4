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

/// After so long a wait is called a hang. A guard and no measure: it has to hold on a machine that
/// does much else, so no test may lean on it.
pub(crate) const HANG_LIMIT: Duration = Duration::from_mins(10);
