use super::*;
use crate::jobs::{Accepts, HoldUps};
use crate::model::{PoolSpec, VerdictClass};

const MINUTE: Duration = Duration::from_mins(1);

/// Lets one attempt fail: offered to `instance`, delivered, and still queued at the forge.
fn fail(test: &mut TestLedger, instance: &str) {
    test.waits(instance);
    let generation = test.job(1).generation;
    assert!(test.deliver(1, instance, generation), "{instance} is not offered the job");
    test.pass(Duration::from_secs(1));
    test.find(1, reading(QUEUED, None));
}

/// Returns how long the job rests from now on.
fn rest(test: &TestLedger) -> Duration {
    let until = test.job(1).attempts.rests_until.unwrap_or(test.now);
    crate::model::elapsed(test.now, until)
}

fn wake(test: &mut TestLedger) -> Vec<Act> {
    test.handle(LedgerInput::Wake)
}

#[test]
fn a_job_whose_attempts_fail_rests_for_longer_each_time_and_is_then_parked() {
    let mut test = TestLedger::new();
    test.notice(1, QUEUED, None);
    let mut rests = Vec::new();
    for attempt in 0..8 {
        fail(&mut test, &format!("i{attempt}"));
        let rest = rest(&test);
        rests.push(rest.as_secs());
        assert_eq!(
            test.demand().queued,
            u32::from(rest.is_zero()),
            "a job that rests is no demand"
        );
        test.pass(rest);
        wake(&mut test);
        assert_eq!(test.demand().queued, 1);
    }
    assert_eq!(rests, [0, 30, 120, 480, 1800, 3600, 3600, 3600]);
    assert!(test.job(1).attempts.is_parked());
    assert_eq!(test.job(1).attempts.failed, 8);
}

#[test]
fn a_job_that_rests_is_offered_to_nothing_before_its_time() {
    let mut test = TestLedger::new();
    test.notice(1, QUEUED, None);
    fail(&mut test, "a");
    fail(&mut test, "b");
    assert_eq!(sent_to(&test.waits("c"), "c"), Vec::<&Act>::new());
    assert_eq!(test.ledger.next_wake(), Some(after(test.now, Duration::from_secs(30))));
    test.pass(Duration::from_secs(29));
    assert_eq!(sent_to(&wake(&mut test), "c"), Vec::<&Act>::new());
    test.pass(Duration::from_secs(1));
    assert_eq!(sent_to(&wake(&mut test), "c").len(), 1);
}

#[test]
fn a_rest_falls_to_30_s_when_the_pool_serves_another_job_recovers_or_changes() {
    type Sign = fn(&mut TestLedger);
    let served: Sign = |test| {
        test.instance("z", InstanceChange::Answers(home(), vec!["z".into()]));
        test.notice(9, RUNS, Some("z"));
    };
    let recovered: Sign = |test| {
        let status = |accepts| LedgerInput::PoolStatus { pool: linux(), accepts };
        test.handle(status(Accepts::Broken));
        test.handle(status(Accepts::Work));
    };
    let changed: Sign = |test| {
        let spec = PoolSpec { revision: "2".into(), ..PoolSpec::clone(&test.pools[0]) };
        test.pools = vec![Arc::new(spec)];
        test.know_pools();
    };
    for sign in [served, recovered, changed] {
        let mut test = TestLedger::new();
        test.notice(1, QUEUED, None);
        for instance in ["a", "b", "c"] {
            fail(&mut test, instance);
            let rest = rest(&test);
            test.pass(if rest > MINUTE { Duration::ZERO } else { rest });
            wake(&mut test);
        }
        assert_eq!(rest(&test), 2 * MINUTE);
        sign(&mut test);
        assert_eq!(rest(&test), Duration::from_secs(30));
        test.pass(Duration::from_secs(20));
        served(&mut test);
        assert_eq!(rest(&test), Duration::from_secs(10), "it is never made longer");
    }
}

#[test]
fn a_probe_of_a_broken_pool_gets_the_job_that_was_tried_least_also_one_that_rests() {
    let mut test = TestLedger::new();
    test.notice(1, QUEUED, None);
    fail(&mut test, "a");
    fail(&mut test, "b");
    test.handle(LedgerInput::PoolStatus { pool: linux(), accepts: Accepts::Broken });
    assert!(test.demand().blocked, "a probe is worth making");
    let acts = test.waits("probe");
    assert_eq!(sent_to(&acts, "probe").len(), 1);
    assert_eq!(test.job(1).attempts.rests_until, None);
}

#[test]
fn each_attempt_is_kept_with_the_verdict_on_its_machine_also_over_a_restart() {
    let mut test = TestLedger::new();
    test.notice(1, QUEUED, None);
    fail(&mut test, "a");
    fail(&mut test, "b");
    test.restart();
    test.know_pools();
    test.instance("a", InstanceChange::Judged(VerdictClass::BootFailed));
    let verdicts: Vec<_> = test.job(1).attempts.last.iter().map(|it| it.verdict).collect();
    assert_eq!(verdicts, [Some(VerdictClass::BootFailed), None]);
    assert_eq!(rest(&test), Duration::from_secs(30), "a restart does not cut the rest short");
    let lines = crate::jobs::explain_job(test.job(1), &[], &[], &HoldUps::default(), test.now);
    let told = lines.join("\n");
    assert!(told.contains("Attempt 1, 2 s ago on `a`: the job did not begin there"), "{told}");
    assert!(told.contains("boot_failed"), "{told}");
    assert!(told.contains("2 attempts came to nothing; the next is made in 30 s"), "{told}");
}

#[test]
fn a_displaced_job_was_not_tried_in_vain() {
    let mut test = TestLedger::new();
    test.delivered(1, "a");
    test.notice(2, RUNS, Some("a"));
    assert_eq!(test.job(1).attempts.failed, 0);
    assert_eq!(test.demand().queued, 1);
}
