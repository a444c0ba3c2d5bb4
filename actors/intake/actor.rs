//! The intake's shell: one question a scope at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ActorContext, AsyncContext, Context, Handler};
use tokio::task::AbortHandle;
use tracing::info;

use super::ToIntake;
use crate::base::Base;
use crate::calls::answered;
use crate::fleet::{FleetPart, ToFleet};
use crate::jobs::ToLedger;
use crate::mail::ActorRef;
use crate::model::{ForgeId, JobNotice, Observation, Scope};
use crate::mutants::{self, Mutant};
use crate::ports::{Records, Roster};
use crate::supervise::{Envelope, ExitNotifier, StopGuard, mailbox};

/// How long a forge may take to list its open jobs.
const POLL_TIMEOUT: Duration = Duration::from_mins(1);

/// Holds what the intake starts with.
pub(crate) struct IntakeStart {
    pub(crate) actor_ref: ActorRef<ToIntake>,
    pub(crate) fleet: ActorRef<ToFleet>,
    pub(crate) ledger: ActorRef<ToLedger>,
    pub(crate) base: Base,
    pub(crate) rosters: BTreeMap<ForgeId, Arc<dyn Roster>>,
    pub(crate) tick: Duration,
}

/// Starts the intake; it asks nothing before it knows the scopes. Its exit is reported to the fleet.
pub(crate) fn start(start: IntakeStart) -> StopGuard {
    let (actor_ref, fleet) = (start.actor_ref.clone(), start.fleet.clone());
    let intake = Intake {
        start,
        scopes: BTreeSet::new(),
        asking: BTreeMap::new(),
        replaying: None,
        _exit_notifier: ExitNotifier::new(move |panicked| {
            let _ = fleet.tell(ToFleet::Died { part: FleetPart::Intake, panicked });
        }),
    };
    let mailbox = mailbox(intake.start());
    actor_ref.install(mailbox.clone());
    StopGuard::new(move || {
        let _ = mailbox.tell(ToIntake::Halt);
    })
}

struct Intake {
    start: IntakeStart,
    scopes: BTreeSet<(ForgeId, Scope)>,
    asking: BTreeMap<(ForgeId, Scope), AbortHandle>,
    replaying: Option<AbortHandle>,
    _exit_notifier: ExitNotifier,
}

impl Drop for Intake {
    fn drop(&mut self) {
        self.asking.values().chain(&self.replaying).for_each(AbortHandle::abort);
    }
}

impl Actor for Intake {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(self.start.tick, |this, _| {
            this.replay();
            this.ask_all();
        });
    }
}

impl Handler<Envelope<ToIntake>> for Intake {
    type Result = ();

    fn handle(&mut self, Envelope(message): Envelope<ToIntake>, ctx: &mut Self::Context) {
        match message {
            ToIntake::Scopes(scopes) => self.serve(scopes),
            ToIntake::Tick => self.ask_all(),
            ToIntake::Halt => ctx.stop(),
        }
    }
}

impl Intake {
    /// Takes over the scopes; new ones are asked at once, because jobs may have waited there.
    fn serve(&mut self, scopes: BTreeSet<(ForgeId, Scope)>) {
        let new: Vec<_> = scopes.difference(&self.scopes).cloned().collect();
        self.asking.retain(|scope, question| {
            let served = scopes.contains(scope);
            if !served {
                question.abort();
            }
            served
        });
        self.scopes = scopes;
        for scope in new {
            self.ask(scope);
        }
    }

    fn replay(&mut self) {
        if self.replaying.as_ref().is_none_or(AbortHandle::is_finished) {
            let base = &self.start.base;
            let again = replay(Arc::clone(&base.records), self.start.ledger.clone());
            self.replaying = Some(base.spawner.spawn(Box::pin(again)));
        }
    }

    fn ask_all(&mut self) {
        if mutants::is(Mutant::MissedJobsNotAskedFor) {
            return;
        }
        for scope in self.scopes.clone() {
            self.ask(scope);
        }
    }

    fn ask(&mut self, place: (ForgeId, Scope)) {
        let Some(roster) = self.start.rosters.get(&place.0) else { return };
        if self.asking.get(&place).is_some_and(|question| !question.is_finished()) {
            return;
        }
        let question = ask(Arc::clone(roster), place.1.clone(), self.start.ledger.clone());
        let question = self.start.base.spawner.spawn(Box::pin(question));
        self.asking.insert(place, question);
    }
}

/// Asks a scope for its open jobs, and sends each to the ledger.
async fn ask(roster: Arc<dyn Roster>, scope: Scope, ledger: ActorRef<ToLedger>) {
    let listing = answered(POLL_TIMEOUT, roster.open_jobs(&scope)).await;
    let listing = listing.unwrap_or_else(Observation::Unusable);
    match listing {
        Observation::Complete(jobs) => {
            for notice in jobs.into_iter().map(undelivered) {
                let _ = ledger.tell(ToLedger::Notice(notice));
            }
        }
        Observation::Unusable(why) => {
            info!(scope.name = %scope, "scope `{scope}`: open jobs are not known: {why}");
        }
    }
}

/// Sends the ledger the deliveries that were accepted and never handled: their message came to a
/// ledger that was about to die. The ledger ignores repetitions.
async fn replay(records: Arc<dyn Records>, ledger: ActorRef<ToLedger>) {
    if let Ok(notices) = records.unhandled().await {
        for notice in notices {
            let _ = ledger.tell(ToLedger::Notice(notice));
        }
    }
}

/// Returns a notice that no delivery brought: asking is not a delivery to be marked handled.
fn undelivered(notice: JobNotice) -> JobNotice {
    JobNotice { delivery: None, ..notice }
}

#[cfg(test)]
mod tests;
