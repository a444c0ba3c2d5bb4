//! The configuration as written in TOML.
//!
//! ```text
//!                      table! { name, type, default, text, check }      one declaration a key
//!                 ┌───────────────┬──────┴────────┬──────────────┐
//!  files ──▶ document ──▶ shape ──▶ Section::field ──▶ check ──▶ Config ──▶ PoolSpec, Settings
//!            parse,       unknown   typed values,    contra-    │
//!            merge,       keys,     secrets,         dictions   ├──▶ page: `/config`, redacted
//!            places kept  types     defaults                    └──▶ plan: what an edit would do
//!                └───────────┴── problems: all of them, at once ┘
//! ```
//!
//! A key is declared once, in the `table!` (`declare.rs`) of its section, which makes the struct, its
//! reader and its page. The same declaration gives the errors, the JSON Schema and
//! `config/example.toml` (`reference.rs`), and tells `plan.rs` which keys roll a pool.
//! Every problem carries its place and the way out, and no message, `Debug` or `/config` page carries
//! a secret. Loading is all or nothing.
//!
//! One rule for paths: what Ostler *reads* (secrets, certificates, a runner's folder) is relative to
//! the file that names it; what Ostler *writes* (state, work folders, the database) is relative to
//! the working directory.

mod collector;
mod daemon;
mod declare;
mod document;
mod forges;
mod http;
mod load;
mod mask;
mod plan;
mod pools;
mod problems;
mod providers;
mod reference;
mod revision;
mod secrets;
mod section;
mod shape;
mod sweeps;
mod units;
mod values;
pub mod watch;

use std::collections::BTreeMap;

use jiff::Timestamp;
use ostler_actors::model::PoolSpec;
use ostler_actors::settings::{RequeueSettings, Settings};
use serde_json::{Map, Value, json};

pub use collector::Collector;
pub use daemon::{Daemon, Store, StoreUrl, Synchronous};
pub use forges::{Auth, Credential, ForgeSettings};
pub use http::{Http, Role, Tls, Token};
pub use load::{
    Loaded, Outside, ServiceManager, colours_welcome, inherited, inherited_from, load, load_draft,
    operator_token, service_manager, trace_collector,
};
pub use plan::{PlannedChange, Tie, plan, refusals};
pub use pools::{Ca, Cron, Pool, Proxy, Schedule, Witness, Zone};
pub use problems::{ConfigProblem, ProblemReport, Problems, Severity};
pub use providers::{
    External, Kubernetes, Limits, Process, ProviderSettings, default_poller_image,
};
pub use reference::{example, schema};
pub use secrets::{Secret, SecretSource};
pub use sweeps::{Notify, Reaper};

use declare::{Declared, Key, Keys, ValueKind, read_complete};
use document::TomlTable;
use load::Cx;
use pools::References;
use section::Section;

/// The tables of the whole.
pub(crate) const ROOT: Keys = &[
    Key::new("daemon", ValueKind::Table(Daemon::KEYS), Daemon::ABOUT),
    Key::new("store", ValueKind::Table(Store::KEYS), Store::ABOUT),
    Key::new("http", ValueKind::Table(Http::KEYS), Http::ABOUT),
    Key::new("forge", ValueKind::Kinds(forges::KINDS), ForgeSettings::ABOUT),
    Key::new(
        "provider",
        ValueKind::Kinds(providers::KINDS),
        "What creates machines, by a name of your choice.",
    ),
    Key::new(
        "defaults",
        ValueKind::Shared(Pool::KEYS),
        "Holds for every pool that does not say otherwise: every key of a pool but name, labels and \
         schedule.",
    ),
    Key::new("pool", ValueKind::Tables(Pool::KEYS), Pool::ABOUT),
    Key::new("reaper", ValueKind::Table(Reaper::KEYS), Reaper::ABOUT),
    Key::new(
        "requeue",
        ValueKind::Table(<RequeueSettings as Declared>::KEYS),
        <RequeueSettings as Declared>::ABOUT,
    ),
    Key::new("notify", ValueKind::Table(Notify::KEYS), Notify::ABOUT),
];

/// Holds a whole configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `[daemon]`: the daemon itself.
    pub daemon: Daemon,
    /// `[store]`: where the records are kept.
    pub store: Store,
    /// `[http]`: the servers.
    pub http: Http,
    /// `[forge.NAME]`: where jobs come from.
    pub forges: BTreeMap<String, ForgeSettings>,
    /// `[provider.NAME]`: what makes machines.
    pub providers: BTreeMap<String, ProviderSettings>,
    /// `[[pool]]`, in the order of the files, with `[defaults]` applied.
    pub pools: Vec<Pool>,
    /// `[reaper]`.
    pub reaper: Reaper,
    /// `[requeue]`.
    pub requeue: RequeueSettings,
    /// `[notify]`.
    pub notify: Option<Notify>,
}

impl Config {
    /// Returns the pools as the core knows them, with their schedules applied.
    pub fn pool_specs(&self, now: Timestamp) -> Vec<PoolSpec> {
        self.pools.iter().map(|pool| pool.spec(now)).collect()
    }

    /// Returns the core's settings.
    pub fn settings(&self) -> Settings {
        sweeps::settings(&self.reaper, &self.requeue)
    }

    /// Returns the whole for `/config`: secrets appear as the place they are kept in, and values
    /// under names that sound like a secret are covered.
    pub fn redacted(&self) -> Value {
        let forges = self.forges.iter().map(|(name, forge)| (name.clone(), forge.page()));
        let providers = self.providers.iter().map(|(name, it)| (name.clone(), it.page()));
        json!({
            "daemon": self.daemon.page(),
            "store": self.store.page(),
            "http": self.http.page(),
            "forges": forges.collect::<Map<_, _>>(),
            "providers": providers.collect::<Map<_, _>>(),
            "pools": self.pools.iter().map(Pool::redacted).collect::<Vec<_>>(),
            "reaper": self.reaper.page(),
            "requeue": self.requeue.page(),
            "notify": self.notify.as_ref().map(Declared::page),
        })
    }

    /// Returns the configuration of an empty file: no pool, and every default.
    pub fn empty() -> Self {
        Self::read(&TomlTable::default(), &Cx::nowhere())
    }

    pub(crate) fn read(whole: &TomlTable, cx: &Cx<'_>) -> Self {
        let section = |key| Section::of(cx, whole, key);
        let daemon: Daemon = read_complete(&section("daemon"));
        cx.set_state_dir(&daemon.state_dir);
        let http: Http = read_complete(&section("http"));
        let reaper: Reaper = read_complete(&section("reaper"));
        let (forges, providers) = (forges::read(cx, whole), providers::read(cx, whole));
        let known = References {
            forges: &forges,
            providers: &providers,
            named: (names_under(whole, "forge"), names_under(whole, "provider")),
            http: &http,
            http_at: whole.get("http").map(|node| node.at),
            retire_budget: reaper.retire_budget,
        };
        let pools = read_pools(whole, cx, &known);
        Self {
            store: read_complete(&section("store")),
            requeue: read_complete(&section("requeue")),
            notify: Notify::read_table(&section("notify")),
            daemon,
            http,
            pools,
            reaper,
            providers,
            forges,
        }
    }
}

fn read_pools(whole: &TomlTable, cx: &Cx<'_>, known: &References<'_>) -> Vec<Pool> {
    let mut pools = Vec::new();
    for section in Section::list(cx, whole, "pool") {
        let section = section.over(whole.table("defaults"));
        let pool = Pool::read_with(&section, known);
        pools.push((section, pool));
    }
    if whole.get("pool").is_none() {
        let what = "there is no pool, so nothing would run";
        let help = "add [[pool]] with name, forge, scope, provider, labels and max";
        cx.report.add(ConfigProblem::new("pool", what, help).warning());
    }
    pools::between(&pools, known.providers);
    pools.into_iter().filter_map(|(_, pool)| pool).collect()
}

fn names_under<'a>(whole: &'a TomlTable, key: &str) -> Vec<&'a str> {
    whole.table(key).iter().flat_map(|named| named.entries.keys().map(String::as_str)).collect()
}
