//! The reaper's shell: sweeps on every tick, and passes on what it found.
//!
//! Every provider and every forge has a round of its own, so that one that hangs delays no
//! other; a round that is still running is not begun again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ActorContext, AsyncContext, Context, Handler};
use tracing::{info, warn};

use super::rounds::{
    Machines, Round, Runners, at_rest, list_machines, list_runners, scopes_in_use,
};
use super::sweep::{FoundRunner, SweepFinding, SweepMemory, compare, compare_runners};
use crate::base::Base;
use crate::fleet::{FleetPart, ToFleet};
use crate::instance::{Consent, Retire, ToInstance};
use crate::mail::{ActorRef, Mailbox, Reply};
use crate::model::{
    Event, ForgeId, Instance, InstanceId, MachineName, Observation, ProviderId, Reason, Refusal,
    RequestedBy, Subject, Timestamp, Urgency, What, is_due,
};
use crate::mutants::{self, Mutant};
use crate::ports::{Inventory, Roster, SpawnedTask};
use crate::registry::Foreign;
use crate::settings::{ReaperMode, ReaperSettings};
use crate::supervise::{Envelope, ExitNotifier, StopGuard, mailbox};

/// How long `MissingClaimKills` lets the unclaimed live.
const CLAIM_TIMEOUT: Duration = Duration::from_mins(5);

/// Holds what the reaper starts with; nothing in it can create, delete or write.
pub(crate) struct ReaperStart {
    pub(crate) fleet: ActorRef<ToFleet>,
    pub(crate) base: Base,
    pub(crate) inventories: BTreeMap<ProviderId, Arc<dyn Inventory>>,
    pub(crate) rosters: BTreeMap<ForgeId, Arc<dyn Roster>>,
    pub(crate) settings: ReaperSettings,
}

/// Starts the reaper; its exit is reported to the fleet.
pub(crate) fn start(start: ReaperStart) -> StopGuard {
    let fleet = start.fleet.clone();
    let reaper = Reaper {
        start,
        memories: BTreeMap::new(),
        foreign: BTreeMap::new(),
        rounds: BTreeMap::new(),
        _exit_notifier: ExitNotifier::new(move |panicked| {
            let _ = fleet.tell(ToFleet::Died { part: FleetPart::Reaper, panicked });
        }),
    };
    let mailbox: Mailbox<ToReaper> = mailbox(reaper.start());
    StopGuard::new(move || {
        let _ = mailbox.tell(ToReaper::Halt);
    })
}

/// A message to the reaper; only the reaper and its parent send any.
enum ToReaper {
    /// A provider's listing is in, and records read after it.
    Machines { provider: ProviderId, begun: Timestamp, seen: Machines },
    /// A scope's listing is in, and records read after it.
    Runners { forge: ForgeId, seen: Runners },
    /// Its parent is gone or shuts down.
    Halt,
}

/// Names what has a round of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SweepSource {
    Provider(ProviderId),
    Forge(ForgeId),
}

struct Reaper {
    start: ReaperStart,
    memories: BTreeMap<ProviderId, SweepMemory>,
    foreign: BTreeMap<ProviderId, BTreeMap<MachineName, Foreign>>,
    rounds: BTreeMap<SweepSource, Round>,
    _exit_notifier: ExitNotifier,
}

impl Actor for Reaper {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.start_rounds(ctx);
        ctx.run_interval(self.start.settings.tick, Self::start_rounds);
    }
}

impl Handler<Envelope<ToReaper>> for Reaper {
    type Result = ();

    fn handle(&mut self, Envelope(message): Envelope<ToReaper>, ctx: &mut Self::Context) {
        match message {
            ToReaper::Machines { provider, begun, seen } => self.sweep(&provider, begun, &seen),
            ToReaper::Runners { forge, seen } => self.pass_on_runners(forge, &seen),
            ToReaper::Halt => ctx.stop(),
        }
    }
}

// Listing.
impl Reaper {
    fn start_rounds(&mut self, ctx: &mut Context<Self>) {
        let mailbox: Mailbox<ToReaper> = mailbox(ctx.address());
        for (provider, inventory) in self.start.inventories.clone() {
            let (base, mailbox) = (self.start.base.clone(), mailbox.clone());
            let source = SweepSource::Provider(provider.clone());
            let task = async move {
                let begun = base.clock.now();
                if let Some(seen) = list_machines(&base, &provider, inventory).await {
                    let _ = mailbox.tell(ToReaper::Machines { provider, begun, seen });
                }
            };
            self.begin(source, Box::pin(task));
        }
        for (forge, roster) in self.start.rosters.clone() {
            let (base, mailbox) = (self.start.base.clone(), mailbox.clone());
            let source = SweepSource::Forge(forge.clone());
            let task = async move {
                for scope in scopes_in_use(&base, &forge) {
                    let begun = base.clock.now();
                    let Some(seen) = list_runners(&base, &forge, &scope, &roster, begun).await
                    else {
                        return;
                    };
                    let _ = mailbox.tell(ToReaper::Runners { forge: forge.clone(), seen });
                }
            };
            self.begin(source, Box::pin(task));
        }
    }

    fn begin(&mut self, source: SweepSource, task: SpawnedTask) {
        let changes = self.start.base.registry.change_count();
        if self.rounds.get_mut(&source).is_none_or(|round| round.is_over(changes)) {
            self.rounds.insert(source, Round::begun(self.start.base.spawner.spawn(task), changes));
        }
    }

    fn listed(&mut self, source: &SweepSource, calm: bool, records: usize) {
        if let Some(round) = self.rounds.get_mut(source) {
            round.listed(calm, records);
        }
    }
}

// Reporting what was found.
impl Reaper {
    fn sweep(&mut self, provider: &ProviderId, begun: Timestamp, seen: &Machines) {
        if let Observation::Unusable(why) = &seen.listing {
            info!(provider.id = %provider, "provider `{provider}`: listing is unusable: {why}");
        }
        let memory = self.memories.entry(provider.clone()).or_default();
        let (found, next) = compare(
            &seen.listing,
            &seen.records,
            memory,
            &seen.controller,
            self.start.settings.confirm_after,
            begun,
        );
        let nothing = found.is_empty() && next.is_empty() && at_rest(&seen.records);
        *memory = next;
        let complete = matches!(&seen.listing, Observation::Complete(_));
        self.listed(
            &SweepSource::Provider(provider.clone()),
            complete && nothing,
            seen.records.len(),
        );
        if complete {
            self.show_foreign(provider, &found);
        }
        for found in found {
            self.report(provider, found);
        }
        if mutants::is(Mutant::MissingClaimKills) {
            self.kill_unclaimed(&seen.records);
        }
    }

    fn report(&mut self, provider: &ProviderId, found: SweepFinding<'_>) {
        match found {
            SweepFinding::Foreign(_) => {}
            SweepFinding::Orphan(view) => {
                if self.may_ask(&InstanceId::new(view.name.as_str()), Reason::Orphan) {
                    self.start.base.registry.count_ask(Reason::Orphan, "told");
                    let message = ToFleet::Orphan(provider.clone(), view.clone());
                    let _ = self.start.fleet.tell(message);
                }
            }
            SweepFinding::Unlisted(record) => {
                if self.may_ask(&record.id, Reason::Unlisted) {
                    let evidence = format!(
                        "a complete listing of `{provider}` does not name machine `{}`",
                        record.machine
                    );
                    self.ask(record, Reason::Unlisted, evidence);
                }
            }
            SweepFinding::Listed(record, view) => {
                self.tell_owner(record, ToInstance::Seen(view.clone()));
                if mutants::is(Mutant::ReaperDeletesDirectly) {
                    self.ask(record, Reason::Unlisted, "its machine looks odd".into());
                }
            }
        }
    }

    /// Returns whether the reaper asks; in shadow mode it only announces what it would have asked.
    fn may_ask(&self, id: &InstanceId, reason: Reason) -> bool {
        match self.start.settings.mode {
            ReaperMode::Active => true,
            ReaperMode::Shadow => {
                self.start.base.registry.count_ask(reason, "shadow");
                self.announce(Subject::Instance(id.clone()), What::ShadowAsk(reason));
                false
            }
        }
    }

    fn ask(&self, record: &Instance, reason: Reason, evidence: String) {
        if mutants::is(Mutant::ReaperDeletesDirectly) {
            self.kill(record, evidence);
        } else {
            self.reap(record, Urgency::Retire, reason, None, evidence);
        }
    }

    /// Asks in an operator's name, which only the deliberate mistakes do.
    fn kill(&self, record: &Instance, evidence: String) {
        self.reap(record, Urgency::Force, Reason::Operator, Some(made_up()), evidence);
    }

    fn reap(
        &self,
        record: &Instance,
        urgency: Urgency,
        reason: Reason,
        by: Option<RequestedBy>,
        evidence: String,
    ) {
        let registry = Arc::clone(&self.start.base.registry);
        let reply = Reply::with(move |answer| registry.count_ask(reason, answer_label(answer)));
        let _ = self.start.fleet.tell(ToFleet::Reap {
            pool: record.pool.clone(),
            instance: record.id.clone(),
            ask: Retire { urgency, reason, evidence, by, reply },
        });
    }

    /// Shows the foreign machines of a provider, and announces those that are new.
    fn show_foreign(&mut self, provider: &ProviderId, found: &[SweepFinding<'_>]) {
        let now = self.start.base.clock.now();
        let known = self.foreign.remove(provider).unwrap_or_default();
        let mut shown = BTreeMap::new();
        for found in found {
            let SweepFinding::Foreign(view) = found else { continue };
            let since = known.get(&view.name).map_or(now, |earlier: &Foreign| earlier.since);
            let holder = view.stamp.holder.clone();
            if !known.contains_key(&view.name) {
                let machine = view.name.clone();
                warn!(machine.name = %machine, "machine `{machine}`: stamped by a holder we never had; not touched");
                self.announce(
                    Subject::Instance(InstanceId::new(machine.as_str())),
                    What::Foreign { machine, holder: holder.clone() },
                );
            }
            shown.insert(view.name.clone(), Foreign { since, holder });
        }
        self.start.base.registry.show_foreign(provider, shown.clone());
        self.foreign.insert(provider.clone(), shown);
    }

    /// Announces an event that is not stored, because the reaper writes no row.
    fn announce(&self, subject: Subject, what: What) {
        let at = self.start.base.clock.now();
        let event = Event { subject, seq: 0, at, last_at: at, count: 1, what };
        self.start.base.registry.announce(&event);
    }

    fn pass_on_runners(&mut self, forge: ForgeId, seen: &Runners) {
        let found = compare_runners(&seen.listing, &seen.records, seen.begun);
        let quiet = found.is_empty() && at_rest(&seen.records);
        for found in found {
            match found {
                FoundRunner::Shown(record, runner) => {
                    self.tell_owner(record, ToInstance::RunnerSeen(runner.clone()));
                }
                FoundRunner::Missed(record) => self.tell_owner(record, ToInstance::RunnerMissed),
                FoundRunner::Offline(record) => {
                    self.nominate(record, Reason::Offline, "shows its runner offline");
                }
                FoundRunner::Unregistered(record) => {
                    self.nominate(record, Reason::Unregistered, "does not name its runner");
                }
            }
        }
        let complete = matches!(&seen.listing, Observation::Complete(_));
        self.listed(&SweepSource::Forge(forge), complete && quiet, seen.records.len());
    }

    /// Asks an idle instance whose runner seems lost to read it, within its pool's budget: a forge
    /// that is wrong about all of them must not empty the pool.
    fn nominate(&self, record: &Instance, reason: Reason, what: &str) {
        if self.may_ask(&record.id, reason) {
            self.ask(record, reason, format!("a complete listing of `{}` {what}", record.scope));
        }
    }

    fn tell_owner(&self, record: &Instance, message: ToInstance) {
        if let Some(owner) = self.start.base.registry.mailbox(&record.id) {
            let _ = owner.tell(message);
        }
    }

    /// Commits the mistake of the "orphaned stamped pod" reaper, for the checkers.
    fn kill_unclaimed(&self, records: &[Instance]) {
        let now = self.start.base.clock.now();
        for record in records {
            let started = record.state.is_running();
            if started && record.executing.is_none() && is_due(record.since, CLAIM_TIMEOUT, now) {
                self.kill(record, "no pool claims it".into());
            }
        }
    }
}

/// Returns the metric label of an answer.
fn answer_label(answer: Result<Consent, Refusal>) -> &'static str {
    match answer {
        Ok(Consent::Going) => "going",
        Ok(Consent::Noted) => "noted",
        Ok(Consent::Looking) => "looking",
        Err(Refusal::Busy) => "busy",
        Err(Refusal::Offered) => "offered",
        Err(Refusal::Terminating) => "leaving",
        Err(Refusal::NotReady) => "not_ready",
        Err(Refusal::NotFetched) => "not_fetched",
        Err(Refusal::EarlyBinding) => "early_binding",
        Err(Refusal::Registered) => "registered",
        Err(Refusal::Unsettled) => "unsettled",
        Err(Refusal::Stale) => "stale",
        Err(Refusal::Budget) => "budget",
        Err(Refusal::Unknown) => "unknown",
        Err(Refusal::Taken) => "taken",
    }
}

fn made_up() -> RequestedBy {
    RequestedBy { who: "reaper".into(), why: "a finding taken for a warrant".into() }
}

#[cfg(test)]
mod tests;
