//! Rows to try a store with.

use crate::instance::requested_row;
use crate::model::{
    Asked, Conclusion, Confidence, DeliveryId, Epoch, Event, ExitRecord, Fault, ForgeId,
    Generation, Instance, InstanceId, Job, JobAttempts, JobFact, JobId, JobNotice, JobStatus,
    Labels, Offer, Place, Provisional, Subject, Tail, Timestamp, Verdict, VerdictClass, Version,
    WarrantKind, What, WriteId,
};
use crate::ports::InstanceSave;
use crate::testing::pool;

/// Returns the date so many seconds after the epoch.
pub fn stamp(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)
}

/// Returns a fresh row.
pub fn instance(id: &str) -> Instance {
    let born = requested_row(InstanceId::new(id), &pool("linux", "k8s", 10), stamp(1));
    Instance { version: Version(1), write: WriteId(17), ..born }
}

/// Returns the save that makes this row follow the version before it.
pub fn saved(row: &Instance, epoch: Epoch) -> InstanceSave {
    InstanceSave {
        row: row.clone(),
        replaces: Version(row.version.0 - 1),
        epoch,
        events: Vec::new(),
        exit: None,
    }
}

/// Returns the record of an end.
pub fn exit_record(row: &Instance) -> ExitRecord {
    ExitRecord {
        instance: row.id.clone(),
        pool: row.pool.clone(),
        job: None,
        exit: None,
        tail: Tail::Captured("last words".into()),
        warrant: WarrantKind::OwnEnd,
        verdict: Verdict {
            class: VerdictClass::Vanished,
            fault: Fault::Host,
            confidence: Confidence::Low,
            evidence: vec!["gone".into()],
            advice: String::new(),
        },
        at: stamp(9),
        provisional: None,
        revisions: 0,
    }
}

/// Returns the record of an end that the forge may still explain.
pub fn provisional_record(row: &Instance) -> ExitRecord {
    let basis = Provisional {
        until: stamp(1_809),
        forge: row.forge.clone(),
        scope: row.scope.clone(),
        runner: row.runner_name(1),
        end: None,
        job: JobStatus::Over(Some(Conclusion::Other("odd".into()))),
        was_ready: true,
        worked: true,
        dismissed: None,
        setup: None,
        remarks: vec!["a remark".into()],
    };
    ExitRecord { provisional: Some(Box::new(basis)), ..exit_record(row) }
}

/// Returns an entry of a timeline.
pub fn event(subject: &Subject, seq: u32, count: u32) -> Event {
    Event {
        subject: subject.clone(),
        seq,
        at: stamp(1),
        last_at: stamp(2),
        count,
        what: What::Stuck,
    }
}

/// Returns the name of a job.
pub fn job_id(number: u64) -> JobId {
    JobId { forge: ForgeId::new("github"), number }
}

/// Returns a queued job.
pub fn job(number: u64) -> Job {
    Job {
        id: job_id(number),
        place: place(),
        run: number,
        name: "build".into(),
        url: String::new(),
        labels: Labels::from_iter(["linux"]),
        fact: JobFact::Queued,
        pool: None,
        offer: Offer::None,
        generation: Generation(0),
        execution: None,
        closed: None,
        queued_at: stamp(1),
        heard_at: stamp(2),
        over_at: None,
        runner: None,
        events: 0,
        avoid: None,
        attempts: JobAttempts::default(),
        asked: Asked::default(),
    }
}

/// Returns the job, completed.
pub(super) fn completed(mut job: Job) -> Job {
    job.fact = JobFact::Completed(Conclusion::Success);
    job.over_at = Some(stamp(3));
    job
}

/// Returns news of a queued job.
pub fn notice(number: u64) -> JobNotice {
    JobNotice {
        id: job_id(number),
        place: place(),
        run: number,
        name: "build".into(),
        url: String::new(),
        labels: Labels::from_iter(["linux"]),
        fact: JobFact::Queued,
        runner: None,
        queued_at: stamp(1),
        delivery: None,
    }
}

/// Returns the name of a delivery.
pub fn delivery(text: &str) -> DeliveryId {
    DeliveryId::new(text)
}

fn place() -> Place {
    Place { owner: "acme".into(), repository: "web".into(), enterprise: None }
}
