//! The intake's shell: one question a scope at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ActorContext, AsyncContext, Context, Handler};
use tokio::task::AbortHandle;

use super::ToIntake;
use super::poll::{ask, replay};
use crate::base::Base;
use crate::fleet::{Part, ToFleet};
use crate::jobs::ToLedger;
use crate::mail::ActorRef;
use crate::model::{ForgeId, Scope};
use crate::ports::Roster;
use crate::supervise::{Envelope, ExitNotifier, StopGuard, mailbox};

/// Holds what the intake begins with.
pub(crate) struct IntakeStart {
    pub(crate) actor_ref: ActorRef<ToIntake>,
    pub(crate) fleet: ActorRef<ToFleet>,
    pub(crate) ledger: ActorRef<ToLedger>,
    pub(crate) base: Base,
    pub(crate) rosters: BTreeMap<ForgeId, Arc<dyn Roster>>,
    pub(crate) tick: Duration,
}

/// Starts the intake; it asks nobody before it is told the scopes. Its end is told to the fleet.
pub(crate) fn start(start: IntakeStart) -> StopGuard {
    let (actor_ref, fleet) = (start.actor_ref.clone(), start.fleet.clone());
    let intake = Intake {
        start,
        scopes: BTreeSet::new(),
        asking: BTreeMap::new(),
        replaying: None,
        _exit_notifier: ExitNotifier::new(move |panicked| {
            let _ = fleet.tell(ToFleet::Died { part: Part::Intake, panicked });
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

#[cfg(test)]
mod tests;
