//! A verdict that the forge may still correct, and what becomes of it.
//!
//! ```text
//!  exit ──judge──▶ provisional ──a fact of the forge──▶ judged anew ──▶ settled
//!                       │                                   │
//!                       └──────── PROVISIONAL_FOR ──────────┴────────▶ settled as it is
//! ```
//!
//! A runner is faster than its webhooks: it leaves with 0 while `completed`, or even `in_progress`, is on
//! its way. Such a verdict says what it rests on, and is judged anew, by the same judge, when the forge
//! tells more. What is known of a job only rises, so a fact that comes twice changes nothing.

use std::time::Duration;

use super::judge;
use crate::model::{
    Conclusion, ExitRecord, ExitReport, Findings, Instance, JobId, JobStatus, Provisional,
    SetupStory, Tail, Timestamp, Verdict, VerdictClass, after, elapsed, is_due,
};

/// How long the forge may correct a verdict.
pub const PROVISIONAL_FOR: Duration = Duration::from_mins(30);

/// The forge calls a job failed whose runner it lost some ten minutes after it lost it. A failure that is
/// heard of later than this after the end may be that one.
const LOST_CONTACT_AFTER: Duration = Duration::from_mins(8);

/// Returns what a verdict rests on, if the forge may still correct it.
pub fn provisional(
    findings: &Findings<'_>,
    verdict: &Verdict,
    row: &Instance,
    now: Timestamp,
) -> Option<Box<Provisional>> {
    if !rests_on_job(verdict.class, &findings.job, findings) || row.mints == 0 {
        return None;
    }
    let setup = match findings.setup {
        SetupStory::Heard(report) => Some(report.clone()),
        SetupStory::Untold | SetupStory::Silent => None,
    };
    Some(Box::new(Provisional {
        until: after(now, PROVISIONAL_FOR),
        forge: row.forge.clone(),
        scope: row.scope.clone(),
        runner: row.runner_name(1),
        end: findings.end.cloned(),
        job: findings.job.clone(),
        was_ready: findings.was_ready,
        worked: findings.worked,
        dismissed: findings.dismissed,
        setup,
        remarks: findings.exit_report.remarks.clone(),
    }))
}

/// Returns whether the class would be another if the forge said more about the job.
fn rests_on_job(class: VerdictClass, job: &JobStatus, findings: &Findings<'_>) -> bool {
    if matches!(job, JobStatus::Over(Some(_))) {
        return false;
    }
    match class {
        VerdictClass::HandshakeLost
        | VerdictClass::Wasted
        | VerdictClass::Unreported
        | VerdictClass::Terminated => true,
        // Left with 0, and its job is not known.
        VerdictClass::Unknown => findings.exit().is_some_and(|exit| exit.code == Some(0)),
        VerdictClass::Clean
        | VerdictClass::RunnerError
        | VerdictClass::OutdatedRunner
        | VerdictClass::HostOom
        | VerdictClass::GuestKilled
        | VerdictClass::Aborted
        | VerdictClass::Crashed
        | VerdictClass::BootFailed
        | VerdictClass::CreateFailed
        | VerdictClass::ImagePull
        | VerdictClass::Unschedulable
        | VerdictClass::Evicted
        | VerdictClass::Preempted
        | VerdictClass::Deadline
        | VerdictClass::NodeLost
        | VerdictClass::DeletedExternally
        | VerdictClass::Vanished
        | VerdictClass::Zombie
        | VerdictClass::Removed
        | VerdictClass::Forced => false,
    }
}

impl ExitRecord {
    /// Returns whether the forge may still correct the verdict.
    pub fn is_provisional(&self, now: Timestamp) -> bool {
        self.provisional.as_ref().is_some_and(|it| it.until > now)
    }

    /// Returns whether the end of the log is worth keeping and telling.
    pub fn needs_tail(&self) -> bool {
        self.verdict.class != VerdictClass::Clean
    }

    /// Returns the record as a fact of the forge makes it; nothing if it tells nothing new.
    pub fn revised(&self, job: &JobId, status: JobStatus, now: Timestamp) -> Option<Self> {
        let known = self.provisional.as_deref()?;
        let another = self.job.as_ref().is_some_and(|own| own != job);
        if another || height(&status) <= height(&known.job) {
            return None;
        }
        let mut basis = known.clone();
        let late = is_due(self.at, LOST_CONTACT_AFTER, now);
        let ambiguous = late && may_be_lost(&status) && self.left_with_zero();
        let status = if ambiguous { JobStatus::Running } else { status };
        basis.job = status;
        let mut verdict = judge_again(self, &basis);
        let minutes = elapsed(self.at, now).as_secs() / 60;
        verdict.evidence.push(if ambiguous {
            format!(
                "the forge called the job over {minutes} min after, as it does with one whose runner it lost"
            )
        } else {
            format!("revised {minutes} min after, it was `{}`", self.verdict.class)
        });
        let findings_rest = rests_again(self, &basis, verdict.class);
        let settled = ambiguous || !findings_rest;
        Some(Self {
            job: Some(job.clone()),
            verdict,
            tail: Tail::NotNeeded,
            provisional: (!settled).then(|| Box::new(basis)),
            revisions: self.revisions + 1,
            ..self.clone()
        })
    }

    /// Returns the record as time makes it: it stays as it is.
    #[must_use]
    pub fn settled(&self) -> Self {
        Self { provisional: None, revisions: self.revisions + 1, ..self.clone() }
    }

    fn left_with_zero(&self) -> bool {
        self.exit.as_ref().is_some_and(|exit| exit.code == Some(0))
    }
}

/// Orders what is known of a job: it only rises. That it ran when the forge was last heard says no more
/// than that the forge cannot be asked.
fn height(job: &JobStatus) -> u8 {
    match job {
        JobStatus::None => 0,
        JobStatus::Unknown | JobStatus::Running => 1,
        JobStatus::Over(None) => 2,
        JobStatus::Over(Some(_)) => 3,
    }
}

/// Returns whether the job is over and nothing says that it went well.
fn may_be_lost(job: &JobStatus) -> bool {
    match job {
        JobStatus::None
        | JobStatus::Unknown
        | JobStatus::Running
        | JobStatus::Over(Some(Conclusion::Success | Conclusion::Skipped)) => false,
        JobStatus::Over(
            None
            | Some(
                Conclusion::Failure
                | Conclusion::Cancelled
                | Conclusion::TimedOut
                | Conclusion::Other(_),
            ),
        ) => true,
    }
}

fn judge_again(record: &ExitRecord, basis: &Provisional) -> Verdict {
    with_findings(record, basis, judge)
}

fn rests_again(record: &ExitRecord, basis: &Provisional, class: VerdictClass) -> bool {
    with_findings(record, basis, |findings| rests_on_job(class, &basis.job, findings))
}

fn with_findings<T>(
    record: &ExitRecord,
    basis: &Provisional,
    look: impl FnOnce(&Findings<'_>) -> T,
) -> T {
    let (exit, remarks) = (record.exit.clone(), basis.remarks.clone());
    look(&Findings {
        end: basis.end.as_ref(),
        warrant: record.warrant,
        exit_report: &ExitReport { exit, tail: Tail::NotNeeded, remarks },
        job: basis.job.clone(),
        was_ready: basis.was_ready,
        worked: basis.worked,
        // No verdict that is provisional is one of a machine that was not created.
        create_called: true,
        dismissed: basis.dismissed,
        setup: basis.setup.as_ref().map_or(SetupStory::Untold, SetupStory::Heard),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        Confidence, End, ExitFacts, Fault, ForgeId, RunnerName, Scope, WarrantKind,
    };

    fn at(minute: u64) -> Timestamp {
        after(Timestamp::UNIX_EPOCH, Duration::from_mins(minute))
    }

    fn job(number: u64) -> JobId {
        JobId { forge: "github".into(), number }
    }

    fn over(conclusion: Conclusion) -> JobStatus {
        JobStatus::Over(Some(conclusion))
    }

    /// Returns the record of an end in minute zero, as its owner judges it.
    #[expect(clippy::needless_pass_by_value, reason = "the tests name what is known in place")]
    fn record(code: Option<i32>, known: JobStatus, worked: bool) -> ExitRecord {
        let exit = ExitFacts { code, ..ExitFacts::default() };
        let basis = Provisional {
            until: at(30),
            forge: ForgeId::new("github"),
            scope: Scope::Organization("acme".into()),
            runner: RunnerName::new("linux-1"),
            end: Some(End::Exited(exit.clone())),
            job: known.clone(),
            was_ready: true,
            worked,
            dismissed: None,
            setup: None,
            remarks: vec!["the node was fine".into()],
        };
        let mut record = ExitRecord {
            instance: "linux-1".into(),
            pool: "linux".into(),
            job: (known != JobStatus::None).then(|| job(7)),
            exit: Some(exit),
            tail: Tail::NotNeeded,
            warrant: WarrantKind::OwnEnd,
            verdict: Verdict {
                class: VerdictClass::Unknown,
                fault: Fault::Forge,
                confidence: Confidence::Low,
                evidence: vec![],
                advice: String::new(),
            },
            at: at(0),
            provisional: Some(Box::new(basis.clone())),
            revisions: 0,
        };
        record.verdict = judge_again(&record, &basis);
        record
    }

    fn class(record: &ExitRecord) -> (VerdictClass, bool) {
        (record.verdict.class, record.provisional.is_none())
    }

    #[test]
    fn a_completion_that_comes_after_the_exit_makes_an_ordinary_end_clean() {
        use JobStatus::{None as Jobless, Running, Unknown};
        let classes = [
            (record(Some(0), Running, true), VerdictClass::HandshakeLost),
            (record(Some(0), Jobless, false), VerdictClass::Wasted),
            (record(Some(0), Jobless, true), VerdictClass::Unknown),
            (record(Some(0), Unknown, true), VerdictClass::Unknown),
        ];
        for (before, was) in classes {
            assert_eq!(before.verdict.class, was);
            for conclusion in [Conclusion::Success, Conclusion::Failure, Conclusion::Cancelled] {
                let revised = before.revised(&job(7), over(conclusion), at(2)).unwrap();
                assert_eq!(class(&revised), (VerdictClass::Clean, true), "{was}");
                assert_eq!((revised.job, revised.revisions), (Some(job(7)), 1));
                let told = format!("revised 2 min after, it was `{was}`");
                assert!(revised.verdict.evidence.contains(&told), "{:?}", revised.verdict);
                let remark = "the node was fine".to_owned();
                assert!(revised.verdict.evidence.contains(&remark), "what was known stays known");
            }
        }
    }

    #[test]
    fn a_late_failure_may_be_the_one_that_the_forge_makes_of_a_lost_runner() {
        let before = record(Some(0), JobStatus::Running, true);
        let late = before.revised(&job(7), over(Conclusion::Failure), at(11)).unwrap();
        assert_eq!(class(&late), (VerdictClass::HandshakeLost, true));
        let late = before.revised(&job(7), over(Conclusion::Success), at(29)).unwrap();
        assert_eq!(class(&late), (VerdictClass::Clean, true), "no success is made up");
    }

    #[test]
    fn a_start_that_comes_after_the_exit_leaves_the_verdict_open_until_the_end_comes() {
        let before = record(Some(0), JobStatus::None, false);
        let begun = before.revised(&job(7), JobStatus::Running, at(1)).unwrap();
        assert_eq!(class(&begun), (VerdictClass::HandshakeLost, false));
        let over = begun.revised(&job(7), over(Conclusion::Success), at(2)).unwrap();
        assert_eq!(class(&over), (VerdictClass::Clean, true));
        assert_eq!(over.revisions, 2);
    }

    #[test]
    fn a_signal_or_silence_stays_what_it_was_and_is_settled_by_the_end_of_the_job() {
        for (code, was) in [(Some(143), VerdictClass::Terminated), (None, VerdictClass::Unreported)]
        {
            let before = record(code, JobStatus::Running, true);
            assert_eq!(class(&before), (was, false));
            let revised = before.revised(&job(7), over(Conclusion::Cancelled), at(12)).unwrap();
            assert_eq!(class(&revised), (was, true));
        }
    }

    #[test]
    fn a_fact_that_is_older_or_comes_twice_or_is_about_another_job_changes_nothing() {
        let before = record(Some(0), JobStatus::Running, true);
        assert_eq!(before.revised(&job(7), JobStatus::Running, at(1)), None);
        assert_eq!(before.revised(&job(7), JobStatus::Unknown, at(1)), None);
        let unasked = record(Some(0), JobStatus::Unknown, true);
        assert_eq!(unasked.revised(&job(7), JobStatus::Running, at(1)), None, "an old fact");
        assert_eq!(before.revised(&job(8), over(Conclusion::Success), at(1)), None);
        let settled = before.revised(&job(7), over(Conclusion::Success), at(1)).unwrap();
        assert_eq!(settled.revised(&job(7), over(Conclusion::Failure), at(1)), None);
    }

    #[test]
    fn time_settles_a_verdict_as_it_is() {
        let before = record(Some(0), JobStatus::None, false);
        assert!(before.is_provisional(at(29)) && !before.is_provisional(at(30)));
        let settled = before.settled();
        assert_eq!((class(&settled), settled.revisions), ((VerdictClass::Wasted, true), 1));
        assert_eq!(settled.verdict, before.verdict);
    }
}
