//! Tells people why a pool has as many instances as it has.

use crate::model::{Event, State, Timestamp, elapsed};
use crate::registry::PoolView;

/// How many of a pool's last events are told.
const LAST: usize = 5;

/// Explains a pool in sentences, the most pressing first.
pub fn explain_pool(view: &PoolView, events: &[Event], now: Timestamp) -> Vec<String> {
    let mut lines = vec![numbers(view)];
    lines.extend(holding_back(view, now));
    let latest = events.len().saturating_sub(LAST);
    lines.extend(events[latest..].iter().map(|event| told(event, now)));
    lines
}

fn numbers(view: &PoolView) -> String {
    let states = view
        .states
        .iter()
        .map(|(state, count)| format!("{count} {state}"))
        .collect::<Vec<_>>()
        .join(", ");
    let have = if states.is_empty() { "nobody".into() } else { states };
    let jobs = match view.demand {
        0 => "no waiting job".to_owned(),
        1 => "1 waiting job".to_owned(),
        more => format!("{more} waiting jobs"),
    };
    format!(
        "pool `{}` wants {} of at most {} for {jobs} and has {have}",
        view.id, view.want, view.max
    )
}

/// Returns what keeps the pool from having what it wants.
fn holding_back(view: &PoolView, now: Timestamp) -> Vec<String> {
    let mut lines = Vec::new();
    if view.draining {
        lines.push("it drains: everyone free is asked to go and nobody is made".into());
    }
    if !view.settled {
        lines
            .push("it makes nobody yet: not every machine it began with has been looked at".into());
    }
    if let Some(since) = view.breaker {
        lines.push(format!(
            "creation is held after repeated failures for {}; one probe at a time finds out \
             when it works again",
            span(since, now)
        ));
    }
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
            "{leaving} on the way out hold their places until the provider confirms that their \
             machines are gone"
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

fn told(event: &Event, now: Timestamp) -> String {
    format!("{} ago: {}", span(event.last_at, now), event.what)
}

fn span(then: Timestamp, now: Timestamp) -> String {
    format!("{} s", elapsed(then, now).as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::StateCounts;

    #[test]
    fn a_pool_says_what_holds_it_back() {
        let now = Timestamp::UNIX_EPOCH;
        let mut view = PoolView {
            id: "linux".into(),
            states: [(State::Busy, 2), (State::Deleting, 1)].into_iter().collect(),
            demand: 4,
            oldest: None,
            want: 3,
            max: 3,
            draining: false,
            breaker: None,
            settled: true,
            stuck: 1,
            shunned: vec![],
        };
        let text = explain_pool(&view, &[], now).join("\n");
        assert!(text.contains("wants 3 of at most 3"), "{text}");
        assert!(text.contains("2 busy, 1 deleting"), "{text}");
        assert!(text.contains("at its maximum"), "{text}");
        assert!(text.contains("1 on the way out"), "{text}");
        assert!(text.contains("1 stuck"), "{text}");

        view.shunned = vec![("node-7".into(), 4)];
        let text = explain_pool(&view, &[], now).join("\n");
        assert!(text.contains("avoid host `node-7`: the last 4"), "{text}");

        view.draining = true;
        view.settled = false;
        view.breaker = Some(now);
        view.states = StateCounts::default();
        let text = explain_pool(&view, &[], now).join("\n");
        assert!(text.contains("has nobody"), "{text}");
        assert!(text.contains("it drains"), "{text}");
        assert!(text.contains("looked at"), "{text}");
        assert!(text.contains("one probe"), "{text}");
    }
}
