//! Providers of three kinds, with machines that live, work, and die in every way there is.
//!
//! *Split* machines have a poller apart from the runner, a full witness and proof of whether
//! the runner ever began. *Witness* machines are like processes: they show a worker, and
//! cannot prove a beginning. *Blind* machines are like VMs: they show nothing of a job.

mod doing;
mod hosts;
mod life;
mod machine_state;
mod seeing;

pub(super) use doing::runner_of;
pub(super) use machine_state::Hand;
pub use machine_state::{Kind, Machine, Machines, Stage};

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::outside::Shared;

/// Serves one provider from the truth, with lies.
#[derive(Clone)]
pub struct SimProvider {
    shared: Arc<Shared>,
    index: usize,
    slots: Arc<Semaphore>,
}

/// How many creates of a blind provider run at once.
const CREATE_SLOTS: usize = 4;

impl SimProvider {
    /// Makes a handle onto the provider of this index.
    pub fn new(shared: Arc<Shared>, index: usize) -> Self {
        Self { shared, index, slots: Arc::new(Semaphore::new(CREATE_SLOTS)) }
    }
}
