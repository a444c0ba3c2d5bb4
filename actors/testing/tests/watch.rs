//! Watches and watchers: machines that show themselves, and checkers that see everything.

use std::sync::{Arc, Mutex};

use super::naive;
use crate::fleet::ToFleet;
use crate::mail::Reply;
use crate::model::{MachineName, MachineView, Worker};
use crate::ports::{Inventory as _, MachineSink};
use crate::registry::Registry;
use crate::testing::{
    MINUTE, Observed, Outside, Plan, Seen, SimProvider, Watched, Watcher, World, in_virtual_time,
    pool,
};

#[derive(Default)]
struct Diary(Mutex<Vec<String>>);

impl MachineSink for Diary {
    fn seen(&self, view: MachineView) {
        let worker = if view.worker == Worker::Present { " working" } else { "" };
        self.0.lock().unwrap().push(format!("{:?}{worker}", std::mem::discriminant(&view.phase)));
    }

    fn missed(&self, machine: MachineName) {
        self.0.lock().unwrap().push(format!("no {machine}"));
    }
}

fn quiet() -> World {
    naive::world(Plan::quiet(vec![pool("linux", "witness", 4)]))
}

#[test]
fn a_watch_tells_of_every_change_until_the_machine_is_gone() {
    in_virtual_time(async {
        let mut world = quiet();
        let diary = Arc::new(Diary::default());
        let index = world.outside().machines.index_of(&"witness".into()).unwrap();
        let provider = SimProvider::new(world.shared().clone(), index);
        let _watching = provider.watch(Arc::clone(&diary) as _);
        world.queue(&["linux"], MINUTE);
        world.run_for(10 * MINUTE).await;
        let detail = diary.0.lock().unwrap().clone();
        assert!(detail.iter().any(|line| line.ends_with("working")));
        assert!(detail.last().is_some_and(|line| line.starts_with("no m")), "{detail:?}");
    });
}

#[test]
fn a_watch_may_lose_everything() {
    in_virtual_time(async {
        let mut world = quiet();
        let diary = Arc::new(Diary::default());
        world.outside().faults.provider.watch_lost = 10_000;
        let index = world.outside().machines.index_of(&"witness".into()).unwrap();
        let provider = SimProvider::new(world.shared().clone(), index);
        let _watching = provider.watch(Arc::clone(&diary) as _);
        world.queue(&["linux"], MINUTE);
        world.run_for(10 * MINUTE).await;
        assert!(diary.0.lock().unwrap().is_empty());
    });
}

#[test]
fn a_watch_ends_with_its_guard_and_not_with_an_older_one() {
    in_virtual_time(async {
        let mut world = quiet();
        let index = world.outside().machines.index_of(&"witness".into()).unwrap();
        let provider = SimProvider::new(world.shared().clone(), index);
        let (old, new) = (Arc::new(Diary::default()), Arc::new(Diary::default()));
        let first = provider.watch(Arc::clone(&old) as _);
        let second = provider.watch(Arc::clone(&new) as _);
        drop(first);
        world.queue(&["linux"], MINUTE);
        world.run_for(10 * MINUTE).await;
        let detail = new.0.lock().unwrap().len();
        assert!(detail > 0 && old.0.lock().unwrap().is_empty());
        drop(second);
        world.queue(&["linux"], MINUTE);
        world.run_for(10 * MINUTE).await;
        assert_eq!(new.0.lock().unwrap().len(), detail);
    });
}

#[test]
fn a_fleet_that_ends_leaves_no_watch_to_the_next_one() {
    in_virtual_time(async {
        let mut world = Watched::new(Plan::quiet(vec![pool("linux", "witness", 4)]));
        world.run_for(MINUTE).await;
        let watched = world.outside().machines.sinks.len();
        assert!(watched > 0, "a fleet watches");
        // It ends in a process that lives on, as after a lost lease.
        world.say(ToFleet::Shutdown(Reply::discard()));
        world.run_for(MINUTE).await;
        assert_eq!(world.outside().machines.sinks.len(), 0);
        world.crash(MINUTE);
        world.run_for(5 * MINUTE).await;
        assert_eq!(world.outside().machines.sinks.len(), watched, "the next one begins its own");
    });
}

#[derive(Clone, Default)]
struct Clerk(Arc<Mutex<Vec<&'static str>>>);

impl Watcher for Clerk {
    fn step(&mut self, seen: &[Observed], _: &Outside, registry: Option<&Registry>) {
        assert!(registry.is_some());
        for observed in seen {
            let word = match observed.what {
                Seen::CreateCalled { .. } => "create",
                Seen::Appeared { times: 1, .. } => "appeared",
                Seen::JobStarted { .. } => "started",
                Seen::JobOver { .. } => "over",
                Seen::DeleteCalled(_) => "delete",
                Seen::MachineGone { .. } => "gone",
                _ => continue,
            };
            self.0.lock().unwrap().push(word);
        }
    }
}

#[test]
fn a_watcher_sees_everything_once_and_in_order() {
    in_virtual_time(async {
        let clerk = Clerk::default();
        let mut world = quiet().watched_by(clerk.clone());
        world.queue(&["linux"], MINUTE);
        world.run_for(10 * MINUTE).await;
        let seen = clerk.0.lock().unwrap().clone();
        assert_eq!(seen, ["create", "appeared", "started", "over", "delete", "gone"]);
    });
}
