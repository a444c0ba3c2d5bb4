//! A pool: what is wanted, and the patience it is managed with.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Event, ForgeId, PoolId, ProviderId, Revision, What};

/// Describes one pool: so many runners of one shape for one scope of one forge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PoolSpec {
    /// The pool's name.
    pub id: PoolId,
    /// The forge its runners register at.
    pub forge: ForgeId,
    /// The part of the forge its runners serve.
    pub scope: Scope,
    /// The provider that makes its machines.
    pub provider: ProviderId,
    /// When a runner is registered: at creation, or when a job is offered.
    pub binding: Binding,
    /// The labels its runners carry.
    pub labels: Labels,
    /// Whether jobs without labels are served.
    pub accept_unlabelled: bool,
    /// The runner group at the forge.
    pub runner_group: String,
    /// How many idle runners are kept beyond demand.
    pub min_idle: u32,
    /// How many machines may exist at once.
    pub max: u32,
    /// What the provider is asked to make.
    pub machine: MachineSpec,
    /// Changes when `machine` or `labels` change; older instances are rolled.
    pub revision: Revision,
    /// Begins the name of every instance.
    pub prefix: String,
    /// Deadlines and budgets.
    pub policy: Policy,
}

/// Describes the machine in the provider's terms; the core passes it on unread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineSpec {
    /// Image, in the provider's spelling.
    pub image: String,
    /// Size, in the provider's spelling.
    pub flavor: String,
    /// Operating system.
    pub os: String,
    /// Processor architecture.
    pub arch: String,
    /// Anything else the provider understands.
    pub extra: serde_json::Value,
}

/// Says when a runner is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Binding {
    /// The JIT config is minted before the machine is made.
    Early,
    /// The machine waits unregistered; the JIT config is minted for an offer.
    Late,
}

/// Holds the deadlines and budgets of a pool; defaults are the documented ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// How long a machine may take until its runner is ready.
    pub boot_timeout: Duration,
    /// How long a deregistered runner is watched before its machine may go.
    pub idle_confirm: Duration,
    /// How long a served machine is left to end by itself.
    pub linger: Duration,
    /// How long after its job ended elsewhere a machine is called a zombie.
    pub zombie_after: Duration,
    /// After how long a supervisor that is silent is no witness any more.
    pub witness_timeout: Duration,
    /// How long a machine in doubt is kept once its runner is unregistered.
    pub doubt_limit: Duration,
    /// When slow becomes `stuck`.
    pub stuck_after: Duration,
    /// How long the post-mortem may take.
    pub postmortem_timeout: Duration,
    /// How long an unanswered create may still make a machine.
    pub create_settle: Duration,
    /// How far apart two reads must be to prove absence.
    pub absence_confirm: Duration,
    /// How long a surplus runner stays idle before it is asked to go.
    pub scale_down_after: Duration,
    /// How long a machine that should ask for work may be silent before it is replaced.
    pub poller_timeout: Duration,
    /// The age at which an idle runner is replaced, if any.
    pub max_lifetime: Option<Duration>,
    /// How many machines may be starting at once.
    pub start_permits: u32,
    /// How many machines may be starting at once on one host.
    pub start_permits_per_host: u32,
    /// How many instances a minute may be asked to go.
    pub retire_budget: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            boot_timeout: Duration::from_mins(5),
            idle_confirm: Duration::from_secs(90),
            linger: Duration::from_secs(5),
            zombie_after: Duration::from_mins(15),
            witness_timeout: Duration::from_mins(10),
            doubt_limit: Duration::from_hours(5 * 24),
            stuck_after: Duration::from_mins(5),
            postmortem_timeout: Duration::from_secs(10),
            create_settle: Duration::from_mins(10),
            absence_confirm: Duration::from_mins(1),
            scale_down_after: Duration::from_mins(5),
            poller_timeout: Duration::from_mins(3),
            max_lifetime: None,
            start_permits: 32,
            start_permits_per_host: 4,
            retire_budget: 20,
        }
    }
}

/// Names the part of a forge that a pool serves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Scope {
    /// One repository.
    Repository {
        /// Its owner.
        owner: String,
        /// Its name.
        name: String,
    },
    /// All repositories of an organization.
    Organization(String),
    /// All organizations of an enterprise.
    Enterprise(String),
}

impl Scope {
    /// Returns whether jobs of `place` belong to this scope; forges compare names without case.
    pub fn covers(&self, place: &Place) -> bool {
        match self {
            Self::Repository { owner, name } => {
                owner.eq_ignore_ascii_case(&place.owner)
                    && name.eq_ignore_ascii_case(&place.repository)
            }
            Self::Organization(owner) => owner.eq_ignore_ascii_case(&place.owner),
            Self::Enterprise(slug) => {
                place.enterprise.as_ref().is_some_and(|of_job| slug.eq_ignore_ascii_case(of_job))
            }
        }
    }

    /// Returns whether rights in this scope reach the other: itself, or an organization's
    /// repository. Which organizations an enterprise has no name tells.
    pub fn reaches(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Organization(owner), Self::Repository { owner: of, .. }) => {
                owner.eq_ignore_ascii_case(of)
            }
            (
                Self::Repository { .. } | Self::Organization(_) | Self::Enterprise(_),
                Self::Repository { .. } | Self::Organization(_) | Self::Enterprise(_),
            ) => self.to_string().eq_ignore_ascii_case(&other.to_string()),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Repository { owner, name } => write!(f, "{owner}/{name}"),
            Self::Organization(owner) => f.write_str(owner),
            Self::Enterprise(slug) => write!(f, "enterprises/{slug}"),
        }
    }
}

/// Tells why a scope cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a scope; write `acme`, `acme/web` or `enterprises/acme`")]
pub struct BadScope(String);

impl FromStr for Scope {
    type Err = BadScope;

    fn from_str(text: &str) -> Result<Self, BadScope> {
        let parts: Vec<&str> = text.split('/').collect();
        match parts.as_slice() {
            ["", ..] | [.., ""] => Err(BadScope(text.into())),
            [owner] => Ok(Self::Organization((*owner).into())),
            [first, slug] if first.eq_ignore_ascii_case("enterprises") => {
                Ok(Self::Enterprise((*slug).into()))
            }
            [owner, name] => Ok(Self::Repository { owner: (*owner).into(), name: (*name).into() }),
            _ => Err(BadScope(text.into())),
        }
    }
}

/// Tells where a job comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// Owner of the repository: a user or an organization.
    pub owner: String,
    /// The repository.
    pub repository: String,
    /// The enterprise, where the forge names it.
    pub enterprise: Option<String>,
}

/// Holds labels as the forge compares them: without case, without order.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Labels(BTreeSet<String>);

impl Labels {
    /// Returns whether a runner with these labels may take a job that asks for `wanted`.
    pub fn serve(&self, wanted: &Self) -> bool {
        wanted.0.is_subset(&self.0)
    }

    /// Returns how many labels there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates the labels in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl<T: AsRef<str>> FromIterator<T> for Labels {
    fn from_iter<I: IntoIterator<Item = T>>(labels: I) -> Self {
        Self(labels.into_iter().map(|label| label.as_ref().to_lowercase()).collect())
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (at, label) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(", ")?;
            }
            f.write_str(label)?;
        }
        f.write_str("]")
    }
}

/// Holds what the fleet itself remembers of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolRow {
    /// The pool.
    pub id: PoolId,
    /// Whether an operator asked it to drain.
    pub drained: bool,
    /// Whether creation is held after repeated failures, and since when.
    pub breaker: Option<super::Timestamp>,
    /// How many events its timeline has.
    #[serde(default)]
    pub events: u32,
}

impl PoolRow {
    /// Returns the row that a pool's timeline ends with, for a row that cannot be decoded: it holds
    /// nothing that its events do not tell.
    pub fn of_timeline(id: PoolId, timeline: &[Event]) -> Self {
        let mut row = Self { id, drained: false, breaker: None, events: 0 };
        for event in timeline {
            row.events = row.events.max(event.seq);
            if let What::Drained { .. } | What::Resumed { .. } = &event.what {
                row.drained = matches!(event.what, What::Drained { .. });
            }
            if let What::BreakerOpened(_) | What::BreakerClosed = &event.what {
                let opened = matches!(event.what, What::BreakerOpened(_));
                row.breaker = opened.then_some(event.at);
            }
        }
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_reads_what_it_writes() {
        for text in ["acme", "acme/web", "enterprises/acme"] {
            assert_eq!(text.parse::<Scope>().unwrap().to_string(), text);
        }
        for text in ["", "/", "acme/", "/web", "a/b/c"] {
            assert!(text.parse::<Scope>().is_err(), "{text:?} was taken for a scope");
        }
    }

    #[test]
    fn a_pool_row_is_rebuilt_from_the_timeline_of_its_pool() {
        let at = |second| super::super::Timestamp::from_second(second).unwrap();
        let event = |seq: u32, what| Event {
            subject: super::super::Subject::Pool("linux".into()),
            seq,
            at: at(seq.into()),
            last_at: at(seq.into()),
            count: 1,
            what,
        };
        let who = || "ops".to_owned();
        let row = |whats: Vec<What>| {
            let events: Vec<_> = (1..).zip(whats).map(|(seq, what)| event(seq, what)).collect();
            PoolRow::of_timeline("linux".into(), &events)
        };
        let fresh = PoolRow { id: "linux".into(), drained: false, breaker: None, events: 0 };
        assert_eq!(row(vec![]), fresh);
        assert_eq!(
            row(vec![What::Drained { who: who() }, What::BreakerOpened("x".into())]),
            PoolRow { drained: true, breaker: Some(at(2)), events: 2, ..fresh.clone() }
        );
        let healed = vec![
            What::BreakerOpened("x".into()),
            What::Drained { who: who() },
            What::BreakerClosed,
            What::Resumed { who: who() },
        ];
        assert_eq!(row(healed), PoolRow { events: 4, ..fresh });
    }

    #[test]
    fn labels_are_compared_without_case() {
        let pool: Labels = ["self-hosted", "Linux", "x64"].iter().collect();
        assert!(pool.serve(&["LINUX"].iter().collect()));
        assert!(!pool.serve(&["linux", "gpu"].iter().collect()));
    }

    #[test]
    fn an_organization_covers_its_repositories_whatever_the_case() {
        let place = Place { owner: "Acme".into(), repository: "web".into(), enterprise: None };
        assert!(Scope::Organization("acme".into()).covers(&place));
        assert!("acme/WEB".parse::<Scope>().unwrap().covers(&place));
        assert!(!Scope::Enterprise("acme".into()).covers(&place));
    }
}
