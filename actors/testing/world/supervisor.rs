//! Supervisors: the machines of a provider without a witness report what they see, as real ones do over HTTP.
//!
//! Reports get lost where a witness would be silent; what arrives is true when it is sent.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::World;
use crate::fleet::ToFleet;
use crate::instance::{NextReport, ReportEvent, WitnessReport};
use crate::mail::Reply;
use crate::model::{InstanceId, Worker};
use crate::testing::clock::millis;
use crate::testing::happening::Happening;
use crate::testing::outside::Outside;
use crate::testing::provider::{Kind, Stage};

/// How long a supervisor waits for the answer to a report.
const REPORT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long it waits after one that was not answered, in milliseconds.
const RETRY: u64 = 10_000;

impl World {
    /// Lets machines without a witness at their provider have a supervisor that reports, from now on.
    pub fn supervise(&self) {
        self.outside().script.supervised = true;
    }

    /// Lets the supervisor of a machine report, with the challenge it was given.
    pub(super) fn report(&mut self, number: u64, challenge: Option<u64>) {
        let Some((instance, attempt, report)) = self.outside().next_report(number, challenge)
        else {
            return;
        };
        let lost = report.event == ReportEvent::Heartbeat && self.outside().is_report_lost(number);
        let Some(life) = self.life.as_ref().filter(|_| !lost) else {
            self.outside().later(RETRY, Happening::Report { machine: number, challenge });
            return;
        };
        let (shared, fleet) = (Arc::clone(&self.shared), life.fleet.clone());
        shared.lock().script.reports_in_flight.insert(number);
        life.tasks.spawn_local(async move {
            let is_last = report.event != ReportEvent::Heartbeat;
            let (reply, answer) = Reply::channel();
            fleet.tell(ToFleet::Reported { instance, attempt, report, reply }).ok();
            let answer = timeout(REPORT_TIMEOUT, answer).await.ok().and_then(Result::ok);
            let next = answer.and_then(Result::ok);
            let is_over = is_last && next.is_some();
            shared.call(|outside| outside.reported(number, next, is_over)).await;
        });
    }
}

impl Outside {
    /// Lets the agent's supervisor begin to report.
    pub(in crate::testing) fn start_reports(&mut self, number: u64) {
        let kind = self.machines.machines.get(&number).map(|machine| machine.kind);
        if self.script.supervised && kind == Some(Kind::Blind) {
            self.later(1_000, Happening::Report { machine: number, challenge: None });
        }
    }

    /// Lets supervisors go on whose report was in flight to a daemon that died.
    pub(super) fn resume_reports(&mut self) {
        for machine in std::mem::take(&mut self.script.reports_in_flight) {
            self.later(RETRY, Happening::Report { machine, challenge: None });
        }
    }

    /// Returns what a supervisor reports now: nothing from a machine that is gone, or died with it.
    fn next_report(
        &self,
        number: u64,
        challenge: Option<u64>,
    ) -> Option<(InstanceId, u32, WitnessReport)> {
        let machine = self.machines.machines.get(&number)?;
        let instance = machine.stamp.instance.clone()?;
        let attempt = self.records.row(&instance)?.mints;
        let (event, worker) = match &machine.stage {
            Stage::Listening if machine.worker.is_some() => {
                (ReportEvent::Heartbeat, Worker::Present)
            }
            Stage::Listening | Stage::Hollow => (ReportEvent::Heartbeat, Worker::Absent),
            Stage::Over(facts) if facts.reason.as_deref() == Some("Completed") => {
                let event = ReportEvent::AgentExited { code: facts.code, log: None };
                (event, Worker::Absent)
            }
            Stage::Over(_) | Stage::Ordered | Stage::Booting | Stage::Polling => return None,
        };
        Some((instance, attempt, WitnessReport { event, worker, challenge }))
    }

    fn is_report_lost(&mut self, number: u64) -> bool {
        let now = self.now();
        let Some(machine) = self.machines.machines.get(&number) else { return true };
        let until = self.script.silent_until.get(&machine.name).copied();
        until.is_some_and(|until| until > now)
            || self.strikes(self.faults.provider.witness_silent, "report lost")
    }

    /// Plans the next report; the last one is repeated until it is answered.
    fn reported(&mut self, number: u64, next: Option<NextReport>, is_over: bool) {
        self.script.reports_in_flight.remove(&number);
        let (wait, challenge) = match next {
            _ if is_over => return,
            // A challenge is answered at once.
            Some(NextReport { challenge: Some(challenge), .. }) => (1_000, Some(challenge)),
            Some(NextReport { interval, challenge: None }) => (millis(interval), None),
            None => (RETRY, None),
        };
        self.later(wait, Happening::Report { machine: number, challenge });
    }
}
