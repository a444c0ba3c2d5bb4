//! One runner, from the wish for it until nothing of it is left.

mod actor;
mod answer;
mod explain;
mod kit;
mod messages;

pub(crate) use actor::{Birth, Child, Links, start};
pub use answer::{Answer, Token};
pub use explain::explain_instance;
pub use kit::Kit;
pub use messages::{Consent, Dispatch, Permit, Retire, ToInstance};
