//! When a runner dies, its record says why, and it says so before the machine goes.

mod table;

use std::collections::BTreeSet;

use ostler_actors::model::{
    Confidence, ExitRecord, Fault, InstanceId, MachineName, State, Subject, Tail, VerdictClass,
    What, elapsed,
};
use ostler_actors::testing::{Death, Fate, HookKind, Plan, Watched, pool};

use super::story::Tell as _;
use super::{MINUTE, SECOND, story};
use table::{CLASSES, TABLE, Way};

#[test]
fn f06_log_of_a_dead_runner_is_on_record_before_its_machine_goes() {
    story(Plan::quiet(vec![pool("linux", "witness", 2)]), async |world| {
        world.next_machine(Fate::DiesWorking(30_000, Death::GuestKilled));
        world.queue(&["linux"], 10 * MINUTE);
        let id = world.first().await.id;
        world.until(&id, State::Deleted, 30 * MINUTE).await;
        let exit = record(world, &id);
        assert_eq!(exit.verdict.class, VerdictClass::GuestKilled);
        assert!(matches!(exit.tail, Tail::Captured(_)), "{:?}", exit.tail);
        let deletes = world.deletes();
        assert!(!deletes.is_empty() && deletes.iter().all(|call| call.has_exit_record));
    });
}

#[test]
fn f07_every_exit_code_gets_its_verdict() {
    let deaths: BTreeSet<Death> = TABLE.iter().filter_map(|(way, _)| way.death()).collect();
    let missing: Vec<Death> = Death::ALL.into_iter().filter(|it| !deaths.contains(it)).collect();
    assert!(missing.is_empty(), "no row for {missing:?}");
    let classes: BTreeSet<VerdictClass> = TABLE.iter().map(|(_, class)| *class).collect();
    assert_eq!(classes.len(), CLASSES, "a class without a row");
    for (way, class) in TABLE {
        eprintln!("{way:?} is {class}");
        story(way.plan(), async |world| {
            way.prepare(world);
            let job = world.queue(&["linux"], 10 * MINUTE);
            let id = world.first().await.id;
            way.strike(world, job).await;
            world.until(&id, State::Deleted, 60 * MINUTE).await;
            let ExitRecord { verdict, tail, .. } = record(world, &id);
            assert_eq!(verdict.class, class, "{way:?}: {verdict:?}");
            assert_eq!(world.row(&id).and_then(|row| row.verdict), Some(class));
            assert!(!verdict.evidence.is_empty() && !verdict.advice.is_empty(), "{verdict:?}");
            if has_log(way) {
                assert!(matches!(tail, Tail::Captured(_)), "{way:?}: {tail:?}");
            }
            if let Way::Working(Death::HostFailed) = way {
                assert_eq!(verdict.fault, Fault::Host);
            }
            world.outside().faults.calm();
        });
    }
}

/// Returns whether an end is abnormal and leaves a machine whose log can be read.
fn has_log(way: Way) -> bool {
    let gone = matches!(way, Way::Working(Death::Vanished | Death::Hung));
    matches!(way, Way::Working(_) | Way::Waiting(_) | Way::Zombie | Way::Forced) && !gone
}

#[test]
fn f08_exit_zero_without_a_report_from_the_guest_is_unreported() {
    for fate in [Fate::DiesWorking(30_000, Death::Unreported), Fate::Ends(Death::Unreported)] {
        let mut spec = pool("mac", "blind", 2);
        spec.policy.linger = MINUTE;
        story(Plan::quiet(vec![spec]), async |world| {
            world.next_machine(fate);
            world.queue(&["mac"], 10 * MINUTE);
            let id = world.first().await.id;
            world.until(&id, State::Deleted, 60 * MINUTE).await;
            let ExitRecord { exit, verdict, tail, .. } = record(world, &id);
            assert_eq!(exit.and_then(|exit| exit.code), Some(0), "the provider reported success");
            assert_eq!(verdict.class, VerdictClass::Unreported);
            assert_eq!(verdict.confidence, Confidence::Low);
            assert!(matches!(tail, Tail::Captured(_)), "{tail:?}");
        });
    }
}

#[test]
fn f26_runner_that_aborts_on_a_full_disk_leaves_verdict_and_log() {
    const LOG_LINE: &str = "No space left on device : '/runner/_diag/pages/1.log'";
    story(Plan::quiet(vec![pool("linux", "split", 2)]), async |world| {
        world.next_machine(Fate::DiesWorking(2 * 60_000, Death::Aborted));
        let job = world.queue(&["linux"], 10 * MINUTE);
        let row = world.first().await;
        world.write_log(&row.machine, LOG_LINE);
        world.until_working(&row.machine, job).await;
        until_gone(world, &row.machine).await;
        let ExitRecord { exit, verdict, tail, job: ran, .. } = record(world, &row.id);
        assert_eq!(exit.and_then(|exit| exit.code), Some(134));
        assert_eq!(verdict.class, VerdictClass::Aborted);
        assert_eq!(tail, Tail::Captured(LOG_LINE.into()));
        assert_eq!(ran.map(|job| job.number), Some(job), "the record says whose job it was");
    });
}

#[test]
fn f27_machines_of_one_host_that_die_together_each_get_a_verdict() {
    let mut plan = Plan::quiet(vec![pool("linux", "split", 4)]);
    plan.hosts = 1;
    story(plan, async |world| {
        let jobs: Vec<u64> = (0..4).map(|_| world.queue(&["linux"], 30 * MINUTE)).collect();
        world.wait_for("four at work", 10 * MINUTE, |world| at_work(world).len() == 4).await;
        let rows = world.rows();
        assert!(rows.iter().all(|row| row.host.is_some() && row.host == rows[0].host), "{rows:?}");
        let at = world.outside().date();
        for machine in at_work(world) {
            world.kill(&machine, Death::HostOom);
        }
        for row in &rows {
            until_gone(world, &row.machine).await;
            let exit = record(world, &row.id);
            assert_eq!(exit.verdict.class, VerdictClass::HostOom, "`{}`", row.id);
            assert_eq!(exit.verdict.fault, Fault::Host);
            assert!(exit.job.is_some() && matches!(exit.tail, Tail::Captured(_)), "{exit:?}");
            assert!(elapsed(at, exit.at) < 15 * SECOND, "on record while it can be told apart");
        }
        assert!(jobs.iter().all(|job| !world.was_spared(*job)), "all four died working");
    });
}

#[test]
fn f58_machine_that_is_over_and_leaving_at_once_is_still_finished() {
    story(Plan::quiet(vec![pool("linux", "split", 2)]), async |world| {
        let job = world.queue(&["linux"], 10 * MINUTE);
        let row = world.first().await;
        world.until_working(&row.machine, job).await;
        world.end_leaving(&row.machine, Death::Terminated);
        let both =
            world.outside().machines.anywhere(&row.machine).map(|it| it.leaving && !it.is_alive());
        assert_eq!(both, Some(true), "over and leaving in one moment");
        until_gone(world, &row.machine).await;
        let exit = record(world, &row.id);
        assert_eq!(exit.verdict.class, VerdictClass::DeletedExternally, "and SIGTERM tells why");
        assert_eq!(exit.verdict.confidence, Confidence::High);
        assert!(matches!(exit.tail, Tail::Captured(_)), "{:?}", exit.tail);
        // Its registration goes once the forge gives its job up.
        world.until(&row.id, State::Deleted, 30 * MINUTE).await;
    });
}

#[test]
fn runner_that_is_faster_than_the_forge_is_clean_in_the_end_and_keeps_no_log() {
    story(Plan::quiet(vec![pool("linux", "witness", 2)]), async |world| {
        let job = world.queue(&["linux"], MINUTE);
        let row = world.first().await;
        world.until_working(&row.machine, job).await;
        // Its `completed` is lost, and GitHub cannot be asked for a while.
        world.lose_hooks(HookKind::Completed, 100);
        world.darken_forge(10 * MINUTE);
        until_gone(world, &row.machine).await;
        let early = record(world, &row.id);
        assert_eq!(early.verdict.class, VerdictClass::Unknown, "{:?}", early.verdict);
        assert!(
            early.provisional.is_some() && matches!(early.tail, Tail::Captured(_)),
            "{early:?}"
        );
        let settled = |world: &Watched| record(world, &row.id).provisional.is_none();
        world.wait_for("its verdict is settled", 28 * MINUTE, settled).await;
        let late = record(world, &row.id);
        assert_eq!(late.verdict.class, VerdictClass::Clean, "{:?}", late.verdict);
        assert_eq!((late.tail, late.job.map(|job| job.number)), (Tail::NotNeeded, Some(job)));
        let subject = Subject::Instance(row.id.clone());
        let revised = world.outside().records.timeline(&subject).any(|event| {
            matches!(
                event.what,
                What::VerdictRevised { to: VerdictClass::Clean, settled: true, .. }
            )
        });
        assert!(revised, "its timeline says so");
    });
}

pub(super) fn record(world: &Watched, id: &InstanceId) -> ExitRecord {
    world.outside().records.exit(id).cloned().expect("a record of its end")
}

/// Lets time pass until a machine is gone; its registration may take longer.
async fn until_gone(world: &mut Watched, machine: &MachineName) {
    let what = format!("`{machine}` is gone");
    world.wait_for(&what, 5 * MINUTE, |world| !world.exists(machine)).await;
}

/// Returns the machines that work.
fn at_work(world: &Watched) -> Vec<MachineName> {
    let rows = world.rows();
    rows.into_iter().map(|row| row.machine).filter(|it| world.working(it).is_some()).collect()
}
