//! Faults that begin and heal at a known time.
//!
//! A *storm* draws its faults call by call, so something is always broken somewhere and no wait can be
//! blamed on the fleet. Here the world is calm but for a few *episodes*. Some stop everything, and what
//! waits is measured from their end. Others leave a way around them: one host of several falls silent,
//! listings fail and direct reads work. Those excuse no wait at all but at their beginning and their end.
//!
//! Episodes throw their own dice: a world without any tells the story it always told.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::clock::{Moment, millis};
use super::dice::Dice;
use super::forge::SimJob;
use super::happening::{Happening, OperatorAction};
use super::outside::Outside;
use super::provider::Stage;
use super::script::Death;
use crate::model::{Conclusion, HostName, Labels, MachineName, PoolId, PoolSpec};

/// Names what can be broken for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EpisodeKind {
    /// The forge learns minutes late that a job and its runner are over; until then it calls both busy.
    ForgeLags,
    /// The pollers of every second host do not reach us; their machines look well.
    PollersSilent,
    /// The host that everything runs on dies, with its pollers; the others have room.
    HostDies,
    /// One host ends every machine while it boots; the others are well.
    HostFails,
    /// Every machine of a pool ends while it boots: a bad image.
    ImageFails,
    /// Every runner of a pool ends as soon as it has its JIT config: a bad version.
    RunnerFails,
    /// Forge listings fail, and so does the search for the job of a runner. Direct reads work.
    ListsFail,
    /// The forge refuses every call; webhooks still come.
    TokenRevoked,
    /// The forge shows one repository only: jobs of others are 404, and a runner's job cannot be found.
    PartlyVisible,
    /// No webhook comes.
    WebhooksLost,
    /// Jobs that come now end every runner that picks them up.
    JobsKillRunners,
    /// A pool has other labels, and its jobs run on.
    LabelsEdited,
    /// The forge calls the runners of dead machines busy for as long as it lasts, and the daemon restarts.
    BusyAfterDeath,
    /// One provider shows no machine at all, and says that this is complete.
    WrongRegion,
}

impl EpisodeKind {
    pub const ALL: [Self; 14] = [
        Self::ForgeLags,
        Self::PollersSilent,
        Self::HostDies,
        Self::HostFails,
        Self::ImageFails,
        Self::RunnerFails,
        Self::ListsFail,
        Self::TokenRevoked,
        Self::PartlyVisible,
        Self::WebhooksLost,
        Self::JobsKillRunners,
        Self::LabelsEdited,
        Self::BusyAfterDeath,
        Self::WrongRegion,
    ];

    /// What the fleet does not keep its promises under yet. Worlds are drawn without these, and `ostler
    /// sim` names them; `sim::run_episode` runs them all the same. Empty it.
    pub const NOT_YET_KEPT: &[Self] = &[Self::JobsKillRunners, Self::WrongRegion];

    /// Returns the name it is counted under.
    pub fn name(self) -> &'static str {
        match self {
            Self::ForgeLags => "forge lags behind the exit",
            Self::PollersSilent => "pollers fall silent",
            Self::HostDies => "the one host dies",
            Self::HostFails => "a host always fails",
            Self::ImageFails => "an image always fails",
            Self::RunnerFails => "a runner version always fails",
            Self::ListsFail => "forge lists fail for long",
            Self::TokenRevoked => "token revoked",
            Self::PartlyVisible => "repositories out of sight",
            Self::WebhooksLost => "webhooks lost for long",
            Self::JobsKillRunners => "jobs kill their runners",
            Self::LabelsEdited => "labels edited",
            Self::BusyAfterDeath => "runners busy after death",
            Self::WrongRegion => "provider shows nothing",
        }
    }

    /// Returns its name in one piece, for a command line.
    pub fn slug(self) -> String {
        self.name().replace(' ', "-")
    }

    /// Returns how long it lasts, at least and at most, in minutes.
    fn minutes(self) -> (u64, u64) {
        match self {
            Self::ListsFail | Self::WebhooksLost | Self::TokenRevoked => (20, 60),
            Self::BusyAfterDeath => (60, 90),
            Self::WrongRegion => (3, 4),
            Self::ForgeLags
            | Self::PollersSilent
            | Self::HostDies
            | Self::HostFails
            | Self::ImageFails
            | Self::RunnerFails
            | Self::PartlyVisible
            | Self::JobsKillRunners
            | Self::LabelsEdited => (10, 45),
        }
    }
}

/// Holds one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Episode {
    pub kind: EpisodeKind,
    /// The pool it befalls, by number.
    pub pool: usize,
    /// The host it befalls, by number.
    pub host: u64,
    /// When it begins, in milliseconds.
    pub from: Moment,
    /// When it heals.
    pub until: Moment,
}

impl Episode {
    /// Draws one to three of them within so many minutes.
    pub(super) fn draw_some(dice: &mut Dice, pools: usize, hosts: u64) -> Vec<Self> {
        let count = dice.between(1, 3);
        let mut drawn: Vec<Self> = Vec::new();
        for _ in 0..count {
            let Some(kind) = dice.pick(&EpisodeKind::ALL).copied() else { break };
            let episode = Self::draw(kind, dice, pools, hosts);
            // Left out after it was drawn: a kind that leaves the list changes no world without it.
            let kept = !EpisodeKind::NOT_YET_KEPT.contains(&kind);
            if kept && drawn.iter().all(|other| other.kind != kind) {
                drawn.push(episode);
            }
        }
        drawn
    }

    /// Draws one of a kind.
    pub fn draw(kind: EpisodeKind, dice: &mut Dice, pools: usize, hosts: u64) -> Self {
        let from = dice.between(60_000, 1_800_000);
        let (least, most) = kind.minutes();
        let lasts = dice.between(least * 60_000, most * 60_000);
        let pool = dice.index(pools);
        // The one host of `HostDies` is the first: machines are put there before it dies.
        let drawn = dice.below(hosts);
        let host = if kind == EpisodeKind::HostDies { 0 } else { drawn };
        Self { kind, pool, host, from, until: from + lasts }
    }
}

/// Tells what is broken now.
#[derive(Clone, Debug, Default)]
pub(super) struct Conditions {
    lasting: BTreeSet<EpisodeKind>,
    /// How late the forge learns of an end; zero is at once.
    lag: u64,
    silent_hosts: BTreeSet<HostName>,
    dead_hosts: BTreeSet<HostName>,
    failing_hosts: BTreeSet<HostName>,
    /// The providers all of whose machines go to their first host.
    crowded: BTreeSet<usize>,
    /// Pools whose images fail, and since when.
    broken_images: BTreeMap<PoolId, Moment>,
    broken_runners: BTreeMap<PoolId, Moment>,
    /// Whether a machine died under its job in that time.
    one_died: bool,
    /// The providers that show nothing.
    empty_providers: BTreeSet<usize>,
    /// Jobs that end every runner that picks them up.
    deadly_jobs: BTreeSet<u64>,
    /// Labels to put back.
    relabelled: BTreeMap<usize, Labels>,
}

impl Conditions {
    /// Returns whether nothing that waits can be helped now.
    pub(super) fn blocks_everything(&self) -> bool {
        self.lasts(EpisodeKind::TokenRevoked)
    }

    /// Returns whether a list shows every job now, so that one whose webhook was lost can be found.
    pub(super) fn lists_every_job(&self) -> bool {
        !self.lasts(EpisodeKind::ListsFail) && !self.lasts(EpisodeKind::PartlyVisible)
    }

    /// Returns whether a pool cannot start runners now.
    pub(super) fn breaks_pool(&self, pool: &PoolId) -> bool {
        self.broken_since(pool).is_some()
    }

    /// Returns since when a pool cannot start runners.
    pub(super) fn broken_since(&self, pool: &PoolId) -> Option<Moment> {
        self.broken_images.get(pool).or_else(|| self.broken_runners.get(pool)).copied()
    }

    /// Returns whether a job cannot be served by any runner now.
    pub(super) fn concerns_job(&self, number: u64) -> bool {
        self.deadly_jobs.contains(&number)
    }

    /// Returns whether a runner's job cannot be searched for now.
    pub(super) fn hides_work(&self) -> bool {
        self.lasts(EpisodeKind::ListsFail)
            || self.lasts(EpisodeKind::PartlyVisible)
            || self.lasts(EpisodeKind::TokenRevoked)
    }

    /// Returns whether nothing is broken.
    fn is_healed(&self) -> bool {
        self.lasting.is_empty() && self.crowded.is_empty() && self.relabelled.is_empty()
    }

    fn lasts(&self, kind: EpisodeKind) -> bool {
        self.lasting.contains(&kind)
    }
}

impl Outside {
    /// Plans the episodes of a world. Those that crowd a host do so from the beginning.
    pub(super) fn plan_episodes(&mut self, episodes: &[Episode]) {
        self.episodes = episodes.to_vec();
        for (number, episode) in episodes.iter().enumerate() {
            self.later(episode.from, Happening::Begin(number));
            self.later(episode.until, Happening::Heal(number));
            if episode.kind == EpisodeKind::HostDies
                && let Some((provider, _)) = self.place_of(*episode)
            {
                self.conditions.crowded.insert(provider);
            }
        }
    }

    /// Lets an episode begin.
    pub(super) fn begin_episode(&mut self, number: usize) {
        let Some(episode) = self.episodes.get(number).copied() else { return };
        self.count(episode.kind.name());
        let now = self.now();
        let Some((provider, host)) = self.place_of(episode) else { return };
        let Some(pool) = self.pools.get(episode.pool).map(|pool| pool.id.clone()) else { return };
        let it = &mut self.conditions;
        it.lasting.insert(episode.kind);
        match episode.kind {
            EpisodeKind::ForgeLags => it.lag = 60_000 + (episode.until - episode.from) / 10,
            EpisodeKind::PollersSilent => {
                let others = (0..self.hosts).filter(|other| other % 2 != episode.host % 2);
                let silent = others.map(|other| HostName::new(format!("host-{provider}-{other}")));
                it.silent_hosts.extend(silent);
            }
            EpisodeKind::HostDies => self.host_dies(provider, &host),
            EpisodeKind::HostFails => drop(it.failing_hosts.insert(host)),
            EpisodeKind::ImageFails => drop(it.broken_images.insert(pool, now)),
            EpisodeKind::RunnerFails => drop(it.broken_runners.insert(pool, now)),
            EpisodeKind::ListsFail
            | EpisodeKind::TokenRevoked
            | EpisodeKind::PartlyVisible
            | EpisodeKind::WebhooksLost
            | EpisodeKind::JobsKillRunners => {}
            EpisodeKind::LabelsEdited => self.edit_labels(episode.pool),
            EpisodeKind::BusyAfterDeath => {
                let soon = (episode.until - episode.from) / 4;
                self.later(soon, Happening::Operator(OperatorAction::Restart));
            }
            EpisodeKind::WrongRegion => drop(it.empty_providers.insert(provider)),
        }
    }

    /// Lets an episode heal.
    pub(super) fn heal_episode(&mut self, number: usize) {
        let Some(episode) = self.episodes.get(number).copied() else { return };
        let Some((provider, host)) = self.place_of(episode) else { return };
        let Some(pool) = self.pools.get(episode.pool).map(|pool| pool.id.clone()) else { return };
        self.touch();
        self.log("healed", episode.kind.name(), 0);
        let it = &mut self.conditions;
        it.lasting.remove(&episode.kind);
        match episode.kind {
            EpisodeKind::ForgeLags => it.lag = 0,
            EpisodeKind::PollersSilent => {
                it.silent_hosts.clear();
                self.poll_again();
            }
            EpisodeKind::HostDies => {
                it.dead_hosts.remove(&host);
                it.crowded.remove(&provider);
                self.remove_dead_host(&host);
            }
            EpisodeKind::HostFails => drop(it.failing_hosts.remove(&host)),
            EpisodeKind::ImageFails => drop(it.broken_images.remove(&pool)),
            EpisodeKind::RunnerFails => drop(it.broken_runners.remove(&pool)),
            EpisodeKind::ListsFail
            | EpisodeKind::TokenRevoked
            | EpisodeKind::PartlyVisible
            | EpisodeKind::WebhooksLost
            | EpisodeKind::BusyAfterDeath => {}
            EpisodeKind::JobsKillRunners => {
                let spared = std::mem::take(&mut it.deadly_jobs);
                let now = self.now();
                self.touched_jobs.extend(spared.into_iter().map(|job| (job, now)));
            }
            EpisodeKind::LabelsEdited => self.restore_labels(episode.pool),
            EpisodeKind::WrongRegion => drop(it.empty_providers.remove(&provider)),
        }
    }

    /// Ends all lies, crashes and episodes: nothing new breaks.
    pub(super) fn calm(&mut self) {
        self.faults.calm();
        if !self.episodes.is_empty() {
            self.forget(|what| matches!(what, Happening::Begin(_) | Happening::Heal(_)));
        }
        for number in 0..self.episodes.len() {
            if !self.conditions.is_healed() {
                self.heal_episode(number);
            }
        }
        self.touch();
    }

    /// Returns the provider and the host that an episode is about.
    fn place_of(&self, episode: Episode) -> Option<(usize, HostName)> {
        let pool = self.pools.get(episode.pool)?;
        let provider = self.machines.index_of(&pool.provider)?;
        Some((provider, HostName::new(format!("host-{provider}-{}", episode.host))))
    }
}

// Hosts and pollers.
impl Outside {
    /// Returns whether a host can take a machine; a dead one can only while there is no other.
    pub(super) fn host_lives(&self, host: &HostName) -> bool {
        !self.conditions.dead_hosts.contains(host)
    }

    /// Returns the host that every machine of a provider goes to, while there is one.
    pub(super) fn crowded_host(&self, provider: usize) -> Option<HostName> {
        let crowded = self.conditions.crowded.contains(&provider);
        crowded.then(|| HostName::new(format!("host-{provider}-0")))
    }

    /// Returns whether what runs on a host cannot reach us.
    pub(super) fn is_cut_off(&self, host: &HostName) -> bool {
        self.conditions.silent_hosts.contains(host) || self.conditions.dead_hosts.contains(host)
    }

    fn host_dies(&mut self, provider: usize, host: &HostName) {
        self.conditions.crowded.remove(&provider);
        self.log("host dies", host.as_str(), 0);
        self.conditions.dead_hosts.insert(host.clone());
        let on_it = self.machines_on(host);
        for number in on_it {
            if let Some(machine) = self.machines.machines.get_mut(&number) {
                machine.doubt = true;
            }
            self.die_quietly(number);
        }
    }

    /// Ends what lives on a dead host; the provider is in doubt until the host is known to be gone.
    fn die_quietly(&mut self, number: u64) {
        self.die(number, Death::NodeLost);
        let wait = 300_000;
        self.later(wait, Happening::Surface(number));
        self.tell(number);
    }

    /// Removes what is left on a host that is known to be gone.
    fn remove_dead_host(&mut self, host: &HostName) {
        for number in self.machines_on(host) {
            let doubted = self.machines.machines.get(&number).is_some_and(|machine| machine.doubt);
            if doubted {
                self.remove_machine(number);
            }
        }
    }

    fn machines_on(&self, host: &HostName) -> Vec<u64> {
        let here = self.machines.existing().filter(|machine| machine.host == *host);
        here.map(|machine| machine.number).collect()
    }

    /// Lets every poller that fell silent ask again.
    fn poll_again(&mut self) {
        let silent: Vec<u64> = self
            .machines
            .existing()
            .filter(|machine| machine.stage == Stage::Polling && !machine.asking)
            .map(|machine| machine.number)
            .collect();
        for (wait, number) in (100..).zip(silent) {
            self.later(wait, Happening::Poll(number));
        }
    }

    /// Ends a machine that boots on a host, or from an image, that always fails.
    pub(super) fn fails_booting(&mut self, number: u64) -> bool {
        let Some(machine) = self.machines.machines.get(&number) else { return false };
        let pool = machine.stamp.pool.as_ref();
        let image = pool.is_some_and(|pool| self.conditions.broken_images.contains_key(pool));
        let host = self.conditions.failing_hosts.contains(&machine.host);
        let dead = self.conditions.dead_hosts.contains(&machine.host);
        if image || host || dead {
            let death = if image { Death::ImagePull } else { Death::RunnerError };
            self.count_only(if image { "machine of a bad image" } else { "machine on a bad host" });
            self.later(3_000, Happening::Die(number, death));
        }
        image || host || dead
    }

    /// Ends a runner of a version that always fails, in one of the ways in which they do.
    pub(super) fn fails_connecting(&mut self, number: u64) -> bool {
        let machine = self.machines.machines.get(&number);
        let pool = machine.and_then(|machine| machine.stamp.pool.as_ref());
        let fails = pool.is_some_and(|pool| self.conditions.broken_runners.contains_key(pool));
        if fails {
            self.count_only("runner of a bad version");
            let deaths = [Death::Clean, Death::RunnerError, Death::Crashed];
            let at = usize::try_from(number).unwrap_or_default() % deaths.len();
            let death = deaths.get(at).copied().unwrap_or(Death::Clean);
            self.later(500, Happening::Die(number, death));
        }
        fails
    }
}

// The forge.
impl Outside {
    /// Returns why the forge answers nothing at all, if so.
    pub(super) fn refuses_token(&mut self) -> Option<String> {
        let revoked = self.conditions.lasts(EpisodeKind::TokenRevoked);
        revoked.then(|| {
            self.count_only("call with a revoked token");
            "401 Bad credentials".into()
        })
    }

    /// Returns why no listing can be had, if so.
    pub(super) fn refuses_lists(&mut self) -> Option<String> {
        let failing = self.conditions.lasts(EpisodeKind::ListsFail);
        failing.then(|| {
            self.count_only("forge list fails again");
            "502".into()
        })
    }

    /// Returns why the job of a runner cannot be searched for, if so.
    pub(super) fn refuses_search(&mut self) -> Option<String> {
        let hidden = self.conditions.lasts(EpisodeKind::PartlyVisible)
            || self.conditions.lasts(EpisodeKind::ListsFail);
        hidden.then(|| {
            self.count_only("search in repositories out of sight");
            "some repositories cannot be read".into()
        })
    }

    /// Returns whether a job is in a repository that is out of sight.
    pub(super) fn is_out_of_sight(&self, job: &SimJob) -> bool {
        self.conditions.lasts(EpisodeKind::PartlyVisible) && job.place.repository != "web"
    }

    /// Returns whether a webhook is lost.
    pub(super) fn loses_webhook(&mut self) -> bool {
        let lost = self.conditions.lasts(EpisodeKind::WebhooksLost);
        if lost {
            self.count_only("webhook lost in an outage");
        }
        lost
    }

    /// Lets the forge learn later that a job is over; returns whether it does.
    pub(super) fn learns_late(&mut self, number: u64, conclusion: &Conclusion) -> bool {
        let lag = self.conditions.lag;
        if lag > 0 {
            if let Some(job) = self.forge.jobs.get_mut(&number) {
                job.over_unheard = true;
            }
            self.count_only("end that the forge learns late");
            let conclusion = conclusion.clone();
            self.later(lag, Happening::LearnEnd { job: number, conclusion });
        }
        lag > 0
    }

    /// Returns how much longer the forge calls a job running whose machine died.
    pub(super) fn busy_after_death(&mut self) -> u64 {
        let now = self.now();
        if !self.conditions.lasts(EpisodeKind::BusyAfterDeath) {
            return 0;
        }
        self.count_only("runner busy after death");
        let is_it = |episode: &&Episode| episode.kind == EpisodeKind::BusyAfterDeath;
        let until = self.episodes.iter().find(is_it).map_or(0, |episode| episode.until);
        until.saturating_sub(now)
    }

    /// Makes a new job a deadly one, if such come now.
    pub(super) fn taint_job(&mut self, number: u64) {
        if self.conditions.lasts(EpisodeKind::JobsKillRunners) && number.is_multiple_of(3) {
            self.count_only("deadly job");
            self.conditions.deadly_jobs.insert(number);
        }
    }

    /// Returns whether a job ends the runner that picks it up.
    pub(super) fn kills_runner(&mut self, number: u64) -> bool {
        let kills = self.conditions.deadly_jobs.contains(&number);
        if kills {
            self.count_only("runner killed by its job");
        }
        kills
    }

    /// Lets one machine die under its job while the forge calls the runners of dead machines busy.
    pub(super) fn die_in_outage(&mut self, machine: u64, job: u64) {
        if self.conditions.lasts(EpisodeKind::BusyAfterDeath) && !self.conditions.one_died {
            self.conditions.one_died = true;
            self.later(5_000, Happening::DieWorking { machine, job, death: Death::Crashed });
        }
    }

    /// Returns whether a provider shows nothing now.
    pub(super) fn shows_nothing(&mut self, provider: usize) -> bool {
        let empty = self.conditions.empty_providers.contains(&provider);
        if empty {
            self.count_only("machine out of sight");
        }
        empty
    }

    /// Returns whether a machine cannot be seen.
    pub(super) fn is_unseen(&mut self, provider: usize, machine: &MachineName) -> bool {
        let ours = self.machines.named(provider, machine).is_some();
        ours && self.shows_nothing(provider)
    }
}

// Labels.
impl Outside {
    fn edit_labels(&mut self, pool: usize) {
        let Some(spec) = self.pools.get(pool) else { return };
        self.conditions.relabelled.insert(pool, spec.labels.clone());
        let labels = Labels::from_iter(["self-hosted", "edited"]);
        self.later(0, Happening::Operator(OperatorAction::Relabel { pool, labels }));
    }

    fn restore_labels(&mut self, pool: usize) {
        if let Some(labels) = self.conditions.relabelled.remove(&pool) {
            self.later(0, Happening::Operator(OperatorAction::Relabel { pool, labels }));
        }
    }
}

/// Returns a pool whose machines of a world of episodes come up soon enough to be watched.
pub(super) fn watched_pool(pool: PoolSpec) -> PoolSpec {
    PoolSpec { max: pool.max.max(4), ..pool }
}

/// How far apart jobs come on average, so that they come before, during and after an episode.
pub(super) const JOB_GAP: Duration = Duration::from_secs(100);

pub(super) fn job_gap() -> u64 {
    millis(JOB_GAP)
}
