//! Why an instance is as it is, in sentences, from its row and its timeline alone.
//!
//! It answers in the order in which an operator asks: what does the instance do, what does it wait
//! for and how much longer, who requested its removal and what keeps it, what allows its deletion,
//! and what ended it. No actor and no provider is asked, so a stuck instance is explained as fast
//! as a healthy one.

mod waiting;

use std::time::Duration;

use super::is_stuck;
use crate::model::{
    End, Event, Instance, PROVISIONAL_FOR, Phase, Policy, Registration, State, Timestamp, Urgency,
    What, elapsed, is_due, signal_of,
};

/// How many refusals are listed.
const MAX_REFUSALS: usize = 3;

pub fn explain_instance(
    row: &Instance,
    events: &[Event],
    policy: &Policy,
    now: Timestamp,
) -> Vec<String> {
    let explainer = Explainer { row, events, policy, now };
    let mut lines = vec![explainer.state()];
    lines.extend(explainer.waiting());
    lines.extend(explainer.registration());
    lines.extend(explainer.doubt());
    lines.extend(explainer.removal());
    lines.extend(explainer.refusals());
    lines.extend(explainer.warrant());
    lines.extend(explainer.end());
    lines.extend(explainer.stuck());
    lines
}

struct Explainer<'a> {
    row: &'a Instance,
    events: &'a [Event],
    policy: &'a Policy,
    now: Timestamp,
}

impl Explainer<'_> {
    /// Tells what it does, and since when.
    fn state(&self) -> String {
        let Self { row, .. } = self;
        let doing = match row.state {
            State::PendingCreate => "is requested; nothing exists yet".into(),
            State::Creating => "is being created".into(),
            State::Starting => "exists, and its runner is not ready".into(),
            State::Idle => "is ready and has no job".into(),
            State::Reserved => "is promised to a job".into(),
            State::Busy => match &row.executing {
                Some(job) => format!("runs job {job}"),
                None => "may be working, though no job is known to run here".into(),
            },
            State::Retiring => "is to be removed, and is checked for work".into(),
            State::Ended => "has ended, and its end is being recorded".into(),
            State::PendingDelete => "may be deleted, and its end is on record".into(),
            State::Deleting if row.phase() == Some(Phase::Finishing) => {
                "has no machine any more and holds no place; its registration is left".into()
            }
            State::Deleting => "is being deleted".into(),
            State::Deleted => "is gone; nothing is left of it".into(),
        };
        let found = if row.adopted { ", adopted" } else { "" };
        format!("`{}` ({}, for {}{found}) {doing}.", row.id, row.state, self.age(row.since))
    }

    fn registration(&self) -> Option<String> {
        let refused = self.count(|what| matches!(what, What::DeregisterRefused));
        let suffix = match refused {
            0 => String::new(),
            times => format!(" The forge refused to remove it {}.", often(times)),
        };
        match &self.row.registration {
            Registration::None | Registration::Gone => None,
            Registration::Uncertain(name) => Some(format!(
                "A runner `{name}` may be registered: the mint was not answered.{suffix}"
            )),
            Registration::Known { name, id } => {
                Some(format!("Registered as `{name}` (runner {id}).{suffix}"))
            }
            Registration::WrittenOff => Some(
                "Its registration could not be removed for a day and is left to the forge.".into(),
            ),
        }
    }

    /// Tells what the provider is unsure about.
    fn doubt(&self) -> Vec<String> {
        if self.row.state.is_over() {
            return Vec::new();
        }
        let mut lines = Vec::new();
        if let Some((event, why)) =
            self.last(|what| if let What::SightingUnknown(why) = what { Some(why) } else { None })
        {
            let age = self.age(event.last_at);
            lines
                .push(format!("The provider was in doubt {age} ago ({why}): the machine is kept."));
        }
        let missed = self.last(|what| matches!(what, What::FirstAbsence).then_some(()));
        let back = self.last(|what| matches!(what, What::Reappeared).then_some(()));
        if let Some((missed, ())) = missed
            && back.is_none_or(|(back, ())| back.seq < missed.seq)
        {
            let confirm = self.of(missed.at, self.policy.absence_confirm);
            lines
                .push(format!("Its machine was not found once; a second read decides, {confirm}."));
        }
        lines
    }

    fn removal(&self) -> Option<String> {
        let removal = self.row.removal.as_ref()?;
        let who =
            removal.by.as_ref().map_or(String::new(), |by| format!(" by {}: {}", by.who, by.why));
        let then = match self.row.state {
            State::PendingCreate | State::Creating => {
                "granted once it is known whether the machine exists"
            }
            State::Starting | State::Idle => "granted now",
            State::Reserved => "kept until its offer ends",
            State::Busy => "kept until its job is over",
            State::Retiring => "being granted",
            State::Ended | State::PendingDelete | State::Deleting | State::Deleted => "granted",
        };
        let urgency = urgency_text(removal.urgency);
        Some(format!(
            "Removal requested ({urgency}, {}, {} ago{who}): {then}.",
            removal.reason,
            self.age(removal.at)
        ))
    }

    /// Tells who asked and what was answered, the latest first.
    fn refusals(&self) -> Vec<String> {
        let refused = self.events.iter().rev().filter_map(|event| {
            let (count, age) = (often(event.count), self.age(event.last_at));
            if let What::Refused { request: ask, why } = &event.what {
                Some(format!("Refused {ask} {count}, last {age} ago: {why}."))
            } else if let What::ShadowAsk(reason) = &event.what {
                Some(format!(
                    "The reaper would have requested its removal ({reason}) {count}, last {age} \
                     ago; it is in shadow mode."
                ))
            } else {
                None
            }
        });
        refused.take(MAX_REFUSALS).collect()
    }

    fn warrant(&self) -> Option<String> {
        let warrant = self.row.warrant.as_ref()?;
        let evidence = warrant.evidence.join("; ");
        let (kind, age) = (&warrant.kind, self.age(warrant.at));
        Some(if self.row.state.is_past_return() {
            format!("Its deletion was allowed {age} ago ({kind}): {evidence}.")
        } else {
            format!("May be deleted ({kind}, since {age}): {evidence}.")
        })
    }

    fn end(&self) -> Option<String> {
        let how = self.row.end.as_ref().map(|end| match end {
            End::Exited(exit) => {
                let mut parts = vec!["the machine ended".to_owned()];
                parts.extend(exit.code.map(|code| format!("exit code {code}")));
                parts.extend(signal_of(exit).map(|signal| format!("signal {signal}")));
                parts.extend(exit.machine_reason.clone().or_else(|| exit.reason.clone()));
                parts.join(", ")
            }
            End::Gone { deleted_externally: true } => "the machine was deleted externally".into(),
            End::Gone { deleted_externally: false } => "the machine vanished".into(),
            End::NotCreated { why } => format!("the machine was never created: {why}"),
        });
        match (how, self.verdict()) {
            (Some(how), Some(verdict)) => Some(format!("Verdict {verdict}: {how}.")),
            (Some(how), None) => Some(format!("No verdict yet: {how}.")),
            (None, Some(verdict)) => Some(format!("Verdict {verdict}: removed before it ended.")),
            (None, None) => None,
        }
    }

    /// Returns the verdict as the last revision left it, and whether the forge may still correct it.
    fn verdict(&self) -> Option<String> {
        let recorded = self.row.verdict?;
        let told = self.last(|what| {
            if let What::Recorded(verdict) = what {
                return Some((*verdict, true));
            }
            if let What::RecordedForNow(verdict) = what {
                return Some((*verdict, false));
            }
            if let What::VerdictRevised { to, settled, .. } = what {
                return Some((*to, *settled));
            }
            None
        });
        let Some((event, (verdict, settled))) = told else { return Some(recorded.to_string()) };
        let open = !settled && !is_due(event.at, PROVISIONAL_FOR, self.now);
        let note = if open { " (provisional: the forge may still correct it)" } else { "" };
        Some(format!("{verdict}{note}"))
    }

    fn stuck(&self) -> Option<String> {
        is_stuck(self.row, self.policy, self.now).then(|| {
            let limit = span(self.policy.stuck_after);
            format!("Stuck: {} for more than {limit}.", self.row.state)
        })
    }

    /// Finds the latest event that `pick` picks.
    fn last<'e, T>(&'e self, pick: impl Fn(&'e What) -> Option<T>) -> Option<(&'e Event, T)> {
        self.events.iter().rev().find_map(|event| Some((event, pick(&event.what)?)))
    }

    fn count(&self, pick: impl Fn(&What) -> bool) -> u32 {
        self.events.iter().filter(|event| pick(&event.what)).map(|event| event.count.max(1)).sum()
    }

    fn age(&self, then: Timestamp) -> String {
        span(elapsed(then, self.now))
    }

    /// Tells how much of a wait has passed, in one unit so that it can be compared.
    fn of(&self, since: Timestamp, wait: Duration) -> String {
        format!("{} s of {} s", elapsed(since, self.now).as_secs(), wait.as_secs())
    }
}

fn urgency_text(urgency: Urgency) -> &'static str {
    match urgency {
        Urgency::Retire => "retire",
        Urgency::Delete => "delete",
        Urgency::Force => "force",
        Urgency::Forget => "forget",
    }
}

fn often(times: u32) -> String {
    match times {
        0 | 1 => "once".into(),
        2 => "twice".into(),
        more => format!("{more} times"),
    }
}

/// Writes a span of time in two units at most.
fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) if seconds.is_multiple_of(60) => format!("{minutes} min"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

#[cfg(test)]
mod tests;
