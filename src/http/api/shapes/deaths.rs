//! Ends.

use jiff::Timestamp;
use ostler_actors::model::{self, Tail, signal_of};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::VerdictName;
use super::names::serde_name;

/// How and why an instance ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Death {
    /// Whose end.
    pub instance: String,
    /// Its pool.
    pub pool: String,
    /// The job that ran there, if one is known.
    pub job: Option<String>,
    /// What happened.
    pub verdict: VerdictName,
    /// Until when GitHub may still correct the verdict; nothing once it is settled.
    pub provisional_until: Option<Timestamp>,
    /// Whose fault it was: `job`, `runner`, `image`, `host`, `provider`, `forge`, `operator`, `ostler`.
    pub fault: String,
    /// How sure that is: `low`, `medium`, `high`.
    pub confidence: String,
    /// The exit code, where one is known; missing is never zero.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The word of the machine or its runtime (`Evicted`, `OOMKilled`).
    pub reason: Option<String>,
    /// When it was recorded.
    pub ended_at: Timestamp,
    /// What was seen.
    pub evidence: Vec<String>,
    /// What a person may do about it.
    pub advice: String,
    /// How many lines of its log were kept; lists do not carry it.
    pub log_lines: Option<usize>,
}

/// An end with the end of its log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DeathDetail {
    /// The end.
    #[serde(flatten)]
    pub death: Death,
    /// The rule that allowed the deletion.
    pub warrant: String,
    /// The last lines of the log; control characters are escaped.
    pub log_tail: Vec<String>,
    /// Why there is no log, where there is none.
    pub log_missing: Option<String>,
}

impl From<&model::ExitRecord> for Death {
    fn from(record: &model::ExitRecord) -> Self {
        let exit = record.exit.as_ref();
        Self {
            instance: record.instance.to_string(),
            pool: record.pool.to_string(),
            job: record.job.as_ref().map(ToString::to_string),
            verdict: VerdictName(record.verdict.class),
            provisional_until: record.provisional.as_ref().map(|it| it.until),
            fault: record.verdict.fault.to_string(),
            confidence: serde_name(&record.verdict.confidence),
            exit_code: exit.and_then(|exit| exit.code),
            signal: exit.and_then(signal_of),
            reason: exit
                .and_then(|exit| exit.machine_reason.clone().or_else(|| exit.reason.clone())),
            ended_at: exit.and_then(|exit| exit.ended_at).unwrap_or(record.at),
            evidence: record.verdict.evidence.clone(),
            advice: record.verdict.advice.clone(),
            log_lines: None,
        }
    }
}

impl From<&model::ExitRecord> for DeathDetail {
    fn from(record: &model::ExitRecord) -> Self {
        let (log_tail, log_missing) = match &record.tail {
            Tail::Captured(text) => (text.lines().map(ToOwned::to_owned).collect::<Vec<_>>(), None),
            Tail::NotNeeded => (Vec::new(), Some("a normal end; no log is kept".to_owned())),
            Tail::Unavailable(why) => (Vec::new(), Some(why.clone())),
        };
        let death = Death { log_lines: Some(log_tail.len()), ..Death::from(record) };
        Self { death, warrant: record.warrant.to_string(), log_tail, log_missing }
    }
}
