//! Explains why a pool has as many instances as it has.

use crate::model::{Event, State, Timestamp, elapsed};
use crate::registry::{PoolFailure, PoolView};

/// How many of a pool's last events are listed.
const MAX_EVENTS: usize = 5;

/// Explains a pool in sentences, the most pressing first.
pub fn explain_pool(view: &PoolView, events: &[Event], now: Timestamp) -> Vec<String> {
    let mut lines = vec![numbers(view)];
    lines.extend(holding_back(view, now));
    let latest = events.len().saturating_sub(MAX_EVENTS);
    lines.extend(events[latest..].iter().map(|event| event_line(event, now)));
    lines
}

fn numbers(view: &PoolView) -> String {
    let states = view
        .states
        .iter()
        .map(|(state, count)| format!("{count} {state}"))
        .collect::<Vec<_>>()
        .join(", ");
    let have = if states.is_empty() { "no instances".into() } else { states };
    let jobs = match view.demand {
        0 => "no waiting job".to_owned(),
        1 => "1 waiting job".to_owned(),
        more => format!("{more} waiting jobs"),
    };
    format!("pool `{}`: target {} of {} for {jobs}; {have}", view.id, view.want, view.max)
}

/// Returns what keeps the pool from its target.
fn holding_back(view: &PoolView, now: Timestamp) -> Vec<String> {
    let mut lines = Vec::new();
    if view.draining {
        lines.push("it drains: every free instance is asked to retire and none is created".into());
    }
    if !view.settled {
        lines.push("it creates nothing yet: not every machine it started with is checked".into());
    }
    if let Some(since) = view.breaker {
        lines.push(format!(
            "creation is held after repeated failures for {}; one probe at a time finds out \
             when it works again{}",
            span(since, now),
            next_probe(view, now)
        ));
    }
    lines.extend(view.failing.as_ref().map(|failing| failing_line(failing, now)));
    let held = view.states.total();
    if held >= view.max && view.demand > 0 {
        lines.push(format!("it is at its maximum of {}", view.max));
    }
    let leaving: u32 = view
        .states
        .iter()
        .filter(|(state, _)| !state.is_capacity() && *state != State::Deleted)
        .map(|(_, count)| count)
        .sum();
    if leaving > 0 {
        lines.push(format!(
            "{leaving} terminating hold their places until the provider confirms that their \
             machines are gone"
        ));
    }
    if let Some(silent) = view.silent {
        lines.push(format!(
            "{silent} machines stopped asking for work together and are replaced one at a time: see \
             whether machines reach this daemon's runner address"
        ));
    }
    for (host, failures) in &view.shunned {
        lines.push(format!(
            "new machines avoid host `{host}`: the last {failures} there never became ready"
        ));
    }
    if view.stuck > 0 {
        lines.push(format!("{} stuck; `explain instance` says why", view.stuck));
    }
    lines
}

fn next_probe(view: &PoolView, now: Timestamp) -> String {
    match view.failing.as_ref().and_then(|failing| failing.next_probe) {
        Some(at) if at > now => format!("; the next starts in {}", span(now, at)),
        Some(_) | None => String::new(),
    }
}

fn failing_line(failing: &PoolFailure, now: Timestamp) -> String {
    let PoolFailure { failures, instance, at, failure, .. } = failing;
    let count = match failures {
        0 | 1 => "the last instance failed".to_owned(),
        more => format!("the last {more} instances failed without one that served"),
    };
    format!(
        "{count}; `{instance}`, {} ago, at stage {}, fault of the {}: {}. {}",
        span(*at, now),
        failure.stage,
        failure.class,
        failure.error,
        failure.advice
    )
}

fn event_line(event: &Event, now: Timestamp) -> String {
    format!("{} ago: {}", span(event.last_at, now), event.what)
}

fn span(then: Timestamp, now: Timestamp) -> String {
    format!("{} s", elapsed(then, now).as_secs())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::after;
    use crate::model::{Failure, FailureClass, LifeStage, StateCounts};
    use crate::pool::fixtures::view;

    #[test]
    fn a_pool_says_what_holds_it_back() {
        let now = Timestamp::UNIX_EPOCH;
        let states = [(State::Busy, 2), (State::Deleting, 1)].into_iter().collect();
        let mut view = PoolView { states, demand: 4, want: 3, stuck: 1, ..view("linux") };
        let text = explain_pool(&view, &[], now).join("\n");
        assert!(text.contains("target 3 of 3"), "{text}");
        assert!(text.contains("2 busy, 1 deleting"), "{text}");
        assert!(text.contains("at its maximum"), "{text}");
        assert!(text.contains("1 terminating"), "{text}");
        assert!(text.contains("1 stuck"), "{text}");

        view.shunned = vec![("node-7".into(), 4)];
        let text = explain_pool(&view, &[], now).join("\n");
        assert!(text.contains("avoid host `node-7`: the last 4"), "{text}");

        view.draining = true;
        view.settled = false;
        view.breaker = Some(now);
        view.states = StateCounts::default();
        let failure = Failure {
            stage: LifeStage::Create,
            class: FailureClass::Credential,
            provisional: false,
            error: "AuthFailure: the key has expired".into(),
            advice: "Renew the credential.".into(),
        };
        let (instance, next_probe) = ("linux-a".into(), Some(after(now, Duration::from_secs(15))));
        view.failing =
            Some(PoolFailure { failures: 3, since: now, instance, at: now, failure, next_probe });
        let text = explain_pool(&view, &[], now).join("\n");
        assert!(text.contains("no instances"), "{text}");
        assert!(text.contains("it drains"), "{text}");
        assert!(text.contains("not every machine it started with is checked"), "{text}");
        assert!(text.contains("one probe"), "{text}");
        assert!(text.contains("the next starts in 15 s"), "{text}");
        assert!(text.contains("the last 3 instances failed"), "{text}");
        assert!(text.contains("fault of the credential: AuthFailure: the key has expired"));
    }
}
