//! Nothing lives on after a delete, and no other process is hit by one.

use std::process::Command;
use std::time::Duration;

use ostler::providers::process::Witness;
use ostler_actors::model::{Sighting, Worker};
use ostler_actors::ports::{CreateError, Deletion, Grace, Inventory as _, Provider as _};

use rustix::process::{Signal, kill_process};

use crate::support::HANG_LIMIT;

use super::fixture::{Fixture, away, named, order, over, says, seen, tail, until};

/// Forks grandchildren that leave group, session and parent behind.
const FUGITIVES: &str = "
    setsid sh -c 'trap \"\" TERM HUP INT; (sleep 600 & sleep 600 &) ; exec sleep 600' &
    (setsid setsid sleep 600 &)
    echo forked";

#[tokio::test]
async fn grandchildren_that_ran_away_are_dead_after_a_delete() {
    for grace in [Grace::Usual, Grace::Zero] {
        let mut fixture = Fixture::running(&format!("{FUGITIVES}; exec sleep 600"));
        fixture.settings.grace = Duration::from_millis(200);
        let provider = fixture.provider();
        provider.create(order("m1")).await.unwrap();
        says(&provider, "m1", "forked").await;
        until("all six live", async || (fixture.living().len() >= 6).then_some(())).await;
        let answer = provider.delete(&named("m1"), grace).await.unwrap();
        assert_eq!(answer, Deletion::Accepted);
        assert!(fixture.living().is_empty(), "{:?}", fixture.living());
        assert!(!fixture.home("m1").exists());
    }
}

#[tokio::test]
async fn grandchildren_that_ran_away_end_with_their_runner() {
    let fixture = Fixture::running(&format!("{FUGITIVES}; exit 3"));
    let provider = fixture.provider();
    provider.create(order("m1")).await.unwrap();
    assert_eq!(over(&provider, "m1").await.code, Some(3));
    until("all have gone", async || fixture.living().is_empty().then_some(())).await;
    away(&provider, "m1").await;
}

#[tokio::test]
async fn a_runner_may_use_its_grace_to_stop() {
    let mut fixture = Fixture::running(
        "trap 'echo stopping; exit 0' TERM; echo up; while test -d \"$PWD\"; do sleep 0.05; done",
    );
    fixture.settings.grace = 6 * HANG_LIMIT;
    let provider = fixture.provider();
    provider.create(order("m1")).await.unwrap();
    says(&provider, "m1", "up").await;
    let home = fixture.home("m1");
    // Held open, the file outlives the directory.
    let mut output = std::fs::File::open(home.join("output")).unwrap();
    let asked = tokio::time::timeout(HANG_LIMIT, provider.delete(&named("m1"), Grace::Usual)).await;
    asked.expect("it does not wait for the whole grace").unwrap();
    let mut said = String::new();
    std::io::Read::read_to_string(&mut output, &mut said).unwrap();
    assert!(said.contains("stopping"), "{said}");
}

#[tokio::test]
async fn a_runner_that_will_not_stop_is_killed_after_its_grace() {
    let mut fixture =
        Fixture::running("trap '' TERM; echo up; while test -d \"$PWD\"; do sleep 0.05; done");
    fixture.settings.grace = Duration::from_millis(300);
    let provider = fixture.provider();
    provider.create(order("m1")).await.unwrap();
    says(&provider, "m1", "up").await;
    provider.delete(&named("m1"), Grace::Usual).await.unwrap();
    assert!(fixture.living().is_empty());
    assert_eq!(provider.read(&named("m1")).await, Sighting::Absent);
    assert_eq!(provider.delete(&named("m1"), Grace::Usual).await.unwrap(), Deletion::NotFound);
}

#[tokio::test]
async fn a_keeper_that_hangs_does_not_save_its_runner() {
    let fixture = Fixture::running("(setsid sleep 600 &); echo up; exec sleep 600");
    let provider = fixture.provider();
    provider.create(order("m1")).await.unwrap();
    says(&provider, "m1", "up").await;
    let keeper = super::restarts::pid_of(&super::restarts::keeping(&fixture), "keeper");
    kill_process(keeper, Signal::STOP).unwrap();
    assert_eq!(provider.delete(&named("m1"), Grace::Zero).await.unwrap(), Deletion::Accepted);
    assert!(fixture.living().is_empty(), "{:?}", fixture.living());
}

#[tokio::test]
async fn a_create_that_is_repeated_finds_the_first_machine() {
    let fixture = Fixture::running("echo run >> runs; exec sleep 600");
    let provider = fixture.provider();
    let first = provider.create(order("m1")).await.unwrap();
    let (second, third) = tokio::join!(provider.create(order("m1")), provider.create(order("m1")));
    for again in [second.unwrap(), third.unwrap()] {
        assert_eq!(again.uid, first.uid);
    }
    until("it ran", async || fixture.work("m1").join("runs").exists().then_some(())).await;
    assert_eq!(std::fs::read_to_string(fixture.work("m1").join("runs")).unwrap(), "run\n");
    away(&provider, "m1").await;
}

#[tokio::test]
async fn what_cannot_be_made_leaves_nothing() {
    let mut fixture = Fixture::running("exit 0");
    fixture.settings.keeper = fixture.place.path().join("no-such-program");
    let provider = fixture.provider();
    for name in ["m1", "../m1", ""] {
        let answer = provider.create(order(name)).await;
        assert!(matches!(answer, Err(CreateError::Refused { .. })), "{answer:?}");
    }
    assert_eq!(provider.read(&named("m1")).await, Sighting::Absent);
    let left: Vec<_> = std::fs::read_dir(&fixture.settings.work_dir).unwrap().collect();
    assert_eq!(left.len(), 1, "only the marker: {left:?}");
}

#[tokio::test]
async fn no_more_machines_live_at_once_than_allowed() {
    let mut fixture = Fixture::running("exec sleep 600");
    fixture.settings.max_parallel = Some(1);
    let provider = fixture.provider();
    provider.create(order("m1")).await.unwrap();
    let answer = provider.create(order("m2")).await;
    assert!(matches!(answer, Err(CreateError::Refused { .. })), "{answer:?}");
    away(&provider, "m1").await;
    provider.create(order("m2")).await.unwrap();
    away(&provider, "m2").await;
}

#[tokio::test]
async fn a_work_directory_that_is_not_mounted_proves_nothing() {
    let fixture = Fixture::running("exit 0");
    let provider = fixture.provider();
    std::fs::remove_file(fixture.settings.work_dir.join(".ostler")).unwrap();
    assert!(matches!(provider.read(&named("m1")).await, Sighting::Unknown(_)));
    assert!(matches!(provider.list().await, ostler_actors::model::Observation::Unusable(_)));
    provider.delete(&named("m1"), Grace::Usual).await.unwrap_err();
}

/// A disk that hangs, played by a file without a writer: it blocks every reader.
#[test]
fn a_disk_that_hangs_holds_a_few_threads_and_no_other_call() {
    // Named threads can be counted apart from those of other tests in this process.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().thread_name(DISK_THREAD).build().unwrap();
    runtime.block_on(hang_a_disk());
}

/// The name of this test's blocking threads; the kernel keeps 15 bytes of it.
const DISK_THREAD: &str = "hanging-disk";

async fn hang_a_disk() {
    let fixture = Fixture::running("exit 0");
    let provider = fixture.provider();
    provider.create(order("m1")).await.unwrap();
    over(&provider, "m1").await;
    let keeper = fixture.home("m1").join("keeper.json");
    std::fs::remove_file(&keeper).unwrap();
    assert!(Command::new("mkfifo").arg(&keeper).status().unwrap().success());
    let threads = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm"));
        tasks.filter_map(|task| name(task).ok()).filter(|name| name.trim() == DISK_THREAD).count()
    };
    let before = threads();
    for _ in 0..40 {
        // On the one thread of this test: were it kept, no deadline would ever end the call.
        let machine = named("m1");
        let call = provider.delete(&machine, Grace::Usual);
        tokio::time::timeout(Duration::from_millis(20), call).await.unwrap_err();
    }
    let after = threads();
    assert!(after > 0, "this figure can move");
    assert!(after <= before + 8, "{before} and then {after}");
    let free = std::fs::OpenOptions::new().read(true).write(true).open(&keeper).unwrap();
    std::fs::remove_file(&keeper).unwrap();
    drop(free);
    away(&provider, "m1").await;
}

#[tokio::test]
async fn a_worker_anywhere_below_the_keeper_is_seen() {
    let mut fixture = Fixture::running(
        "while test -d \"$PWD\" && ! test -e job; do sleep 0.02; done
         ln -s \"$(command -v sleep)\" Runner.Worker; (setsid ./Runner.Worker 600 &)
         while test -d \"$PWD\" && ! test -e over; do sleep 0.02; done",
    );
    fixture.settings.witness = Some(Witness::Process("Runner.Worker".into()));
    let provider = fixture.provider();
    provider.create(order("m1")).await.unwrap();
    until("no worker is there", async || {
        (seen(&provider, "m1").await.worker == Worker::Absent).then_some(())
    })
    .await;
    std::fs::write(fixture.work("m1").join("job"), "").unwrap();
    until("a worker is there", async || {
        (seen(&provider, "m1").await.worker == Worker::Present).then_some(())
    })
    .await;
    away(&provider, "m1").await;
}

#[tokio::test]
async fn a_command_may_mark_its_job_by_a_file() {
    let mut fixture = Fixture::running("exec sleep 600");
    let provider = fixture.provider();
    provider.create(order("m1")).await.unwrap();
    assert_eq!(seen(&provider, "m1").await.worker, Worker::NoWitness);
    fixture.settings.witness = Some(Witness::Marker("working".into()));
    let provider = fixture.provider();
    // A look at the moment the runner starts sees only half of it, and says that it cannot tell.
    until("nothing works there", async || {
        let worker = seen(&provider, "m1").await.worker;
        assert!(matches!(worker, Worker::Absent | Worker::Unknown), "{worker:?}");
        (worker == Worker::Absent).then_some(())
    })
    .await;
    std::fs::write(fixture.work("m1").join("working"), "").unwrap();
    assert_eq!(seen(&provider, "m1").await.worker, Worker::Present);
    away(&provider, "m1").await;
}

#[tokio::test]
async fn a_runner_that_says_it_listens_is_ready() {
    let fixture =
        Fixture::running("printf 'Listening'; sleep 0.1; echo ' for Jobs'; exec sleep 600");
    let provider = fixture.provider();
    let made = provider.create(order("m1")).await.unwrap();
    assert!(!made.ready);
    until("it is ready", async || seen(&provider, "m1").await.ready.then_some(())).await;
    assert!(tail(&provider, "m1").await.contains("Listening for Jobs"));
    away(&provider, "m1").await;
}
