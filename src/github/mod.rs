//! GitHub as the forge: github.com and GitHub Enterprise Server, by REST.
//!
//! ```text
//!   core ── Roster, Forge ──▶ roster.rs · registrar.rs · work.rs     what is asked, what it means
//!                                   │
//!                              hub.rs   who asks: of those whose scope it is, the one with the most room
//!                            access.rs  whether a 404 came from somebody who may look
//!                           exchange.rs  one question: secret, leave, call; one retry on 401
//!                             ┌─────┴──────┐
//!                     identity.rs       governor   may it be asked now? by lane, per identity
//!                     tokens fade           │
//!                             └─────┬──────┘
//!                              client.rs   one HTTP stack under octocrab; deadline on every call
//! ```
//!
//! An answer is translated by what the core does next, never by its number alone. A call that
//! was not sent made nothing; a call without an answer may have made something; a 404 is
//! absence only when GitHub itself wrote it, to somebody who provably may look, and even then
//! the core wants it twice. Not being allowed to ask is `Unknown`, never absence.
//!
//! Nothing is retried here except once after a 401: patience belongs to the actors.
//! Secrets live in `secrecy` and appear in no error, log or debug output.

mod access;
mod answer;
mod apps;
mod births;
mod client;
mod deliveries;
mod etags;
mod exchange;
mod failure;
mod governor;
mod groups;
mod hooks;
mod hub;
mod identity;
mod keys;
mod live;
mod paging;
mod places;
mod registrar;
mod roster;
mod route;
mod settings;
mod tally;
mod tls;
mod versions;
mod watch;
pub mod webhook;
mod wire;
mod work;

use std::sync::Arc;

use ostler_actors::model::{ForgeId, Place};
use ostler_actors::ports::{Chance, Clock};

pub use deliveries::{Hook, SweepReport};
pub use governor::{Budget, Governor, Held, Lane, Limits, Permit, Resource, Ruling, Told};
pub use hooks::{Delivery, HookView, HookWish, Installed, faults};
pub use live::{Finding, Grade, LiveWish};
pub use settings::{Auth, BadSettings, Credential, Settings};
pub use tally::{Figures, RateFigure};
pub(crate) use tls::client_config as trust;
pub use versions::EndingVersion;

use births::Births;
use etags::Etags;
use groups::Groups;
use hub::Hub;
use places::Places;

/// Is GitHub to the core. Cheap to clone; clones share tokens, budgets and memory.
#[derive(Clone)]
pub struct GitHub {
    forge: ForgeId,
    hub: Arc<Hub>,
    groups: Arc<Groups>,
    places: Arc<Places>,
    etags: Arc<Etags>,
    births: Arc<Births>,
}

impl GitHub {
    /// Makes the adapter; it asks GitHub nothing yet. Must be called inside a tokio runtime,
    /// which then carries the connections.
    pub fn new(
        settings: Settings,
        clock: Arc<dyn Clock>,
        chance: Arc<dyn Chance>,
    ) -> Result<Self, BadSettings> {
        Ok(Self {
            forge: settings.forge.clone(),
            hub: Arc::new(Hub::new(settings, clock, chance)?),
            groups: Arc::default(),
            places: Arc::default(),
            etags: Arc::default(),
            births: Arc::default(),
        })
    }

    /// Remembers that a repository is active: jobs are looked for where jobs were heard of.
    pub fn remember(&self, place: &Place) {
        self.places.remember(place);
    }

    /// Returns what was asked so far, what is left of the budgets, and how wrong our clock is.
    pub fn figures(&self) -> Figures {
        self.hub.figures()
    }
}
