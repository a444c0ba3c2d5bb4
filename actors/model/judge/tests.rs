use proptest::prelude::*;

use super::*;
use crate::model::{ExitReport, SetupReport, Tail, Timestamp};

fn exited(code: i32, reason: &str) -> End {
    End::Exited(ExitFacts { code: Some(code), reason: Some(reason.into()), ..Default::default() })
}

fn kept(word: &str) -> End {
    End::Exited(ExitFacts { machine_reason: Some(word.into()), ..Default::default() })
}

fn over() -> JobStatus {
    JobStatus::Over(Some(Conclusion::Success))
}

fn verdict_of(end: Option<&End>, warrant: WarrantKind, job: JobStatus) -> Verdict {
    let exit_report = ExitReport { exit: None, tail: Tail::NotNeeded, remarks: vec![] };
    judge(&Findings {
        end,
        warrant,
        exit_report: &exit_report,
        job,
        was_ready: true,
        worked: false,
        create_called: true,
        dismissed: None,
        setup: SetupStory::Untold,
    })
}

#[test]
fn a_machine_that_showed_a_worker_is_never_wasted() {
    let exit_report = ExitReport { exit: None, tail: Tail::NotNeeded, remarks: vec![] };
    let end = exited(0, "Completed");
    for (worked, class) in [(false, VerdictClass::Wasted), (true, VerdictClass::Unknown)] {
        let verdict = judge(&Findings {
            end: Some(&end),
            warrant: WarrantKind::OwnEnd,
            exit_report: &exit_report,
            job: JobStatus::None,
            was_ready: true,
            worked,
            create_called: true,
            dismissed: None,
            setup: SetupStory::Untold,
        });
        assert_eq!(verdict.class, class);
    }
}

fn class_of(end: &End, job: JobStatus) -> VerdictClass {
    verdict_of(Some(end), WarrantKind::OwnEnd, job).class
}

#[test]
fn every_exit_has_the_class_of_the_table() {
    use JobStatus::{None as Jobless, Running, Unknown as Unasked};
    use VerdictClass as V;
    let signalled = End::Exited(ExitFacts { signal: Some(11), ..Default::default() });
    let poller = End::Exited(ExitFacts {
        code: Some(1),
        reason: Some("Error".into()),
        part: Some("poller".into()),
        ..Default::default()
    });
    let silent = End::Exited(ExitFacts::default());
    let nothing_made = End::NotCreated { why: "quota".into() };
    let taken = End::Gone { deleted_externally: true };
    let gone = End::Gone { deleted_externally: false };
    let table = [
        (exited(0, "Completed"), over(), V::Clean),
        (exited(0, "Completed"), JobStatus::Over(Some(Conclusion::Failure)), V::Clean),
        (exited(0, ""), JobStatus::Over(None), V::Clean),
        (exited(0, "Completed"), Jobless, V::Wasted),
        (exited(0, "Completed"), Running, V::HandshakeLost),
        (exited(0, "Completed"), Unasked, V::Unknown),
        (exited(0, "TartRunExited"), over(), V::Unreported),
        (exited(1, "TartRunFailed"), Running, V::RunnerError),
        (exited(1, "Error"), Running, V::RunnerError),
        (exited(2, "Error"), Jobless, V::RunnerError),
        (exited(5, "Error"), Jobless, V::RunnerError),
        (exited(7, "Error"), Jobless, V::OutdatedRunner),
        (exited(127, "StartError"), Jobless, V::RunnerError),
        (exited(255, "Error"), Jobless, V::RunnerError),
        (exited(-1, "Error"), Jobless, V::RunnerError),
        (exited(i32::MIN, "Error"), Jobless, V::RunnerError),
        (exited(134, "Error"), Running, V::Aborted),
        (exited(137, "OOMKilled"), Running, V::HostOom),
        (exited(1, "OOMKilled"), Running, V::HostOom),
        (exited(137, "Error"), Running, V::GuestKilled),
        (exited(137, "ContainerStatusUnknown"), over(), V::Unknown),
        (exited(0, "ContainerStatusUnknown"), over(), V::Unknown),
        (exited(139, "Error"), Running, V::Crashed),
        (exited(136, "Error"), Running, V::Crashed),
        (exited(143, "Error"), Running, V::Terminated),
        (signalled, Running, V::Crashed),
        (poller, Jobless, V::BootFailed),
        (silent, Running, V::Unreported),
        (nothing_made, Jobless, V::CreateFailed),
        (taken, Running, V::DeletedExternally),
        (gone.clone(), Running, V::Vanished),
        (gone, over(), V::Vanished),
        (kept("Evicted"), Running, V::Evicted),
        (kept("Preempting"), Running, V::Preempted),
        (kept("Preempted"), Running, V::Preempted),
        (kept("DeadlineExceeded"), Running, V::Deadline),
        (kept("NodeLost"), Running, V::NodeLost),
        (kept("ErrImagePull"), Jobless, V::ImagePull),
        (kept("ImagePullBackOff"), Jobless, V::ImagePull),
        (kept("InvalidImageName"), Jobless, V::ImagePull),
        (kept("Unschedulable"), Jobless, V::Unschedulable),
        (kept("OutOfmemory"), Jobless, V::Evicted),
        (kept("SomethingNew"), Running, V::Unreported),
    ];
    for (end, job, expected) in table {
        let verdict = verdict_of(Some(&end), WarrantKind::OwnEnd, job.clone());
        assert_eq!(verdict.class, expected, "{end:?} with {job:?}: {verdict:?}");
    }
}

#[test]
fn a_machine_removed_before_it_ended_has_the_class_of_its_warrant() {
    for (warrant, expected) in [
        (WarrantKind::NeverBegan, VerdictClass::BootFailed),
        (WarrantKind::Idle, VerdictClass::Removed),
        (WarrantKind::Served, VerdictClass::Removed),
        (WarrantKind::Zombie, VerdictClass::Zombie),
        (WarrantKind::Operator, VerdictClass::Forced),
        (WarrantKind::Expired, VerdictClass::Removed),
        (WarrantKind::OwnEnd, VerdictClass::Unknown),
    ] {
        assert_eq!(verdict_of(None, warrant, over()).class, expected, "{warrant}");
    }
}

#[test]
fn the_keepers_report_beats_any_exit_code() {
    for code in [0, 1, 137, 143] {
        let end = End::Exited(ExitFacts {
            code: Some(code),
            reason: Some("Error".into()),
            machine_reason: Some("Evicted".into()),
            ..Default::default()
        });
        assert_eq!(class_of(&end, JobStatus::Running), VerdictClass::Evicted);
    }
}

#[test]
fn an_image_that_cannot_be_pulled_explains_a_machine_that_never_began() {
    let waiting = |word: &str| ExitReport {
        exit: Some(ExitFacts { machine_reason: Some(word.into()), ..Default::default() }),
        tail: Tail::NotNeeded,
        remarks: vec![],
    };
    let judged = |exit_report: &ExitReport, warrant| {
        let job = JobStatus::None;
        judge(&Findings {
            end: None,
            warrant,
            exit_report,
            job,
            was_ready: false,
            worked: false,
            create_called: true,
            dismissed: None,
            setup: SetupStory::Untold,
        })
        .class
    };
    let image = waiting("ImagePullBackOff");
    assert_eq!(judged(&image, WarrantKind::NeverBegan), VerdictClass::ImagePull);
    assert_eq!(judged(&image, WarrantKind::Operator), VerdictClass::Forced);
    assert_eq!(judged(&image, WarrantKind::Idle), VerdictClass::Removed);
    // A lost node is doubt, so it is not why an operator's machine went.
    assert_eq!(judged(&waiting("NodeLost"), WarrantKind::Operator), VerdictClass::Forced);
    assert_eq!(judged(&waiting("Evicted"), WarrantKind::Idle), VerdictClass::Evicted);
}

#[test]
fn a_machine_that_ended_while_it_was_being_removed_keeps_its_own_verdict() {
    let judged = |code, warrant, job| {
        let exit = ExitFacts { code: Some(code), ..Default::default() };
        let exit_report = ExitReport { exit: Some(exit), tail: Tail::NotNeeded, remarks: vec![] };
        judge(&Findings {
            end: None,
            warrant,
            exit_report: &exit_report,
            job,
            was_ready: true,
            worked: false,
            create_called: true,
            dismissed: None,
            setup: SetupStory::Untold,
        })
        .class
    };
    assert_eq!(judged(0, WarrantKind::Served, over()), VerdictClass::Clean);
    assert_eq!(judged(137, WarrantKind::Operator, JobStatus::Running), VerdictClass::GuestKilled);
    assert_eq!(judged(1, WarrantKind::Idle, JobStatus::None), VerdictClass::RunnerError);
    // A runner whose registration we removed leaves with 0: that is our doing.
    assert_eq!(judged(0, WarrantKind::Idle, JobStatus::None), VerdictClass::Removed);
    assert_eq!(judged(0, WarrantKind::Operator, JobStatus::Running), VerdictClass::Forced);
}

#[test]
fn code_and_reason_are_never_mixed_from_two_reads() {
    let end = exited(137, "Error");
    let invented = ExitFacts {
        code: Some(137),
        reason: Some("ContainerStatusUnknown".into()),
        machine_reason: Some("NodeLost".into()),
        ..Default::default()
    };
    let exit_report = ExitReport { exit: Some(invented), tail: Tail::NotNeeded, remarks: vec![] };
    let findings = Findings {
        end: Some(&end),
        warrant: WarrantKind::OwnEnd,
        exit_report: &exit_report,
        job: JobStatus::Running,
        was_ready: true,
        worked: false,
        create_called: true,
        dismissed: None,
        setup: SetupStory::Untold,
    };
    let exit = findings.exit().unwrap();
    assert_eq!(exit.reason.as_deref(), Some("Error"));
    assert_eq!(exit.machine_reason.as_deref(), Some("NodeLost"));
}

#[test]
fn a_verdict_shows_what_it_rests_on() {
    let end = exited(137, "OOMKilled");
    let verdict = verdict_of(Some(&end), WarrantKind::OwnEnd, JobStatus::Running);
    assert_eq!((verdict.fault, verdict.confidence), (Fault::Host, Confidence::High));
    let evidence = verdict.evidence.join("; ");
    for part in ["exit code 137", "signal 9", "`OOMKilled`", "in progress"] {
        assert!(evidence.contains(part), "{evidence:?} lacks {part:?}");
    }
    assert!(verdict.advice.contains("memory"));
}

#[test]
fn the_log_is_wanted_for_every_end_that_is_not_plainly_normal() {
    let own = Some(WarrantKind::OwnEnd);
    let wanted = |end: &End, job: &JobStatus| needs_tail(Some(end), own, job, None);
    assert!(!wanted(&exited(0, "Completed"), &over()));
    assert!(wanted(&exited(0, "Completed"), &JobStatus::None), "wasted");
    assert!(wanted(&exited(0, "Completed"), &JobStatus::Running), "handshake lost");
    assert!(wanted(&exited(0, "TartRunExited"), &over()));
    assert!(wanted(&exited(0, "OOMKilled"), &over()));
    assert!(wanted(&exited(1, "Error"), &over()));
    assert!(wanted(&End::Exited(ExitFacts::default()), &over()), "no exit known");
    assert!(wanted(&End::Gone { deleted_externally: false }, &over()));
    assert!(!wanted(&End::NotCreated { why: "quota".into() }, &JobStatus::None));
    assert!(needs_tail(None, None, &JobStatus::Running, None), "another program deletes it");
    for (warrant, expected) in [
        (WarrantKind::Idle, false),
        (WarrantKind::Served, false),
        (WarrantKind::NeverBegan, true),
        (WarrantKind::Zombie, true),
        (WarrantKind::Operator, true),
        (WarrantKind::Expired, true),
    ] {
        let wanted = needs_tail(None, Some(warrant), &JobStatus::None, None);
        assert_eq!(wanted, expected, "{warrant}");
    }
}

#[test]
fn one_that_leaves_on_request_is_removed_and_not_wasted() {
    let judged = |end: &End, job, dismissed, was_ready| {
        let exit_report = ExitReport { exit: None, tail: Tail::NotNeeded, remarks: vec![] };
        let warrant = WarrantKind::OwnEnd;
        let end = Some(end);
        let setup = SetupStory::Untold;
        judge(&Findings {
            end,
            warrant,
            exit_report: &exit_report,
            job,
            was_ready,
            worked: false,
            create_called: true,
            dismissed,
            setup,
        })
        .class
    };
    let zero = exited(0, "Completed");
    let poller =
        End::Exited(ExitFacts { code: Some(3), part: Some("poller".into()), ..Default::default() });
    let surplus = Some(Reason::Surplus);
    for end in [&zero, &poller] {
        assert_eq!(judged(end, JobStatus::None, surplus, true), VerdictClass::Removed);
    }
    assert_eq!(judged(&zero, JobStatus::None, None, true), VerdictClass::Wasted);
    assert_eq!(judged(&poller, JobStatus::None, None, true), VerdictClass::BootFailed);
    assert_eq!(judged(&zero, over(), surplus, true), VerdictClass::Clean);
    assert_eq!(judged(&zero, JobStatus::Running, surplus, true), VerdictClass::HandshakeLost);
    let crash = exited(139, "Error");
    assert_eq!(judged(&crash, JobStatus::None, surplus, true), VerdictClass::Crashed);
    let late = Some(Reason::BootDeadline);
    assert_eq!(judged(&zero, JobStatus::None, late, false), VerdictClass::BootFailed);
    assert_eq!(judged(&zero, JobStatus::None, late, true), VerdictClass::Removed);
    let own = Some(WarrantKind::OwnEnd);
    assert!(!needs_tail(Some(&zero), own, &JobStatus::None, surplus));
    assert!(needs_tail(Some(&zero), own, &JobStatus::None, late), "why was it late?");
}

#[test]
fn a_machine_let_go_because_it_was_not_ready_in_time_failed_to_boot() {
    let exit_report = ExitReport { exit: None, tail: Tail::NotNeeded, remarks: vec![] };
    let judged = |was_ready, dismissed| {
        let (warrant, job) = (WarrantKind::Idle, JobStatus::None);
        let exit_report = &exit_report;
        let setup = SetupStory::Untold;
        let (worked, create_called) = (false, true);
        let findings = Findings {
            end: None,
            warrant,
            exit_report,
            job,
            was_ready,
            worked,
            create_called,
            dismissed,
            setup,
        };
        judge(&findings).class
    };
    assert_eq!(judged(false, Some(Reason::BootDeadline)), VerdictClass::BootFailed);
    assert_eq!(judged(true, Some(Reason::BootDeadline)), VerdictClass::Removed, "late, but ready");
    assert_eq!(judged(false, Some(Reason::Drain)), VerdictClass::Removed);
}

fn any_reason() -> impl Strategy<Value = Option<String>> {
    prop_oneof![
        Just(None),
        proptest::sample::select(vec![
            "",
            "Completed",
            "Error",
            "OOMKilled",
            "ContainerStatusUnknown",
            "TartRunExited",
            "TartRunFailed",
            "Evicted",
            "NodeLost",
            "Unschedulable",
            "ErrImagePull",
            "Novel",
        ])
        .prop_map(|word| Some(word.to_owned())),
    ]
}

fn any_exit() -> impl Strategy<Value = ExitFacts> {
    let code =
        prop_oneof![Just(None), Just(Some(0)), (0..260).prop_map(Some), any::<Option<i32>>()];
    let part = proptest::sample::select(vec![None, Some("poller"), Some("runner"), Some("dind")]);
    (code, proptest::option::of(-1..70), any_reason(), any_reason(), part).prop_map(
        |(code, signal, reason, machine_reason, part)| ExitFacts {
            code,
            signal,
            reason,
            machine_reason,
            part: part.map(str::to_owned),
            ended_at: None,
        },
    )
}

fn any_end() -> impl Strategy<Value = Option<End>> {
    prop_oneof![
        Just(None),
        any_exit().prop_map(|exit| Some(End::Exited(exit))),
        any::<bool>().prop_map(|deleted_externally| Some(End::Gone { deleted_externally })),
        Just(Some(End::NotCreated { why: "quota".into() })),
    ]
}

fn any_job_status() -> impl Strategy<Value = JobStatus> {
    proptest::sample::select(vec![
        JobStatus::None,
        JobStatus::Running,
        JobStatus::Unknown,
        JobStatus::Over(None),
        JobStatus::Over(Some(Conclusion::Cancelled)),
        over(),
    ])
}

fn any_warrant() -> impl Strategy<Value = WarrantKind> {
    proptest::sample::select(vec![
        WarrantKind::OwnEnd,
        WarrantKind::NeverBegan,
        WarrantKind::Idle,
        WarrantKind::Served,
        WarrantKind::Zombie,
        WarrantKind::Operator,
        WarrantKind::Expired,
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]
    #[test]
    fn every_finding_has_a_verdict_and_only_a_finished_job_with_exit_zero_is_clean(
        end in any_end(),
        left in proptest::option::of(any_exit()),
        warrant in any_warrant(),
        job in any_job_status(),
        was_ready in any::<bool>(),
        dismissed in proptest::option::of(prop_oneof![
            Just(Reason::Surplus),
            Just(Reason::BootDeadline),
        ]),
    ) {
        let exit_report = ExitReport { exit: left, tail: Tail::NotNeeded, remarks: vec![] };
        let findings = Findings {
            end: end.as_ref(),
            warrant,
            exit_report: &exit_report,
            job: job.clone(),
            was_ready,
            worked: false,
            create_called: true,
            dismissed,
            setup: SetupStory::Untold,
        };
        let verdict = judge(&findings);
        prop_assert!(!verdict.evidence.is_empty() && !verdict.advice.is_empty());
        let exit = findings.exit();
        if verdict.class == VerdictClass::Clean {
            prop_assert!(matches!(job, JobStatus::Over(_)));
            let exit = exit.clone().unwrap();
            prop_assert_eq!(exit.code, Some(0));
            prop_assert_eq!(signal_of(&exit), None);
        }
        if verdict.class == VerdictClass::HostOom {
            let exit = exit.clone().unwrap();
            prop_assert_eq!(exit.reason.as_deref(), Some("OOMKilled"));
        }
        // What the verdict calls abnormal, the log was wanted for, as far as it could be known.
        if end.is_some()
            && matches!(verdict.class, VerdictClass::Wasted | VerdictClass::HandshakeLost)
        {
            prop_assert!(needs_tail(end.as_ref(), Some(warrant), &job, dismissed));
        }
    }
}

#[test]
fn what_else_a_provider_tells_is_evidence() {
    let remarks = vec!["node `n1` has MemoryPressure".to_owned()];
    let exit_report = ExitReport { exit: None, tail: Tail::NotNeeded, remarks: remarks.clone() };
    let (end, job) = (End::Exited(ExitFacts::default()), JobStatus::None);
    let warrant = WarrantKind::OwnEnd;
    let setup = SetupStory::Untold;
    let findings = Findings {
        end: Some(&end),
        warrant,
        exit_report: &exit_report,
        job,
        was_ready: true,
        worked: false,
        create_called: true,
        dismissed: None,
        setup,
    };
    assert!(judge(&findings).evidence.ends_with(&remarks));
}

#[test]
fn a_full_quota_is_a_lack_of_room_and_no_failure_of_the_machine() {
    let end = End::NotCreated { why: "pods \"m1\" is forbidden: exceeded quota: few".into() };
    assert_eq!(class_of(&end, JobStatus::None), VerdictClass::Unschedulable);
}

#[test]
fn a_machine_that_gave_up_is_a_boot_failure_with_its_own_message() {
    let exit_report = ExitReport { exit: None, tail: Tail::NotNeeded, remarks: vec![] };
    let last = SetupReport {
        setup: Setup::Failed,
        message: "cannot resolve github.com".into(),
        at: Timestamp::UNIX_EPOCH,
    };
    let findings = |was_ready, setup| Findings {
        end: None,
        warrant: WarrantKind::Idle,
        exit_report: &exit_report,
        job: JobStatus::None,
        worked: false,
        dismissed: None,
        was_ready,
        create_called: true,
        setup,
    };
    let verdict = judge(&findings(false, SetupStory::Heard(&last)));
    assert_eq!(verdict.class, VerdictClass::BootFailed);
    assert!(verdict.evidence.iter().any(|it| it.contains("cannot resolve github.com")));
    let served = judge(&findings(true, SetupStory::Heard(&last)));
    assert_eq!(served.class, VerdictClass::Removed, "it was ready after all");
    let silent = judge(&findings(false, SetupStory::Silent));
    assert!(silent.evidence.iter().any(|it| it == "its machine never called back"));
}

#[test]
fn a_registration_that_the_forge_refused_is_not_explained_by_the_provider() {
    let judged = |why: &str, create_called| {
        let end = End::NotCreated { why: why.into() };
        let exit_report = ExitReport { exit: None, tail: Tail::NotNeeded, remarks: vec![] };
        judge(&Findings {
            end: Some(&end),
            warrant: WarrantKind::OwnEnd,
            exit_report: &exit_report,
            job: JobStatus::None,
            was_ready: false,
            worked: false,
            create_called,
            dismissed: None,
            setup: SetupStory::Untold,
        })
    };
    let refused = judged("GitHub does not accept token 1: 401 Bad credentials", false);
    assert_eq!((refused.class, refused.fault), (VerdictClass::CreateFailed, Fault::Forge));
    assert!(refused.advice.contains("credential") && !refused.advice.contains("quota"));
    let refused = judged("GitHub answered 422: no such group", false);
    assert_eq!(refused.fault, Fault::Forge);
    assert!(!refused.advice.contains("quota"), "{}", refused.advice);
    let refused = judged("exit status 1: AuthFailure", true);
    assert_eq!(refused.fault, Fault::Provider);
    assert!(refused.advice.contains("credential"), "{}", refused.advice);
    assert!(judged("exceeded the limit of 40 machines", true).advice.contains("quota"));
}

#[test]
fn a_machine_that_others_delete_at_work_is_deleted_externally_whatever_its_exit_code_says() {
    for code in [0, 1, 137, 143] {
        let word = Some(ExitFacts::DELETED_EXTERNALLY.to_owned());
        let facts = ExitFacts { code: Some(code), machine_reason: word, ..ExitFacts::default() };
        let end = End::Exited(facts);
        for job in [JobStatus::Running, JobStatus::Unknown] {
            assert_eq!(class_of(&end, job), VerdictClass::DeletedExternally, "exit code {code}");
        }
        let served = class_of(&end, JobStatus::Over(Some(Conclusion::Success)));
        assert_eq!(served == VerdictClass::Clean, code == 0, "{served:?}, exit code {code}");
    }
}
