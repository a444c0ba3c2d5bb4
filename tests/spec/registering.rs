//! Runners are registered under names of their own, where they belong, and each JIT config is
//! used or removed.
//! What a machine reports while it is set up is taken once, trusted little, and kept.

use ostler_actors::fleet::ToFleet;
use ostler_actors::instance::MachineCall;
use ostler_actors::mail::Reply;
use ostler_actors::model::{
    InstanceId, PoolSpec, RunnerName, Scope, Setup, State, VerdictClass, What,
};
use ostler_actors::testing::{Fate, MintPlan, Plan, Seen, Watched, pool};

use super::deaths::record;
use super::paperwork::{Paperwork as _, machine};
use super::story::Tell as _;
use super::{MINUTE, SECOND, story};

#[test]
fn f21_mint_whose_answer_was_lost_is_removed_and_minted_under_the_next_name() {
    for provider in ["split", "witness"] {
        story(Plan::quiet(vec![pool("linux", provider, 1)]), async |world| {
            for _ in 0..2 {
                world.next_mint(MintPlan::Lost);
            }
            world.next_mint(MintPlan::Vain);
            let job = world.queue(&["linux"], MINUTE);
            world.wait_for("an instance", 10 * SECOND, |world| !world.rows().is_empty()).await;
            let id = world.only().id;
            world.over(&[job], 10 * MINUTE).await;
            let name = |mint: u32| RunnerName::new(format!("{id}-{mint}"));
            let lost = [RunnerName::new(id.as_str()), name(2)];
            // The third was never made; its name is not used again either.
            assert_eq!(world.minted(), [lost[0].clone(), lost[1].clone(), name(4)]);
            assert_eq!(world.count(|seen| matches!(seen, Seen::NameTaken(_))), 0);
            for name in &lost {
                assert!(is_removed(world, name), "`{name}` is reserved for ever");
            }
            assert_eq!(world.started(job)[0].1, machine(&id));
        });
    }
}

/// Returns whether the forge was asked to remove a runner and did.
fn is_removed(world: &Watched, runner: &RunnerName) -> bool {
    let asked =
        |seen: &Seen| matches!(seen, Seen::Deregister { name: Some(name), .. } if name == runner);
    world.count(asked) > 0 && world.outside().forge.runner_named(runner).is_none()
}

#[test]
fn f45_dispatch_whose_reply_was_lost_brings_the_same_jit_again() {
    story(Plan::quiet(vec![pool("linux", "split", 2)]), async |world| {
        world.lose_dispatches(3);
        let job = world.queue(&["linux"], MINUTE);
        let two_left = |world: &Watched| world.outside().script.lost_dispatches == 2;
        world.wait_for("a lost reply", 5 * MINUTE, two_left).await;
        let holder = world.only();
        assert_eq!(holder.state, State::Reserved);
        // What was committed survives the daemon.
        world.crash(5 * SECOND);
        world.over(&[job], 10 * MINUTE).await;
        assert_eq!(world.outside().script.lost_dispatches, 0, "three replies were lost");
        assert_eq!(world.minted(), [RunnerName::new(holder.id.as_str())]);
        assert_eq!(world.count(|seen| matches!(seen, Seen::HandedOut { .. })), 1);
        assert_eq!(world.started(job).len(), 1);
        assert_eq!(world.started(job)[0].1, machine(&holder.id));
        assert_eq!(world.count(|seen| matches!(seen, Seen::CreateCalled { .. })), 1);
    });
}

#[test]
fn f49_runner_is_registered_in_the_scope_of_its_pool() {
    let repository = Scope::Repository { owner: "Initech".into(), name: "tps".into() };
    let of = |name: &str, provider, scope: &Scope| PoolSpec {
        scope: scope.clone(),
        ..pool(name, provider, 2)
    };
    let globex = Scope::Organization("globex".into());
    // Called after each other's owners, so that a name of ours would lead astray.
    let pools = vec![of("initech", "split", &globex), of("globex", "witness", &repository)];
    story(Plan::quiet(pools.clone()), async |world| {
        for stray in ["initech", "Initech", "acme"] {
            world.refuse_mints(&Scope::Organization(stray.into()));
        }
        let jobs = [
            world.queue_at("globex", "web", &["self-hosted"], MINUTE),
            world.queue_at("initech", "tps", &["self-hosted"], MINUTE),
        ];
        let mut scopes = Vec::new();
        while !jobs.iter().all(|job| world.is_over(*job)) {
            world.run_for(SECOND).await;
            assert!(world.now() < 600_000, "the jobs are not served");
            let outside = world.outside();
            scopes.extend(outside.forge.registered().map(|it| (it.name.clone(), it.scope.clone())));
        }
        for (name, scope) in scopes {
            let pool = pools.iter().find(|pool| name.as_str().starts_with(&pool.prefix));
            assert_eq!(Some(scope), pool.map(|pool| pool.scope.clone()), "of `{name}`");
        }
        assert_eq!(world.struck("scope refused"), 0);
        assert!(world.minted().len() >= 2);
    });
}

#[test]
fn f50_scope_that_refuses_every_mint_holds_up_only_its_own_pool() {
    for provider in ["split", "witness"] {
        let broken = Scope::Organization("globex".into());
        let pools = vec![
            PoolSpec { scope: broken.clone(), ..pool("broken", provider, 2) },
            pool("sound", provider, 2),
        ];
        story(Plan::quiet(pools), async |world| {
            world.refuse_mints(&broken);
            let labels = &["self-hosted"];
            let held: Vec<u64> =
                (0..3).map(|_| world.queue_at("globex", "web", labels, MINUTE)).collect();
            world.run_for(MINUTE).await;
            let jobs: Vec<u64> = (0..4).map(|_| world.queue(labels, MINUTE)).collect();
            world.over(&jobs, 10 * MINUTE).await;
            world.run_for(30 * MINUTE).await;
            let refused = world.struck("scope refused");
            assert!(refused > 0, "no order was refused");
            assert!(refused < 200, "it was asked {refused} times: without a delay between");
            assert!(held.iter().all(|job| world.started(*job).is_empty()));
            world.accept_mints(&broken);
            world.over(&held, 30 * MINUTE).await;
        });
    }
}

fn say(world: &Watched, id: &InstanceId, said: MachineCall) {
    let (instance, attempt) = (id.clone(), 1);
    world.say(ToFleet::MachineCalled { instance, attempt, call: said, reply: Reply::discard() });
}

#[test]
fn a_machine_that_gives_up_is_deleted_the_safe_way_with_its_own_explanation() {
    story(Plan::quiet(vec![pool("linux", "witness", 2)]), async |world| {
        world.next_machine(Fate::NeverConnects);
        world.queue(&["linux"], MINUTE);
        let id = world.first().await.id;
        world.until(&id, State::Starting, 10 * MINUTE).await;
        say(world, &id, MachineCall::ReportSetup(Setup::Installing, "unpacking".into()));
        say(world, &id, MachineCall::ReportSetup(Setup::Failed, "no disk left".into()));
        world.until(&id, State::Retiring, MINUTE).await;
        world.until(&id, State::Deleted, 30 * MINUTE).await;
        let exit = record(world, &id);
        assert_eq!(exit.verdict.class, VerdictClass::BootFailed);
        let evidence = exit.verdict.evidence.join("; ");
        assert!(evidence.contains("no disk left"), "{evidence}");
        let told = world.timeline(&id);
        assert!(
            told.iter()
                .any(|it| matches!(it.what, What::SetupReported { setup: Setup::Installing, .. }))
        );
    });
}

#[test]
fn a_setup_report_after_the_fact_changes_no_state() {
    story(Plan::quiet(vec![pool("linux", "witness", 2)]), async |world| {
        world.queue(&["linux"], 10 * MINUTE);
        let id = world.first().await.id;
        world.until(&id, State::Busy, 10 * MINUTE).await;
        say(world, &id, MachineCall::ReportSetup(Setup::Failed, "a liar, or late".into()));
        world.run_for(30 * SECOND).await;
        assert_eq!(world.row(&id).map(|row| row.state), Some(State::Busy));
        assert_eq!(world.row(&id).and_then(|row| row.removal), None);
    });
}
