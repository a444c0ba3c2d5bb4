//! The reaper with providers that list what a test sets.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;

use super::*;
use crate::model::{ExitReport, MachineView, Sighting, State};
use crate::pool::fixtures::{TestPorts, a_moment, machine, perform, row};
use crate::ports::MachineRef;
use crate::registry::Registry;

/// A provider that counts listings and may hang.
#[derive(Default)]
struct FakeInventory {
    machines: Mutex<Vec<MachineView>>,
    listings: AtomicU64,
    hang: Duration,
}

#[async_trait]
impl Inventory for FakeInventory {
    async fn list(&self) -> Observation<Vec<MachineView>> {
        self.listings.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(self.hang).await;
        Observation::Complete(self.machines.lock().unwrap().clone())
    }

    async fn read(&self, _: &MachineRef) -> Sighting<MachineView> {
        Sighting::Unknown("not in this setup".into())
    }

    async fn exit_report(&self, _: &MachineRef, _: bool) -> ExitReport {
        ExitReport::unavailable("not in this setup")
    }
}

struct ReaperSetup {
    ports: Arc<TestPorts>,
    registry: Arc<Registry>,
    received: Arc<Mutex<Vec<ToFleet>>>,
    stop_guard: Option<StopGuard>,
}

impl ReaperSetup {
    fn start(mode: ReaperMode, providers: &[(&str, &Arc<FakeInventory>)]) -> Self {
        let (ports, registry) = (Arc::<TestPorts>::default(), Arc::<Registry>::default());
        let received = Arc::<Mutex<Vec<ToFleet>>>::default();
        let fleet = ActorRef::default();
        let sink = Arc::clone(&received);
        fleet.install(Mailbox::new(move |message| {
            sink.lock().unwrap().push(message);
            Ok(())
        }));
        let tick = Duration::from_mins(1);
        let stop_guard = start(ReaperStart {
            fleet,
            base: ports.base(&registry),
            inventories: providers
                .iter()
                .map(|(name, inventory)| (ProviderId::from(*name), Arc::clone(*inventory) as _))
                .collect(),
            rosters: BTreeMap::new(),
            settings: ReaperSettings { mode, tick, confirm_after: tick },
        });
        Self { ports, registry, received, stop_guard: Some(stop_guard) }
    }

    fn record(&self, row: Instance) {
        self.ports.rows.lock().unwrap().insert(row.id.clone(), row);
    }

    fn orphans(&self) -> usize {
        let received = self.received.lock().unwrap();
        received.iter().filter(|message| matches!(message, ToFleet::Orphan(..))).count()
    }

    fn reaps(&self) -> Vec<Urgency> {
        let received = self.received.lock().unwrap();
        received
            .iter()
            .filter_map(|message| match message {
                ToFleet::Reap { ask, .. } => Some(ask.urgency),
                _ => None,
            })
            .collect()
    }
}

fn inventory<const N: usize>(machines: [MachineView; N]) -> Arc<FakeInventory> {
    Arc::new(FakeInventory { machines: Mutex::new(machines.into()), ..FakeInventory::default() })
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[test]
fn an_orphan_is_reported_to_the_fleet_after_two_listings() {
    perform(async {
        let setup =
            ReaperSetup::start(ReaperMode::Active, &[("sim", &inventory([machine("lost")]))]);
        seconds(59).await;
        assert_eq!(setup.orphans(), 0);
        seconds(2).await;
        assert_eq!(setup.orphans(), 1);
    });
}

#[test]
fn an_unlisted_instance_is_only_asked_and_never_forced() {
    perform(async {
        let setup =
            ReaperSetup::start(ReaperMode::Active, &[("sim", &inventory([machine("other")]))]);
        setup.record(row("a", State::Busy));
        setup.record(Instance { provider: "elsewhere".into(), ..row("b", State::Idle) });
        seconds(61).await;
        assert_eq!(setup.reaps(), [Urgency::Retire], "a; it was not seen before the first tick");
    });
}

#[test]
fn the_deliberate_mistakes_are_made_when_chosen() {
    for mutant in [Mutant::ReaperDeletesDirectly, Mutant::MissingClaimKills] {
        perform(async {
            mutants::choose(Some(mutant));
            let setup =
                ReaperSetup::start(ReaperMode::Active, &[("sim", &inventory([machine("other")]))]);
            setup.record(row("a", State::Busy));
            seconds(301).await;
            mutants::choose(None);
            assert!(setup.reaps().contains(&Urgency::Force), "{mutant:?}");
        });
    }
}

#[test]
fn in_shadow_mode_it_announces_what_it_would_have_requested_and_requests_nothing() {
    perform(async {
        let setup =
            ReaperSetup::start(ReaperMode::Shadow, &[("sim", &inventory([machine("lost")]))]);
        setup.record(row("a", State::Idle));
        let mut feed = setup.registry.subscribe();
        seconds(61).await;
        assert!(setup.received.lock().unwrap().is_empty());
        let mut reasons = Vec::new();
        while let Ok(event) = feed.try_recv() {
            if let What::ShadowAsk(reason) = event.what {
                reasons.push(reason);
            }
        }
        assert_eq!(reasons, [Reason::Orphan, Reason::Unlisted]);
    });
}

#[test]
fn a_foreign_machine_is_shown_once_and_never_touched() {
    perform(async {
        let mut foreign = machine("foreign");
        foreign.stamp.holder = Some("another".into());
        let setup = ReaperSetup::start(ReaperMode::Active, &[("sim", &inventory([foreign]))]);
        let mut feed = setup.registry.subscribe();
        seconds(600).await;
        assert!(setup.received.lock().unwrap().is_empty());
        assert_eq!(setup.registry.foreign().len(), 1);
        assert!(feed.try_recv().is_ok());
        assert!(feed.try_recv().is_err());
    });
}

#[test]
fn a_provider_that_hangs_delays_no_other_and_is_not_asked_twice_at_once() {
    perform(async {
        let slow =
            Arc::new(FakeInventory { hang: Duration::from_hours(1), ..FakeInventory::default() });
        let providers = [("slow", &slow), ("sim", &inventory([machine("lost")]))];
        let setup = ReaperSetup::start(ReaperMode::Active, &providers);
        seconds(61).await;
        assert_eq!(setup.orphans(), 1);
        seconds(600).await;
        let asked = slow.listings.load(Ordering::Relaxed);
        assert!((2..=11).contains(&asked), "given up after a minute, asked {asked} times");
    });
}

#[test]
fn the_owner_hears_of_its_machine() {
    perform(async {
        let over = MachineView {
            phase: crate::model::MachinePhase::Over(crate::model::ExitFacts::default()),
            ..machine("a")
        };
        let setup = ReaperSetup::start(ReaperMode::Active, &[("sim", &inventory([over]))]);
        setup.record(row("a", State::Idle));
        let messages = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&messages);
        let mailbox = Mailbox::new(move |message| {
            assert!(matches!(message, ToInstance::Seen(_)));
            count.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        let entry = setup.registry.claim("a".into(), mailbox).unwrap();
        a_moment().await;
        assert_eq!(messages.load(Ordering::Relaxed), 1);
        drop(entry);
    });
}

#[test]
fn its_exit_is_reported_to_the_fleet() {
    perform(async {
        let mut setup = ReaperSetup::start(ReaperMode::Active, &[]);
        a_moment().await;
        setup.stop_guard = None;
        a_moment().await;
        assert!(matches!(
            setup.received.lock().unwrap().as_slice(),
            [ToFleet::Died { part: FleetPart::Reaper, panicked: false }]
        ));
    });
}

#[test]
fn a_store_that_fails_costs_a_round_and_nothing_else() {
    perform(async {
        let setup =
            ReaperSetup::start(ReaperMode::Active, &[("sim", &inventory([machine("lost")]))]);
        setup.ports.broken_reads.store(1, Ordering::Relaxed);
        seconds(61).await;
        assert_eq!(setup.orphans(), 0, "that was the first listing that counts");
        seconds(60).await;
        assert_eq!(setup.orphans(), 1);
    });
}

#[test]
fn a_large_fleet_at_rest_is_looked_at_less_often_until_something_happens() {
    perform(async {
        let names: Vec<String> = (0..3000).map(|number| format!("m{number}")).collect();
        let all = names.iter().map(|name| machine(name)).collect();
        let inventory =
            Arc::new(FakeInventory { machines: Mutex::new(all), ..FakeInventory::default() });
        let setup = ReaperSetup::start(ReaperMode::Active, &[("sim", &inventory)]);
        for name in &names {
            setup.record(row(name, State::Idle));
        }
        let listings = || inventory.listings.load(Ordering::Relaxed);
        seconds(61).await;
        let before = listings();
        seconds(600).await;
        let rested = listings() - before;
        assert!((3..=4).contains(&rested), "every third tick, not {rested} times in ten");
        // Each minute something happens somewhere.
        for _ in 0..6 {
            let at = Timestamp::UNIX_EPOCH;
            let subject = Subject::Instance("m1".into());
            let event =
                Event { subject, seq: 0, at, last_at: at, count: 1, what: What::Reappeared };
            setup.registry.announce(&event);
            seconds(60).await;
        }
        assert!(listings() - before - rested >= 6, "a change is followed at the next tick");
        // One that is at work may end without a word.
        setup.record(row("m7", State::Busy));
        seconds(240).await;
        let before = listings();
        seconds(300).await;
        assert_eq!(listings() - before, 5, "an instance that works is listed at every tick");
    });
}
