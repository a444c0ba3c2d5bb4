//! GitHub as the forge: github.com and GitHub Enterprise Server, by REST.
//!
//! ```text
//!   core ── Roster, Forge ──▶ roster.rs · registrar.rs · work.rs     what is asked, what it means
//!                                   │
//!                              api.rs   which identity asks: of those of the scope, the one with most budget
//!                            access.rs  whether a 404 came from GitHub to an identity that may look
//!                          exchange.rs  one request: secret, permit, call; one retry on 401
//!                             ┌─────┴──────┐
//!                     identity.rs       governor   may it be asked now? by lane, per identity
//!                     tokens fade           │
//!                             └─────┬──────┘
//!                              client.rs   one HTTP stack under octocrab; deadline on every call
//! ```
//!
//! An answer is translated by what the core does next, never by its number alone. A call that
//! was not sent made nothing; a call without an answer may have made something; a 404 is
//! absence only when GitHub itself wrote it, to an identity that provably may look, and even then
//! the core wants it twice. Not being allowed to ask is `Unknown`, never absence.
//!
//! Nothing is retried here except once after a 401: retries belong to the actors.
//! Secrets live in `secrecy` and appear in no error, log or debug output.

mod access;
mod answer;
mod api;
mod apps;
mod client;
mod deliveries;
mod delivery_stats;
mod etags;
mod exchange;
mod governor;
mod hooks;
mod identity;
mod live;
mod paging;
mod places;
mod ports;
mod registrar;
mod roster;
mod route;
mod searches;
mod settings;
mod sweep_cursor;
mod tally;
mod versions;
mod watch;
pub mod webhook;
mod wire;
mod work;

use std::sync::Arc;

use jiff::Timestamp;
use ostler_actors::model::{ForgeId, JobNotice, Place, RunnerName};
use ostler_actors::ports::{Chance, Clock};

pub use deliveries::SweepReport;
pub use governor::{
    Budget, Governor, Held, Lane, Limits, Permit, RateLimitHeaders, Resource, Ruling,
};
pub use hooks::{HookSpec, faults};
use settings::web_url;
pub use settings::{Auth, BadSettings, Credential, Settings};
pub use sweep_cursor::SweepCursor;

use crate::config::ForgeSettings;
use crate::ports::ForgeFigures;
use api::ApiClient;
use delivery_stats::DeliveryStats;
use etags::Etags;
use places::Places;
use registrar::Groups;
use searches::{SearchCursor, UnknownRunners};
use versions::Ending;
use webhook::{JobEvent, Secrets};

/// The adapter of the core to GitHub. Cheap to clone; clones share tokens, budgets and caches.
#[derive(Clone)]
pub struct GitHub {
    forge: ForgeId,
    secrets: Arc<Secrets>,
    /// Where its pages are.
    web_url: Arc<str>,
    api: Arc<ApiClient>,
    groups: Arc<Groups>,
    places: Arc<Places>,
    etags: Arc<Etags>,
    search_cursor: Arc<SearchCursor>,
    unknown_runners: Arc<UnknownRunners>,
    ending: Arc<Ending>,
    delivery_stats: Arc<DeliveryStats>,
}

impl GitHub {
    /// Opens the forge of a `[forge.NAME]`; it asks GitHub nothing yet.
    pub fn open(
        name: &str,
        settings: &ForgeSettings,
        clock: Arc<dyn Clock>,
        chance: Arc<dyn Chance>,
    ) -> Result<Self, BadSettings> {
        Self::new(Settings::from_config(name, settings), clock, chance)
    }

    /// Creates the adapter; it asks GitHub nothing yet. Must be called inside a tokio runtime,
    /// which then carries the connections.
    pub fn new(
        settings: Settings,
        clock: Arc<dyn Clock>,
        chance: Arc<dyn Chance>,
    ) -> Result<Self, BadSettings> {
        let forge = settings.forge.clone();
        let secrets = Arc::new(Secrets::new(&settings.webhook_secrets));
        let web_url = web_url(&settings.api_url).into();
        let api = Arc::new(ApiClient::new(settings, clock, chance)?);
        let delivery_stats = Arc::new(DeliveryStats::begin(api.watch.there()));
        Ok(Self {
            forge,
            secrets,
            web_url,
            api,
            groups: Arc::default(),
            places: Arc::default(),
            etags: Arc::default(),
            search_cursor: Arc::default(),
            unknown_runners: Arc::default(),
            ending: Arc::default(),
            delivery_stats,
        })
    }

    /// Remembers that a repository is active: jobs are looked for where jobs were heard of.
    pub fn remember(&self, place: &Place) {
        self.places.remember(place);
    }

    /// Takes the notice that a webhook brought: counts it, remembers the repository, and returns
    /// it with its date by our clock.
    pub fn record_event(&self, event: JobEvent) -> JobNotice {
        let JobEvent { mut notice, happened_at } = event;
        self.delivery_stats.record(notice.id.number, happened_at, self.api.watch.there());
        self.places.remember(&notice.place);
        notice.queued_at = self.api.watch.by_our_clock(notice.queued_at);
        notice
    }

    /// Returns what was asked so far, what is left of the budgets, how well we hear, how wrong our
    /// clock is, and which versions of the runner end soon.
    pub fn figures(&self) -> ForgeFigures {
        let (webhooks, ending) = (self.delivery_stats.figures(), self.ending.all());
        ForgeFigures { webhooks, ending, ..self.api.figures() }
    }

    /// Returns since when, and why, GitHub could not say whether a runner works.
    pub fn doubt_about(&self, runner: &RunnerName) -> Option<(Timestamp, String)> {
        self.unknown_runners.about(runner)
    }
}
