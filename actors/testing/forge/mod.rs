//! A forge that assigns by label like the real one, and is as unreliable.
//!
//! Any matching queued job goes to any matching idle runner: the runner made for A routinely
//! runs B. An assignment that no runner picks up within a minute lapses without a notice. News
//! of jobs goes out as webhooks, which are lost, doubled, late and out of order.

mod assign;
mod doing;
mod forge_state;
mod hooks;
mod seeing;
mod work;

pub use forge_state::{ForgeState, JobStage, SimJob, SimRunner};
pub(super) use hooks::Delivery;

use std::sync::Arc;

use super::outside::Shared;

/// Serves the forge from the truth, with lies.
#[derive(Clone)]
pub struct SimForge(Arc<Shared>);

impl SimForge {
    /// Makes a handle onto the forge.
    pub fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }
}
