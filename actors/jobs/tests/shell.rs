//! The ledger's actor: what is saved when, and what is sent after.

use std::sync::Mutex;

use super::doubles::{StoreDouble, instance, run_paused, settle};
use super::*;
use crate::base::Base;
use crate::fleet::{FleetPart, ToFleet};
use crate::instance::ToInstance;
use crate::jobs::{JobCapabilities, LedgerStart, ToLedger, start};
use crate::mail::{ActorRef, Mailbox};
use crate::model::State;
use crate::pool::ToPool;
use crate::ports::{QuarantinedRow, RecordKey};
use crate::registry::{Entry, Registry};
use crate::requeue::ToRequeue;
use crate::supervise::StopGuard;

/// Keeps the messages that came to a mailbox.
struct ReceivedMessages<M>(Arc<Mutex<Vec<M>>>);

impl<M: Send + 'static> ReceivedMessages<M> {
    fn new() -> (Self, Mailbox<M>) {
        let messages = Arc::new(Mutex::new(Vec::new()));
        let received = Arc::clone(&messages);
        let mailbox = Mailbox::new(move |message| {
            received.lock().unwrap().push(message);
            Ok(())
        });
        (Self(messages), mailbox)
    }

    fn take(&self) -> Vec<M> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

struct LedgerSetup {
    records: Arc<StoreDouble>,
    base: Base,
    ledger: ActorRef<ToLedger>,
    fleet: ReceivedMessages<ToFleet>,
    requeue: ReceivedMessages<ToRequeue>,
    pool: ReceivedMessages<ToPool>,
    pool_ref: ActorRef<ToPool>,
    _stop_guard: StopGuard,
}

impl LedgerSetup {
    fn open(records: Arc<StoreDouble>) -> Self {
        Self::with(records, Arc::default())
    }

    fn with(records: Arc<StoreDouble>, registry: Arc<Registry>) -> Self {
        let base = Base { registry, ..records.base() };
        let (fleet, fleet_mailbox) = ReceivedMessages::new();
        let (requeue, requeue_mailbox) = ReceivedMessages::new();
        let (pool, pool_mailbox) = ReceivedMessages::new();
        let (fleet_ref, requeue_ref) = (ActorRef::default(), ActorRef::default());
        fleet_ref.install(fleet_mailbox);
        requeue_ref.install(requeue_mailbox);
        let pool_ref = ActorRef::default();
        pool_ref.install(pool_mailbox);
        let ledger = ActorRef::default();
        let stop_guard = start(LedgerStart {
            actor_ref: ledger.clone(),
            fleet: fleet_ref,
            requeue: requeue_ref,
            base: base.clone(),
            capabilities: JobCapabilities::new(records.clone()),
            settings: settings(),
        });
        Self { records, base, ledger, fleet, requeue, pool, pool_ref, _stop_guard: stop_guard }
    }

    fn know_pools(&self) {
        let spec = Arc::new(pool("linux", &["linux"]));
        self.tell(ToLedger::Pools(vec![(spec, self.pool_ref.clone())]));
    }

    fn tell(&self, message: ToLedger) {
        self.ledger.tell(message).unwrap();
    }

    fn update(&self, instance: &str, what: InstanceChange) {
        let update = InstanceUpdate { id: instance.into(), pool: linux(), what };
        self.tell(ToLedger::Instance(update));
    }

    /// Lets an instance appear whose owner only keeps its messages.
    fn waits(&self, instance: &str) -> (ReceivedMessages<ToInstance>, Entry) {
        let (received, mailbox) = ReceivedMessages::new();
        let entry = self.base.registry.claim(instance.into(), mailbox).ok().unwrap();
        self.update(instance, InstanceChange::Answers(home(), vec![instance.into()]));
        self.update(instance, InstanceChange::Offerable(None));
        (received, entry)
    }

    fn demand(&self) -> Vec<u32> {
        let messages = self.pool.take().into_iter();
        messages
            .filter_map(
                |message| if let ToPool::Demand(it) = message { Some(it.queued) } else { None },
            )
            .collect()
    }
}

#[test]
fn messages_that_wait_together_share_a_save_and_demand_is_sent_once() {
    run_paused(async {
        let setup = LedgerSetup::open(Arc::default());
        setup.know_pools();
        for job in 0..100 {
            setup.tell(ToLedger::Notice(notice(job, QUEUED, None)));
        }
        settle().await;
        assert_eq!(setup.records.lock().jobs.len(), 100);
        assert_eq!(setup.records.lock().saves.len(), 1);
        assert_eq!(setup.demand(), [10]);
    });
}

#[test]
fn a_job_whose_row_cannot_be_decoded_is_not_served_and_its_runner_learns_of_it() {
    run_paused(async {
        let records = Arc::<StoreDouble>::default();
        records.lock().quarantined.push(QuarantinedRow {
            key: RecordKey::Job(id(7)),
            pool: Some(linux()),
            machine: None,
            why: "it is no JSON".into(),
        });
        let setup = LedgerSetup::open(records);
        setup.know_pools();
        let (instance, _entry) = setup.waits("a");
        setup.tell(ToLedger::Notice(notice(7, QUEUED, None)));
        settle().await;
        assert!(instance.take().is_empty(), "it is not offered");
        setup.tell(ToLedger::Notice(notice(7, RUNS, Some("a"))));
        setup.tell(ToLedger::Notice(notice(7, OVER, Some("a"))));
        settle().await;
        let messages = instance.take();
        assert!(
            matches!(
                &messages[..],
                [
                    ToInstance::Executing(first),
                    ToInstance::Executing(again),
                    ToInstance::JobOver(over),
                ] if *first == id(7) && *again == id(7) && over.names_us && over.job == id(7)
            ),
            "{} messages",
            messages.len()
        );
        assert!(setup.records.lock().jobs.is_empty(), "its row is not written");
        setup.tell(ToLedger::Notice(notice(8, QUEUED, None)));
        settle().await;
        assert!(matches!(&instance.take()[..], [ToInstance::Offer { .. }]), "others are served");
    });
}

#[test]
fn no_message_goes_out_before_the_save_is_durable() {
    run_paused(async {
        let setup = LedgerSetup::open(Arc::default());
        setup.know_pools();
        let (instance, _entry) = setup.waits("a");
        settle().await;
        setup.records.lock().failing = 3;
        setup.tell(ToLedger::Notice(notice(1, QUEUED, None)));
        settle().await;
        assert!(instance.take().is_empty());
        tokio::time::sleep(Duration::from_secs(2)).await;
        let messages = instance.take();
        assert!(matches!(&messages[..], [ToInstance::Offer { delivered: false, .. }]));
        let writes: Vec<_> = setup.records.lock().saves.iter().map(|save| save.write).collect();
        assert_eq!(writes.len(), 4);
        assert!(writes.iter().all(|write| *write == writes[0]), "it is the same save");
    });
}

#[test]
fn an_offer_that_gets_no_answer_in_ten_seconds_ends() {
    run_paused(async {
        let setup = LedgerSetup::open(Arc::default());
        setup.know_pools();
        let (instance, _entry) = setup.waits("a");
        setup.tell(ToLedger::Notice(notice(1, QUEUED, None)));
        settle().await;
        // The message is kept, and with it the reply that never comes.
        let kept = instance.take();
        assert_eq!(kept.len(), 1);
        tokio::time::sleep(Duration::from_secs(11)).await;
        let ended = instance.take();
        assert!(matches!(&ended[..], [ToInstance::OfferEnded { why: OfferEnd::Refused, .. }]));
    });
}

#[test]
fn an_offer_to_an_instance_without_an_owner_ends_at_once() {
    run_paused(async {
        let setup = LedgerSetup::open(Arc::default());
        setup.know_pools();
        setup.update("a", InstanceChange::Answers(home(), vec!["a".into()]));
        setup.update("a", InstanceChange::Offerable(None));
        setup.tell(ToLedger::Notice(notice(1, QUEUED, None)));
        settle().await;
        assert_eq!(setup.demand().last(), Some(&1));
    });
}

#[test]
fn delivery_is_acknowledged_after_it_is_durable() {
    run_paused(async {
        let setup = LedgerSetup::open(Arc::default());
        setup.know_pools();
        let (_instance, _entry) = setup.waits("a");
        setup.tell(ToLedger::Notice(notice(1, QUEUED, None)));
        settle().await;
        let ask = |generation| {
            let ask = move |reply| ToLedger::Deliver {
                job: id(1),
                instance: "a".into(),
                generation,
                reply,
            };
            setup.ledger.ask(ask, Duration::from_secs(10))
        };
        assert_eq!(ask(Generation(2)).await, Ok(false));
        setup.records.lock().failing = 2;
        assert_eq!(ask(Generation(1)).await, Ok(true));
        let offer = setup.records.lock().jobs[&id(1)].open_offer().unwrap().clone();
        assert_eq!(offer.stage, OfferStage::Delivered);
    });
}

#[test]
fn a_new_ledger_goes_on_where_the_old_one_ended() {
    run_paused(async {
        let records: Arc<StoreDouble> = Arc::default();
        let old = LedgerSetup::open(Arc::clone(&records));
        old.know_pools();
        old.tell(ToLedger::Notice(notice(1, QUEUED, None)));
        settle().await;
        let fleet = ReceivedMessages(Arc::clone(&old.fleet.0));
        drop(old);
        settle().await;
        let died = fleet.take();
        assert!(matches!(&died[..], [ToFleet::Died { part: FleetPart::Ledger, panicked: false }]));
        let mut report = notice(2, QUEUED, None);
        report.delivery = Some("guid".into());
        records.lock().unhandled.push(report);
        let new = LedgerSetup::open(Arc::clone(&records));
        new.know_pools();
        settle().await;
        assert_eq!(new.demand(), [2]);
        assert!(records.lock().unhandled.is_empty());
    });
}

#[test]
fn a_new_ledger_finds_owners_that_have_reported_everything_before() {
    run_paused(async {
        let records: Arc<StoreDouble> = Arc::default();
        let old = LedgerSetup::open(Arc::clone(&records));
        old.know_pools();
        let (waiting, _a) = old.waits("a");
        let (ended, _b) = old.waits("b");
        old.tell(ToLedger::Notice(notice(2, RUNS, Some("b"))));
        settle().await;
        let registry = Arc::clone(&old.base.registry);
        drop(old);
        settle().await;
        records.lock().live = vec![instance("a", State::Idle), instance("b", State::Ended)];
        let new = LedgerSetup::with(Arc::clone(&records), registry);
        new.know_pools();
        new.tell(ToLedger::Notice(notice(1, QUEUED, None)));
        settle().await;
        assert!(waiting.take().is_empty(), "only its owner knows whether its machine still asks");
        new.update("a", InstanceChange::Offerable(None));
        settle().await;
        assert!(matches!(&waiting.take()[..], [ToInstance::Offer { .. }]));
        assert!(matches!(&new.requeue.take()[..], [ToRequeue::Ask(job, _)] if *job == id(2)));
        drop(ended);
    });
}

#[test]
fn a_fenced_ledger_stops() {
    run_paused(async {
        let setup = LedgerSetup::open(Arc::default());
        setup.know_pools();
        settle().await;
        setup.records.lock().fenced = true;
        setup.tell(ToLedger::Notice(notice(1, QUEUED, None)));
        settle().await;
        assert!(matches!(&setup.fleet.take()[..], [ToFleet::Fenced, ToFleet::Died { .. }]));
        assert!(setup.demand().iter().all(|queued| *queued == 0));
    });
}

#[test]
fn the_requeue_actor_is_asked_when_an_instance_ends_with_a_job() {
    run_paused(async {
        let setup = LedgerSetup::open(Arc::default());
        setup.know_pools();
        setup.update("a", InstanceChange::Answers(home(), vec!["a".into()]));
        setup.tell(ToLedger::Notice(notice(1, RUNS, Some("a"))));
        setup.update("a", InstanceChange::Ended);
        settle().await;
        assert!(matches!(&setup.requeue.take()[..], [ToRequeue::Ask(job, _)] if *job == id(1)));
    });
}
