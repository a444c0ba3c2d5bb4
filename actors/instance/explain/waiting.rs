//! What an instance waits for, with numbers.

use super::Explainer;
use crate::model::{Binding, Phase, Registration, State, Timestamp, What, is_due};

impl Explainer<'_> {
    /// Tells what it waits for, with numbers.
    pub(super) fn waiting(&self) -> Vec<String> {
        match self.row.state {
            State::PendingCreate => {
                vec![format!("Waits for a start permit of pool `{}`.", self.row.pool)]
            }
            State::Creating => self.creating(),
            State::Starting => {
                let boot = self.of(self.row.since, self.policy.boot_timeout);
                vec![format!("Boot in progress {boot}.")]
            }
            State::Idle => self.idle(),
            State::Reserved => self.reserved(),
            State::Busy => self.busy(),
            State::Retiring => self.retiring(),
            State::Ended => {
                let within = self.of(self.row.since, self.policy.postmortem_timeout);
                vec![format!("Exit, verdict and log tail are gathered, {within}.")]
            }
            State::PendingDelete => {
                vec![format!("Waits for a delete permit of pool `{}`.", self.row.pool)]
            }
            State::Deleting => self.deleting(),
            State::Deleted => Vec::new(),
        }
    }

    fn creating(&self) -> Vec<String> {
        let Some(called) = self.row.create_called_at else {
            return vec![
                "The provider has not been called yet: its runner is registered first, then it waits \
                 for one of the provider's slots for creates, where there is a limit."
                    .into(),
            ];
        };
        let mut lines = vec![format!("Create was called {} ago.", self.age(called))];
        if let Some(why) = &self.row.create_refused {
            lines.push(format!(
                "The provider refused it ({why}): its registration is removed, then two reads ten \
                 seconds apart must find nothing."
            ));
            return lines;
        }
        if let Some((unanswered, why)) = self.last(|what| {
            if let What::CreateUnanswered(why) = what { Some(why.as_str()) } else { None }
        }) {
            let settle = self.of(called, self.policy.create_settle);
            lines.push(format!(
                "The call was not answered ({why}, {} ago) and is never repeated; the machine may \
                 still appear, settling {settle}, then its registration is removed and two reads \
                 must find nothing.",
                self.age(unanswered.last_at)
            ));
        }
        lines
    }

    fn idle(&self) -> Vec<String> {
        let row = self.row;
        let why: &str = match (row.binding, row.registration.may_exist()) {
            (Binding::Early, _) => "waits for the forge to give its runner a job",
            (Binding::Late, true) => {
                "its offer ended after it was registered: it takes no further offer, and the \
                 forge may still give it a job"
            }
            (Binding::Late, false) => "warm and unregistered: waits for the ledger's offer",
        };
        let mut lines = vec![format!("Idle: {why}.")];
        if row.removal.is_none() {
            lines.push(format!(
                "Kept: no removal is requested; if its pool has too many, it may be removed after it \
                 was idle {}.",
                self.of(row.since, self.policy.scale_down_after)
            ));
        }
        lines
    }

    fn reserved(&self) -> Vec<String> {
        match &self.row.offer {
            Some(offer) => {
                let how_far = if offer.delivered {
                    "its JIT config may be handed out; waits for the forge to prove the job runs"
                } else {
                    "its JIT config is being minted or fetched"
                };
                vec![format!("Holds offer {} of job {}: {how_far}.", offer.generation, offer.job)]
            }
            None => vec!["Its offer ended; it is about to be idle again.".into()],
        }
    }

    fn busy(&self) -> Vec<String> {
        let Some(over) = &self.row.job_over else {
            return vec![match &self.row.executing {
                Some(_) => "Kept: the forge has not reported the end of its job.".into(),
                None => "Kept: work is suspected (a refused deregistration, or a worker seen); it \
                         goes back to retiring once the machine shows no worker, or the forge \
                         accepts its deregistration."
                    .into(),
            }];
        };
        let whose =
            if over.names_us { "with our runner's name" } else { "without our runner's name" };
        vec![format!(
            "Job {} is over at the forge ({whose}): expected to end by itself, served {}, a zombie \
             after {}.",
            over.job,
            self.of(over.at, self.policy.linger),
            self.of(over.at, self.policy.zombie_after)
        )]
    }

    fn retiring(&self) -> Vec<String> {
        if self.row.registration.may_exist() {
            return vec![
                "Its registration is removed first: 204, or 404 twice; 422 is proof of work."
                    .into(),
            ];
        }
        if self.row.registration == Registration::None {
            return vec!["Never registered: no hold is needed, only the decisive look.".into()];
        }
        let gone = self.last(|what| matches!(what, What::Deregistered(_)).then_some(()));
        let owner = self.last(|what| matches!(what, What::Respawned { .. }).then_some(()));
        // A new owner starts the hold again: what happened between the owners is not known.
        let since = gone
            .iter()
            .chain(owner.iter())
            .map(|(event, ())| event.last_at)
            .fold(self.row.since, Timestamp::max);
        let held = self.of(since, self.policy.idle_confirm);
        let mut lines = vec![format!("Held {held} after deregistration.")];
        if is_due(since, self.policy.idle_confirm, self.now) {
            lines.push(
                "The hold is over: waits for a look that finds no job; a witness that says \
                     nothing extends it."
                    .into(),
            );
        }
        if let Some(since) = self.row.doubt_since {
            let limit = self.of(since, self.policy.doubt_limit);
            lines.push(format!("Deleted at the latest when the doubt has lasted {limit}."));
        }
        lines
    }

    fn deleting(&self) -> Vec<String> {
        let mut lines = Vec::new();
        match self.row.machine_gone_at {
            Some(at) => {
                lines.push(format!("The machine is confirmed gone since {}.", self.age(at)));
            }
            None => {
                lines.push("Waits for the provider to confirm that the machine is gone.".into());
            }
        }
        if self.row.registration.may_exist() {
            lines.push(match self.row.phase() {
                Some(Phase::Finishing) => "Its registration is asked to go again until the forge \
                     removes it; after a day it is left to the forge."
                    .into(),
                None => "Its registration is removed side by side and holds nothing up.".into(),
            });
        }
        let failed: u32 = self.count(|what| matches!(what, What::DeleteFailed(_)));
        if let Some((event, why)) =
            self.last(|what| if let What::DeleteFailed(why) = what { Some(why) } else { None })
        {
            lines.push(format!(
                "Delete failed {} times, last {} ago: {why}; it is retried for ever.",
                failed,
                self.age(event.last_at)
            ));
        }
        lines
    }
}
