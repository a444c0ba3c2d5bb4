//! The provider: what it is connected to, and the two halves of its port.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use ostler_actors::model::{
    ControllerId, ExitReport, HolderId, InstanceId, MachineName, MachineView, Observation, PoolId,
    Sighting, Stamp,
};
use ostler_actors::ports::{
    CreateError, CreateOrder, CreateSlot, CreateSlots, Deletion, Grace, Handover, Inventory,
    MachineRef, Provider, ProviderCapabilities, ProviderError,
};
use serde_json::Value;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::call::{self, Call, End, Spoken};
use super::environ::{About, Command, environment};
use super::gate::{Gate, Pass};
use super::ids::pool_uuid;
use super::records::MachineRecords;
use super::settings::ExternalSettings;
use crate::tokens::Tokens;

/// Every so many listings pools that have gone are asked about as well.
const LOOK_BACK: u32 = 10;

/// Makes machines by an executable.
#[derive(Clone)]
pub struct External {
    pub(super) state: Arc<ProviderState>,
}

/// Holds what is known apart from the machines themselves.
pub(super) struct ProviderState {
    pub(super) settings: ExternalSettings,
    pub(super) records: Arc<dyn MachineRecords>,
    pub(super) tokens: Tokens,
    gate: Gate,
    controller: OnceCell<ControllerId>,
    /// Every pool that was heard of, with its specs as the provider last got them.
    pools: Mutex<BTreeMap<PoolId, Value>>,
    /// How many listings there were.
    listings: AtomicU32,
    /// What this process ordered and has not deleted.
    ordered: Mutex<BTreeMap<MachineName, Option<InstanceId>>>,
}

/// Tells why an executable cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It is not there, or no program.
    #[error("`executable` = `{0}` is not a file that can be executed")]
    Executable(PathBuf),
    /// Machines could not find home.
    #[error(
        "machines fetch their credentials from this daemon; `http.public_url` must say where it is"
    )]
    Home,
}

impl External {
    /// Opens a provider; asks it nothing.
    pub fn open(
        settings: ExternalSettings,
        records: Arc<dyn MachineRecords>,
        tokens: Tokens,
    ) -> Result<Self, OpenError> {
        use std::os::unix::fs::PermissionsExt as _;
        let meta = std::fs::metadata(&settings.executable);
        if !meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0) {
            return Err(OpenError::Executable(settings.executable));
        }
        if settings.home.is_empty() {
            return Err(OpenError::Home);
        }
        let gate = Gate::new(settings.concurrency, settings.starts_per_second);
        let pools = Mutex::new(settings.pools.clone());
        let (controller, ordered) = (OnceCell::new(), Mutex::default());
        let listings = AtomicU32::new(0);
        let state =
            ProviderState { settings, records, tokens, gate, controller, pools, listings, ordered };
        Ok(Self { state: Arc::new(state) })
    }
}

/// Says where a machine belongs, as far as the protocol wants to know.
pub(super) struct Berth {
    pub(super) controller: ControllerId,
    /// Empty where the pool is not known.
    pub(super) pool: String,
    pub(super) specs: Option<Value>,
}

impl ProviderState {
    /// Makes one call: waits for a place, then for its end, together no longer than `timeout`.
    pub(super) async fn call(
        &self,
        command: Command,
        berth: &Berth,
        machine: &str,
        stdin: Option<(Vec<u8>, String)>,
        timeout: Duration,
    ) -> Spoken {
        let began = Instant::now();
        let Some(pass) = self.gate.enter(command, timeout / 2).await else {
            return Spoken::not_begun(command, End::NoPlace(timeout / 2));
        };
        let deadline = timeout.saturating_sub(began.elapsed());
        self.call_in(pass, command, berth, machine, stdin, deadline).await
    }

    /// Makes one call in a place that is held already.
    pub(super) async fn call_in(
        &self,
        pass: Pass,
        command: Command,
        berth: &Berth,
        machine: &str,
        stdin: Option<(Vec<u8>, String)>,
        deadline: Duration,
    ) -> Spoken {
        let about = About {
            controller: berth.controller.as_str(),
            pool: &berth.pool,
            machine,
            specs: berth.specs.as_ref(),
        };
        let (stdin, secret) = stdin.unzip();
        let env = environment(&self.settings, command, about);
        let call = Call { command, env, stdin, deadline, secret };
        call::create(&self.settings.executable, call, pass).await
    }

    /// Returns who we are; asked for once.
    pub(super) async fn controller(&self) -> Result<ControllerId, String> {
        self.controller.get_or_try_init(|| self.records.controller()).await.cloned()
    }

    /// Returns what a call about a pool says.
    pub(super) async fn berth(&self, pool: Option<&PoolId>) -> Result<Berth, String> {
        let controller = self.controller().await?;
        let uuid = pool.map(|pool| pool_uuid(&controller, pool).to_string());
        let specs = pool.and_then(|pool| self.pools().get(pool).cloned());
        Ok(Berth { controller, pool: uuid.unwrap_or_default(), specs })
    }

    /// Returns the pools that may have machines.
    pub(super) async fn all_pools(&self) -> Result<Vec<PoolId>, String> {
        let recorded = self.records.pools().await?;
        let mut pools = self.pools();
        for pool in recorded {
            pools.entry(pool).or_insert(Value::Null);
        }
        Ok(pools.keys().cloned().collect())
    }

    /// Returns the pools that had machines once and are not thought to have any; only now and then,
    /// because each is a call, and for as long as it is on record.
    pub(super) async fn forgotten_pools(&self) -> Result<Vec<PoolId>, String> {
        if !self.listings.fetch_add(1, Ordering::Relaxed).is_multiple_of(LOOK_BACK) {
            return Ok(Vec::new());
        }
        let known = self.all_pools().await?;
        let past = self.records.past_pools().await?;
        Ok(past.into_iter().filter(|pool| !known.contains(pool)).collect())
    }

    /// Notes a pool with the specs that the provider gets for it.
    pub(super) fn record_pool(&self, pool: &PoolId, specs: &Value) {
        self.pools().insert(pool.clone(), specs.clone());
    }

    /// Returns the stamp of a machine: the one on record, or one made of its own name.
    pub(super) fn stamp_of(
        &self,
        name: &MachineName,
        recorded: Option<Stamp>,
        controller: &ControllerId,
        pool: Option<&PoolId>,
    ) -> Stamp {
        recorded.unwrap_or_else(|| Stamp {
            controller: Some(controller.clone()),
            holder: Some(HolderId::new(format!("{}/{name}", self.settings.provider))),
            pool: pool.cloned(),
            instance: None,
        })
    }

    fn pools(&self) -> MutexGuard<'_, BTreeMap<PoolId, Value>> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what this process ordered.
    pub(super) fn ordered(&self) -> MutexGuard<'_, BTreeMap<MachineName, Option<InstanceId>>> {
        self.ordered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how long a look may take; its owner waits a minute, and one look may need two.
    pub(super) fn look_timeout(&self, most: u64) -> Duration {
        self.settings.timeout.min(Duration::from_secs(most))
    }
}

#[async_trait]
impl Inventory for External {
    async fn list(&self) -> Observation<Vec<MachineView>> {
        self.state.list().await
    }

    async fn read(&self, machine: &MachineRef) -> Sighting<MachineView> {
        self.state.read(machine).await
    }

    async fn exit_report(&self, machine: &MachineRef, want_tail: bool) -> ExitReport {
        self.state.exit_report(machine, want_tail).await
    }
}

#[async_trait]
impl Provider for External {
    async fn create(&self, order: CreateOrder) -> Result<MachineView, CreateError> {
        self.state.create(order).await
    }

    async fn delete(&self, machine: &MachineRef, _: Grace) -> Result<Deletion, ProviderError> {
        self.state.delete(machine).await
    }

    fn capabilities(&self) -> ProviderCapabilities {
        let shared = Arc::new(self.clone());
        ProviderCapabilities {
            handover: Handover::Fetched,
            create_slots: Some(Arc::clone(&shared) as _),
            self_check: Some(Arc::clone(&shared) as _),
            startup: Some(shared),
            ..ProviderCapabilities::default()
        }
    }
}

#[async_trait]
impl CreateSlots for External {
    async fn take(&self) -> CreateSlot {
        self.state.gate.take_slot().await
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::ports::Release;
    use crate::providers::external::Interface;

    /// Returns plain settings for an executable.
    pub(in crate::providers::external) fn settings(executable: &str) -> ExternalSettings {
        ExternalSettings {
            provider: "vm".into(),
            executable: executable.into(),
            config_file: None,
            interface: Interface::V010,
            env: BTreeMap::new(),
            timeout: Duration::from_secs(10),
            concurrency: 8,
            starts_per_second: 0,
            home: "https://ci.example.com".into(),
            forges: BTreeMap::from([("github".into(), "https://github.com".to_owned())]),
            release: Release {
                version: "2.336.0".into(),
                mirror: "https://github.com/actions/runner/releases/download".into(),
            },
            pools: BTreeMap::new(),
        }
    }
}
