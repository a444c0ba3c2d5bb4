//! What an exit means: part, word, signal and code, in this order.

use super::{Ruling, is_plain_zero, rule, signal_of};
use crate::model::{
    Conclusion, Confidence, End, ExitFacts, Fault, Findings, JobStatus, VerdictClass,
};

/// The signals with a class of their own; the rest are crashes.
const SIGABRT: i32 = 6;
const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

/// Judges by the exit, where there is one to judge by.
pub(super) fn by_exit(findings: &Findings<'_>, exit: &ExitFacts) -> Option<Ruling> {
    if let Some(End::Gone { deleted_externally: true }) = findings.end
        && !(is_plain_zero(exit) && matches!(findings.job, JobStatus::Over(_)))
    {
        return None;
    }
    by_part(findings, exit)
        .or_else(|| by_reason(exit))
        .or_else(|| by_signal(exit))
        .or_else(|| by_code(findings, exit))
}

/// Judges an end that was not the runner's own.
fn by_part(findings: &Findings<'_>, exit: &ExitFacts) -> Option<Ruling> {
    let part = exit.part.as_deref().filter(|part| *part != "runner")?;
    // A poller that is told to leave has no other way to say that it does than to end.
    if part == "poller"
        && let Some(ruling) = findings.obedience()
    {
        return Some(ruling);
    }
    if exit.code == Some(0) {
        let because = format!("`{part}` ended with 0; the runner itself told nothing");
        return Some(rule(VerdictClass::Unreported, Confidence::Low, because));
    }
    let because = format!("`{part}` failed, which is not the runner");
    Some(if part == "poller" || !findings.was_ready {
        rule(VerdictClass::BootFailed, Confidence::High, because)
    } else {
        rule(VerdictClass::RunnerError, Confidence::Medium, because).fault(Fault::Image)
    })
}

/// Judges by the runtime's word where it changes what the code means.
fn by_reason(exit: &ExitFacts) -> Option<Ruling> {
    match exit.reason.as_deref()? {
        "ContainerStatusUnknown" => Some(rule(
            VerdictClass::Unknown,
            Confidence::Low,
            "the kubelet lost the container and invented its exit code",
        )),
        "TartRunExited" => Some(rule(
            VerdictClass::Unreported,
            Confidence::Low,
            "the machine's process ended and its guest said nothing",
        )),
        "TartRunFailed" => Some(
            rule(
                VerdictClass::RunnerError,
                Confidence::Medium,
                "the machine's process failed and its guest said nothing",
            )
            .fault(Fault::Host)
            .advice("Read the host's log: the machine itself could not run."),
        ),
        "OOMKilled" if exit.code != Some(0) => {
            let sure = signal_of(exit) == Some(SIGKILL);
            let confidence = if sure { Confidence::High } else { Confidence::Medium };
            Some(rule(VerdictClass::HostOom, confidence, "the host killed it for memory"))
        }
        "RunnerVersionTooOld" => Some(outdated()),
        _ => None,
    }
}

fn by_signal(exit: &ExitFacts) -> Option<Ruling> {
    let signal = signal_of(exit)?;
    Some(match signal {
        SIGKILL => {
            // Without a runtime's word (a plain process) the host's own killer is not excluded.
            let sure = exit.reason.is_some();
            let confidence = if sure { Confidence::High } else { Confidence::Medium };
            rule(
                VerdictClass::GuestKilled,
                confidence,
                "killed by signal 9, not by the host's limit",
            )
        }
        SIGTERM => rule(VerdictClass::Terminated, Confidence::High, "ended by SIGTERM"),
        SIGABRT => rule(VerdictClass::Aborted, Confidence::High, "aborted itself (signal 6)"),
        other => rule(VerdictClass::Crashed, Confidence::High, format!("ended by signal {other}")),
    })
}

fn by_code(findings: &Findings<'_>, exit: &ExitFacts) -> Option<Ruling> {
    match exit.code? {
        0 => by_zero(findings, exit),
        7 => Some(outdated()),
        code @ (126 | 127) => Some(
            rule(
                VerdictClass::RunnerError,
                Confidence::High,
                format!("exit code {code}: the runner's command is not there or cannot run"),
            )
            .fault(Fault::Image),
        ),
        code => Some(rule(
            VerdictClass::RunnerError,
            Confidence::High,
            format!("exit code {code}{}", agent_code_text(code)),
        )),
    }
}

/// Judges an exit of 0, which proves nothing by itself.
fn by_zero(findings: &Findings<'_>, exit: &ExitFacts) -> Option<Ruling> {
    let by_itself = findings.end.is_some();
    match &findings.job {
        JobStatus::Over(conclusion) => {
            let how = conclusion.as_ref().map_or("over", conclusion_text);
            let because = format!("ran its job, which the forge calls {how}, and left with 0");
            let killed_within = exit.reason.as_deref() == Some("OOMKilled");
            let sure = conclusion.is_some() && !killed_within;
            let confidence = if sure { Confidence::High } else { Confidence::Medium };
            let ruling = rule(VerdictClass::Clean, confidence, because);
            Some(if killed_within {
                ruling.advice(
                    "Give the pool's machines more memory: a process of the job was killed for it.",
                )
            } else {
                ruling
            })
        }
        // Our own removal of its registration makes a runner leave with 0.
        JobStatus::None | JobStatus::Running | JobStatus::Unknown if !by_itself => None,
        JobStatus::None => Some(findings.obedience().unwrap_or_else(|| without_job(findings))),
        JobStatus::Running => Some(rule(
            VerdictClass::HandshakeLost,
            Confidence::Medium,
            "left with 0 while the forge calls its job in progress",
        )),
        JobStatus::Unknown => Some(rule(
            VerdictClass::Unknown,
            Confidence::Low,
            "left with 0, and the forge could not be asked about its job",
        )),
    }
}

/// Judges an exit of 0 without a job that is known. A machine that showed a worker had one.
fn without_job(findings: &Findings<'_>) -> Ruling {
    if findings.worked {
        let because = "left with 0 after its machine showed a worker; which job that was, the forge never said";
        return rule(VerdictClass::Unknown, Confidence::Low, because);
    }
    let because = "left with 0 though no job is known to have run here";
    rule(VerdictClass::Wasted, Confidence::Medium, because)
}

fn outdated() -> Ruling {
    rule(VerdictClass::OutdatedRunner, Confidence::High, "the forge refuses this runner's version")
}

fn conclusion_text(conclusion: &Conclusion) -> &str {
    match conclusion {
        Conclusion::Success => "successful",
        Conclusion::Failure => "failed",
        Conclusion::Cancelled => "cancelled",
        Conclusion::Skipped => "skipped",
        Conclusion::TimedOut => "timed out",
        Conclusion::Other(word) => word,
    }
}

/// Returns what the official agent means by a code, where it has a meaning.
fn agent_code_text(code: i32) -> &'static str {
    match code {
        1 => " (the agent: terminated by an error)",
        2 => " (the agent: worth retrying)",
        3 | 4 => " (the agent: updating itself)",
        5 => " (the agent: another session holds this registration)",
        _ => "",
    }
}
