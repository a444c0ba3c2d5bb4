//! The configuration as written in TOML; the doc comments of its types are the reference.
//!
//! ```text
//!  files ──▶ sources ──▶ tree ──▶ shape ──▶ sections ──▶ checks ──▶ Config ──▶ PoolSpec, Settings
//!            read,       every    unknown   typed        contra-
//!            merge       place    keys,     values,      dictions
//!                        kept     types     secrets
//!                └───────────┴────── problems: all of them, at once ──▶ render
//! ```
//!
//! What may be written stands once, in the tables of [`keys`]; the check, the JSON Schema and the
//! test of `config/example.toml` read them. Every problem carries its place and the way out, and no
//! message, `Debug` or `/config` page carries a secret. Loading is all or nothing.
//!
//! One rule for paths: what Ostler *reads* (secrets, certificates, a runner's folder) is relative to
//! the file that names it; what Ostler *writes* (state, work folders, the database) is relative to
//! the working directory.

mod collector;
mod credentials;
pub mod cron;
mod daemon;
mod durations;
mod forges;
mod http;
pub mod keys;
mod load;
mod mask;
mod names;
mod nearest;
mod notify;
mod plan;
mod policy;
mod pools;
mod problems;
mod providers;
mod render;
mod revision;
mod schedule;
mod schema;
mod secrets;
mod section;
mod shape;
mod sources;
mod store;
mod sweeps;
mod syntax;
mod tree;
mod values;
pub mod watch;
mod written;

use std::collections::BTreeMap;

use jiff::Timestamp;
use ostler_actors::model::PoolSpec;
use ostler_actors::settings::Settings;
use serde::Serialize;
use serde_json::Value;

pub use collector::Collector;
pub use credentials::{Auth, Credential};
pub use daemon::Daemon;
pub use forges::ForgeSettings;
pub use http::{Http, Role, Tls, Token};
pub use load::{
    Loaded, Outside, ServiceManager, colours_welcome, inherited, inherited_from, load, load_draft,
    operator_token, service_manager, trace_collector,
};
pub use notify::Notify;
pub use plan::{Change, Tie, plan, refusals};
pub use pools::{Ca, Pool, Proxy};
pub use problems::{Problem, Problems, Report, Severity};
pub use providers::{
    External, Kubernetes, Limits, Process, ProviderSettings, default_poller_image,
};
pub use schedule::Schedule;
pub use schema::schema;
pub use secrets::{Secret, Source};
pub use store::{Store, StoreUrl, Synchronous};
pub use sweeps::{Reaper, Requeue};

use load::Cx;
use pools::Known;
use section::Section;
use tree::Table;

/// Holds a whole configuration.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
    pub requeue: Requeue,
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
        // Every field serializes: there are no maps with keys other than text.
        let mut value = serde_json::to_value(self).unwrap_or(Value::Null);
        value["pools"] = self.pools.iter().map(Pool::redacted).collect();
        value
    }

    /// Returns the configuration of an empty file: no pool, and every default.
    pub fn empty() -> Self {
        Self::read(&Table::default(), &Cx::nowhere())
    }

    pub(crate) fn read(whole: &Table, cx: &Cx<'_>) -> Self {
        let daemon = Daemon::read(&Section::of(cx, whole, "daemon"));
        let http = Http::read(&Section::of(cx, whole, "http"));
        let store = Store::read(&Section::of(cx, whole, "store"), &daemon);
        let (forges, providers) = (forges::read(cx, whole), providers::read(cx, whole, &daemon));
        let reaper = Reaper::read(&Section::of(cx, whole, "reaper"));
        let known = Known {
            forges: &forges,
            providers: &providers,
            named: (names_under(whole, "forge"), names_under(whole, "provider")),
            http: &http,
            http_at: whole.get("http").map(|node| node.at),
            retire_budget: reaper.retire_budget,
        };
        let pools = read_pools(whole, cx, &known);
        Self {
            requeue: Requeue::read(&Section::of(cx, whole, "requeue")),
            notify: Notify::read(&Section::of(cx, whole, "notify")),
            daemon,
            store,
            http,
            pools,
            reaper,
            providers,
            forges,
        }
    }
}

fn read_pools(whole: &Table, cx: &Cx<'_>, known: &Known<'_>) -> Vec<Pool> {
    let defaults = whole.get("defaults").and_then(|node| node.value.table());
    let nodes = whole.get("pool").map_or(&[][..], |node| node.value.list());
    let tables = nodes.iter().filter_map(|node| node.value.table()).enumerate();
    let read = |(at, table)| {
        let section =
            Section::new(cx, Some(table), shape::element_path("pool", table, at)).over(defaults);
        let pool = Pool::read(&section, known);
        (section, pool)
    };
    let pools: Vec<_> = tables.map(read).collect();
    if whole.get("pool").is_none() {
        let what = "there is no pool, so nothing would run";
        cx.desk.note(
            Problem::warning("pool", what)
                .help("add [[pool]] with name, forge, scope, provider, labels and max"),
        );
    }
    pools::between(&pools, known.providers);
    pools.into_iter().filter_map(|(_, pool)| pool).collect()
}

fn names_under<'a>(whole: &'a Table, key: &str) -> Vec<&'a str> {
    let named = whole.get(key).and_then(|node| node.value.table());
    named.map_or_else(Vec::new, |table| table.entries.keys().map(String::as_str).collect())
}
