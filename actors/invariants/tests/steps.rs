//! Steps that must be found.

use super::*;

#[test]
fn several_steps_in_one_save_are_checked_one_by_one() {
    let before = row(State::Creating);
    let after = next(&before, State::Busy);
    let told = save(Some(&before), after.clone(), &[State::Starting, State::Idle, State::Busy]);
    holds(&check_save(Some(&before), &told));
    holds(&check_rows(Some(&before), &after));
    let leapt = save(Some(&before), after.clone(), &[State::Busy]);
    breaks(&check_save(Some(&before), &leapt), 31);
    let untold = save(Some(&before), after, &[State::Starting]);
    breaks(&check_save(Some(&before), &untold), 32);
}

#[test]
fn every_edge_outside_the_diagram_is_found() {
    for from in State::ALL {
        for to in State::ALL {
            if from == to || passage(from, to) != Passage::Closed {
                continue;
            }
            let found = harmed(from, to, |_, _| {});
            let number = if from == State::Deleted { 2 } else { 31 };
            breaks(&found, number);
        }
    }
    breaks(&check_rows(Some(&row(State::Deleting)), &next(&row(State::Deleting), State::Busy)), 31);
}

#[test]
fn a_second_writer_is_found() {
    breaks(
        &harmed(State::Idle, State::Idle, |_, after| {
            after.version = Version(5);
        }),
        1,
    );
    breaks(
        &harmed(State::Idle, State::Idle, |_, after| {
            after.version = Version(9);
        }),
        1,
    );
    let before = row(State::Idle);
    let mut stale = save(Some(&before), next(&before, State::Idle), &[]);
    stale.replaces = Version(4);
    breaks(&check_save(Some(&before), &stale), 1);
}

#[test]
fn a_life_that_begins_in_the_middle_is_found() {
    let mut born = row(State::Busy);
    born.version = Version(1);
    breaks(&check_save(None, &save(None, born.clone(), &[])), 31);
    born.adopted = true;
    holds(&check_save(None, &save(None, born.clone(), &[])));
    born.version = Version(2);
    breaks(&check_save(None, &save(None, born, &[])), 1);
}

#[test]
fn a_changed_name_and_a_weaker_removal_request_are_found() {
    breaks(
        &harmed(State::Idle, State::Idle, |_, after| {
            after.machine = "other".into();
        }),
        34,
    );
    let removal =
        |urgency| Some(RemovalRequest { urgency, reason: Reason::Surplus, by: None, at: now() });
    let weaker = harmed(State::Retiring, State::Retiring, |before, after| {
        before.removal = removal(Urgency::Delete);
        after.removal = removal(Urgency::Retire);
    });
    breaks(&weaker, 33);
    breaks(
        &harmed(State::Retiring, State::Retiring, |before, _| {
            before.removal = removal(Urgency::Retire);
        }),
        33,
    );
}

#[test]
fn forgotten_proofs_are_found() {
    breaks(
        &harmed(State::Idle, State::Idle, |_, after| {
            after.create_called_at = None;
        }),
        37,
    );
    breaks(&harmed(State::Idle, State::Idle, |_, after| after.seen_at = None), 37);
    breaks(
        &harmed(State::Busy, State::Busy, |before, _| {
            before.once_started = true;
        }),
        5,
    );
    breaks(
        &harmed(State::Creating, State::Starting, |_, after| {
            after.create_called_at = None;
        }),
        37,
    );
    breaks(&harmed(State::Ended, State::Ended, |_, after| after.end = None), 37);
}

#[test]
fn deletion_without_warrant_or_record_is_found() {
    breaks(
        &harmed(State::PendingDelete, State::Deleting, |_, after| {
            after.warrant = None;
        }),
        5,
    );
    breaks(
        &harmed(State::PendingDelete, State::Deleting, |_, after| {
            after.verdict = None;
        }),
        14,
    );
    let before = row(State::Ended);
    let mut silent =
        save(Some(&before), next(&before, State::PendingDelete), &[State::PendingDelete]);
    silent.exit = None;
    breaks(&check_save(Some(&before), &silent), 14);
    let changed = harmed(State::Deleting, State::Deleting, |_, after| {
        after.verdict = Some(VerdictClass::Clean);
    });
    breaks(&changed, 14);
}

#[test]
fn a_warrant_that_rests_on_nothing_is_found() {
    let claim = |from: State, kind: WarrantKind, harm: fn(&mut Instance)| {
        harmed(from, State::PendingDelete, |before, after| {
            before.registration = Registration::Gone;
            after.registration = Registration::Gone;
            warranted(after, kind);
            harm(after);
        })
    };
    breaks(&claim(State::Ended, WarrantKind::OwnEnd, |row| row.end = None), 5);
    breaks(
        &claim(State::Retiring, WarrantKind::NeverBegan, |row| {
            row.once_started = true;
        }),
        5,
    );
    holds(&claim(State::Retiring, WarrantKind::NeverBegan, |_| {}));
    breaks(&claim(State::Busy, WarrantKind::Served, |_| {}), 9);
    breaks(
        &claim(State::Busy, WarrantKind::Served, |row| {
            row.job_over = Some(over(false));
        }),
        9,
    );
    holds(&claim(State::Busy, WarrantKind::Served, |row| {
        row.job_over = Some(over(true));
    }));
    breaks(&claim(State::Busy, WarrantKind::Zombie, |_| {}), 5);
    holds(&claim(State::Busy, WarrantKind::Zombie, |row| {
        row.job_over = Some(over(false));
    }));
    breaks(&claim(State::Retiring, WarrantKind::Expired, |_| {}), 5);
    holds(&claim(State::Retiring, WarrantKind::Expired, |row| {
        row.doubt_since = Some(now());
    }));
    breaks(&claim(State::Busy, WarrantKind::Operator, |_| {}), 30);
    holds(&claim(State::Busy, WarrantKind::Operator, |row| {
        let by = Some(RequestedBy { who: "ops".into(), why: "stuck".into() });
        row.removal = Some(RemovalRequest {
            urgency: Urgency::Force,
            reason: Reason::Operator,
            by,
            at: now(),
        });
    }));
    holds(&claim(State::Retiring, WarrantKind::Idle, |_| {}));
    breaks(
        &claim(State::Retiring, WarrantKind::Idle, |row| {
            row.registration = Registration::Known { name: "linux-1".into(), id: RunnerId(1) };
        }),
        5,
    );
}

#[test]
fn a_busy_runner_deleted_for_being_idle_is_found() {
    for from in [State::Starting, State::Idle, State::Reserved, State::Busy] {
        let killed = harmed(from, State::PendingDelete, |_, after| {
            warranted(after, WarrantKind::Idle);
            after.registration = Registration::Gone;
        });
        breaks(&killed, 5);
    }
    let asked = harmed(State::Busy, State::Retiring, |before, after| {
        before.executing = Some(job_id(7));
        after.executing = Some(job_id(7));
    });
    breaks(&asked, 5);
    let works_on = harmed(State::PendingDelete, State::Busy, |before, after| {
        warranted(before, WarrantKind::Idle);
        warranted(after, WarrantKind::Idle);
    });
    breaks(&works_on, 5);
}

#[test]
fn a_clean_verdict_without_its_proof_is_found() {
    let clean = |harm: fn(&mut Instance)| {
        harmed(State::Ended, State::PendingDelete, |before, after| {
            let exited = End::Exited(ExitFacts { code: Some(0), ..Default::default() });
            before.end = Some(exited.clone());
            after.end = Some(exited);
            after.executing = Some(job_id(7));
            after.verdict = Some(VerdictClass::Clean);
            harm(after);
        })
    };
    breaks(&clean(|row| row.executing = None), 15);
    breaks(
        &clean(|row| {
            row.end = Some(End::NotCreated { why: "quota".into() });
        }),
        15,
    );
    breaks(
        &clean(|row| {
            row.end = Some(End::Exited(ExitFacts { code: Some(1), ..Default::default() }));
        }),
        15,
    );
    breaks(&clean(|_| {}), 15); // the record itself tells no exit

    let mut before = row(State::Ended);
    before.end = Some(End::Exited(ExitFacts { code: Some(0), ..Default::default() }));
    let mut after = next(&before, State::PendingDelete);
    (after.end, after.executing) = (before.end.clone(), Some(job_id(7)));
    after.verdict = Some(VerdictClass::Clean);
    let mut whole = save(Some(&before), after, &[State::PendingDelete]);
    whole.exit.as_mut().unwrap().exit = Some(ExitFacts { code: Some(0), ..Default::default() });
    holds(&check_save(Some(&before), &whole));
}

#[test]
fn something_left_behind_a_deleted_row_is_found() {
    breaks(
        &harmed(State::Deleting, State::Deleted, |_, after| {
            after.machine_gone_at = None;
        }),
        22,
    );
    let registered =
        |row: &mut Instance| row.registration = Registration::Uncertain("linux-1".into());
    breaks(
        &harmed(State::Deleting, State::Deleted, |_, after| {
            registered(after);
        }),
        17,
    );
    breaks(
        &harmed(State::Deleting, State::Deleted, |_, after| {
            after.verdict = None;
        }),
        14,
    );
    breaks(
        &harmed(State::Idle, State::Idle, |_, after| {
            after.machine_gone_at = Some(now());
        }),
        21,
    );
}

#[test]
fn offers_that_go_back_and_secrets_that_stay_are_found() {
    let held = |generation, delivered| {
        Some(HeldOffer { job: job_id(7), generation: Generation(generation), delivered })
    };
    let stepped = |old: Option<HeldOffer>, new: Option<HeldOffer>| {
        harmed(State::Reserved, State::Reserved, |before, after| {
            before.offer = old;
            after.offer = new;
        })
    };
    holds(&stepped(held(1, false), held(1, true)));
    holds(&stepped(held(1, true), held(2, false)));
    breaks(&stepped(held(2, false), held(1, false)), 11);
    breaks(&stepped(held(1, true), held(1, false)), 16);
    let kept = harmed(State::Busy, State::Busy, |_, after| {
        after.executing = Some(job_id(7));
        after.sealed_jit = Some("sealed".into());
    });
    breaks(&kept, 35);
}
