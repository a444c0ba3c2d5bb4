//! The incident, replayed on real pods: a claim is released 46 seconds into a job, the reaper ticks
//! for an hour, and a pool has more than it wants. The pod lives.
//!
//! The daemon's clock is virtual, the pods are not. The real actors live in a simulated world whose
//! time passes at once; its machines have twins, pods on the real API server, and whatever an actor
//! asks of its provider is asked of the real one. A call to the server takes no virtual time,
//! because the only thread that could let it pass waits for the answer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use kube::api::DeleteParams;
use ostler::providers::kubernetes::Kubernetes;
use ostler_actors::instance::Capabilities;
use ostler_actors::model::{
    Began, ExitReport, Instance, MachineName, MachinePhase, MachineSpec, MachineView, Observation,
    OfferEnd, ProviderId, Sighting, State, WarrantKind, What, Worker,
};
use ostler_actors::ports::{
    CreateError, CreateOrder, Deletion, Forge, Grace, Inventory, MachineRef, MachineSink, Provider,
    ProviderCapabilities, ProviderError, Watching,
};
use ostler_actors::testing::{
    Fate, HookKind, MINUTE, Plan, SECOND, SimForge, SimPorts, SimProvider, SimSeal, SimStore,
    Watched, in_virtual_time, millis, pool, start_fleet,
};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::fixture::{by_name, ended, part, runner, running, settings};
use crate::support::cluster::{Cluster, Place};

const NEVER: Duration = Duration::from_hours(48);

/// Says whose word is taken for what a pod proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    Ours,
    /// A guard that takes silence for proof.
    Careless,
}

/// The pods and the provider that acts on them, on a runtime whose time is real.
struct Fixture {
    runtime: Runtime,
    place: Arc<Place>,
    provider: Kubernetes,
    guard: Guard,
    /// What a played kubelet said last of each pod.
    said: Mutex<BTreeMap<MachineName, Value>>,
    listings: AtomicUsize,
}

impl Fixture {
    fn open(guard: Guard) -> Option<Arc<Self>> {
        let runtime = Runtime::new().unwrap();
        let place = runtime.block_on(async { Some(Cluster::shared().await?.place().await) })?;
        let provider = Kubernetes::open(settings(&place, None)).unwrap();
        let (said, listings) = (Mutex::default(), AtomicUsize::new(0));
        Some(Arc::new(Self { runtime, place, provider, guard, said, listings }))
    }

    /// Returns a view as the guard in charge would have it.
    fn judged(&self, view: MachineView) -> MachineView {
        match self.guard {
            Guard::Ours => view,
            Guard::Careless => MachineView { began: Began::Never, worker: Worker::Absent, ..view },
        }
    }

    fn read(&self, machine: MachineRef) -> Sighting<MachineView> {
        let real = self.provider.clone();
        match self.really(async move { real.read(&machine).await }) {
            Sighting::Seen(view) => Sighting::Seen(self.judged(view)),
            Sighting::Absent => Sighting::Absent,
            Sighting::Unknown(why) => Sighting::Unknown(why),
        }
    }

    /// Does something where time is real, and holds the virtual one up meanwhile.
    fn really<T: Send + 'static>(&self, call: impl Future<Output = T> + Send + 'static) -> T {
        let (tell, told) = std::sync::mpsc::channel();
        self.runtime.spawn(async move { drop(tell.send(call.await)) });
        told.recv().expect("it answers")
    }

    /// Says of a pod what is true of its twin, as its kubelet would.
    fn mirror(&self, twin: &MachineView) {
        let status = match &twin.phase {
            MachinePhase::Booting => json!({ "phase": "Pending" }),
            MachinePhase::Over(facts) => {
                let code = facts.code.unwrap_or(1);
                let phase = if code == 0 { "Succeeded" } else { "Failed" };
                runner(phase, ended(code, facts.reason.as_deref().unwrap_or("Error")))
            }
            MachinePhase::Running | MachinePhase::Doubt(_) if twin.began == Began::Yes => {
                runner("Running", running())
            }
            MachinePhase::Running | MachinePhase::Doubt(_) => json!({
                "phase": "Pending", "initContainerStatuses": [part("poller", running())],
            }),
        };
        let before = self.said.lock().unwrap().insert(twin.name.clone(), status.clone());
        if before.as_ref() == Some(&status) || twin.leaving {
            return;
        }
        let (place, name) = (Arc::clone(&self.place), twin.name.to_string());
        self.really(async move {
            let Some(pod) = place.pods().get_opt(&name).await.unwrap() else { return };
            if pod.spec.unwrap().node_name.is_none() {
                place.bind(&name).await;
            }
            place.say(&name, status).await;
        });
    }

    /// Takes a pod away whose twin is gone, as its kubelet would: only if it was deleted.
    fn remove_deleted_pod(&self, name: &MachineName) {
        let (place, name) = (Arc::clone(&self.place), name.to_string());
        self.really(async move {
            let pod = place.pods().get_opt(&name).await.unwrap();
            if pod.is_some_and(|pod| pod.metadata.deletion_timestamp.is_some()) {
                let now = DeleteParams { grace_period_seconds: Some(0), ..Default::default() };
                drop(place.pods().delete(&name, &now).await);
            }
        });
    }

    /// Returns a pod as the server has it.
    fn pod(&self, name: &MachineName) -> Option<k8s_openapi::api::core::v1::Pod> {
        let (place, name) = (Arc::clone(&self.place), name.to_string());
        self.really(async move { place.pods().get_opt(&name).await.unwrap() })
    }

    fn pods(&self) -> Vec<String> {
        let place = Arc::clone(&self.place);
        let pods =
            self.really(async move { place.pods().list(&Default::default()).await.unwrap() });
        pods.items.into_iter().filter_map(|pod| pod.metadata.name).collect()
    }
}

/// Machines of the world, each with a pod: the world decides how they live, the real provider says
/// what is seen of them.
struct Twins {
    world: SimProvider,
    fixture: Arc<Fixture>,
}

impl Twins {
    fn start(ports: SimPorts, fixture: &Arc<Fixture>) -> SimPorts {
        let (id, forge_id) = (ProviderId::new("split"), ports.truth.lock().forge.id.clone());
        let world = SimProvider::new(Arc::clone(&ports.truth), 0);
        let twins = Arc::new(Self { world, fixture: Arc::clone(fixture) });
        let forge = Arc::new(SimForge::new(Arc::clone(&ports.truth)));
        let store = Arc::new(SimStore::new(Arc::clone(&ports.truth)));
        let capabilities = Capabilities::new(
            BTreeMap::from([(id.clone(), Arc::clone(&twins) as Arc<dyn Provider>)]),
            BTreeMap::from([(forge_id, forge as Arc<dyn Forge>)]),
            store,
            Arc::new(SimSeal),
        );
        let inventories = BTreeMap::from([(id, twins as Arc<dyn Inventory>)]);
        SimPorts { capabilities, inventories, ..ports }
    }

    fn real(&self) -> Kubernetes {
        self.fixture.provider.clone()
    }
}

#[async_trait]
impl Inventory for Twins {
    async fn list(&self) -> Observation<Vec<MachineView>> {
        if let Observation::Complete(views) = self.world.list().await {
            for view in &views {
                self.fixture.mirror(view);
            }
        }
        self.fixture.listings.fetch_add(1, Ordering::Relaxed);
        let real = self.real();
        match self.fixture.really(async move { real.list().await }) {
            Observation::Complete(views) => {
                let judged = views.into_iter().map(|view| self.fixture.judged(view));
                Observation::Complete(judged.collect())
            }
            Observation::Unusable(why) => Observation::Unusable(why),
        }
    }

    async fn read(&self, machine: &MachineRef) -> Sighting<MachineView> {
        match self.world.read(&by_name(machine.name.as_str())).await {
            Sighting::Seen(view) => self.fixture.mirror(&view),
            Sighting::Absent => self.fixture.remove_deleted_pod(&machine.name),
            Sighting::Unknown(_) => {}
        }
        self.fixture.read(machine.clone())
    }

    async fn exit_report(&self, machine: &MachineRef, want_tail: bool) -> ExitReport {
        let (real, machine) = (self.real(), machine.clone());
        self.fixture.really(async move { real.exit_report(&machine, want_tail).await })
    }

    fn watch(&self, sink: Arc<dyn MachineSink>) -> Watching {
        self.world.watch(Arc::new(Relay { fixture: Arc::clone(&self.fixture), sink }))
    }
}

#[async_trait]
impl Provider for Twins {
    async fn create(&self, order: CreateOrder) -> Result<MachineView, CreateError> {
        self.world.create(order.clone()).await?;
        let real = self.real();
        self.fixture.really(async move { real.create(order).await })
    }

    async fn delete(&self, machine: &MachineRef, grace: Grace) -> Result<Deletion, ProviderError> {
        // The world's oracle judges every delete.
        self.world.delete(&by_name(machine.name.as_str()), grace).await?;
        let (real, machine) = (self.real(), machine.clone());
        self.fixture.really(async move { real.delete(&machine, grace).await })
    }

    fn capabilities(&self) -> ProviderCapabilities {
        ProviderCapabilities::default()
    }
}

/// Tells of a change of a twin what its pod shows.
struct Relay {
    fixture: Arc<Fixture>,
    sink: Arc<dyn MachineSink>,
}

impl MachineSink for Relay {
    fn seen(&self, view: MachineView) {
        self.fixture.mirror(&view);
        if let Sighting::Seen(view) = self.fixture.read(by_name(view.name.as_str())) {
            self.sink.seen(view);
        }
    }

    fn missed(&self, machine: MachineName) {
        self.fixture.remove_deleted_pod(&machine);
        self.sink.missed(machine);
    }
}

fn plan() -> Plan {
    let mut spec = pool("linux", "split", 3);
    spec.policy.scale_down_after = 10 * MINUTE;
    spec.machine = MachineSpec {
        image: "runner:test".into(),
        flavor: String::new(),
        os: "linux".into(),
        arch: "x64".into(),
        extra: json!({ "pod": { "spec": { "serviceAccountName": "warm" } } }),
    };
    let mut plan = Plan::quiet(vec![spec]);
    plan.settings.requeue.tick = SECOND;
    plan.settings.requeue.orphan_after = 46 * SECOND;
    plan.settings.poll_tick = NEVER;
    plan
}

/// Plays the incident in a world whose machines have twins.
fn play(fixture: &Arc<Fixture>, tell: impl AsyncFnOnce(&mut Watched)) {
    let daemons = Arc::clone(fixture);
    in_virtual_time(async {
        let start = move |ports| start_fleet(Twins::start(ports, &daemons));
        tell(&mut Watched::with(plan(), start).remembering()).await;
    });
}

/// A runner in the middle of a job that was never reported, and whose claim was released.
struct Released {
    row: Instance,
    /// The job it was made for.
    claimed: u64,
    /// The job it runs.
    taken: u64,
    uid: Option<String>,
}

/// Lets a claim be released 46 seconds into a job.
async fn release(world: &mut Watched, fixture: &Fixture) -> Released {
    world.hold_assignments();
    let claimed = world.queue(&["linux"], 5 * MINUTE);
    assert!(world.comes(MINUTE, |world| !world.rows().is_empty()).await);
    let row = world.rows().remove(0);
    assert!(world.reaches(&row.id, State::Reserved, 2 * MINUTE).await);
    // The forge gives the runner another job, and no report of it ever arrives.
    world.lose_hooks(HookKind::Queued, 1);
    world.lose_hooks(HookKind::InProgress, 1);
    let taken = world.queue(&["linux"], 90 * MINUTE);
    world.pair(taken, &row.machine);
    assert!(world.comes(MINUTE, |world| world.working(&row.machine) == Some(taken)).await);
    let began = world.now();
    let uid = fixture.pod(&row.machine).expect("a pod").metadata.uid;
    // The instance for the released job never comes up: the sweeps find one of each kind.
    world.next_machine(Fate::NeverBoots);
    assert!(world.reaches(&row.id, State::Idle, 2 * MINUTE).await);
    let released = |what: &What| matches!(what, What::OfferEnded(_, OfferEnd::Requeued));
    assert_eq!(reported(world, &row, released), 1, "the claim is released once");
    let into_the_job = world.now() - began;
    assert!((45_000..49_000).contains(&into_the_job), "{into_the_job} ms into the job");
    Released { row, claimed, taken, uid }
}

/// Returns how many events of a timeline are such.
fn reported(world: &Watched, row: &Instance, is_it: fn(&What) -> bool) -> usize {
    world.timeline(&row.id).into_iter().filter(|event| is_it(&event.what)).count()
}

#[test]
fn claim_released_46_seconds_into_a_job_and_the_reaper_ticks_for_an_hour() {
    let Some(fixture) = Fixture::open(Guard::Ours) else { return };
    play(&fixture, async |world| {
        let Released { row, claimed, taken, uid } = release(world, &fixture).await;
        let listings = fixture.listings.load(Ordering::Relaxed);
        let hour = world.now() + millis(61 * MINUTE);
        world.run_until(hour).await;
        let ticks = fixture.listings.load(Ordering::Relaxed) - listings;
        assert!(ticks >= 60, "{ticks} ticks of the reaper");
        let pod = fixture.pod(&row.machine).expect("the pod lives");
        assert_eq!((pod.metadata.uid, pod.metadata.deletion_timestamp), (uid, None));
        assert_eq!(world.working(&row.machine), Some(taken), "and so does its job");
        let refused = |what: &What| matches!(what, What::Refused { .. } | What::DeregisterRefused);
        assert!(reported(world, &row, refused) > 0, "the refusal: {:#?}", world.timeline(&row.id));
        // In the same sweeps the one that never began was taken away.
        let reaped = world.deletes().into_iter().find(|call| call.machine != row.machine);
        let reaped = reaped.expect("the other pod was deleted");
        assert_eq!(reaped.warrant, Some(WarrantKind::NeverBegan), "{reaped:?}");
        assert!(fixture.pod(&reaped.machine).is_none());

        world.free_assignments();
        assert!(world.comes(2 * 60 * MINUTE, |world| world.is_over(taken)).await);
        assert!(world.was_spared(taken), "the job ended as it should");
        assert!(world.comes(60 * MINUTE, |world| world.was_spared(claimed)).await);
        let broken = world.finish().await;
        assert!(broken.is_empty(), "promises were broken: {broken:#?}");
    });
    assert_eq!(fixture.pods(), Vec::<String>::new(), "nothing is left in the cluster");
}

/// Replays it with a forge that removes the runner although it works; returns whether the pod
/// was deleted under its job.
fn is_killed(guard: Guard) -> Option<bool> {
    let fixture = Fixture::open(guard)?;
    let mut killed = None;
    play(&fixture, async |world| {
        let Released { row, taken, .. } = release(world, &fixture).await;
        world.be_nasty(&row.runner_name(1));
        let hour = world.now() + millis(60 * MINUTE);
        world.run_until(hour).await;
        let leaves =
            fixture.pod(&row.machine).is_none_or(|pod| pod.metadata.deletion_timestamp.is_some());
        assert_eq!(leaves, world.working(&row.machine) != Some(taken));
        killed = Some(leaves);
    });
    killed
}

#[test]
fn a_careless_guard_would_have_killed_the_pod_and_ours_does_not() {
    let Some(ours) = is_killed(Guard::Ours) else { return };
    assert!(!ours, "our guard takes no silence for proof");
    assert_eq!(is_killed(Guard::Careless), Some(true), "and the replay would notice one that did");
}
