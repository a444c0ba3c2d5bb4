//! What adapters, surfaces and the composition root share: traits and plain types, no I/O.
//!
//! The core's own ports are `ostler_actors::ports`. Here is what the program around the core needs
//! beside them: what a forge brings along ([`ForgeServices`]), the history behind lists and pages
//! ([`History`]), and what the daemon says about itself ([`Status`]). Surfaces name these and never
//! an adapter; adapters implement them and never name a surface.

mod calls;
mod concern;
mod forge;
mod history;
mod setup;
mod status;

pub use calls::{CallHealth, CallTrouble};
pub use concern::{Concern, ConcernKind};
pub use forge::{
    DeliveryAttempt, DeliveryRefusal, EndingVersion, ForgeAdapter, ForgeFigures, ForgeHooks,
    ForgeMonitor, ForgeServices, ForgeWebhooks, HeaderLookup, HookRef, HookView, Installed,
    LATENESS_STEPS, Lateness, RateBudget, Received, ScopeCheck, WebhookFigures,
};
pub use history::{
    AuditEntry, Audited, DeathQuery, History, InstanceQuery, JobQuery, Page, Paged, Sequenced,
};
pub use setup::{AGENT_ENV, Release, fill_script};
pub use status::{SaveHealth, Shown, Stage, Status};
