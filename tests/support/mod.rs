//! Real servers for tests, started and removed by the test that needs them.

pub(crate) mod browser;
pub(crate) mod certificates;
pub(crate) mod cluster;
pub(crate) mod cut;
pub(crate) mod daemon;
pub(crate) mod external;
pub(crate) mod http;
pub(crate) mod kubelet;
pub(crate) mod postgres;
pub(crate) mod process;
