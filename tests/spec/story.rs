//! How a story is told: a plan, what happens, and an end at which nothing may be left.

use std::sync::Arc;
use std::time::Duration;

use ostler_actors::model::{Event, Instance, InstanceId, MachineName, State, What};
use ostler_actors::registry::PoolView;
use ostler_actors::testing::{MINUTE, Plan, Watched, in_virtual_time};

/// How much of the story is shown when it fails.
const SHOWN_EVENTS: usize = 80;

/// Tells a story: afterwards the world is brought to rest, nothing may be left in it, and no
/// promise may have been broken on the way.
pub(super) fn story(plan: Plan, tell: impl AsyncFnOnce(&mut Watched)) {
    in_virtual_time(async {
        let mut world = Telling(Watched::new(plan).remembering());
        tell(&mut world.0).await;
        let broken = world.0.finish().await;
        assert!(broken.is_empty(), "promises were broken: {broken:#?}");
    });
}

/// Shows the end of the story when its test fails.
struct Telling(Watched);

impl Drop for Telling {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let outside = self.0.outside();
            let lines = outside.trace.lines();
            for line in &lines[lines.len().saturating_sub(SHOWN_EVENTS)..] {
                eprintln!("{line}");
            }
        }
    }
}

/// Words that stories share; each fails the test with a sentence.
pub(super) trait Tell {
    /// Returns the only live instance.
    fn only(&self) -> Instance;

    /// Returns a pool as the board shows it.
    fn shown(&self, pool: &str) -> Arc<PoolView>;

    /// Lets time pass until there is an instance, which must be the only one.
    async fn first(&mut self) -> Instance;

    /// Lets time pass until a job is at work on a machine.
    async fn until_working(&mut self, machine: &MachineName, job: u64);

    /// Returns the events of an instance that `is_it` picks.
    fn reported(&self, id: &InstanceId, is_it: impl Fn(&What) -> bool) -> Vec<Event>;

    /// Lets time pass until an instance is in a state.
    async fn until(&mut self, id: &InstanceId, state: State, wait_limit: Duration);

    /// Lets time pass until something holds.
    async fn wait_for(
        &mut self,
        what: &str,
        wait_limit: Duration,
        holds: impl Fn(&Watched) -> bool,
    );
}

impl Tell for Watched {
    fn only(&self) -> Instance {
        let mut rows = self.rows();
        assert_eq!(rows.len(), 1, "one instance lives: {rows:?}");
        rows.remove(0)
    }

    fn shown(&self, pool: &str) -> Arc<PoolView> {
        let board = self.registry().expect("a living daemon");
        let view = board.pools().into_iter().find(|view| view.id.as_str() == pool);
        view.expect("a pool on the board")
    }

    async fn first(&mut self) -> Instance {
        self.wait_for("an instance", MINUTE, |world| !world.rows().is_empty()).await;
        self.only()
    }

    async fn until_working(&mut self, machine: &MachineName, job: u64) {
        let what = format!("job {job} is at work on `{machine}`");
        self.wait_for(&what, 5 * MINUTE, |world| world.working(machine) == Some(job)).await;
    }

    fn reported(&self, id: &InstanceId, is_it: impl Fn(&What) -> bool) -> Vec<Event> {
        self.timeline(id).into_iter().filter(|event| is_it(&event.what)).collect()
    }

    async fn until(&mut self, id: &InstanceId, state: State, wait_limit: Duration) {
        let came = self.reaches(id, state, wait_limit).await;
        assert!(came, "`{id}` is not {state} within {wait_limit:?}: {:?}", self.row(id));
    }

    async fn wait_for(
        &mut self,
        what: &str,
        wait_limit: Duration,
        holds: impl Fn(&Watched) -> bool,
    ) {
        assert!(self.comes(wait_limit, holds).await, "{what}: not within {wait_limit:?}");
    }
}
