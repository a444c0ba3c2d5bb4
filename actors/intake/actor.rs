//! The intake's shell: one question a scope at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ActorContext, AsyncContext, Context, Handler};
use tokio::task::AbortHandle;

use super::ToIntake;
use super::poll::ask;
use crate::base::Base;
use crate::fleet::{Part, ToFleet};
use crate::jobs::ToLedger;
use crate::mail::Office;
use crate::model::{ForgeId, Scope};
use crate::ports::Roster;
use crate::supervise::{Leash, Letter, Obituary, inlet};

/// Holds what the intake begins with.
pub(crate) struct IntakeStart {
    pub(crate) office: Office<ToIntake>,
    pub(crate) fleet: Office<ToFleet>,
    pub(crate) ledger: Office<ToLedger>,
    pub(crate) base: Base,
    pub(crate) rosters: BTreeMap<ForgeId, Arc<dyn Roster>>,
    pub(crate) tick: Duration,
}

/// Starts the intake; it asks nobody before it is told the scopes. Its end is told to the fleet.
pub(crate) fn start(start: IntakeStart) -> Leash {
    let (office, fleet) = (start.office.clone(), start.fleet.clone());
    let intake = Intake {
        start,
        scopes: BTreeSet::new(),
        asking: BTreeMap::new(),
        _obituary: Obituary::new(move |panicked| {
            let _ = fleet.tell(ToFleet::Died { part: Part::Intake, panicked });
        }),
    };
    let inlet = inlet(intake.start());
    office.install(inlet.clone());
    Leash::new(move || {
        let _ = inlet.tell(ToIntake::Halt);
    })
}

struct Intake {
    start: IntakeStart,
    scopes: BTreeSet<(ForgeId, Scope)>,
    asking: BTreeMap<(ForgeId, Scope), AbortHandle>,
    _obituary: Obituary,
}

impl Drop for Intake {
    fn drop(&mut self) {
        self.asking.values().for_each(AbortHandle::abort);
    }
}

impl Actor for Intake {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(self.start.tick, |this, _| this.ask_all());
    }
}

impl Handler<Letter<ToIntake>> for Intake {
    type Result = ();

    fn handle(&mut self, Letter(letter): Letter<ToIntake>, ctx: &mut Self::Context) {
        match letter {
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
