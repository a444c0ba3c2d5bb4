//! What a world is like before anything happens in it.

use std::time::Duration;

use super::Workload;
use crate::model::{Binding, Labels, Policy, PoolId, PoolSpec, ProviderId, Revision, Scope};
use crate::settings::Settings;
use crate::testing::dice::Dice;
use crate::testing::episodes::{Episode, EpisodeKind, job_gap, watched_pool};
use crate::testing::faults::{Faults, Weather};
use crate::testing::outside::Outside;
use crate::testing::provider::Kind;

/// Holds the plan of a world.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What everything is drawn from.
    pub seed: u64,
    /// The providers and what they can show.
    pub providers: Vec<(ProviderId, Kind)>,
    /// The pools of the config.
    pub pools: Vec<PoolSpec>,
    /// How often the sweeps look.
    pub settings: Settings,
    /// The kind of trouble.
    pub weather: Weather,
    /// What goes wrong, and how often.
    pub faults: Faults,
    /// How many jobs come, and how fast.
    pub workload: Workload,
    /// How many hosts each provider has.
    pub hosts: u64,
    /// What is broken for a while, from a known time to a known time.
    pub episodes: Vec<Episode>,
}

impl Plan {
    /// Returns a world in which nothing goes wrong and nothing comes by itself.
    pub fn quiet(pools: Vec<PoolSpec>) -> Self {
        Self {
            seed: 0,
            providers: providers(),
            pools,
            settings: Settings::default(),
            weather: Weather::Calm,
            faults: Faults::none(),
            workload: Workload::none(),
            hosts: 4,
            episodes: Vec::new(),
        }
    }

    /// Draws a world from its seed, with so many jobs.
    pub fn random(seed: u64, jobs: u32) -> Self {
        let mut dice = Dice::new(seed, 3);
        let count = dice.between(1, 3);
        let pools: Vec<PoolSpec> = (0..count).map(|index| draw_pool(&mut dice, index)).collect();
        let weather = *dice.pick(&Weather::ALL).unwrap_or(&Weather::Everything);
        let blind = pools.iter().any(|pool| pool.provider.as_str() == "blind");
        let faults = Faults::draw(weather, blind, &mut dice);
        let gap = dice.skewed(500, 20_000);
        Self {
            seed,
            providers: providers(),
            pools,
            settings: Settings::default(),
            weather,
            faults,
            workload: Workload { left: jobs, gap },
            hosts: dice.between(2, 8),
            episodes: Vec::new(),
        }
    }

    /// Draws a world of a seed that is calm but for a few episodes, with so many jobs.
    pub fn healing(seed: u64, jobs: u32) -> Self {
        let mut dice = Dice::new(seed, 4);
        let quiet = Self::healed(seed, jobs, &mut dice);
        let episodes = Episode::draw_some(&mut dice, quiet.pools.len(), quiet.hosts);
        Self { episodes, ..quiet }
    }

    /// Draws the same world of a seed with one episode of a kind.
    pub fn with_episode(kind: EpisodeKind, seed: u64, jobs: u32) -> Self {
        let mut dice = Dice::new(seed, 5);
        let quiet = Self::healed(seed, jobs, &mut dice);
        let episode = Episode::draw(kind, &mut dice, quiet.pools.len(), quiet.hosts);
        Self { episodes: vec![episode], ..quiet }
    }

    fn healed(seed: u64, jobs: u32, dice: &mut Dice) -> Self {
        let storm = Self::random(seed, jobs);
        Self {
            pools: storm.pools.into_iter().map(watched_pool).collect(),
            weather: Weather::Calm,
            faults: Faults::draw(Weather::Calm, false, dice),
            workload: Workload { left: jobs, gap: job_gap() },
            ..storm
        }
    }

    /// Returns the same plan from another seed.
    #[must_use]
    pub fn seeded(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Returns the same plan with these faults.
    #[must_use]
    pub fn with_faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    pub(super) fn outside(&self) -> Outside {
        let mut outside = Outside::new(self.seed, self.faults.clone());
        outside.machines.providers.clone_from(&self.providers);
        outside.hosts = self.hosts;
        // In a part of the random worlds, so that both kinds of machines are tried.
        outside.script.supervised = self.workload.left > 0 && self.seed % 4 == 3;
        outside.prepare(&self.pools, self.workload.clone());
        outside.plan_episodes(&self.episodes);
        outside
    }
}

/// One provider of each kind.
fn providers() -> Vec<(ProviderId, Kind)> {
    vec![
        (ProviderId::new("split"), Kind::Split),
        (ProviderId::new("witness"), Kind::Witness),
        (ProviderId::new("blind"), Kind::Blind),
    ]
}

/// Returns a pool of the organization `acme` with labels `self-hosted` and its own name.
/// The provider is `split`, `witness` or `blind`; only `split` pools bind late by default.
pub fn pool(name: &str, provider: &str, max: u32) -> PoolSpec {
    PoolSpec {
        id: PoolId::new(name),
        forge: "github".into(),
        scope: Scope::Organization("acme".into()),
        provider: ProviderId::new(provider),
        binding: if provider == "split" { Binding::Late } else { Binding::Early },
        labels: Labels::from_iter(["self-hosted", name]),
        accept_unlabelled: false,
        runner_group: "Default".into(),
        min_idle: 0,
        max,
        machine: crate::model::MachineSpec::default(),
        revision: Revision::new("r1"),
        prefix: name.into(),
        policy: Policy::default(),
    }
}

fn draw_pool(dice: &mut Dice, index: u64) -> PoolSpec {
    let provider = *dice.pick(&["split", "witness", "blind"]).unwrap_or(&"split");
    let max = u32::try_from(dice.between(2, 20)).unwrap_or(8);
    let mut spec = pool(&format!("p{index}"), provider, max);
    if provider == "split" && dice.hits(3_000) {
        spec.binding = Binding::Early;
    }
    spec.min_idle = u32::try_from(dice.below(4)).unwrap_or(0).min(max);
    // Overlapping labels, so that jobs may land anywhere.
    let shared = *dice.pick(&["linux", "x64", "gpu"]).unwrap_or(&"linux");
    spec.labels = Labels::from_iter(["self-hosted", shared, spec.id.as_str()]);
    spec.accept_unlabelled = dice.hits(2_000);
    if dice.hits(2_000) {
        spec.scope = Scope::Repository { owner: "acme".into(), name: "web".into() };
    }
    if dice.hits(1_500) {
        spec.policy.max_lifetime = Some(Duration::from_secs(dice.between(600, 7_200)));
    }
    spec
}
