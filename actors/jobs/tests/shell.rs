//! The ledger's actor: what is saved when, and who is told after.

use std::sync::Mutex;

use super::doubles::{Shelf, instance, play, settle};
use super::*;
use crate::base::Base;
use crate::fleet::{Part, ToFleet};
use crate::instance::ToInstance;
use crate::jobs::{Capabilities, LedgerStart, ToLedger, start};
use crate::mail::{ActorRef, Mailbox};
use crate::model::State;
use crate::pool::ToPool;
use crate::registry::{Entry, Registry};
use crate::requeue::ToRequeue;
use crate::supervise::StopGuard;

/// Keeps the letters that came to an office.
struct Tray<M>(Arc<Mutex<Vec<M>>>);

impl<M: Send + 'static> Tray<M> {
    fn new() -> (Self, Mailbox<M>) {
        let messages = Arc::new(Mutex::new(Vec::new()));
        let tray = Arc::clone(&messages);
        let mailbox = Mailbox::new(move |message| {
            tray.lock().unwrap().push(message);
            Ok(())
        });
        (Self(messages), mailbox)
    }

    fn take(&self) -> Vec<M> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

struct Room {
    shelf: Arc<Shelf>,
    base: Base,
    ledger: ActorRef<ToLedger>,
    fleet: Tray<ToFleet>,
    requeue: Tray<ToRequeue>,
    pool: Tray<ToPool>,
    pool_ref: ActorRef<ToPool>,
    _stop_guard: StopGuard,
}

impl Room {
    fn open(shelf: Arc<Shelf>) -> Self {
        Self::with(shelf, Arc::default())
    }

    fn with(shelf: Arc<Shelf>, registry: Arc<Registry>) -> Self {
        let base = Base { registry, ..shelf.base() };
        let (fleet, fleet_mailbox) = Tray::new();
        let (requeue, requeue_mailbox) = Tray::new();
        let (pool, pool_mailbox) = Tray::new();
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
            capabilities: Capabilities::new(shelf.clone()),
            settings: settings(),
        });
        Self { shelf, base, ledger, fleet, requeue, pool, pool_ref, _stop_guard: stop_guard }
    }

    fn know_pools(&self) {
        let spec = Arc::new(pool("linux", &["linux"]));
        self.tell(ToLedger::Pools(vec![(spec, self.pool_ref.clone())]));
    }

    fn tell(&self, message: ToLedger) {
        self.ledger.tell(message).unwrap();
    }

    fn news(&self, instance: &str, what: InstanceChange) {
        let news = InstanceUpdate { id: instance.into(), pool: linux(), what };
        self.tell(ToLedger::Instance(news));
    }

    /// Lets an instance appear whose owner only keeps its letters.
    fn waits(&self, instance: &str) -> (Tray<ToInstance>, Entry) {
        let (tray, mailbox) = Tray::new();
        let entry = self.base.registry.claim(instance.into(), mailbox).ok().unwrap();
        self.news(instance, InstanceChange::Answers(vec![instance.into()]));
        self.news(instance, InstanceChange::Offerable);
        (tray, entry)
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
fn letters_that_wait_together_share_a_save_and_demand_is_told_once() {
    play(async {
        let room = Room::open(Arc::default());
        room.know_pools();
        for job in 0..100 {
            room.tell(ToLedger::Notice(notice(job, QUEUED, None)));
        }
        settle().await;
        assert_eq!(room.shelf.inside().jobs.len(), 100);
        assert_eq!(room.shelf.inside().saves.len(), 1);
        assert_eq!(room.demand(), [10]);
    });
}

#[test]
fn nobody_is_told_before_the_save_is_durable() {
    play(async {
        let room = Room::open(Arc::default());
        room.know_pools();
        let (instance, _entry) = room.waits("a");
        settle().await;
        room.shelf.inside().failing = 3;
        room.tell(ToLedger::Notice(notice(1, QUEUED, None)));
        settle().await;
        assert!(instance.take().is_empty());
        tokio::time::sleep(Duration::from_secs(2)).await;
        let messages = instance.take();
        assert!(matches!(&messages[..], [ToInstance::Offer { delivered: false, .. }]));
        let writes: Vec<_> = room.shelf.inside().saves.iter().map(|save| save.write).collect();
        assert_eq!(writes.len(), 4);
        assert!(writes.iter().all(|write| *write == writes[0]), "it is the same save");
    });
}

#[test]
fn an_offer_that_gets_no_answer_in_ten_seconds_ends() {
    play(async {
        let room = Room::open(Arc::default());
        room.know_pools();
        let (instance, _entry) = room.waits("a");
        room.tell(ToLedger::Notice(notice(1, QUEUED, None)));
        settle().await;
        // The letter is kept, and with it the reply nobody gives.
        let kept = instance.take();
        assert_eq!(kept.len(), 1);
        tokio::time::sleep(Duration::from_secs(11)).await;
        let ended = instance.take();
        assert!(matches!(&ended[..], [ToInstance::OfferEnded { why: OfferEnd::Refused, .. }]));
    });
}

#[test]
fn an_offer_to_an_instance_without_an_owner_ends_at_once() {
    play(async {
        let room = Room::open(Arc::default());
        room.know_pools();
        room.news("a", InstanceChange::Answers(vec!["a".into()]));
        room.news("a", InstanceChange::Offerable);
        room.tell(ToLedger::Notice(notice(1, QUEUED, None)));
        settle().await;
        assert_eq!(room.demand().last(), Some(&1));
    });
}

#[test]
fn delivery_is_acknowledged_after_it_is_durable() {
    play(async {
        let room = Room::open(Arc::default());
        room.know_pools();
        let (_instance, _entry) = room.waits("a");
        room.tell(ToLedger::Notice(notice(1, QUEUED, None)));
        settle().await;
        let ask = |generation| {
            let ask = move |reply| ToLedger::Deliver {
                job: id(1),
                instance: "a".into(),
                generation,
                reply,
            };
            room.ledger.ask(ask, Duration::from_secs(10))
        };
        assert_eq!(ask(Generation(2)).await, Ok(false));
        room.shelf.inside().failing = 2;
        assert_eq!(ask(Generation(1)).await, Ok(true));
        let offer = room.shelf.inside().jobs[&id(1)].open_offer().unwrap().clone();
        assert_eq!(offer.stage, OfferStage::Delivered);
    });
}

#[test]
fn a_new_ledger_goes_on_where_the_old_one_ended() {
    play(async {
        let shelf: Arc<Shelf> = Arc::default();
        let old = Room::open(Arc::clone(&shelf));
        old.know_pools();
        old.tell(ToLedger::Notice(notice(1, QUEUED, None)));
        settle().await;
        let fleet = Tray(Arc::clone(&old.fleet.0));
        drop(old);
        settle().await;
        let died = fleet.take();
        assert!(matches!(&died[..], [ToFleet::Died { part: Part::Ledger, panicked: false }]));
        let mut told = notice(2, QUEUED, None);
        told.delivery = Some("guid".into());
        shelf.inside().unhandled.push(told);
        let new = Room::open(Arc::clone(&shelf));
        new.know_pools();
        settle().await;
        assert_eq!(new.demand(), [2]);
        assert!(shelf.inside().unhandled.is_empty());
    });
}

#[test]
fn a_new_ledger_finds_the_owners_who_think_that_they_have_told_everything() {
    play(async {
        let shelf: Arc<Shelf> = Arc::default();
        let old = Room::open(Arc::clone(&shelf));
        old.know_pools();
        let (waiting, _a) = old.waits("a");
        let (ended, _b) = old.waits("b");
        old.tell(ToLedger::Notice(notice(2, RUNS, Some("b"))));
        settle().await;
        let registry = Arc::clone(&old.base.registry);
        drop(old);
        settle().await;
        shelf.inside().live = vec![instance("a", State::Idle), instance("b", State::Ended)];
        let new = Room::with(Arc::clone(&shelf), registry);
        new.know_pools();
        new.tell(ToLedger::Notice(notice(1, QUEUED, None)));
        settle().await;
        assert!(matches!(&waiting.take()[..], [ToInstance::Offer { .. }]));
        assert!(matches!(&new.requeue.take()[..], [ToRequeue::Ask(job)] if *job == id(2)));
        drop(ended);
    });
}

#[test]
fn a_fenced_ledger_stops() {
    play(async {
        let room = Room::open(Arc::default());
        room.know_pools();
        settle().await;
        room.shelf.inside().fenced = true;
        room.tell(ToLedger::Notice(notice(1, QUEUED, None)));
        settle().await;
        assert!(matches!(&room.fleet.take()[..], [ToFleet::Fenced, ToFleet::Died { .. }]));
        assert!(room.demand().iter().all(|queued| *queued == 0));
    });
}

#[test]
fn the_requeue_actor_is_asked_when_an_instance_ends_with_a_job() {
    play(async {
        let room = Room::open(Arc::default());
        room.know_pools();
        room.news("a", InstanceChange::Answers(vec!["a".into()]));
        room.tell(ToLedger::Notice(notice(1, RUNS, Some("a"))));
        room.news("a", InstanceChange::Ended);
        settle().await;
        assert!(matches!(&room.requeue.take()[..], [ToRequeue::Ask(job)] if *job == id(1)));
    });
}
