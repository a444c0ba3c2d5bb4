//! `[[pool]]`: so many runners of one shape for one scope of one forge.

mod between;
mod check;
mod keys;
mod labels;
mod read;
mod refers;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use jiff::Timestamp;
use ostler_actors::model::{Binding, Labels, MachineSpec, Policy, PoolSpec, Revision, Scope};
use serde::Serialize;
use serde_json::{Map, Value};

pub(crate) use between::between;
pub(crate) use keys::{OWN, SHARED};
pub(crate) use refers::Known;

use super::mask::cover;
use super::schedule::Schedule;
use super::written;

/// Holds one `[[pool]]`, with `[defaults]` applied.
#[derive(Clone, PartialEq, Serialize)]
pub struct Pool {
    /// What it is called everywhere.
    pub name: String,
    /// The forge its runners register at.
    pub forge: String,
    #[serde(serialize_with = "written::text")]
    pub scope: Scope,
    /// The provider that makes its machines.
    pub provider: String,
    /// When a runner registers.
    pub binding: Binding,
    /// The labels its runners carry, as written.
    pub labels: Vec<String>,
    /// Whether jobs that ask for no label are served: `false`.
    pub accept_unlabelled: bool,
    /// The runner group at the forge: `"Default"`.
    pub runner_group: String,
    /// How many idle runners are kept beyond demand: 0.
    pub min_idle: u32,
    /// How many machines may exist at once.
    pub max: u32,
    /// What a machine is made from.
    pub image: String,
    pub flavor: String,
    /// The operating system: `"linux"`.
    pub os: String,
    /// The processor: `"x64"`.
    pub arch: String,
    /// Begins the name of every instance.
    pub prefix: String,
    /// Variables of the runner.
    pub env: BTreeMap<String, String>,
    /// The way to the internet.
    pub proxy: Option<Proxy>,
    /// Certificates the runner shall also trust.
    pub ca: Option<Ca>,
    /// kubernetes: an overlay on the pod.
    pub pod: Option<Value>,
    /// external: what the provider takes beyond image and flavor.
    pub extra_specs: Option<Value>,
    /// More idle runners at certain hours.
    pub schedule: Vec<Schedule>,
    #[serde(serialize_with = "written::policy")]
    pub policy: Policy,
    /// Changes with everything that shapes a machine.
    pub revision: Revision,
}

/// Holds `proxy`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Proxy {
    /// For `http://`.
    pub http: Option<String>,
    /// For `https://`.
    pub https: Option<String>,
    /// Hosts reached without it.
    pub no_proxy: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ca {
    /// The file they came from.
    pub path: PathBuf,
    #[serde(skip)]
    pub pem: String,
}

impl Pool {
    /// Returns the pool for people; what sounds like a secret in `env`, `pod` and `extra_specs` is
    /// covered.
    pub fn redacted(&self) -> Value {
        let mut value = serde_json::to_value(self).unwrap_or(Value::Null);
        for part in ["env", "pod", "extra_specs"] {
            value.get_mut(part).into_iter().for_each(cover);
        }
        value
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

    /// Returns what the provider is asked to make. `extra` is an object with `pod`, `extra_specs`,
    /// `env`, `proxy` and `ca` (PEM), as far as they are written.
    pub fn machine(&self) -> MachineSpec {
        let mut extra = Map::new();
        let mut add = |key: &str, value: Option<Value>| {
            extra.extend(value.map(|value| (key.to_owned(), value)));
        };
        add("pod", self.pod.clone());
        add("extra_specs", self.extra_specs.clone());
        add("env", (!self.env.is_empty()).then(|| serde_json::json!(self.env)));
        add("proxy", self.proxy.as_ref().and_then(|proxy| serde_json::to_value(proxy).ok()));
        add("ca", self.ca.as_ref().map(|ca| ca.pem.as_str().into()));
        MachineSpec {
            image: self.image.clone(),
            flavor: self.flavor.clone(),
            os: self.os.clone(),
            arch: self.arch.clone(),
            extra: Value::Object(extra),
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool {}", self.redacted())
    }
}
