//! The supervisor with instances that only receive messages.

use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::*;
use crate::instance::Permit;
use crate::mail::{Mailbox, Reply};
use crate::model::LifeOutcome;
use crate::model::{Instance, Reason, State};
use crate::mutants::{self, Mutant};
use crate::pool::InstanceReport;
use crate::pool::fixtures::{
    TestPorts, a_moment, controller, failed, machine, perform, quarantined, report, row, spec,
};
use crate::registry::{Entry, Registry};

/// Stands in for the instances, and keeps what the pool sends.
#[derive(Default)]
struct FakeInstances {
    ports: Arc<TestPorts>,
    starts: Mutex<Vec<(InstanceId, &'static str)>>,
    entries: Mutex<BTreeMap<InstanceId, Entry>>,
    messages: Mutex<Vec<(InstanceId, ToInstance)>>,
    to_fleet: Mutex<Vec<ToFleet>>,
    to_ledger: Mutex<Vec<Accepts>>,
}

impl FakeInstances {
    fn spawn_owner(self: &Arc<Self>, origin: Origin, links: &Links) -> Result<Child, AlreadyOwned> {
        let (id, how) = match origin {
            Origin::New(id) => (id, "new"),
            Origin::Row(row) | Origin::Revived(row, _) => (row.id, "row"),
            Origin::Adopted(id, ..) => (id, "adopted"),
        };
        let mailbox = {
            let (fakes, id) = (Arc::clone(self), id.clone());
            Mailbox::new(move |message| {
                fakes.messages.lock().unwrap().push((id.clone(), message));
                Ok(())
            })
        };
        let entry = links.base.registry.claim(id.clone(), mailbox.clone())?;
        self.entries.lock().unwrap().insert(id.clone(), entry);
        self.starts.lock().unwrap().push((id.clone(), how));
        let stop_guard = {
            let mailbox = mailbox.clone();
            StopGuard::new(move || {
                let _ = mailbox.tell(ToInstance::Halt);
            })
        };
        Ok(Child { mailbox, stop_guard })
    }

    fn starts(&self) -> Vec<(String, &'static str)> {
        self.starts.lock().unwrap().iter().map(|(id, how)| (id.to_string(), *how)).collect()
    }

    fn created(&self) -> Vec<InstanceId> {
        let starts = self.starts.lock().unwrap();
        starts.iter().filter(|(_, how)| *how == "new").map(|(id, _)| id.clone()).collect()
    }

    fn count(&self, of: impl Fn(&ToInstance) -> bool) -> usize {
        self.messages.lock().unwrap().iter().filter(|(_, message)| of(message)).count()
    }

    fn retired(&self) -> usize {
        self.count(|message| matches!(message, ToInstance::Retire(_)))
    }

    fn permits(&self, permit: Permit) -> usize {
        self.count(|message| matches!(message, ToInstance::Permit(given) if *given == permit))
    }
}

struct PoolSetup {
    fakes: Arc<FakeInstances>,
    registry: Arc<Registry>,
    pool: ActorRef<ToPool>,
    stop_guard: Option<StopGuard>,
}

impl PoolSetup {
    fn start(fakes: Arc<FakeInstances>, spec: PoolSpec, removed: bool) -> Self {
        let mut setup = Self {
            fakes,
            registry: Arc::new(Registry::default()),
            pool: ActorRef::default(),
            stop_guard: None,
        };
        setup.restart(spec, removed);
        setup
    }

    fn restart(&mut self, spec: PoolSpec, removed: bool) {
        let fakes = &self.fakes;
        let (fleet, ledger) = (ActorRef::default(), ActorRef::default());
        let (to_fleet, to_ledger) = (Arc::clone(fakes), Arc::clone(fakes));
        fleet.install(Mailbox::new(move |message| {
            to_fleet.to_fleet.lock().unwrap().push(message);
            Ok(())
        }));
        ledger.install(Mailbox::new(move |message| {
            if let ToLedger::PoolStatus { accepts, .. } = message {
                to_ledger.to_ledger.lock().unwrap().push(accepts);
            }
            Ok(())
        }));
        let capabilities = Capabilities::new(
            BTreeMap::new(),
            BTreeMap::new(),
            fakes.ports.clone(),
            fakes.ports.clone(),
        );
        let spawn_owner = {
            let fakes = Arc::clone(fakes);
            move |origin, links| fakes.spawn_owner(origin, &links)
        };
        self.stop_guard = Some(start_with(
            PoolStart {
                incarnation: 0,
                row: PoolRow { id: spec.id.clone(), drained: false, breaker: None, events: 0 },
                spec: Arc::new(spec),
                removed,
                actor_ref: self.pool.clone(),
                fleet,
                ledger,
                base: fakes.ports.base(&self.registry),
                capabilities,
                controller: Arc::new(controller()),
            },
            spawn_owner,
        ));
    }

    fn tell(&self, message: ToPool) {
        self.pool.tell(message).unwrap();
    }

    fn want(&self, queued: u32) {
        self.tell(ToPool::Demand(Demand { queued, ..Demand::default() }));
    }

    fn shows(&self, id: &InstanceId, state: State) {
        self.tell(ToPool::Report(InstanceReport { checked: true, ..report(id.as_str(), state) }));
    }

    /// Ends an owner; `finished` if its row is deleted.
    fn end(&self, id: &str, finished: bool) {
        let mut entry = self.fakes.entries.lock().unwrap().remove(id).unwrap();
        if finished {
            entry.finish();
        }
        drop(entry);
        self.tell(ToPool::Died { id: id.into(), panicked: false });
    }
}

fn with_rows<const N: usize>(rows: [Instance; N]) -> Arc<FakeInstances> {
    let fakes = FakeInstances::default();
    fakes.ports.rows.lock().unwrap().extend(rows.map(|row| (row.id.clone(), row)));
    Arc::new(fakes)
}

#[test]
fn every_row_gets_an_owner_and_nothing_is_created_before_each_machine_was_checked() {
    perform(async {
        let fakes = with_rows([row("a", State::Busy), row("b", State::Deleting)]);
        fakes.ports.broken_reads.store(3, Ordering::Relaxed);
        let setup = PoolSetup::start(Arc::clone(&fakes), spec(2, 9), false);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(fakes.starts(), [("a".into(), "row"), ("b".into(), "row")]);
        setup.shows(&"a".into(), State::Busy);
        a_moment().await;
        assert!(fakes.created().is_empty(), "b was not checked");
        setup.shows(&"b".into(), State::Deleting);
        a_moment().await;
        assert_eq!(fakes.created().len(), 2);
        assert_eq!(fakes.permits(Permit::Start), 2);
        assert_eq!(setup.registry.pools()[0].want, 3);
        assert!(setup.registry.pools()[0].settled);
    });
}

#[test]
fn a_row_that_cannot_be_decoded_holds_its_place_and_holds_nothing_up() {
    perform(async {
        let fakes = with_rows([row("a", State::Idle), row("b", State::Idle)]);
        fakes.ports.quarantined.lock().unwrap().push(quarantined("b"));
        let setup = PoolSetup::start(Arc::clone(&fakes), spec(0, 4), false);
        setup.want(9);
        setup.shows(&"a".into(), State::Busy);
        a_moment().await;
        assert_eq!(fakes.starts()[0], ("a".into(), "row"));
        assert!(setup.registry.pools()[0].settled, "b is not waited for");
        assert_eq!(fakes.created().len(), 2, "of four places a and b hold one each");

        // One that breaks while its owner lives is noticed when that is gone.
        fakes.ports.quarantined.lock().unwrap().push(quarantined("a"));
        setup.end("a", false);
        a_moment().await;
        assert_eq!(fakes.created().len(), 2, "a holds its place as well");
        assert!(fakes.starts()[1..].iter().all(|(_, how)| *how == "new"), "and gets no owner");
    });
}

#[test]
fn a_hundred_messages_create_no_more_instances_than_places() {
    perform(async {
        let fakes = with_rows([]);
        let setup = PoolSetup::start(Arc::clone(&fakes), spec(0, 5), false);
        for queued in 1..100 {
            setup.want(queued);
        }
        a_moment().await;
        assert_eq!(fakes.created().len(), 5);
        for id in fakes.created() {
            setup.shows(&id, State::Busy);
        }
        a_moment().await;
        assert_eq!(fakes.created().len(), 5);
        assert_eq!(*fakes.to_ledger.lock().unwrap(), [Accepts::Work, Accepts::Full]);
    });
}

#[test]
fn no_more_are_made_than_may_start_at_once() {
    perform(async {
        let fakes = with_rows([]);
        let mut spec = spec(0, 50);
        spec.policy.start_permits = 3;
        let setup = PoolSetup::start(Arc::clone(&fakes), spec, false);
        setup.want(10);
        a_moment().await;
        assert_eq!(fakes.created().len(), 3);
        setup.shows(&fakes.created()[0], State::Idle);
        a_moment().await;
        assert_eq!(fakes.created().len(), 4);
    });
}

#[test]
fn a_dead_owner_gets_a_successor_until_its_row_says_deleted() {
    perform(async {
        let fakes = with_rows([row("a", State::Idle)]);
        let setup = PoolSetup::start(Arc::clone(&fakes), spec(0, 0), false);
        a_moment().await;
        setup.end("a", false);
        assert!(setup.registry.is_ownerless(&"a".into()), "a live row always has an entry");
        a_moment().await;
        assert_eq!(fakes.starts(), [("a".into(), "row"), ("a".into(), "row")]);

        fakes.ports.rows.lock().unwrap().get_mut("a").unwrap().state = State::Deleted;
        setup.end("a", false);
        a_moment().await;
        assert_eq!(fakes.starts().len(), 2);
        assert!(!setup.registry.holds(&"a".into()));
        assert!(setup.registry.pools()[0].states.total() == 0);
    });
}

#[test]
fn an_owner_that_dies_again_and_again_is_still_replaced_though_slowly() {
    perform(async {
        let fakes = with_rows([row("a", State::Idle)]);
        let setup = PoolSetup::start(Arc::clone(&fakes), spec(0, 0), false);
        a_moment().await;
        for _ in 0..8 {
            setup.end("a", false);
            tokio::time::sleep(Duration::from_secs(11)).await;
        }
        assert_eq!(fakes.starts().len(), 9);
        assert!(!setup.registry.is_ownerless(&"a".into()));
    });
}

#[test]
fn a_successor_waits_until_the_old_owners_have_let_go() {
    perform(async {
        let fakes = with_rows([row("a", State::Idle)]);
        let mut setup = PoolSetup::start(Arc::clone(&fakes), spec(0, 0), false);
        a_moment().await;
        setup.stop_guard = None;
        setup.restart(spec(0, 0), false);
        a_moment().await;
        assert_eq!(fakes.count(|message| matches!(message, ToInstance::Halt)), 1);
        assert_eq!(fakes.starts().len(), 1, "the old owner still lives");
        setup.end("a", false);
        a_moment().await;
        assert_eq!(fakes.starts().len(), 2);
        // A late exit report must not cost the new owner its place.
        setup.tell(ToPool::Died { id: "a".into(), panicked: false });
        a_moment().await;
        assert_eq!(fakes.starts().len(), 2);
        assert!(!setup.registry.is_ownerless(&"a".into()));
    });
}

#[test]
fn an_instance_started_in_the_last_moments_of_an_earlier_supervisor_is_found_by_its_exit_report() {
    perform(async {
        let fakes = with_rows([]);
        let setup = PoolSetup::start(Arc::clone(&fakes), spec(0, 1), false);
        a_moment().await;
        fakes.ports.rows.lock().unwrap().insert("late".into(), row("late", State::Creating));
        setup.shows(&"late".into(), State::Creating);
        setup.want(5);
        a_moment().await;
        assert!(fakes.created().is_empty(), "it holds the only place");
        setup.tell(ToPool::Died { id: "late".into(), panicked: false });
        a_moment().await;
        assert_eq!(fakes.starts(), [("late".into(), "row")]);
    });
}

#[test]
fn a_sweep_never_retires_more_than_the_budget() {
    perform(async {
        let fakes = with_rows([row("a", State::Idle)]);
        let mut spec = spec(1, 9);
        spec.policy.retire_budget = 3;
        let setup = PoolSetup::start(Arc::clone(&fakes), spec, false);
        setup.shows(&"a".into(), State::Idle);
        a_moment().await;
        let ask = |urgency| {
            let (reply, answer) = Reply::channel();
            let (reason, evidence) = (Reason::Unlisted, String::new());
            let ask = Retire { urgency, reason, evidence, by: None, reply };
            setup.tell(ToPool::Retire { id: "a".into(), ask });
            answer
        };
        let mut answers: Vec<_> = (0..10).map(|_| ask(Urgency::Retire)).collect();
        a_moment().await;
        assert_eq!(fakes.retired(), 3);
        assert_eq!(answers.remove(9).await, Ok(Err(Refusal::Budget)));
        drop(ask(Urgency::Force));
        a_moment().await;
        assert_eq!(fakes.retired(), 4, "an operator is not held by the budget");

        let (reply, answer) = Reply::channel();
        let ask = Retire {
            urgency: Urgency::Force,
            reason: Reason::Operator,
            evidence: String::new(),
            by: None,
            reply,
        };
        setup.tell(ToPool::Retire { id: "unknown".into(), ask });
        assert_eq!(answer.await, Ok(Err(Refusal::Unknown)));
    });
}

#[test]
fn surplus_is_asked_to_retire_when_its_time_has_come_without_any_message() {
    perform(async {
        let fakes = with_rows([row("a", State::Idle)]);
        let setup = PoolSetup::start(Arc::clone(&fakes), spec(0, 9), false);
        setup.shows(&"a".into(), State::Idle);
        tokio::time::sleep(Duration::from_secs(290)).await;
        assert_eq!(fakes.retired(), 0);
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(fakes.retired(), 1);
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert_eq!(fakes.retired(), 2, "it never answered");
    });
}

#[test]
fn a_machine_is_adopted_once() {
    perform(async {
        let fakes = with_rows([row("used", State::Deleted), row("owned", State::Idle)]);
        let setup = PoolSetup::start(Arc::clone(&fakes), spec(0, 9), false);
        a_moment().await;
        fakes.starts.lock().unwrap().clear();
        let adopt = |name| {
            let (reply, answer) = Reply::channel();
            setup.tell(ToPool::Adopt { view: machine(name), home: None, reply });
            answer
        };
        let (first, second) = (adopt("lost"), adopt("lost"));
        assert_eq!(first.await, Ok(Ok("lost".into())));
        assert_eq!(second.await, Ok(Err(Refusal::Taken)));
        assert_eq!(adopt("owned").await, Ok(Err(Refusal::Taken)));
        let fresh = adopt("used").await.unwrap().unwrap();
        assert_ne!(fresh.as_str(), "used", "names are unique for ever");
        assert_eq!(fakes.starts().len(), 2);
    });
}

#[test]
fn three_failures_hold_creation_until_a_probe_serves() {
    perform(async {
        let fakes = with_rows([]);
        let setup = PoolSetup::start(Arc::clone(&fakes), spec(0, 3), false);
        setup.want(3);
        a_moment().await;
        for id in fakes.created() {
            setup.tell(ToPool::Report(failed(id.as_str(), State::Deleted)));
            setup.end(id.as_str(), true);
        }
        a_moment().await;
        assert_eq!(fakes.created().len(), 3, "creation is held");
        assert!(matches!(
            fakes.to_fleet.lock().unwrap().as_slice(),
            [ToFleet::Breaker { open: Some(_), .. }]
        ));
        assert_eq!(fakes.to_ledger.lock().unwrap().last(), Some(&Accepts::Broken));
        let shown = setup.registry.pools()[0].failing.clone().expect("how it fails");
        assert_eq!((shown.failures, &*shown.failure.error), (3, "exit code 1"));
        tokio::time::sleep(Duration::from_secs(15)).await;
        assert_eq!(fakes.created().len(), 4, "one probe");
        let probe = fakes.created()[3].clone();
        setup.shows(&probe, State::Idle);
        a_moment().await;
        assert_eq!(fakes.created().len(), 4, "a runner that is ready has proven nothing");
        let served = InstanceReport {
            outcome: Some(LifeOutcome::Served),
            ..report(probe.as_str(), State::Busy)
        };
        setup.tell(ToPool::Report(served));
        a_moment().await;
        assert_eq!(setup.registry.pools()[0].failing, None);
        assert_eq!(fakes.created().len(), 6, "creation goes on");
        assert!(matches!(
            fakes.to_fleet.lock().unwrap().last(),
            Some(ToFleet::Breaker { open: None, .. })
        ));
    });
}

#[test]
fn a_removed_pool_drains_and_reports_when_no_instance_is_left() {
    perform(async {
        let fakes = with_rows([row("a", State::Idle)]);
        let setup = PoolSetup::start(Arc::clone(&fakes), spec(3, 9), true);
        setup.shows(&"a".into(), State::Idle);
        a_moment().await;
        assert_eq!(fakes.retired(), 1);
        assert!(fakes.created().is_empty());
        assert!(fakes.to_fleet.lock().unwrap().is_empty());
        setup.shows(&"a".into(), State::Deleted);
        setup.end("a", true);
        a_moment().await;
        assert!(matches!(fakes.to_fleet.lock().unwrap().as_slice(), [ToFleet::PoolEmpty(_)]));
    });
}

#[test]
fn a_pool_that_dies_halts_its_owners_and_tells_the_fleet() {
    perform(async {
        let fakes = with_rows([row("a", State::Busy)]);
        let mut setup = PoolSetup::start(Arc::clone(&fakes), spec(0, 9), false);
        a_moment().await;
        setup.stop_guard = None;
        a_moment().await;
        assert_eq!(fakes.count(|message| matches!(message, ToInstance::Halt)), 1);
        assert_eq!(fakes.retired(), 0, "no machine is touched");
        assert!(matches!(
            fakes.to_fleet.lock().unwrap().as_slice(),
            [ToFleet::PoolDied { panicked: false, .. }]
        ));
    });
}

#[test]
fn an_edit_reaches_every_owner_and_closes_the_breaker() {
    perform(async {
        let fakes = with_rows([row("a", State::Idle)]);
        let setup = PoolSetup::start(Arc::clone(&fakes), spec(1, 1), false);
        setup.shows(&"a".into(), State::Idle);
        a_moment().await;
        let mut edited = spec(1, 1);
        edited.revision = "newer".into();
        setup.tell(ToPool::Apply(Arc::new(edited)));
        a_moment().await;
        assert_eq!(fakes.count(|message| matches!(message, ToInstance::Spec(_))), 1);
        assert_eq!(fakes.retired(), 1, "it is of another shape now");
    });
}

#[test]
fn the_deliberate_mistakes_are_made_when_chosen() {
    perform(async {
        mutants::choose(Some(Mutant::DeletingSkippedAtStart));
        let fakes = with_rows([row("a", State::Deleting)]);
        let _play = PoolSetup::start(Arc::clone(&fakes), spec(0, 1), false);
        a_moment().await;
        mutants::choose(None);
        assert!(fakes.starts().is_empty());
    });
    perform(async {
        mutants::choose(Some(Mutant::SlotFreedTwice));
        let fakes = with_rows([row("a", State::Deleting)]);
        let setup = PoolSetup::start(Arc::clone(&fakes), spec(1, 1), false);
        setup.shows(&"a".into(), State::Deleting);
        a_moment().await;
        mutants::choose(None);
        assert_eq!(fakes.created().len(), 1, "the place was given away before it was free");
    });
}
