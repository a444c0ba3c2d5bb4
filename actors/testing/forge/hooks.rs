//! News of jobs, on its unreliable way to the daemon.

use crate::model::{DeliveryId, JobFact, JobNotice, Place};
use crate::testing::clock::date;
use crate::testing::happening::Happening;
use crate::testing::outside::Outside;
use crate::testing::script::HookKind;

use super::SimJob;

/// One webhook on its way.
#[derive(Debug)]
pub(in crate::testing) struct Delivery {
    pub(in crate::testing) id: DeliveryId,
    pub(in crate::testing) notice: JobNotice,
}

impl Outside {
    /// Sends the news of a job's present fact on its way, perhaps twice, perhaps never.
    pub(super) fn announce(&mut self, number: u64) {
        let Some(notice) = self.notice(number) else { return };
        let kind = HookKind::of(&notice.fact);
        if self.script.loses_hook(kind) || self.loses_webhook() {
            return;
        }
        if self.strikes(self.faults.forge.hook_strange, "hook of a stranger") {
            let strange = stranger(notice.clone());
            self.post(strange, 1_000);
        }
        if self.strikes(self.faults.forge.hook_lost, "hook lost") {
            return;
        }
        let wait = self.hook_wait(kind);
        if self.strikes(self.faults.forge.hook_doubled, "hook doubled") {
            let again = wait + self.dice.skewed(10, 120_000);
            self.post(notice.clone(), again);
        }
        self.post(notice, wait);
    }

    fn hook_wait(&mut self, kind: HookKind) -> u64 {
        if let Some(wait) = self.script.late_hooks.get(&kind) {
            return *wait;
        }
        if self.strikes(self.faults.forge.hook_late, "hook hours late") {
            return self.dice.between(600_000, 3 * 3_600_000);
        }
        if self.strikes(self.faults.forge.hook_reordered, "hook overtaken") {
            return self.dice.between(2_000, 300_000);
        }
        self.dice.skewed(20, 1_500)
    }

    fn post(&mut self, notice: JobNotice, wait: u64) {
        self.forge.last_delivery += 1;
        let id = DeliveryId::new(format!("d{}", self.forge.last_delivery));
        // A doubled delivery sometimes comes under its own old id.
        if self.strikes(self.faults.forge.hook_doubled / 2, "hook doubled under one id") {
            let twin = Delivery { id: id.clone(), notice: notice.clone() };
            let again = wait + self.dice.skewed(10, 600_000);
            self.later(again, Happening::Deliver(Box::new(twin)));
        }
        self.later(wait, Happening::Deliver(Box::new(Delivery { id, notice })));
    }

    /// Tells a fact of a job at once, under a delivery of its own, whatever is true by now.
    pub(in crate::testing) fn tell_fact(&mut self, number: u64, fact: JobFact) {
        let Some(job) = self.forge.jobs.get(&number) else { return };
        let notice = self.notice_with(job, fact);
        self.post(notice, 1);
    }

    /// Returns the news of a job as it is.
    pub(super) fn notice(&self, number: u64) -> Option<JobNotice> {
        let job = self.forge.jobs.get(&number)?;
        Some(self.notice_with(job, job.fact()))
    }

    pub(super) fn notice_with(&self, job: &SimJob, fact: JobFact) -> JobNotice {
        JobNotice {
            id: self.forge.job_id(job.number),
            place: job.place.clone(),
            run: job.number,
            name: String::new(),
            url: String::new(),
            labels: job.labels.clone(),
            runner: match fact {
                JobFact::Completed(_) if self.script.nameless.contains(&job.number) => None,
                JobFact::InProgress | JobFact::Completed(_) => job.runner.clone(),
                JobFact::Waiting | JobFact::Queued => None,
            },
            fact,
            queued_at: date(job.queued_at),
            delivery: None,
        }
    }
}

/// Returns the same news as if it came from an organization we do not serve.
fn stranger(mut notice: JobNotice) -> JobNotice {
    notice.place = Place { owner: "stranger".into(), repository: "web".into(), enterprise: None };
    notice.id.number += 1_000_000_000;
    notice
}
