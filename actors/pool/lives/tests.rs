use proptest::prelude::*;

use super::*;
use crate::model::Urgency;
use crate::pool::fixtures::{at, failed, report, reports, row};

fn lives() -> Lives {
    Lives::new("new".into(), None, at(0))
}

/// Returns an instance that began then.
fn began(seconds: u64, report: InstanceReport) -> InstanceReport {
    InstanceReport { created_at: at(seconds), ..report }
}

fn served(id: &str, seconds: u64) -> InstanceReport {
    let report = report(id, State::Busy);
    began(seconds, InstanceReport { outcome: Some(LifeOutcome::Served), ..report })
}

/// Returns a life that a notice may still explain.
fn left_with_zero(id: &str) -> InstanceReport {
    let mut report = failed(id, State::PendingDelete);
    if let Some(LifeOutcome::Failed(failure)) = &mut report.outcome {
        failure.provisional = true;
    }
    report
}

fn on(host: &str, report: InstanceReport) -> InstanceReport {
    InstanceReport { host: Some(host.into()), ..report }
}

impl Lives {
    fn fail(&mut self, id: &str, second: u64) {
        self.report(&began(second, failed(id, State::PendingDelete)), at(second));
    }

    fn judge(&mut self, second: u64) -> bool {
        self.tick(&reports([]), at(second));
        self.held_since().is_some()
    }
}

fn opened() -> Lives {
    let mut lives = lives();
    for (second, id) in ["a", "b", "c"].into_iter().enumerate() {
        lives.fail(id, second as u64);
    }
    assert!(lives.judge(3));
    lives
}

#[test]
fn the_third_failure_that_nothing_refuted_holds_creation() {
    let mut lives = lives();
    lives.fail("a", 1);
    lives.fail("b", 2);
    assert!(!lives.judge(2));
    lives.fail("a", 3);
    assert!(!lives.judge(3), "a life counts once");
    lives.report(&served("s", 2), at(4));
    lives.fail("c", 5);
    assert!(!lives.judge(5), "what began before it is refuted");
    lives.fail("d", 6);
    lives.fail("e", 7);
    assert!(lives.judge(7));
}

#[test]
fn a_warm_runner_of_yesterday_does_not_prove_that_runners_start_today() {
    let mut lives = lives();
    for second in 10..13 {
        lives.fail(&format!("f{second}"), second);
        lives.report(&served("warm", 1), at(second));
    }
    assert!(lives.judge(13));
    lives.report(&served("old", 9), at(14));
    assert!(lives.judge(14), "it began before the breaker opened");
    lives.report(&served("probe", 30), at(40));
    assert!(!lives.judge(40));
    assert_eq!(lives.view(), None);
}

#[test]
fn a_life_that_left_with_exit_0_counts_when_no_notice_explains_it_in_time() {
    let mut lives = lives();
    for id in ["a", "b", "c"] {
        lives.report(&left_with_zero(id), at(0));
    }
    assert_eq!(lives.unproven(&reports([])).count(), 3, "they hold their permits meanwhile");
    assert!(!lives.judge(14));
    assert_eq!(lives.next_tick(&reports([]), at(14)), Some(at(15)));
    assert!(lives.judge(15));
}

#[test]
fn a_late_notice_takes_the_count_back_and_the_breaker_with_it() {
    let mut lives = lives();
    for id in ["a", "b", "c"] {
        lives.report(&left_with_zero(id), at(0));
    }
    assert!(lives.judge(15));
    lives.report(&served("b", 0), at(20));
    assert!(!lives.judge(20), "two are left");
    assert_eq!(lives.view().map(|it| it.failures), None, "and they began no later");

    let mut deleted = opened();
    deleted.gone(&"a".into(), at(10));
    assert!(deleted.proven_late(&"a".into()));
    assert!(!deleted.judge(11), "also of an instance that is long gone");
    assert!(!deleted.proven_late(&"unknown".into()));
}

#[test]
fn ready_is_no_proof_and_ten_idle_minutes_are() {
    let mut lives = opened();
    lives.began(&"probe".into(), at(20));
    let mut idle = InstanceReport { since: at(30), ..began(20, report("probe", State::Idle)) };
    lives.report(&idle, at(30));
    let all = reports([idle.clone()]);
    lives.tick(&all, at(629));
    assert!(lives.held_since().is_some());
    assert_eq!(lives.next_tick(&all, at(40)), Some(at(630)));
    lives.tick(&all, at(630));
    assert_eq!((lives.held_since(), lives.view()), (None, None));

    let mut lives = opened();
    idle.removal = Some(Urgency::Retire);
    lives.tick(&reports([idle]), at(630));
    assert!(lives.held_since().is_some(), "it was asked to go");
}

#[test]
fn one_probe_at_a_time_and_one_that_is_stuck_makes_room_for_the_next() {
    let mut lives = opened();
    assert_eq!((lives.admits(at(17)), lives.admits(at(18))), (0, 1));
    lives.began(&"p".into(), at(18));
    assert_eq!(lives.admits(at(1_000)), 0);
    let stuck = InstanceReport { stuck: true, ..began(18, report("p", State::Creating)) };
    lives.tick(&reports([stuck]), at(1_000));
    assert_eq!((lives.admits(at(1_029)), lives.admits(at(1_030))), (0, 1));
    lives.report(&served("p", 18), at(1_040));
    assert_eq!(lives.held_since(), None, "it came up after all");
}

#[test]
fn a_host_is_blamed_instead_of_the_pool_once_another_served_the_same_revision() {
    let mut lives = lives();
    for host in ["sick", "fine", "other"] {
        lives.report(&on(host, report(host, State::Starting)), at(0));
    }
    lives.report(&on("sick", began(1, failed("a", State::PendingDelete))), at(2));
    lives.report(&on("fine", served("s", 2)), at(3));
    for second in 3..6 {
        let life = began(second, failed(&format!("f{second}"), State::PendingDelete));
        lives.report(&on("sick", life), at(second));
    }
    assert!(!lives.judge(6), "the host is to blame");
    assert_eq!(lives.hosts().shunned(at(6)).len(), 1);

    let mut alone = Lives::new("new".into(), None, at(0));
    for second in 3..6 {
        let life = began(second, failed(&format!("f{second}"), State::PendingDelete));
        alone.report(&on("sick", life), at(second));
    }
    assert!(alone.judge(6), "no other host served meanwhile");
}

#[test]
fn what_was_over_before_the_start_does_not_count_again() {
    let mut lives = lives();
    let rows = ["a", "b", "c"].map(|id| row(id, State::Deleting));
    lives.restore(&rows);
    for id in ["a", "b", "c"] {
        lives.fail(id, 5);
    }
    assert!(!lives.judge(6));
}

#[test]
fn a_restart_finds_the_probe_of_the_breaker_that_it_found_open() {
    let mut lives = Lives::new("new".into(), Some(at(100)), at(200));
    let mut probe = row("probe", State::Starting);
    probe.created_at = at(150);
    lives.restore(&[probe]);
    assert_eq!(lives.admits(at(9_000)), 0, "it is under way");
    lives.fail("probe", 9_000);
    assert!(lives.admits(at(9_400)) == 1);
}

#[test]
fn after_a_failure_idle_lives_that_have_proven_nothing_keep_their_permits() {
    let mut lives = lives();
    let idle =
        reports([began(5, report("i", State::Idle)), began(5, report("r", State::Reserved))]);
    assert_eq!(lives.unproven(&idle).count(), 0);
    lives.fail("a", 6);
    assert_eq!(lives.unproven(&idle).count(), 2);
    lives.report(&served("s", 6), at(7));
    assert_eq!(lives.unproven(&idle).count(), 0);
}

#[test]
fn an_edit_forgets_what_the_old_revision_did() {
    let mut lives = opened();
    lives.new_revision("newer".into());
    assert_eq!((lives.held_since(), lives.view()), (None, None));
    for second in 10..20 {
        lives.fail(&format!("old{second}"), second);
    }
    assert!(!lives.judge(20), "they are of the old one");
}

/// One thing that happens to a life, by number.
#[derive(Clone, Copy, Debug)]
enum Happens {
    Serves(u8),
    Fails(u8),
    LeavesWithZero(u8),
    Lives(u8),
}

fn any_happening() -> impl Strategy<Value = Happens> {
    (0_u8..12, 0_u8..4).prop_map(|(id, what)| match what {
        0 => Happens::Serves(id),
        1 => Happens::Fails(id),
        2 => Happens::LeavesWithZero(id),
        _ => Happens::Lives(id),
    })
}

proptest! {
    /// The oracle counts anew from what each life last was.
    #[test]
    fn the_breaker_opens_exactly_when_three_lives_failed_after_the_last_that_works(
        happenings in prop::collection::vec(any_happening(), 0..60),
    ) {
        let mut lives = lives();
        let mut last: BTreeMap<u8, bool> = BTreeMap::new();
        let mut proven = None;
        for (second, happens) in (0_u64..).zip(happenings) {
            let now = at(second * 20);
            let (id, report) = match happens {
                Happens::Serves(id) => (id, served(&format!("i{id:02}"), u64::from(id))),
                Happens::Fails(id) => (id, failed(&format!("i{id:02}"), State::PendingDelete)),
                Happens::LeavesWithZero(id) => (id, left_with_zero(&format!("i{id:02}"))),
                Happens::Lives(id) => (id, report(&format!("i{id:02}"), State::Idle)),
            };
            lives.report(&began(u64::from(id), report), now);
            match happens {
                Happens::Serves(_) => {
                    last.insert(id, false);
                    proven = proven.max(Some(id));
                }
                Happens::Fails(_) | Happens::LeavesWithZero(_) => {
                    last.insert(id, true);
                }
                Happens::Lives(_) => {
                    last.insert(id, false);
                }
            }
            let now = after(now, Duration::from_secs(16));
            lives.tick(&reports([]), now);
            let failures = last.iter().filter(|(id, failed)| **failed && Some(**id) > proven).count();
            prop_assert!(
                lives.held_since().is_some() || failures < FAILURES_TO_OPEN,
                "{failures} failures and it is closed"
            );
            if lives.held_since().is_some() {
                return Ok(()); // how it closes is told by the stories above
            }
        }
    }

    #[test]
    fn whatever_happens_an_open_breaker_admits_one_probe_at_most(
        happenings in prop::collection::vec((any_happening(), 0_u64..900), 0..80),
    ) {
        let mut lives = opened();
        let mut now = 3;
        for (happens, wait) in happenings {
            now += wait;
            let report = match happens {
                Happens::Serves(id) => served(&format!("i{id}"), 1),
                Happens::Fails(id) => failed(&format!("i{id}"), State::PendingDelete),
                Happens::LeavesWithZero(id) => left_with_zero(&format!("i{id}")),
                Happens::Lives(id) => report(&format!("i{id}"), State::Idle),
            };
            lives.report(&report, at(now));
            lives.tick(&reports([]), at(now));
            if lives.held_since().is_some() {
                let admitted = lives.admits(at(now));
                prop_assert!(admitted <= 1);
                if admitted == 1 {
                    lives.began(&"probe".into(), at(now));
                    prop_assert_eq!(lives.admits(at(now)), 0);
                    lives.gone(&"probe".into(), at(now));
                }
                let next = lives.next_tick(&reports([]), at(now));
                prop_assert!(next.is_some(), "an open breaker always has a next time");
            }
        }
    }
}
