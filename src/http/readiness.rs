//! Whether the daemon is ready, and what it waits for: a plain function of what is known.
//!
//! A daemon that stands by is ready as soon as the store answers: it takes webhooks. One that leads is
//! ready once its ledger is open and every pool knows its machines. No row holds that up for ever:
//! what is not settled two minutes after it became the leader is shown by `explain` and waited for no more.

use std::time::Duration;

use jiff::Timestamp;
use ostler_actors::model::elapsed;
use ostler_actors::registry::LedgerView;
use serde::Serialize;

use crate::ports::Stage;

/// How long a pool may hold readiness up while it looks at its machines.
const SETTLE_LIMIT: Duration = Duration::from_mins(2);

/// What is known of the daemon.
pub(super) struct Facts {
    pub(super) stage: Stage,
    /// Since when it is at that stage.
    pub(super) since: Timestamp,
    /// Why the store does not answer or takes no saves, and since when that is known.
    pub(super) store: Vec<(String, Timestamp)>,
    pub(super) ledger: LedgerView,
    /// The pools of the configuration, and whether each has looked at its machines; nothing for one
    /// that has not shown itself.
    pub(super) pools: Vec<(String, Option<bool>)>,
    pub(super) now: Timestamp,
}

/// One thing that readiness waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Wait {
    pub(super) what: String,
    pub(super) since: Timestamp,
}

/// Tells whether the daemon is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Readiness {
    /// Whether it may be sent webhooks.
    pub(super) ready: bool,
    /// Whether it leads and is ready.
    pub(super) leader: bool,
    pub(super) waits_for: Vec<Wait>,
}

pub(super) fn readiness(facts: &Facts) -> Readiness {
    let mut waits_for: Vec<Wait> = facts
        .store
        .iter()
        .map(|(what, since)| Wait { what: what.clone(), since: *since })
        .collect();
    match facts.stage {
        Stage::Starting | Stage::Stopping => {
            let what = if facts.stage == Stage::Starting { "it starts" } else { "it stops" };
            waits_for.push(Wait { what: what.into(), since: facts.since });
        }
        Stage::Standby => {}
        Stage::Leading => waits_for.extend(of_leader(facts)),
    }
    let ready = waits_for.is_empty();
    Readiness { ready, leader: ready && facts.stage == Stage::Leading, waits_for }
}

/// Returns what a leader waits for.
fn of_leader(facts: &Facts) -> Vec<Wait> {
    let mut waits_for = Vec::new();
    if !facts.ledger.open {
        let since = facts.ledger.since.unwrap_or(facts.since);
        waits_for.push(Wait { what: "the ledger reads its jobs".into(), since });
    }
    let overdue = elapsed(facts.since, facts.now) >= SETTLE_LIMIT;
    for (pool, settled) in &facts.pools {
        let what = match settled {
            Some(true) => continue,
            Some(false) if overdue => continue,
            Some(false) => format!("pool `{pool}` looks at its machines"),
            None => format!("pool `{pool}` starts"),
        };
        waits_for.push(Wait { what, since: facts.since });
    }
    waits_for
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn leading() -> Facts {
        Facts {
            stage: Stage::Leading,
            since: at(0),
            store: vec![],
            ledger: LedgerView { open: true, since: Some(at(1)) },
            pools: vec![("a".into(), Some(true)), ("b".into(), Some(true))],
            now: at(5),
        }
    }

    fn waits(facts: &Facts) -> Vec<(String, Timestamp)> {
        readiness(facts).waits_for.into_iter().map(|wait| (wait.what, wait.since)).collect()
    }

    #[test]
    fn a_standby_is_ready_and_no_leader() {
        let facts = Facts { stage: Stage::Standby, ledger: LedgerView::default(), ..leading() };
        let readiness = readiness(&facts);
        assert!(readiness.ready && !readiness.leader);
    }

    #[test]
    fn a_leader_is_ready_when_its_ledger_is_open_and_every_pool_is_settled() {
        assert!(readiness(&leading()).leader);
        let closed = LedgerView { open: false, since: Some(at(3)) };
        let facts = Facts { ledger: closed, ..leading() };
        assert_eq!(waits(&facts), [("the ledger reads its jobs".into(), at(3))]);
        assert!(!readiness(&facts).ready && !readiness(&facts).leader);
        let pools = vec![("a".into(), Some(false)), ("b".into(), None), ("c".into(), Some(true))];
        let facts = Facts { pools, ..leading() };
        assert_eq!(
            waits(&facts),
            [("pool `a` looks at its machines".into(), at(0)), ("pool `b` starts".into(), at(0))]
        );
    }

    #[test]
    fn a_pool_holds_readiness_up_for_two_minutes_and_no_longer() {
        let ready = |now| {
            let pools = vec![("a".into(), Some(false))];
            readiness(&Facts { pools, now, ..leading() }).ready
        };
        assert_eq!([ready(at(119)), ready(at(120))], [false, true]);
    }

    #[test]
    fn a_store_that_does_not_answer_is_waited_for_at_every_stage() {
        for stage in [Stage::Starting, Stage::Standby, Stage::Leading, Stage::Stopping] {
            let store = vec![("the store answers".to_owned(), at(2))];
            let facts = Facts { stage, store, ..leading() };
            assert!(!readiness(&facts).ready && !readiness(&facts).leader, "{stage:?}");
            assert_eq!(waits(&facts)[0], ("the store answers".into(), at(2)));
        }
    }
}
