use super::*;
use crate::model::{ExitFacts, HolderId, RunnerId};
use crate::pool::fixtures::{at, controller, machine, row};
use proptest::prelude::*;

const CONFIRM: Duration = Duration::from_mins(1);

fn listing(views: &[MachineView]) -> Observation<Vec<MachineView>> {
    Observation::Complete(views.to_vec())
}

/// Sweeps twice, `apart` seconds, and returns what the second sweep found.
fn second_sweep(
    views: &[MachineView],
    records: &[Instance],
    apart: u64,
) -> Vec<(&'static str, String)> {
    let listing = listing(views);
    let (_, memory) =
        compare(&listing, records, &SweepMemory::default(), &controller(), CONFIRM, at(9));
    let (found, _) = compare(&listing, records, &memory, &controller(), CONFIRM, at(9 + apart));
    names(&found)
}

fn names(found: &[SweepFinding<'_>]) -> Vec<(&'static str, String)> {
    found
        .iter()
        .map(|found| match found {
            SweepFinding::Orphan(view) => ("orphan", view.name.to_string()),
            SweepFinding::Foreign(view) => ("foreign", view.name.to_string()),
            SweepFinding::Unlisted(record) => ("unlisted", record.id.to_string()),
            SweepFinding::Listed(record, _) => ("listed", record.id.to_string()),
        })
        .collect()
}

fn found(what: &'static str, name: &str) -> Vec<(&'static str, String)> {
    vec![(what, name.into())]
}

#[test]
fn a_machine_without_a_record_is_an_orphan_in_the_second_listing() {
    let lost = [machine("lost")];
    let listing = listing(&lost);
    let (first, _) = compare(&listing, &[], &SweepMemory::default(), &controller(), CONFIRM, at(0));
    assert_eq!(first, [], "a row may have been deleted a moment ago");
    assert_eq!(second_sweep(&lost, &[], 59), [], "too soon");
    assert_eq!(second_sweep(&lost, &[], 60), found("orphan", "lost"));
}

#[test]
fn a_successor_of_the_same_name_is_not_the_machine_seen_before() {
    let uid = |uid: &str| MachineView { uid: Some(uid.into()), ..machine("lost") };
    let first = listing(&[uid("1")]);
    let (_, memory) = compare(&first, &[], &SweepMemory::default(), &controller(), CONFIRM, at(0));
    let second = listing(&[uid("2")]);
    let (found, _) = compare(&second, &[], &memory, &controller(), CONFIRM, at(100));
    assert_eq!(found, []);
}

#[test]
fn an_unusable_listing_between_two_complete_ones_changes_nothing() {
    let lost = listing(&[machine("lost")]);
    let (_, memory) = compare(&lost, &[], &SweepMemory::default(), &controller(), CONFIRM, at(0));
    let failed = Observation::Unusable("page 2 is missing".into());
    let (found, kept) = compare(&failed, &[], &memory, &controller(), CONFIRM, at(60));
    assert_eq!((found, &kept), (Vec::new(), &memory));
    let (found, _) = compare(&lost, &[], &kept, &controller(), CONFIRM, at(120));
    assert_eq!(names(&found), [("orphan", "lost".into())]);
}

#[test]
fn a_machine_of_a_holder_we_never_had_is_foreign_for_ever() {
    let mut stranger = machine("stranger");
    for holder in [Some(HolderId::from("another")), None] {
        stranger.stamp.holder = holder;
        assert_eq!(second_sweep(&[stranger.clone()], &[], 600), found("foreign", "stranger"));
    }
    stranger.stamp.holder = Some("h0".into());
    assert_eq!(second_sweep(&[stranger], &[], 600), found("orphan", "stranger"), "once ours");
}

#[test]
fn machines_without_our_stamp_do_not_exist_for_us() {
    let mut other = machine("other");
    other.stamp.controller = Some("another".into());
    let mut bare = machine("bare");
    bare.stamp = crate::model::Stamp::default();
    assert_eq!(second_sweep(&[other, bare], &[], 600), []);
}

#[test]
fn an_instance_is_missed_only_if_its_machine_was_seen_before_and_its_end_is_not_known() {
    let other = [machine("other-machine-of-theirs")];
    let missed = |state, seen: Option<u64>| {
        let record = Instance { seen_at: seen.map(at), ..row("a", state) };
        let listing = listing(&other);
        let memory = SweepMemory::default();
        let records = [record];
        let (found, _) = compare(&listing, &records, &memory, &controller(), CONFIRM, at(50));
        !names(&found).is_empty()
    };
    for state in State::ALL {
        let expected = state.is_running() || state == State::Retiring;
        assert_eq!(missed(state, Some(0)), expected, "{state}");
        assert!(!missed(state, None), "{state}: never seen");
        assert!(!missed(state, Some(50)), "{state}: came after the listing began");
    }
}

#[test]
fn an_empty_listing_while_machines_should_exist_says_nothing_until_a_second_one_does() {
    let records = [row("a", State::Idle), row("b", State::Busy)];
    let (empty, memory) = (listing(&[]), SweepMemory::default());
    let (first, _) = compare(&empty, &records, &memory, &controller(), CONFIRM, at(5));
    assert_eq!(names(&first), []);
    assert_eq!(second_sweep(&[], &records, 59), []);
    let both = [("unlisted", "a".into()), ("unlisted", "b".into())];
    assert_eq!(second_sweep(&[], &records, 60), both, "their owners look for themselves");
}

#[test]
fn a_machine_of_the_same_name_and_another_uid_is_not_the_one_on_record() {
    let record = Instance { uid: Some("1".into()), ..row("a", State::Idle) };
    let view = MachineView { uid: Some("2".into()), ..machine("a") };
    assert_eq!(second_sweep(&[view], &[record], 600), found("unlisted", "a"));
}

#[test]
fn a_renamed_machine_still_has_its_owner() {
    let record = Instance { uid: Some("1".into()), ..row("a", State::Deleting) };
    let view = MachineView { uid: Some("1".into()), ..machine("renamed") };
    assert_eq!(second_sweep(&[view], &[record], 600), []);
}

#[test]
fn an_owner_hears_only_what_it_may_not_know() {
    let known = Instance { ready_at: Some(at(0)), ..row("a", State::Idle) };
    let plain = MachineView { ready: true, ..machine("a") };
    let reported = |record: &Instance, view: &MachineView| {
        !second_sweep(std::slice::from_ref(view), std::slice::from_ref(record), 1).is_empty()
    };
    assert!(!reported(&known, &plain));
    let over = MachinePhase::Over(ExitFacts::default());
    let doubt = MachinePhase::Doubt("node lost".into());
    assert!(reported(&known, &MachineView { phase: over.clone(), ..plain.clone() }));
    assert!(reported(&known, &MachineView { phase: doubt, ..plain.clone() }));
    assert!(reported(&known, &MachineView { leaving: true, ..plain.clone() }));
    assert!(reported(&known, &MachineView { worker: Worker::Present, ..plain.clone() }));
    assert!(reported(&row("a", State::Starting), &plain), "it is ready");
    let unanswered = Instance { seen_at: None, ..row("a", State::Creating) };
    assert!(reported(&unanswered, &machine("a")), "a lost create made a machine after all");
    assert!(!reported(&row("a", State::Deleting), &MachineView { phase: over, ..plain }));
}

#[test]
fn a_runner_is_reported_when_the_forge_sees_more_than_the_record() {
    let name = RunnerName::from("a");
    let known = |state, ready: bool| Instance {
        registration: Registration::Known { name: name.clone(), id: RunnerId(1) },
        ready_at: ready.then(|| at(0)),
        ..row("a", state)
    };
    let runner = |online, busy| RunnerView { name: name.clone(), id: RunnerId(1), online, busy };
    let reported = |record: Instance, runner: RunnerView| {
        !compare_runners(&Observation::Complete(vec![runner]), &[record], at(9)).is_empty()
    };
    assert!(!reported(known(State::Idle, true), runner(true, false)));
    assert!(!reported(known(State::Busy, true), runner(true, true)));
    assert!(reported(known(State::Starting, false), runner(true, false)), "it is up");
    assert!(reported(known(State::Idle, true), runner(true, true)), "it works");
    assert!(reported(known(State::Idle, true), runner(false, false)), "it is offline");
    assert!(!reported(row("a", State::Idle), runner(true, true)), "not a registration of its own");
    let uncertain = Instance {
        registration: Registration::Uncertain(name.clone()),
        ..known(State::Idle, true)
    };
    assert!(reported(uncertain, runner(true, false)), "its number is known now");
    let unusable = Observation::Unusable("rate limit".into());
    assert_eq!(compare_runners(&unusable, &[known(State::Starting, false)], at(9)), []);
}

#[test]
fn a_runner_that_a_listing_misses_is_asked_about_if_its_instance_waits_or_works() {
    for state in State::ALL {
        let found = |ready: u64, registration: Registration| {
            let record = Instance { ready_at: Some(at(ready)), registration, ..row("a", state) };
            let other =
                RunnerView { name: "a-x".into(), id: RunnerId(2), online: true, busy: false };
            let (listing, records) = (Observation::Complete(vec![other]), [record.clone()]);
            match compare_runners(&listing, &records, at(50)).first() {
                Some(FoundRunner::Unregistered(_)) => "unregistered",
                Some(FoundRunner::Missed(_)) => "missed",
                Some(FoundRunner::Shown(..) | FoundRunner::Offline(_)) => "shown",
                None => "",
            }
        };
        let known = || Registration::Known { name: "a".into(), id: RunnerId(1) };
        let expected = match state {
            State::Idle => "unregistered",
            State::Busy => "missed",
            _ => "",
        };
        assert_eq!(found(0, known()), expected, "{state}");
        assert_eq!(found(50, known()), "", "{state}: ready after the listing began");
        assert_eq!(found(0, Registration::Gone), "", "{state}: removed by ourselves");
    }
}

#[test]
fn a_found_machine_is_recognised_under_any_number() {
    let record = Instance {
        adopted: true,
        registration: Registration::Uncertain("a".into()),
        ..row("a", State::Retiring)
    };
    let numbered = RunnerView { name: "a-3".into(), id: RunnerId(3), online: true, busy: true };
    let listing = Observation::Complete(vec![numbered.clone()]);
    let records = [record];
    let found = compare_runners(&listing, &records, at(9));
    assert_eq!(found, [FoundRunner::Shown(&records[0], &numbered)]);
}

prop_compose! {
    fn any_machine()(
        name in 0_u8..8,
        uid in prop::option::of(0_u8..3),
        ours in prop::bool::weighted(0.8),
        holder in prop::option::of(prop::sample::select(vec!["h", "h0", "stranger"])),
        over in any::<bool>(),
    ) -> MachineView {
        let mut view = machine(&format!("m{name}"));
        view.uid = uid.map(|uid| uid.to_string());
        view.stamp.holder = holder.map(HolderId::from);
        if !ours {
            view.stamp.controller = None;
        }
        if over {
            view.phase = MachinePhase::Over(ExitFacts::default());
        }
        view
    }
}

prop_compose! {
    fn any_record()(
        name in 0_u8..8,
        uid in prop::option::of(0_u8..3),
        state in prop::sample::select(State::ALL.to_vec()),
        seen in prop::option::of(0_u64..200),
    ) -> Instance {
        Instance {
            uid: uid.map(|uid| uid.to_string()),
            seen_at: seen.map(at),
            ..row(&format!("m{name}"), state)
        }
    }
}

/// Says in other words what each finding needs.
fn may_be_found(
    found: &SweepFinding<'_>,
    records: &[Instance],
    complete: &[(u64, Vec<MachineView>)],
    now: u64,
) -> bool {
    let holders = controller().holders;
    let known = |holder: &Option<HolderId>| holder.as_ref().is_some_and(|it| holders.contains(it));
    match found {
        SweepFinding::Orphan(view) => {
            let owned = |row: &Instance| row.state != State::Deleted && row.machine == view.name;
            let named_before = complete.iter().any(|(then, earlier)| {
                now - then >= 60 && earlier.iter().any(|old| old.name == view.name)
            });
            known(&view.stamp.holder) && named_before && !records.iter().any(owned)
        }
        SweepFinding::Foreign(view) => !known(&view.stamp.holder),
        SweepFinding::Unlisted(record) => {
            record.seen_at.is_some_and(|seen| seen < at(now))
                && (record.state.is_running() || record.state == State::Retiring)
        }
        SweepFinding::Listed(record, view) => record.machine == view.name,
    }
}

proptest! {
    #[test]
    fn sweeps_nominate_only_whom_they_may(
        rounds in prop::collection::vec(
            (
                prop::collection::vec(any_machine(), 0..8),
                prop::collection::vec(any_record(), 0..8),
                prop::bool::weighted(0.2),
            ),
            1..6,
        ),
    ) {
        let mut memory = SweepMemory::default();
        let mut now = 0;
        let mut complete: Vec<(u64, Vec<MachineView>)> = Vec::new();
        for (views, records, fails) in rounds {
            now += 40;
            let listing = if fails {
                Observation::Unusable("no".into())
            } else {
                Observation::Complete(views.clone())
            };
            let (found, next) =
                compare(&listing, &records, &memory, &controller(), CONFIRM, at(now));
            let expected = records.iter().any(|row| row.seen_at.is_some() && row.occupies());
            let first_empty = views.is_empty() && expected && memory.empty_since.is_none();
            if fails || first_empty {
                prop_assert_eq!(&found, &[]);
                prop_assert_eq!(&next.unowned, &memory.unowned);
            }
            for found in &found {
                let allowed = may_be_found(found, &records, &complete, now);
                prop_assert!(allowed, "{:?} at {}", found, now);
            }
            if !fails {
                complete.push((now, views));
            }
            memory = next;
        }
    }
}
