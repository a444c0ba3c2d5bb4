//! What creates machines: one folder a technology, each behind the ports of the core.
//!
//! A provider decides nothing about a machine's life. It creates what is ordered, shows what is
//! there, and deletes what the owner of an instance tells it to. What else it can do it declares
//! itself (`capabilities()`). Each folder has one `open(name, settings, context)`.

pub mod asking;
pub mod external;
mod jit;
pub mod kubernetes;
pub mod process;

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use ostler_actors::model::ForgeId;
use ostler_actors::ports::{Provider, Records};

use crate::config::Config;
use crate::ports::History;
use crate::tokens::Tokens;

/// What a provider may use when it is opened, beside its own section of the configuration.
pub struct OpenContext<'a> {
    pub config: &'a Config,
    /// The pages of the configured forges: `https://github.com`.
    pub forge_pages: BTreeMap<ForgeId, String>,
    /// Creates the tokens with which machines call home.
    pub tokens: Tokens,
    /// None where a provider is only tried and creates nothing.
    pub records: Option<(Arc<dyn Records>, Arc<dyn History>)>,
}

/// What opening a provider brings. Opening asks nothing of the outside and clears nothing, so that a
/// new set of providers can be opened while the fleet of the old one still acts.
pub type Opened = Result<Arc<dyn Provider>, Box<dyn Error + Send + Sync>>;
