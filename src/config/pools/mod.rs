//! `[[pool]]`: so many runners of one shape for one scope of one forge, and `[defaults]` for all.

mod check;
mod schedule;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use ostler_actors::model::{Binding, Labels, MachineSpec, Policy, PoolSpec, Revision, Scope};
use serde_json::{Map, Value as Json, json};

pub(crate) use check::{References, between};
pub use schedule::{Cron, Schedule, Zone};

use super::declare::{
    Declared,
    Effect::Shapes,
    Exposure::{Covered, Hidden},
    Fallback::{Described, Toml},
    Key,
    Requirement::{Alternative, PoolOrDefaults, Required},
    ValueKind, at_least, table, whole,
};
use super::document::Node;
use super::providers::ProviderSettings;
use super::revision;
use super::section::Section;
use super::values::{Field, choice};

/// The spec that replaces our script in external machines.
const INSTALL_TEMPLATE: &str = "runner_install_template";
/// Bounds of a number of machines.
const MACHINES: ValueKind = whole(0, 100_000);

table! {
    /// So many runners of one shape for one scope of one forge.
    pub struct Pool {
        /// What it is called everywhere: lower-case letters, digits and `-`.
        pub name: String => "linux", kind = ValueKind::Name, need = Required, own = true;
        /// The labels its runners carry; a job is served when all of its labels are among them.
        pub labels: Vec<String> => ["self-hosted", "linux", "x64"], need = Required, own = true,
            effect = Shapes, check = Some(check::labels);
        /// The forge its runners register at.
        pub forge: String => "github", need = PoolOrDefaults, effect = Shapes;
        /// What it serves: an organization `acme`, a repository `acme/web`, an enterprise
        /// `enterprises/acme`.
        pub scope: Scope => "acme", need = PoolOrDefaults, effect = Shapes;
        /// The provider that creates its machines.
        pub provider: String => "kubernetes", need = PoolOrDefaults, effect = Shapes;
        /// How it learns of jobs; `scale-set` is not in this release.
        pub intake: String = "webhook", kind = ValueKind::Choice(&["webhook", "scale-set"]),
            shown = Hidden, check = Some(check::intake);
        /// When a runner registers: at creation, or when there is a job for it.
        pub binding: Binding => "late", effect = Shapes,
            fallback = Described("late for kubernetes, early for the others");
        /// The runner group at the forge.
        pub runner_group: String = "Default", effect = Shapes;
        /// How many idle runners are kept beyond demand.
        pub min_idle: u32 = 0 => 2, kind = MACHINES;
        /// How many machines may exist at once.
        pub max: u32 => 10, kind = MACHINES, need = PoolOrDefaults;
        /// What a machine is created from: a container image, or what the external provider calls one.
        pub image: String => "ghcr.io/actions/actions-runner:2.336.0", effect = Shapes,
            fallback = Described("");
        /// The machine's size, as the external provider calls it.
        pub flavor: String => "m7i.large", need = Alternative, effect = Shapes,
            fallback = Described("");
        /// The operating system.
        pub os: String = "linux", kind = ValueKind::Choice(&["linux", "windows", "macos"]),
            effect = Shapes;
        /// The processor.
        pub arch: String = "x64", kind = ValueKind::Choice(&["x64", "arm64", "arm"]),
            effect = Shapes;
        /// What says whether a job runs on an external machine: a supervisor that our bootstrap starts
        /// with the runner and that reports to this daemon, or nothing. Without one, an idle machine leaves only
        /// when the forge can rule out a job there.
        pub witness: Witness = "auto", effect = Shapes;
        /// Whether jobs that ask for no label are served.
        pub accept_unlabelled: bool = false;
        /// Begins the name of every instance.
        pub prefix: String => "linux", kind = ValueKind::Name, fallback = Described("the pool's name");
        /// Variables of the runner. Every job can read them: no secrets.
        pub env: BTreeMap<String, String> => { TZ = "UTC" }, effect = Shapes, shown = Covered,
            fallback = Described(""), check = Some(check::env);
        /// Certificates the runner shall also trust, PEM.
        pub ca: Option<Ca> => "corporate-ca.pem", effect = Shapes;
        /// kubernetes: an overlay on the pod we build.
        pub pod: Option<Json> => { spec = { nodeSelector = { pool = "ci" } } }, effect = Shapes,
            shown = Covered;
        /// external: what the provider takes beyond image and flavor.
        pub extra_specs: Option<Json> => { disable_updates = true }, need = Alternative,
            effect = Shapes, shown = Covered;
        /// Deadlines and budgets.
        pub policy: Policy, kind = ValueKind::Flat(Policy::KEYS);
        /// The way from the runner to the internet.
        pub proxy: Option<Proxy>, effect = Shapes;
        /// Raises min_idle while its cron holds; the highest entry that holds counts.
        pub schedule: Vec<Schedule>, own = true;
    } and {
        /// Changes with everything that shapes a machine.
        pub revision: Revision = Revision::new("");
    }
}

table! {
    /// The way from the runner to the internet.
    pub struct Proxy {
        /// For http://.
        pub http: Option<String> => "http://proxy:3128", kind = ValueKind::Url;
        /// For https://.
        pub https: Option<String> => "http://proxy:3128", kind = ValueKind::Url;
        /// Hosts reached without it.
        pub no_proxy: Vec<String> => ["localhost", ".svc"];
    }
}

table! {
    /// Deadlines and budgets.
    impl Policy, from Policy::default(), {
        /// How long a machine may take until its runner is ready.
        boot_timeout: Duration;
        /// How long a deregistered runner is watched before its machine may go; longer than a job
        /// takes to start.
        idle_confirm: Duration, kind = at_least(0);
        /// How long a machine that served its job is left to end by itself.
        linger: Duration, kind = at_least(0);
        /// How long after its job ended a machine that lives on is called a zombie.
        zombie_after: Duration;
        /// After how long a supervisor that is silent is no witness any more.
        witness_timeout: Duration, kind = at_least(30);
        /// How long a machine in doubt is kept once its runner is unregistered: as long as a job may last.
        doubt_limit: Duration, kind = at_least(5 * 24 * 60 * 60);
        /// When slow becomes stuck.
        stuck_after: Duration;
        /// How long the post-mortem of an instance may take.
        postmortem_timeout: Duration;
        /// How long an unanswered create may still create a machine.
        create_settle: Duration => "10m", fallback = Described("the provider's call timeout");
        /// How far apart two reads must be to prove that a machine is gone.
        absence_confirm: Duration;
        /// How long a surplus runner stays idle before its removal is requested.
        scale_down_after: Duration, kind = at_least(0);
        /// How long a warm machine that should ask for work may be silent before it is replaced.
        poller_timeout: Duration, kind = at_least(75);
        /// The age at which an idle runner is replaced.
        max_lifetime: Option<Duration> => "12h", kind = ValueKind::DurationOrOff,
            fallback = Toml("\"off\"");
        /// How many machines of the pool may be starting at once.
        start_permits: u32, kind = whole(1, 10_000);
        /// How many machines may be starting at once on one host, where the provider has hosts.
        start_permits_per_host: u32, kind = whole(1, 10_000);
    }
}

/// Holds the certificates of `ca`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ca {
    /// The file they came from.
    pub path: PathBuf,
    pub pem: String,
}

/// Names what says whether a job runs on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Witness {
    /// The best that the provider and our bootstrap have.
    Auto,
    /// No supervisor on the machine.
    None,
}

choice!(Witness { Auto = "auto", None = "none" });
choice!(Binding { Early = "early", Late = "late" });

impl Pool {
    /// Reads a pool over its defaults; `None` when too little of it is there to go on.
    pub(crate) fn read_with(section: &Section<'_>, known: &References<'_>) -> Option<Self> {
        let known_names = check::references(section, known);
        check::room(section);
        let mut pool = Self::read_table(section)?;
        known_names?;
        let provider = known.providers.get(&pool.provider);
        let call_timeout = provider.map(ProviderSettings::call_timeout).unwrap_or_default();
        pool.policy.retire_budget = known.retire_budget;
        if section.node("create_settle").is_none() {
            pool.policy.create_settle = call_timeout;
        }
        if section.node("prefix").is_none() {
            pool.prefix.clone_from(&pool.name);
        }
        // A pod can prove who it is before it has a registration; a machine elsewhere cannot.
        if section.node("binding").is_none()
            && matches!(provider, Some(ProviderSettings::Kubernetes(_)))
        {
            pool.binding = Binding::Late;
        }
        check::policy(section, &pool.policy, call_timeout);
        pool.revision = revision::of(&pool, provider?, known.http.public_url.as_deref());
        check::pool(&pool, section, known);
        Some(pool)
    }

    /// Returns whether an external machine of the pool runs its agent under a supervisor of ours: not
    /// with an install template of the user's own, and not on Windows and macOS, which have none yet.
    pub fn has_supervisor(&self) -> bool {
        let own_template =
            self.extra_specs.as_ref().is_some_and(|it| it.get(INSTALL_TEMPLATE).is_some());
        self.witness == Witness::Auto && self.os == "linux" && !own_template
    }

    /// Returns the pool for people; what sounds like a secret in `env`, `pod` and `extra_specs` is
    /// covered.
    pub fn redacted(&self) -> Json {
        let mut page = self.page();
        page["revision"] = self.revision.as_str().into();
        page
    }

    /// Returns how many idle runners are kept now: the highest entry of the schedule that holds.
    pub fn min_idle_at(&self, now: Timestamp) -> u32 {
        let raised =
            self.schedule.iter().filter(|entry| entry.holds(now)).map(|entry| entry.min_idle);
        raised.max().unwrap_or(0).max(self.min_idle)
    }

    /// Returns the pool as the core knows it, with the schedule applied.
    pub fn spec(&self, now: Timestamp) -> PoolSpec {
        PoolSpec {
            id: self.name.as_str().into(),
            forge: self.forge.as_str().into(),
            scope: self.scope.clone(),
            provider: self.provider.as_str().into(),
            binding: self.binding,
            labels: self.labels.iter().collect::<Labels>(),
            accept_unlabelled: self.accept_unlabelled,
            runner_group: self.runner_group.clone(),
            min_idle: self.min_idle_at(now),
            max: self.max,
            machine: self.machine(),
            revision: self.revision.clone(),
            prefix: self.prefix.clone(),
            policy: self.policy.clone(),
        }
    }

    /// Returns what the provider is asked for. `extra` is an object with `pod`, `extra_specs`, `env`,
    /// `proxy` and `ca` (PEM), as far as they are written.
    pub fn machine(&self) -> MachineSpec {
        let mut extra = Map::new();
        let mut add = |key: &str, value: Option<Json>| {
            extra.extend(value.map(|value| (key.to_owned(), value)));
        };
        add("pod", self.pod.clone());
        add("extra_specs", self.extra_specs.clone());
        add("env", (!self.env.is_empty()).then(|| json!(self.env)));
        add("proxy", self.proxy.as_ref().map(Declared::page));
        add("ca", self.ca.as_ref().map(|ca| ca.pem.as_str().into()));
        MachineSpec {
            image: self.image.clone(),
            flavor: self.flavor.clone(),
            os: self.os.clone(),
            arch: self.arch.clone(),
            extra: Json::Object(extra),
        }
    }
}

impl Field for Scope {
    const KIND: ValueKind = ValueKind::Text;

    fn read(section: &Section<'_>, _: &Key, node: &Node) -> Option<Self> {
        check::scope(section, node.value.text()?)
    }

    fn show(&self) -> Json {
        self.to_string().into()
    }
}

impl Field for Ca {
    const KIND: ValueKind = ValueKind::Path;

    fn read(section: &Section<'_>, key: &Key, node: &Node) -> Option<Self> {
        let path = PathBuf::read(section, key, node)?;
        let pem = match section.cx.file(&path) {
            Ok(pem) => pem,
            Err(why) => {
                section.error(
                    "ca",
                    format!("cannot read the certificates `{}`: {why}", path.display()),
                    "relative paths start beside this file",
                );
                return None;
            }
        };
        let certificates = pem.contains("BEGIN CERTIFICATE") && !pem.contains("PRIVATE KEY");
        if section.cx.inspects() && !certificates {
            section.error(
                "ca",
                format!("`{}` must contain PEM certificates and nothing else", path.display()),
                "every job can read it; it begins with -----BEGIN CERTIFICATE-----",
            );
        }
        Some(Self { path, pem })
    }

    fn show(&self) -> Json {
        json!({ "path": self.path })
    }
}
