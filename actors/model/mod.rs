//! The nouns shared by all. No actix, no async, no clock.

mod event;
mod exit;
mod ids;
mod instance;
mod job;
mod judge;
mod life;
mod observation;
mod pool;
mod tail;
mod time;
mod verdict;

pub use event::{Event, Refusal, Subject, What};
pub use exit::{ExitFacts, ExitRecord, ExitReport, Provisional, REVISION_PLACE, Tail};
pub use ids::{
    ControllerId, DeliveryId, Epoch, ForgeId, Generation, HolderId, HostName, InstanceId, JobId,
    MachineName, PoolId, ProviderId, Revision, RunnerId, RunnerName, Version, WriteId,
};
pub use instance::{
    End, HeldOffer, Home, Instance, JobOver, Phase, Reason, Registration, RemovalRequest,
    RequestedBy, Setup, SetupReport, State, StateCounts, Urgency, Warrant, WarrantKind,
};
pub use job::{
    Asked, Attempt, Closure, Conclusion, Execution, Job, JobAttempts, JobFact, JobNotice, JobState,
    NamedRunner, Offer, OfferEnd, OfferStage, OpenOffer,
};
pub use judge::{PROVISIONAL_FOR, judge, needs_tail, provisional, signal_of};
pub use life::{Failure, FailureClass, LifeOutcome, LifeStage, failure_class, refuses_credential};
pub use observation::{
    Began, HostCondition, JobReading, MachinePhase, MachineView, Observation, RunnerView, Sighting,
    Stamp, Worker,
};
pub use pool::{BadScope, Binding, Labels, MachineSpec, Place, Policy, PoolRow, PoolSpec, Scope};
pub use tail::{TAIL_BYTES, TAIL_LINES, clip};
pub use time::{Timestamp, after, elapsed, is_due};
pub use verdict::{Confidence, Fault, Findings, JobStatus, SetupStory, Verdict, VerdictClass};
