//! From what was found to why it died.
//!
//! The order is the order of trust. A machine that never came to be has no exit. The word of
//! the machine's keeper (evicted, preempted, host lost) explains any exit code below it. Then
//! the exit itself; then the silence of a machine that is gone; and where a machine was
//! removed before it ended, the warrant.
//!
//! An exit of 0 proves nothing: the agent's own script turns most failures into it. It is
//! `clean` only together with a job that ran here and that the forge calls over, and `removed`
//! where we had asked the instance to go and nothing but its own process kept it.

mod exit;
mod revision;

use exit::by_exit;
pub use revision::{PROVISIONAL_FOR, provisional};

use super::life::refuses_credential;

use super::{
    Conclusion, Confidence, End, ExitFacts, Fault, Findings, JobStatus, Reason, Setup, SetupStory,
    Verdict, VerdictClass, WarrantKind,
};

const FORGE_ADVICE: &str = "Read what the forge said; rights, the runner group and the scope of \
                            the pool are usual.";
const FORGE_CREDENTIAL_ADVICE: &str = "Renew the forge's credential: it was refused. `ostler check \
                                       --live` says what it may do.";
const PROVIDER_CREDENTIAL_ADVICE: &str = "Renew the provider's credential, or give it the rights \
                                          that its error names.";

/// Says why an instance ended. Total: every finding has a verdict, and missing information
/// is never `clean`.
pub fn judge(findings: &Findings<'_>) -> Verdict {
    let exit = findings.exit().unwrap_or_default();
    let mut ruling = not_created(findings)
        .or_else(|| by_machine(findings, &exit))
        .or_else(|| by_exit(findings, &exit))
        .unwrap_or_else(|| by_silence(findings));
    ruling.evidence.extend(describe_exit(findings, &exit));
    Verdict {
        class: ruling.class,
        fault: ruling.fault.unwrap_or_else(|| ruling.class.usual_fault()),
        confidence: ruling.confidence,
        evidence: ruling.evidence,
        advice: ruling.advice.unwrap_or_else(|| ruling.class.usual_advice()).into(),
    }
}

/// Returns whether the end of the log is wanted: for every end that is not plainly normal.
///
/// Asked before the verdict is known. Without a warrant another program is deleting the machine.
/// Who was dismissed and left with 0 obeyed.
pub fn needs_tail(
    end: Option<&End>,
    warrant: Option<WarrantKind>,
    job: &JobStatus,
    dismissed: Option<Reason>,
) -> bool {
    match (end, warrant) {
        (Some(End::NotCreated { .. }), _)
        | (None, Some(WarrantKind::Idle | WarrantKind::Served)) => false,
        (Some(End::Exited(exit)), _) => {
            let expected = match job {
                JobStatus::Over(_) => true,
                JobStatus::None => dismissed
                    .is_some_and(|why| !matches!(why, Reason::BootDeadline | Reason::BootFailed)),
                JobStatus::Running | JobStatus::Unknown => false,
            };
            !is_plain_zero(exit) || !expected
        }
        (Some(End::Gone { .. }), _)
        | (
            None,
            None
            | Some(
                WarrantKind::OwnEnd
                | WarrantKind::NeverBegan
                | WarrantKind::Zombie
                | WarrantKind::Operator
                | WarrantKind::Expired,
            ),
        ) => true,
    }
}

impl Findings<'_> {
    /// Returns the exit as one story: the owner's own sighting, or else what the remains tell.
    ///
    /// Code and reason are never mixed from two looks: a real 137 beside another look's
    /// `ContainerStatusUnknown` would be a third story without a witness.
    pub fn exit(&self) -> Option<ExitFacts> {
        let seen = match self.end {
            Some(End::Exited(facts)) => Some(facts),
            Some(End::Gone { .. } | End::NotCreated { .. }) | None => None,
        };
        let left = self.exit_report.exit.as_ref();
        let first = match (seen, left) {
            (Some(seen), Some(left)) if !tells(seen) && tells(left) => left,
            (Some(facts), _) | (None, Some(facts)) => facts,
            (None, None) => return None,
        };
        let word = |facts: Option<&ExitFacts>| facts.and_then(|facts| facts.machine_reason.clone());
        let machine_reason =
            first.machine_reason.clone().or_else(|| word(seen)).or_else(|| word(left));
        Some(ExitFacts { machine_reason, ..first.clone() })
    }
}

impl Findings<'_> {
    /// Returns whether it was let go because its runner did not become ready in time.
    fn is_too_late(&self) -> bool {
        self.dismissed == Some(Reason::BootDeadline) && !self.was_ready
    }

    /// Returns the verdict on one that left because it was told to, if it was, without a job.
    fn obedience(&self) -> Option<Ruling> {
        let reason = self.dismissed.filter(|_| self.job == JobStatus::None)?;
        Some(if self.is_too_late() {
            too_late()
        } else if self.gave_up() {
            could_not_be_set_up()
        } else {
            let because = format!("asked to go ({reason}), and left when nothing kept it");
            rule(VerdictClass::Removed, Confidence::High, because)
        })
    }

    /// Returns whether the machine itself said that its runner could not be started.
    fn gave_up(&self) -> bool {
        match self.setup {
            SetupStory::Heard(last) => last.setup == Setup::Failed && !self.was_ready,
            SetupStory::Untold | SetupStory::Silent => false,
        }
    }
}

fn too_late() -> Ruling {
    let because = "its runner was not ready within the boot deadline";
    rule(VerdictClass::BootFailed, Confidence::Medium, because)
}

fn could_not_be_set_up() -> Ruling {
    let because = "its machine said that it could not be set up";
    rule(VerdictClass::BootFailed, Confidence::High, because)
}

/// Returns the signal that ended the process; runtimes leave the field empty and add 128.
pub fn signal_of(exit: &ExitFacts) -> Option<i32> {
    exit.signal.filter(|signal| *signal > 0).or_else(|| {
        exit.code.and_then(|code| code.checked_sub(128)).filter(|signal| (1..=64).contains(signal))
    })
}

/// A verdict in the making; fault and advice are the class's own unless said otherwise.
struct Ruling {
    class: VerdictClass,
    confidence: Confidence,
    evidence: Vec<String>,
    fault: Option<Fault>,
    advice: Option<&'static str>,
}

fn rule(class: VerdictClass, confidence: Confidence, because: impl Into<String>) -> Ruling {
    Ruling { class, confidence, evidence: vec![because.into()], fault: None, advice: None }
}

impl Ruling {
    fn fault(self, fault: Fault) -> Self {
        Self { fault: Some(fault), ..self }
    }

    fn advice(self, advice: &'static str) -> Self {
        Self { advice: Some(advice), ..self }
    }
}

fn not_created(findings: &Findings<'_>) -> Option<Ruling> {
    match findings.end {
        // No room is no fault: the pool waits until there is some.
        Some(End::NotCreated { why }) if why.contains("exceeded quota") => {
            Some(rule(VerdictClass::Unschedulable, Confidence::High, format!("no room: {why}")))
        }
        Some(End::NotCreated { why }) => {
            let ruling =
                rule(VerdictClass::CreateFailed, Confidence::High, format!("no machine: {why}"));
            Some(match (findings.create_called, refuses_credential(why)) {
                (true, false) => ruling,
                (true, true) => ruling.advice(PROVIDER_CREDENTIAL_ADVICE),
                (false, true) => ruling.fault(Fault::Forge).advice(FORGE_CREDENTIAL_ADVICE),
                (false, false) => ruling.fault(Fault::Forge).advice(FORGE_ADVICE),
            })
        }
        Some(End::Exited(_) | End::Gone { .. }) | None => None,
    }
}

/// Judges by the keeper's word. What it says of an end counts wherever a machine is over;
/// what it says of waiting counts only for a machine that never came up.
fn by_machine(findings: &Findings<'_>, exit: &ExitFacts) -> Option<Ruling> {
    use VerdictClass::{Deadline, Evicted, ImagePull, NodeLost, OutdatedRunner, Preempted};
    let word = exit.machine_reason.as_deref()?;
    if word == ExitFacts::DELETED_EXTERNALLY {
        // Who deletes a machine whose job is over does no harm.
        let served = exit.code == Some(0) && matches!(findings.job, JobStatus::Over(_));
        let because = "another program was seen deleting the machine before it ended";
        return (!served).then(|| rule(VerdictClass::DeletedExternally, Confidence::High, because));
    }
    let (class, of_waiting) = match word {
        "Evicted"
        | "EvictionByEvictionAPI"
        | "DeletionByTaintManager"
        | "TerminationByKubelet"
        | "NodeShutdown"
        | "Shutdown" => (Evicted, false),
        "Preempting" | "Preempted" | "PreemptionByScheduler" | "PreemptionByKubeScheduler" => {
            (Preempted, false)
        }
        "DeadlineExceeded" => (Deadline, false),
        "NodeLost" | "DeletionByPodGC" => (NodeLost, false),
        "RunnerVersionTooOld" => (OutdatedRunner, false),
        image if is_image_reason(image) => (ImagePull, true),
        "Unschedulable" | "SchedulerError" | "NodeAffinity" | "UnexpectedAdmissionError" => {
            (VerdictClass::Unschedulable, true)
        }
        // Rejected by its node after it had come up, for example when the node restarted: it was taken
        // away, and room was there when it was placed.
        full if full.starts_with("OutOf") && findings.was_ready => (Evicted, false),
        full if full.starts_with("OutOf") => (VerdictClass::Unschedulable, true),
        _ => return None,
    };
    let counts = if of_waiting {
        let ended = matches!(findings.end, Some(End::Exited(_)));
        ended || findings.warrant == WarrantKind::NeverBegan || findings.is_too_late()
    } else {
        // A node that is merely lost is doubt: its machine may work on, so it ends nothing.
        findings.end.is_some() || matches!(class, Evicted | Preempted | Deadline)
    };
    counts.then(|| rule(class, Confidence::High, format!("the provider says `{word}`")))
}

/// Returns whether the keeper's word says that the image cannot be had.
pub(super) fn is_image_reason(word: &str) -> bool {
    matches!(
        word,
        "ErrImagePull"
            | "ImagePullBackOff"
            | "InvalidImageName"
            | "ErrImageNeverPull"
            | "ImageInspectError"
            | "RegistryUnavailable"
    )
}

/// Judges a machine whose exit told nothing, or that was removed before it had one.
fn by_silence(findings: &Findings<'_>) -> Ruling {
    match (findings.end, findings.warrant) {
        (Some(End::Gone { deleted_externally: true }), _) => rule(
            VerdictClass::DeletedExternally,
            Confidence::High,
            "another program was seen deleting the machine",
        ),
        (Some(End::Gone { deleted_externally: false }), _) => rule(
            VerdictClass::Vanished,
            Confidence::Low,
            "two direct reads found nothing where the machine had been",
        ),
        (Some(End::Exited(exit)), _) if exit.machine_reason.as_deref() == Some("stopped") => rule(
            VerdictClass::Unreported,
            Confidence::Low,
            "the provider shows the machine stopped, and it had not reported how its runner ended",
        )
        .advice(
            "Ask the provider's own records who or what stopped this machine (a person, a spot or quota \
             reclaim, a shutdown inside); if its jobs shut the machine down, that is the cause.",
        ),
        (Some(End::Exited(_) | End::NotCreated { .. }), _) => rule(
            VerdictClass::Unreported,
            Confidence::Low,
            "the machine is over and nothing tells how its runner ended",
        ),
        (None, WarrantKind::OwnEnd) => {
            rule(VerdictClass::Unknown, Confidence::Low, "an end was claimed and nothing shows it")
        }
        (None, WarrantKind::NeverBegan) => rule(
            VerdictClass::BootFailed,
            Confidence::High,
            "its runner never started within the boot deadline",
        ),
        (None, WarrantKind::Idle) if findings.gave_up() => could_not_be_set_up(),
        (None, WarrantKind::Idle) if findings.is_too_late() => too_late(),
        (None, WarrantKind::Idle) => rule(
            VerdictClass::Removed,
            Confidence::High,
            "removed while free: deregistered, held and looked at",
        ),
        (None, WarrantKind::Served) => rule(
            VerdictClass::Removed,
            Confidence::High,
            "removed after its one job was over and its registration gone",
        ),
        (None, WarrantKind::Zombie) => rule(
            VerdictClass::Zombie,
            Confidence::High,
            "its job was long over, its registration gone, and nothing lived there",
        ),
        (None, WarrantKind::Operator) => {
            rule(VerdictClass::Forced, Confidence::High, "an operator forced it")
        }
        (None, WarrantKind::Expired) => rule(
            VerdictClass::Removed,
            Confidence::Medium,
            "unregistered for longer than a job can last, and nothing proved work since",
        ),
    }
}

/// Returns what was told, in words, so that a person can judge the verdict.
fn describe_exit(findings: &Findings<'_>, exit: &ExitFacts) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(code) = exit.code {
        words.push(format!("exit code {code}"));
    }
    if let Some(signal) = signal_of(exit) {
        words.push(format!("signal {signal}"));
    }
    if let Some(reason) = &exit.reason {
        words.push(format!("the runtime said `{reason}`"));
    }
    if let Some(reason) = &exit.machine_reason {
        words.push(format!("the machine's keeper said `{reason}`"));
    }
    if findings.end.is_some() && !tells(exit) && exit.machine_reason.is_none() {
        words.push("no exit code could be had".into());
    }
    words.push(
        match &findings.job {
            JobStatus::None => "no job is known to have run here",
            JobStatus::Running => "its job was in progress by all we knew",
            JobStatus::Over(Some(Conclusion::Cancelled)) => "its job was cancelled",
            JobStatus::Over(_) => "its job was over",
            JobStatus::Unknown => "the forge could not be asked about its job",
        }
        .into(),
    );
    if !findings.was_ready {
        words.push("its runner was never seen ready".into());
    }
    match findings.setup {
        SetupStory::Untold => {}
        SetupStory::Silent => words.push("its machine never called back".into()),
        SetupStory::Heard(last) => words.push(format!(
            "its machine's last word was `{}` at {}: {}",
            last.setup.as_str(),
            last.at,
            last.message
        )),
    }
    words.extend(findings.exit_report.remarks.iter().cloned());
    words
}

/// Returns whether an exit says anything about how the process ended.
fn tells(exit: &ExitFacts) -> bool {
    exit.code.is_some() || exit.signal.is_some() || exit.reason.is_some() || exit.part.is_some()
}

/// Returns whether it is an exit of 0 that nothing else speaks against.
fn is_plain_zero(exit: &ExitFacts) -> bool {
    exit.code == Some(0)
        && signal_of(exit).is_none()
        && exit.machine_reason.as_deref().is_none_or(|word| word == ExitFacts::DELETED_EXTERNALLY)
        && exit.part.as_deref().is_none_or(|part| part == "runner")
        && matches!(exit.reason.as_deref(), None | Some("" | "Completed"))
}

#[cfg(test)]
mod tests;
