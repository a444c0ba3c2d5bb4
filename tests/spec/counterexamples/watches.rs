//! The watch before a deletion: who says that a machine is free, and when they say it.

use ostler_actors::model::{Binding, PoolSpec, Registration, State, WarrantKind};
use ostler_actors::ports::Deregistered;
use ostler_actors::testing::{Death, Fate, HookKind, Plan, Watched};

use super::super::story::Tell as _;
use super::super::{MINUTE, SECOND, story};
use super::{ALWAYS, Retell as _, one_ready, one_ready_world};

#[test]
fn c2_lying_422_does_not_hold_a_slot_for_ever() {
    for provider in ["witness", "blind"] {
        story(one_ready_world(provider), async |world| {
            let row = world.an_idle_runner().await;
            let runner = row.runner_name(1);
            world.lie_422(&runner, 2);
            world.ask_to_leave(&row.id);
            world.until(&row.id, State::Busy, MINUTE).await;
            assert_eq!(world.removals(&runner), [(None, Deregistered::Working)]);
            assert_eq!(world.row(&row.id).and_then(|row| row.executing), None, "with no job");
            world.until(&row.id, State::Deleted, 15 * MINUTE).await;
        });
    }
    // The witness saw a worker, no report ever named its job, and the machine hung after it.
    story(one_ready_world("witness"), async |world| {
        world.next_machine(Fate::Ends(Death::Hung));
        let row = world.an_idle_runner().await;
        world.lose_hooks(HookKind::Completed, 100);
        world.lose_hooks(HookKind::InProgress, 100);
        world.darken_forge(10 * MINUTE);
        let job = world.queue(&["linux"], 2 * MINUTE);
        world.pair(job, &row.machine);
        world.until(&row.id, State::Busy, 5 * MINUTE).await;
        world.is_served(job, 5 * MINUTE).await;
        assert_eq!(world.row(&row.id).and_then(|row| row.executing), None, "no report named it");
        world.until(&row.id, State::Deleted, 30 * MINUTE).await;
    });
}

#[test]
fn runner_that_starts_during_its_post_mortem_is_not_said_never_to_have_begun() {
    let spec = PoolSpec { binding: Binding::Early, ..one_ready("split") };
    story(Plan::quiet(vec![spec]), async |world| {
        world.next_machine(Fate::NeverBoots);
        world.outside().faults.provider.exit_report_slow = ALWAYS;
        let row = world.an_instance().await;
        world.until(&row.id, State::Retiring, 10 * MINUTE).await;
        let gone = |world: &Watched| {
            world.row(&row.id).is_some_and(|row| row.registration == Registration::Gone)
        };
        world.wait_for("its removal", MINUTE, gone).await;
        // Held, looked at, and its remains are being gathered.
        world.run_for(93 * SECOND).await;
        assert_eq!(world.row(&row.id).map(|row| row.state), Some(State::Retiring));
        world.boot(&row.machine);
        world.until(&row.id, State::Deleted, 5 * MINUTE).await;
        let row = world.row(&row.id).expect("its row");
        assert!(row.once_started, "its runner started");
        assert_ne!(row.warrant.map(|warrant| warrant.kind), Some(WarrantKind::NeverBegan));
    });
}

#[test]
fn p1_silent_witness_extends_the_hold() {
    story(one_ready_world("witness"), async |world| {
        let row = world.an_idle_runner().await;
        world.keep_in_the_dark(20 * MINUTE);
        world.silence(&row.machine, 15 * MINUTE);
        world.be_nasty(&row.runner_name(1));
        let job = world.assign(&row.machine, 30 * MINUTE, 50 * SECOND).await;
        world.ask_to_leave(&row.id);
        world.is_removed_under(job).await;
        // Eight times as long as the hold, and all the while the witness says nothing.
        world.run_for(12 * MINUTE).await;
        assert_eq!(world.row(&row.id).map(|row| row.state), Some(State::Retiring));
        world.until(&row.id, State::Busy, 10 * MINUTE).await;
        world.is_served(job, 40 * MINUTE).await;
    });
}

#[test]
fn p2_machine_without_a_witness_goes_when_the_forge_names_no_job_there() {
    story(one_ready_world("blind"), async |world| {
        let row = world.an_idle_runner().await;
        world.kill(&row.machine, Death::Hung); // it will not end by itself
        world.ask_to_leave(&row.id);
        world.until(&row.id, State::Deleted, 10 * MINUTE).await;
        let warrant = world.row(&row.id).and_then(|row| row.warrant).expect("a warrant");
        assert_eq!(warrant.kind, WarrantKind::Idle);
        let said = warrant.evidence.join("; ");
        assert!(said.contains("the forge names no job in progress here"), "{said}");
    });
    story(one_ready_world("blind"), async |world| {
        let row = world.an_idle_runner().await;
        world.keep_in_the_dark(10 * MINUTE);
        world.be_nasty(&row.runner_name(1));
        let job = world.assign(&row.machine, 30 * MINUTE, 50 * SECOND).await;
        world.ask_to_leave(&row.id);
        world.is_removed_under(job).await;
        world.run_for(5 * MINUTE).await;
        assert_eq!(
            world.row(&row.id).map(|row| row.state),
            Some(State::Retiring),
            "a forge that does not answer names no runner"
        );
        world.until(&row.id, State::Busy, 15 * MINUTE).await;
        world.is_served(job, 40 * MINUTE).await;
    });
}

#[test]
fn p2_supervisors_answer_after_the_hold_lets_an_idle_machine_go_whatever_the_forge_can_tell() {
    story(one_ready_world("blind"), async |world| {
        world.supervise();
        let row = world.an_idle_runner().await;
        world.darken_forge(60 * MINUTE); // no search for a job ends
        world.kill(&row.machine, Death::Hung); // it will not end by itself
        world.ask_to_leave(&row.id);
        world.until(&row.id, State::Deleted, 10 * MINUTE).await;
        let warrant = world.row(&row.id).and_then(|row| row.warrant).expect("a warrant");
        assert_eq!(warrant.kind, WarrantKind::Idle);
        let said = warrant.evidence.join("; ");
        assert!(said.contains("the machine shows no worker"), "{said}");
    });
    // Removed under a job whose worker starts late: the supervisor sees it.
    story(one_ready_world("blind"), async |world| {
        world.supervise();
        let row = world.an_idle_runner().await;
        world.keep_in_the_dark(20 * MINUTE);
        world.be_nasty(&row.runner_name(1));
        let job = world.assign(&row.machine, 30 * MINUTE, 80 * SECOND).await;
        world.ask_to_leave(&row.id);
        world.is_removed_under(job).await;
        world.until(&row.id, State::Busy, 10 * MINUTE).await;
        world.is_served(job, 40 * MINUTE).await;
    });
    // A supervisor that falls silent proves nothing: the forge is asked, and does not answer.
    story(one_ready_world("blind"), async |world| {
        world.supervise();
        let row = world.an_idle_runner().await;
        world.silence(&row.machine, 60 * MINUTE);
        world.darken_forge(60 * MINUTE);
        world.kill(&row.machine, Death::Hung);
        world.ask_to_leave(&row.id);
        world.run_for(30 * MINUTE).await;
        assert_eq!(world.row(&row.id).map(|row| row.state), Some(State::Retiring));
    });
}

#[test]
fn p3_decisive_look_begins_after_the_hold_and_a_restart_begins_it_again() {
    // Every look before the hold is over finds no worker.
    story(one_ready_world("witness"), async |world| {
        let row = world.an_idle_runner().await;
        world.keep_in_the_dark(20 * MINUTE);
        world.be_nasty(&row.runner_name(1));
        let job = world.assign(&row.machine, 20 * MINUTE, 80 * SECOND).await;
        world.ask_to_leave(&row.id);
        world.is_removed_under(job).await;
        world.run_for(60 * SECOND).await;
        assert_eq!(world.began_on(job), None, "its worker has not started");
        world.until(&row.id, State::Busy, 5 * MINUTE).await;
        world.is_served(job, 30 * MINUTE).await;
    });
    // The hold would be over while no daemon watches, and the worker starts after the restart.
    story(one_ready_world("witness"), async |world| {
        let row = world.an_idle_runner().await;
        world.keep_in_the_dark(20 * MINUTE);
        world.be_nasty(&row.runner_name(1));
        let job = world.assign(&row.machine, 20 * MINUTE, 345 * SECOND).await;
        world.ask_to_leave(&row.id);
        world.is_removed_under(job).await;
        world.run_for(5 * SECOND).await;
        world.crash(5 * MINUTE);
        world.run_for(5 * MINUTE + 10 * SECOND).await;
        assert!(world.registry().is_some(), "the daemon is back");
        assert_eq!(world.began_on(job), None, "its worker has not started");
        world.until(&row.id, State::Busy, 5 * MINUTE).await;
        world.is_served(job, 30 * MINUTE).await;
    });
    // Without any job the hold is just as long, and counted from the restart.
    story(one_ready_world("witness"), async |world| {
        let row = world.an_idle_runner().await;
        world.kill(&row.machine, Death::Hung);
        world.ask_to_leave(&row.id);
        world.until(&row.id, State::Retiring, MINUTE).await;
        world.run_for(60 * SECOND).await;
        world.crash(60 * SECOND);
        world.run_for(60 * SECOND + 85 * SECOND).await;
        assert_eq!(world.row(&row.id).map(|row| row.state), Some(State::Retiring));
        world.until(&row.id, State::Deleted, 5 * MINUTE).await;
    });
}
