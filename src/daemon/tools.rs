//! Programs of adapters that the command line starts beside a daemon: the keeper of a local machine,
//! the poller in a warm pod, and the upkeep of the store. The command line reaches adapters here and
//! nowhere else.

pub use crate::providers::asking::Asking;
pub use crate::providers::kubernetes::poller::{Polling, poll};
pub use crate::providers::process::keeper;
pub use crate::store::{OpenError, backup, upkeep};
