//! What every provider must do, as a suite that any of them can be run through.
//!
//! Providers differ in how long things take, so a bench says how time passes, and what takes
//! time is looked for until it is seen. What must never be seen is checked at every look.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use crate::model::{
    ControllerId, ExitReport, HolderId, MachineName, MachinePhase, MachineView, Observation,
    Sighting, Stamp, Tail,
};
use crate::ports::{
    CreateError, CreateOrder, Deletion, Grace, Inventory as _, MachineRef, MachineSink, Provider,
};

/// How often something that takes time is looked for.
const MAX_READS: usize = 600;

/// Makes providers to be put through the contract.
pub trait ProviderBench {
    /// The kind of provider.
    type Provider: Provider;

    /// Opens a provider without machines.
    fn open(&mut self) -> impl Future<Output = Arc<Self::Provider>>;

    /// Orders a machine whose runner lives until it is ended.
    fn order(&self, name: &str, stamp: Stamp) -> CreateOrder;

    /// Tells how much this kind of provider can tell.
    fn tells(&self) -> Tells {
        Tells::Everything
    }

    /// Lets the runner of a machine end by itself with exit code 7.
    fn end_with_seven(&mut self, machine: &MachineName) -> impl Future<Output = ()>;

    /// Lets some time pass.
    fn pass(&mut self) -> impl Future<Output = ()>;
}

/// Tells how much a kind of provider can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tells {
    /// How machines ended, what was not there to delete, and changes as they happen.
    Everything,
    /// That machines are there, or over, or gone, when asked; a deletion of nothing is a deletion.
    WhenAsked,
}

/// Puts a provider through the whole contract; panics at the first breach.
pub async fn provider_contract(bench: &mut impl ProviderBench) {
    a_machine_is_shown_as_it_was_ordered(bench).await;
    what_was_never_made_is_absent(bench).await;
    one_name_never_makes_two_machines(bench).await;
    the_id_of_another_machine_reaches_no_machine(bench).await;
    a_deleted_machine_is_gone_for_good(bench).await;
    deleting_one_machine_leaves_the_others(bench).await;
    an_exit_is_reported_with_its_code_until_the_machine_is_deleted(bench).await;
    if bench.tells() == Tells::Everything {
        changes_are_reported_to_the_watcher(bench).await;
    }
}

/// Fails unless a deletion said that there was nothing, as far as the provider can.
fn found_nothing(bench: &impl ProviderBench, answer: Deletion) {
    match bench.tells() {
        Tells::Everything => assert_eq!(answer, Deletion::NotFound),
        Tells::WhenAsked => {}
    }
}

/// Name, id and stamp are the same in the answer, in a read and in a listing.
async fn a_machine_is_shown_as_it_was_ordered(bench: &mut impl ProviderBench) {
    let provider = bench.open().await;
    let made = create(bench, &*provider, "m1").await;
    assert_eq!((made.name.as_str(), &made.stamp), ("m1", &stamp("m1")));
    assert!(!matches!(made.phase, MachinePhase::Over(_)), "{made:?}");
    let running = until(bench, &*provider, &exact(&made), |seen| match seen {
        Sighting::Seen(view) => view.phase == MachinePhase::Running,
        Sighting::Absent | Sighting::Unknown(_) => false,
    })
    .await;
    let Sighting::Seen(read) = running else { panic!("not seen") };
    assert_eq!((&read.name, &read.uid, &read.stamp), (&made.name, &made.uid, &made.stamp));
    assert!(!read.leaving, "{read:?}");
    let listed = list(&*provider).await;
    let names: Vec<_> = listed.iter().map(|it| (&it.name, &it.uid, &it.stamp)).collect();
    assert_eq!(names, [(&made.name, &made.uid, &made.stamp)]);
    clear(bench, &*provider).await;
}

/// Nothing is nothing: absent, without remains, and nothing to delete.
async fn what_was_never_made_is_absent(bench: &mut impl ProviderBench) {
    let provider = bench.open().await;
    let unknown = by_name("unknown");
    assert_eq!(provider.read(&unknown).await, Sighting::Absent);
    let exit_report = provider.exit_report(&unknown, true).await;
    assert!(
        matches!(exit_report, ExitReport { exit: None, tail: Tail::Unavailable(_), .. }),
        "{exit_report:?}"
    );
    let answer = provider.delete(&unknown, Grace::Usual).await.expect("an answer");
    found_nothing(bench, answer);
    assert!(list(&*provider).await.is_empty());
}

/// A create that is called again finds the first machine or says that it does not know; it
/// never makes a second, and never vouches that there is none.
async fn one_name_never_makes_two_machines(bench: &mut impl ProviderBench) {
    let provider = bench.open().await;
    let made = create(bench, &*provider, "m1").await;
    match provider.create(bench.order("m1", stamp("m1"))).await {
        Ok(again) => assert_eq!(again.uid, made.uid),
        Err(CreateError::Unanswered { .. } | CreateError::Failed { .. }) => {}
        Err(error @ CreateError::Refused { .. }) => panic!("it exists, and yet: {error}"),
    }
    match provider.create(bench.order("m1", stamp("another"))).await {
        Err(CreateError::Unanswered { .. }) => {}
        answer => panic!("the name is taken by another's machine, and yet: {answer:?}"),
    }
    let listed = list(&*provider).await;
    assert_eq!(listed.iter().map(|it| &it.uid).collect::<Vec<_>>(), [&made.uid]);
    clear(bench, &*provider).await;
}

/// A machine of the same name and another id is not the one that is meant.
async fn the_id_of_another_machine_reaches_no_machine(bench: &mut impl ProviderBench) {
    let provider = bench.open().await;
    let made = create(bench, &*provider, "m1").await;
    let other = MachineRef { uid: Some("another".into()), ..exact(&made) };
    assert_eq!(provider.read(&other).await, Sighting::Absent);
    let answer = provider.delete(&other, Grace::Zero).await.expect("an answer");
    found_nothing(bench, answer);
    for _ in 0..5 {
        bench.pass().await;
        assert!(matches!(provider.read(&exact(&made)).await, Sighting::Seen(_)));
    }
    clear(bench, &*provider).await;
}

/// A delete is accepted, confirmed by a read, and safe to repeat.
async fn a_deleted_machine_is_gone_for_good(bench: &mut impl ProviderBench) {
    let provider = bench.open().await;
    for grace in [Grace::Usual, Grace::Zero] {
        let made = create(bench, &*provider, &format!("m-{grace:?}").to_lowercase()).await;
        let answer = provider.delete(&exact(&made), grace).await.expect("an answer");
        assert_eq!(answer, Deletion::Accepted);
        until(bench, &*provider, &exact(&made), |seen| *seen == Sighting::Absent).await;
        let answer = provider.delete(&exact(&made), grace).await.expect("an answer");
        found_nothing(bench, answer);
        assert!(list(&*provider).await.is_empty());
    }
}

/// Each machine is deleted for itself.
async fn deleting_one_machine_leaves_the_others(bench: &mut impl ProviderBench) {
    let provider = bench.open().await;
    let (one, other) =
        (create(bench, &*provider, "m1").await, create(bench, &*provider, "m2").await);
    assert_ne!(one.uid, other.uid);
    provider.delete(&exact(&one), Grace::Zero).await.expect("an answer");
    until(bench, &*provider, &exact(&one), |seen| *seen == Sighting::Absent).await;
    let Sighting::Seen(left) = provider.read(&exact(&other)).await else { panic!("not seen") };
    assert!(!matches!(left.phase, MachinePhase::Over(_)) && !left.leaving, "{left:?}");
    clear(bench, &*provider).await;
}

/// An end by itself stays to be read, with code and log, until the machine is deleted.
async fn an_exit_is_reported_with_its_code_until_the_machine_is_deleted(
    bench: &mut impl ProviderBench,
) {
    let provider = bench.open().await;
    let made = create(bench, &*provider, "m1").await;
    bench.end_with_seven(&made.name).await;
    for _ in 0..2 {
        let over = until(bench, &*provider, &exact(&made), is_over).await;
        let Sighting::Seen(MachineView { phase: MachinePhase::Over(facts), .. }) = over else {
            panic!("not over")
        };
        let exit_report = provider.exit_report(&exact(&made), true).await;
        if bench.tells() == Tells::Everything {
            assert_eq!(facts.code, Some(7), "{facts:?}");
            assert!(matches!(exit_report.tail, Tail::Captured(_)), "{:?}", exit_report.tail);
        }
        assert_eq!(exit_report.exit, Some(facts));
        assert_eq!(provider.exit_report(&exact(&made), false).await.tail, Tail::NotNeeded);
        bench.pass().await;
    }
    clear(bench, &*provider).await;
}

/// Who watches hears of a machine, of its end, and that it is no longer there.
async fn changes_are_reported_to_the_watcher(bench: &mut impl ProviderBench) {
    let provider = bench.open().await;
    let ear = Arc::new(Ear::default());
    let watching = provider.watch(Arc::<Ear>::clone(&ear));
    let made = create(bench, &*provider, "m1").await;
    heard(bench, &ear, "seen m1").await;
    bench.end_with_seven(&made.name).await;
    heard(bench, &ear, "over m1").await;
    clear(bench, &*provider).await;
    heard(bench, &ear, "missed m1").await;
    drop(watching);
    // The watcher has dropped its sink, so the provider stops watching.
    while Arc::strong_count(&ear) > 1 {
        bench.pass().await;
    }
}

/// Remembers what a provider tells.
#[derive(Default)]
struct Ear(Mutex<Vec<String>>);

impl MachineSink for Ear {
    fn seen(&self, view: MachineView) {
        let over = matches!(view.phase, MachinePhase::Over(_));
        self.add(format!("{} {}", if over { "over" } else { "seen" }, view.name));
    }

    fn missed(&self, machine: MachineName) {
        self.add(format!("missed {machine}"));
    }
}

impl Ear {
    fn add(&self, word: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(word);
    }

    fn has(&self, word: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|it| it == word)
    }
}

async fn heard(bench: &mut impl ProviderBench, ear: &Ear, word: &str) {
    for _ in 0..MAX_READS {
        if ear.has(word) {
            return;
        }
        bench.pass().await;
    }
    panic!("`{word}` was never told");
}

async fn create(
    bench: &mut impl ProviderBench,
    provider: &impl Provider,
    name: &str,
) -> MachineView {
    let order = bench.order(name, stamp(name));
    let view = provider.create(order).await.expect("a machine");
    assert!(view.uid.is_some(), "this contract is for providers with ids of their own");
    view
}

/// Looks at a machine until it looks as wanted.
async fn until(
    bench: &mut impl ProviderBench,
    provider: &impl Provider,
    machine: &MachineRef,
    wanted: impl Fn(&Sighting<MachineView>) -> bool,
) -> Sighting<MachineView> {
    let mut last = None;
    for _ in 0..MAX_READS {
        let seen = provider.read(machine).await;
        if wanted(&seen) {
            return seen;
        }
        last = Some(seen);
        bench.pass().await;
    }
    panic!("`{}` never looked as it should; last: {last:?}", machine.name);
}

/// Deletes everything, so that each part of the contract begins with nothing.
async fn clear(bench: &mut impl ProviderBench, provider: &impl Provider) {
    for view in list(provider).await {
        provider.delete(&exact(&view), Grace::Zero).await.expect("an answer");
        until(bench, provider, &exact(&view), |seen| *seen == Sighting::Absent).await;
    }
}

async fn list(provider: &impl Provider) -> Vec<MachineView> {
    match provider.list().await {
        Observation::Complete(views) => views,
        Observation::Unusable(why) => panic!("no listing: {why}"),
    }
}

fn is_over(seen: &Sighting<MachineView>) -> bool {
    match seen {
        Sighting::Seen(view) => matches!(view.phase, MachinePhase::Over(_)),
        Sighting::Absent | Sighting::Unknown(_) => false,
    }
}

fn exact(view: &MachineView) -> MachineRef {
    MachineRef { name: view.name.clone(), uid: view.uid.clone() }
}

fn by_name(name: &str) -> MachineRef {
    MachineRef { name: MachineName::new(name), uid: None }
}

fn stamp(instance: &str) -> Stamp {
    Stamp {
        controller: Some(ControllerId::new("controller")),
        holder: Some(HolderId::new("holder")),
        pool: Some("linux".into()),
        instance: Some(instance.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::mail::Mailbox;
    use crate::testing::{Death, Plan, SimProvider, World, in_virtual_time, pool};

    struct Bench(World);

    fn idle_world() -> World {
        World::new(Plan::quiet(vec![pool("linux", "split", 4)]), |_| Mailbox::new(|_| Ok(())))
    }

    impl ProviderBench for Bench {
        type Provider = SimProvider;

        async fn open(&mut self) -> Arc<SimProvider> {
            self.0 = idle_world();
            Arc::new(SimProvider::new(self.0.shared().clone(), 0))
        }

        fn order(&self, name: &str, stamp: Stamp) -> CreateOrder {
            let spec = self.0.plan().pools[0].clone();
            let machine = spec.machine.clone();
            CreateOrder {
                name: name.into(),
                stamp,
                machine,
                pool: Arc::new(spec),
                avoid: vec![],
                attempt: 1,
                jit: None,
                slot: crate::ports::CreateSlot::default(),
            }
        }

        async fn end_with_seven(&mut self, machine: &MachineName) {
            self.0.kill(machine, Death::Outdated);
        }

        async fn pass(&mut self) {
            self.0.run_for(Duration::from_secs(1)).await;
        }
    }

    #[test]
    fn the_simulated_provider_keeps_the_contract() {
        in_virtual_time(async { provider_contract(&mut Bench(idle_world())).await });
    }
}
