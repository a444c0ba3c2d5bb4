//! What every forge must do, told the truth: the double with its faults switched off and the
//! real adapter over HTTP alike.

use std::future::Future;
use std::sync::Arc;

use crate::model::{
    JobFact, JobId, Labels, MachineName, NamedRunner, Observation, Place, RunnerId, RunnerName,
    Scope, Sighting,
};
use crate::ports::{Deregistered, Forge, MintError, MintGate, MintOrder, Roster as _, RunnerRef};

/// Makes forges to be put through the contract, and plays the world around them.
pub trait ForgeBench {
    /// The kind of forge.
    type Forge: Forge;

    /// Opens a forge without runners and jobs; what follows happens at it.
    fn open(&self) -> impl Future<Output = Arc<Self::Forge>>;

    /// Returns the scope to work in.
    fn scope(&self) -> Scope;

    /// Queues a job that no runner takes.
    fn queue(&self) -> impl Future<Output = BenchJob>;

    /// Registers a runner under this name by other means, and lets it take a job.
    fn put_to_work(&self, name: &str) -> impl Future<Output = (RunnerRef, BenchJob)>;

    /// Lets a job end.
    fn finish(&self, job: &BenchJob) -> impl Future<Output = ()>;

    /// Tells what the forge says of a runner without a job: that it has none, or, where it cannot
    /// look everywhere, nothing. Never that it has one.
    fn without_work(&self) -> Sighting<JobId> {
        Sighting::Absent
    }
}

/// Points at a job of the bench.
#[derive(Clone, Debug)]
pub struct BenchJob {
    pub id: JobId,
    /// Where it comes from.
    pub place: Place,
    pub run: u64,
}

/// Puts a forge through the whole contract; panics at the first breach.
pub async fn forge_contract(bench: &impl ForgeBench) {
    a_registration_is_seen_listed_and_removed(bench).await;
    a_name_is_taken_until_it_is_removed(bench).await;
    a_registration_is_found_by_its_machine_under_any_number(bench).await;
    what_was_never_there_is_absent(bench).await;
    a_queued_job_is_read_and_listed(bench).await;
    a_runner_at_work_cannot_be_removed_and_names_its_job(bench).await;
    a_job_that_ended_takes_its_registration_along(bench).await;
}

fn order(bench: &impl ForgeBench, name: &str) -> MintOrder {
    MintOrder {
        scope: bench.scope(),
        name: RunnerName::new(name),
        labels: ["linux"].iter().collect::<Labels>(),
        group: String::new(),
        gate: MintGate::default(),
    }
}

/// Returns what a look saw; it must have seen something.
fn seen<T>(sighting: Sighting<T>) -> T {
    let seen = match sighting {
        Sighting::Seen(thing) => Ok(thing),
        Sighting::Absent => Err("absent".to_owned()),
        Sighting::Unknown(why) => Err(why),
    };
    seen.expect("the forge sees what is there")
}

/// Returns what a listing holds; it must be complete.
fn listed<T>(listing: Observation<Vec<T>>) -> Vec<T> {
    let listed = match listing {
        Observation::Complete(all) => Ok(all),
        Observation::Unusable(why) => Err(why),
    };
    listed.expect("the forge can list")
}

/// A fresh registration is offline and free, by id, by name and in the list; removed, it is gone.
async fn a_registration_is_seen_listed_and_removed(bench: &impl ForgeBench) {
    let (forge, scope) = (bench.open().await, bench.scope());
    let minted = forge.mint(order(bench, "r1")).await.expect("a fresh name");
    assert!(!minted.jit.reveal().is_empty());
    let by_id = RunnerRef { name: "r1".into(), id: Some(minted.id) };
    let by_name = RunnerRef { name: "r1".into(), id: None };
    for who in [&by_id, &by_name] {
        let view = seen(forge.runner(&scope, who).await);
        assert_eq!((&view.name, view.id), (&who.name, minted.id));
        assert!(!view.online && !view.busy);
    }
    assert!(listed(forge.runners(&scope).await).iter().any(|view| view.id == minted.id));
    assert_idle(bench, &forge.work_of(&scope, &by_name).await);
    let answer = forge.deregister(&scope, minted.id).await.expect("an answer");
    assert_eq!(answer, Deregistered::Removed);
    for who in [&by_id, &by_name] {
        assert_eq!(forge.runner(&scope, who).await, Sighting::Absent);
    }
    assert!(listed(forge.runners(&scope).await).is_empty());
}

/// A name is taken while its registration stands, and free under a new number afterwards.
async fn a_name_is_taken_until_it_is_removed(bench: &impl ForgeBench) {
    let (forge, scope) = (bench.open().await, bench.scope());
    let first = forge.mint(order(bench, "r1")).await.expect("a fresh name");
    let again = forge.mint(order(bench, "r1")).await;
    assert!(matches!(&again, Err(MintError::Taken(name)) if name.as_str() == "r1"), "{again:?}");
    forge.deregister(&scope, first.id).await.expect("an answer");
    let second = forge.mint(order(bench, "r1")).await.expect("the name is free again");
    assert_ne!(first.id, second.id);
}

/// A machine's registration is found under its name and under the number of a further mint, and
/// never under a name that only begins like it.
async fn a_registration_is_found_by_its_machine_under_any_number(bench: &impl ForgeBench) {
    let (forge, scope) = (bench.open().await, bench.scope());
    let machine = MachineName::new("r1");
    for other in ["r12", "r1-x", "r1-2-x", "r"] {
        forge.mint(order(bench, other)).await.expect("a fresh name");
    }
    assert_eq!(forge.runner_of(&scope, &machine).await, Sighting::Absent);
    for name in ["r1", "r1-2", "r1-13"] {
        let minted = forge.mint(order(bench, name)).await.expect("a fresh name");
        let view = seen(forge.runner_of(&scope, &machine).await);
        assert_eq!((view.name.as_str(), view.id), (name, minted.id));
        forge.deregister(&scope, minted.id).await.expect("an answer");
    }
    assert_eq!(forge.runner_of(&scope, &machine).await, Sighting::Absent);
    let (_, job) = bench.put_to_work("r1-2").await;
    let who = RunnerRef { name: "r1".into(), id: None };
    assert_eq!(forge.work_of(&scope, &who).await, Sighting::Seen(job.id));
}

/// What was never there is absent, and removing it finds nothing.
async fn what_was_never_there_is_absent(bench: &impl ForgeBench) {
    let (forge, scope) = (bench.open().await, bench.scope());
    let known = bench.queue().await;
    let unknown = RunnerId(987_654);
    for id in [Some(unknown), None] {
        let who = RunnerRef { name: "unknown".into(), id };
        assert_eq!(forge.runner(&scope, &who).await, Sighting::Absent);
    }
    let answer = forge.deregister(&scope, unknown).await.expect("an answer");
    assert_eq!(answer, Deregistered::NotFound);
    let stranger = JobId { forge: known.id.forge, number: 987_654 };
    assert_eq!(forge.job(&stranger, &known.place, known.run).await, Sighting::Absent);
}

/// A queued job is read as such and found by asking, with no runner to its name.
async fn a_queued_job_is_read_and_listed(bench: &impl ForgeBench) {
    let (forge, scope) = (bench.open().await, bench.scope());
    let job = bench.queue().await;
    let reading = seen(forge.job(&job.id, &job.place, job.run).await);
    assert_eq!((reading.fact, reading.runner), (JobFact::Queued, None));
    assert!(!reading.run_over);
    let open = listed(forge.open_jobs(&scope).await);
    let notice = open.iter().find(|notice| notice.id == job.id).expect("an open job is listed");
    assert_eq!((&notice.fact, &notice.place), (&JobFact::Queued, &job.place));
}

/// A runner without a job has none, as far as this forge can say.
fn assert_idle(bench: &impl ForgeBench, seen: &Sighting<JobId>) {
    let as_expected = match (bench.without_work(), seen) {
        (Sighting::Absent, Sighting::Absent) | (Sighting::Unknown(_), Sighting::Unknown(_)) => true,
        (Sighting::Absent | Sighting::Unknown(_) | Sighting::Seen(_), _) => false,
    };
    assert!(as_expected, "{seen:?}");
}

/// A runner at work is busy, cannot be removed, and is named by its job.
async fn a_runner_at_work_cannot_be_removed_and_names_its_job(bench: &impl ForgeBench) {
    let (forge, scope) = (bench.open().await, bench.scope());
    let (who, job) = bench.put_to_work("r1").await;
    let view = seen(forge.runner(&scope, &who).await);
    assert!(view.online && view.busy);
    let answer = forge.deregister(&scope, view.id).await.expect("an answer");
    assert_eq!(answer, Deregistered::Working);
    assert_eq!(forge.work_of(&scope, &who).await, Sighting::Seen(job.id.clone()));
    let reading = seen(forge.job(&job.id, &job.place, job.run).await);
    let named = Some(NamedRunner { name: who.name.clone(), id: Some(view.id) });
    assert_eq!((reading.fact, &reading.runner), (JobFact::InProgress, &named));
    let open = listed(forge.open_jobs(&scope).await);
    let notice = open.iter().find(|notice| notice.id == job.id).expect("an open job is listed");
    assert_eq!((&notice.fact, &notice.runner), (&JobFact::InProgress, &named));
}

/// When its job is over, an ephemeral registration is gone, and the job still names its runner.
async fn a_job_that_ended_takes_its_registration_along(bench: &impl ForgeBench) {
    let (forge, scope) = (bench.open().await, bench.scope());
    let (who, job) = bench.put_to_work("r1").await;
    bench.finish(&job).await;
    assert_idle(bench, &forge.work_of(&scope, &who).await);
    assert_eq!(forge.runner(&scope, &who).await, Sighting::Absent);
    let reading = seen(forge.job(&job.id, &job.place, job.run).await);
    assert!(reading.fact.is_over() && reading.run_over);
    assert_eq!(reading.runner.map(|runner| runner.name), Some(who.name));
    assert!(listed(forge.open_jobs(&scope).await).iter().all(|notice| notice.id != job.id));
}
