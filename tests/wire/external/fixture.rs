//! A provider, its own records, and ours.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use ostler::ports::Release;
use ostler::providers::external::{External, ExternalSettings, Interface, MachineRecords};
use ostler::tokens::Tokens;
use ostler_actors::model::{ControllerId, HolderId, MachineName, MachineSpec, PoolId, Stamp};
use ostler_actors::ports::{CreateOrder, MachineRef};
use ostler_actors::testing::pool;

use crate::support::external::Cloud;

/// Holds what a test plays with.
pub(super) struct Fixture {
    pub(super) cloud: Cloud,
    pub(super) settings: ExternalSettings,
    pub(super) tokens: Tokens,
    records: Arc<Notebook>,
}

/// Is our record of orders; the first order of a name counts, as rows do.
#[derive(Default)]
struct Notebook(Mutex<BTreeMap<MachineName, Stamp>>);

#[async_trait]
impl MachineRecords for Notebook {
    async fn controller(&self) -> Result<ControllerId, String> {
        Ok(ControllerId::new("controller"))
    }

    async fn pools(&self) -> Result<Vec<PoolId>, String> {
        Ok(vec!["linux".into()])
    }

    async fn stamps(
        &self,
        machines: &[MachineName],
    ) -> Result<BTreeMap<MachineName, Stamp>, String> {
        let known = self.0.lock().unwrap();
        let one = |name: &MachineName| Some((name.clone(), known.get(name)?.clone()));
        Ok(machines.iter().filter_map(one).collect())
    }
}

impl Fixture {
    pub(super) fn on(executable: &Path) -> Self {
        let cloud = Cloud::new();
        let settings = ExternalSettings {
            provider: "vm".into(),
            executable: executable.to_owned(),
            config_file: Some(cloud.config()),
            interface: Interface::V010,
            env: BTreeMap::new(),
            timeout: Duration::from_secs(20),
            concurrency: 8,
            starts_per_second: 0,
            home: "https://ci.example.com".into(),
            forges: BTreeMap::new(),
            release: Release {
                version: "2.336.0".into(),
                mirror: "https://example.com/releases".into(),
            },
            pools: BTreeMap::new(),
        };
        let tokens = Tokens::new(b"a key of the tests");
        Self { cloud, settings, tokens, records: Arc::default() }
    }

    pub(super) fn open(&self) -> External {
        let records = Arc::clone(&self.records) as Arc<dyn MachineRecords>;
        External::open(self.settings.clone(), records, self.tokens.clone()).unwrap()
    }

    /// Puts an order on record.
    pub(super) fn record(&self, name: &str, stamp: &Stamp) {
        self.records.0.lock().unwrap().entry(name.into()).or_insert_with(|| stamp.clone());
    }

    /// Takes an order off the record.
    pub(super) fn forget(&self, name: &str) {
        self.records.0.lock().unwrap().remove(name);
    }

    /// Returns an order that is on record.
    pub(super) fn order(&self, name: &str) -> CreateOrder {
        let stamp = Stamp {
            controller: Some(ControllerId::new("controller")),
            holder: Some(holder()),
            pool: Some("linux".into()),
            instance: Some(name.into()),
        };
        self.record(name, &stamp);
        CreateOrder { stamp, ..order(name) }
    }
}

/// Returns the epoch under which everything is ordered.
pub(super) fn holder() -> HolderId {
    HolderId::new("holder")
}

/// Returns an order without a stamp.
pub(super) fn order(name: &str) -> CreateOrder {
    CreateOrder {
        name: name.into(),
        stamp: Stamp::default(),
        machine: MachineSpec { os: "linux".into(), arch: "x64".into(), ..MachineSpec::default() },
        pool: Arc::new(pool("linux", "vm", 4)),
        avoid: vec![],
        attempt: 1,
        jit: None,
        slot: ostler_actors::ports::CreateSlot::default(),
    }
}

/// Points at a machine by name.
pub(super) fn named(name: &str) -> MachineRef {
    MachineRef { name: name.into(), uid: None }
}
