//! What a call to an external provider costs beyond its process, and how many run at once.
//!
//! The same binary is run three ways in one run: started and waited for with nothing around it
//! (*bare*), through the provider in turns with that, and through the provider with more callers than
//! places. A thousand creates and a thousand deletes each. The overhead is the difference of
//! the medians, and of the means; it may be 3 ms. The provider itself counts who runs beside it.

#[path = "../support/external.rs"]
#[expect(dead_code, reason = "the bench misbehaves in no way")]
mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use ostler::ports::Release;
use ostler::providers::external::{External, ExternalSettings, Interface, MachineRecords};
use ostler::tokens::Tokens;
use ostler_actors::model::{ControllerId, MachineName, MachineSpec, PoolId, Stamp};
use ostler_actors::ports::{CreateOrder, Grace, MachineRef, Provider as _};
use ostler_actors::testing::pool;
use tokio::io::AsyncWriteExt as _;
use tokio::time::Instant;

use support::{Cloud, compiled};

const CALLS: usize = 1000;
const PLACES: usize = 8;
const ALLOWED: Duration = Duration::from_millis(3);

/// Is a book in memory.
#[derive(Default)]
struct Notebook(Mutex<BTreeMap<MachineName, Stamp>>);

#[async_trait]
impl MachineRecords for Notebook {
    async fn controller(&self) -> Result<ControllerId, String> {
        Ok(ControllerId::new("9f1b5bd6-0a53-4f0d-8a3c-0f6f6f1d9a01"))
    }

    async fn pools(&self) -> Result<Vec<PoolId>, String> {
        Ok(vec!["linux".into()])
    }

    async fn stamps(
        &self,
        machines: &[MachineName],
    ) -> Result<BTreeMap<MachineName, Stamp>, String> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let one = |name: &MachineName| Some((name.clone(), known.get(name)?.clone()));
        Ok(machines.iter().filter_map(one).collect())
    }
}

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let well = runtime.expect("a runtime").block_on(measure());
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn measure() -> bool {
    let (provider, cloud) = open();
    let (beside, executable) = (Cloud::new(), compiled());
    let (mut bare, mut ours) = (Figures::default(), Figures::default());
    // In turns, so that whatever else this machine does meets both alike.
    for number in 0..CALLS {
        let name = format!("m-{number}");
        bare.creates.push(run(&executable, &beside, "CreateInstance", &name).await);
        let began = Instant::now();
        let made = provider.create(order(number)).await.expect("a machine");
        ours.creates.push(began.elapsed());
        bare.deletes.push(run(&executable, &beside, "DeleteInstance", &name).await);
        let machine = MachineRef { name: made.name, uid: made.uid };
        let began = Instant::now();
        provider.delete(&machine, Grace::Usual).await.expect("an answer");
        ours.deletes.push(began.elapsed());
    }
    assert!(cloud.machines().is_empty() && beside.machines().is_empty());
    let well = [
        compare("create", &bare.creates, &ours.creates),
        compare("delete", &bare.deletes, &ours.deletes),
    ];
    let at_once = crowd().await;
    println!("most processes at once: {at_once} of concurrency = {PLACES}, {CALLS} callers");
    well.iter().all(|well| *well) && at_once <= PLACES
}

/// Holds how long calls took.
#[derive(Default)]
struct Figures {
    creates: Vec<Duration>,
    deletes: Vec<Duration>,
}

/// Runs the binary with nothing around it but what it must be told.
async fn run(executable: &Path, cloud: &Cloud, command: &str, name: &str) -> Duration {
    let said = (command == "CreateInstance").then(|| {
        // As long as what a real order says.
        format!("{{\"name\":\"{name}\",\"padding\":\"{}\"}}", "x".repeat(6000))
    });
    let began = Instant::now();
    let mut child = tokio::process::Command::new(executable)
        .env_clear()
        .env("GARM_COMMAND", command)
        .env("GARM_INTERFACE_VERSION", "v0.1.0")
        .env("GARM_CONTROLLER_ID", "9f1b5bd6-0a53-4f0d-8a3c-0f6f6f1d9a01")
        .env("GARM_POOL_ID", "p")
        .env("GARM_INSTANCE_ID", name)
        .env("GARM_PROVIDER_CONFIG_FILE", cloud.config())
        .stdin(if said.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a process");
    if let (Some(mut pipe), Some(text)) = (child.stdin.take(), said) {
        pipe.write_all(text.as_bytes()).await.expect("a pipe");
    }
    assert!(child.wait().await.expect("an end").success());
    began.elapsed()
}

/// Lets everybody call at once; returns how many processes ran at once, by the provider's count.
async fn crowd() -> usize {
    let (provider, cloud) = open();
    let began = Instant::now();
    let calls: Vec<_> = (0..CALLS)
        .map(|number| {
            let provider = provider.clone();
            tokio::spawn(async move {
                let made = provider.create(order(number)).await.expect("a machine");
                let machine = MachineRef { name: made.name, uid: made.uid };
                provider.delete(&machine, Grace::Usual).await.expect("an answer");
            })
        })
        .collect();
    for call in calls {
        call.await.expect("an end");
    }
    let took = began.elapsed();
    println!("{} calls by {CALLS} callers in {took:.1?}", 2 * CALLS);
    assert!(cloud.machines().is_empty());
    cloud.most_at_once()
}

fn open() -> (External, Cloud) {
    let cloud = Cloud::new();
    let settings = ExternalSettings {
        provider: "vm".into(),
        executable: compiled(),
        config_file: Some(cloud.config()),
        interface: Interface::V010,
        env: BTreeMap::new(),
        timeout: Duration::from_mins(10),
        concurrency: PLACES,
        starts_per_second: 0,
        home: "https://ci.example.com".into(),
        forges: BTreeMap::new(),
        release: Release { version: "2.336.0".into(), mirror: "https://example.com".into() },
        pools: BTreeMap::new(),
    };
    let book = Arc::<Notebook>::default();
    (External::open(settings, book, Tokens::new(b"a key")).expect("a provider"), cloud)
}

fn order(number: usize) -> CreateOrder {
    let name = format!("m-{number}");
    CreateOrder {
        stamp: Stamp { instance: Some(name.as_str().into()), ..Stamp::default() },
        name: name.as_str().into(),
        machine: MachineSpec { os: "linux".into(), arch: "x64".into(), ..MachineSpec::default() },
        pool: Arc::new(pool("linux", "vm", 4)),
        avoid: vec![],
        attempt: 1,
        jit: None,
        slot: ostler_actors::ports::CreateSlot::default(),
    }
}

fn compare(what: &str, bare: &[Duration], ours: &[Duration]) -> bool {
    let mean =
        |all: &[Duration]| all.iter().sum::<Duration>() / u32::try_from(all.len()).unwrap_or(1);
    let median = |all: &[Duration]| {
        let mut all = all.to_vec();
        all.sort_unstable();
        all[all.len() / 2]
    };
    let over = median(ours).saturating_sub(median(bare));
    let over_mean = mean(ours).saturating_sub(mean(bare));
    println!(
        "{what}: bare median {:.2?} mean {:.2?}; through us median {:.2?} mean {:.2?}; over by {over:.2?} and {over_mean:.2?} (allowed {ALLOWED:?})",
        median(bare),
        mean(bare),
        median(ours),
        mean(ours),
    );
    over <= ALLOWED
}
