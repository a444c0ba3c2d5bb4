//! The conditions that people should know of, read from the registry and the status.

use std::collections::BTreeMap;

use ostler_actors::model::{JobState, PoolId, Timestamp, elapsed};
use ostler_actors::registry::PoolView;

use super::{Notice, Occasion, Sources};
use crate::config::Notify;
use crate::ports::Stage;

/// Returns the conditions that hold now.
pub(super) fn current(sources: &Sources, notify: &Notify, now: Timestamp) -> Vec<Notice> {
    let shown = sources.status.shown();
    let mut notices = Vec::new();
    if let Some(problem) = shown.config_problem {
        let first = problem.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        notices.push(Notice {
            occasion: Occasion::Config,
            subject: "configuration".into(),
            sentence: format!("The configuration on disk is not in force: {first}."),
            advice: "Run `ostler check`; the old configuration stays in force until then.".into(),
        });
    }
    if shown.stage != Stage::Leading {
        return notices;
    }
    let leaks = (sources.leaks)();
    if leaks > 0 {
        notices.push(Notice {
            occasion: Occasion::Leak,
            subject: "fleet".into(),
            sentence: format!("{leaks} machine(s) have no owner."),
            advice:
                "See `foreign_machines` in `ostler status`; `ostler adopt --foreign` takes them in."
                    .into(),
        });
    }
    for view in sources.registry.pools() {
        notices.extend(of_pool(&view, now));
    }
    notices.extend(of_queues(sources, notify, now));
    notices
}

/// Returns the queues with a job that waits for too long, whether their pool could serve it or not.
fn of_queues(sources: &Sources, notify: &Notify, now: Timestamp) -> Vec<Notice> {
    let mut lines: BTreeMap<PoolId, (Timestamp, u32)> = BTreeMap::new();
    for job in sources.registry.jobs() {
        if let (JobState::Queued, Some(pool)) = (job.state(), &job.pool) {
            let line = lines.entry(pool.clone()).or_insert((job.queued_at, 0));
            *line = (line.0.min(job.queued_at), line.1 + 1);
        }
    }
    let late =
        lines.into_iter().filter(|(_, (oldest, _))| elapsed(*oldest, now) >= notify.queue_after);
    late.map(|(id, (oldest, count))| Notice {
        occasion: Occasion::Queue,
        subject: id.to_string(),
        sentence: format!(
            "A job waits for pool `{id}` for {} s; {count} wait.",
            elapsed(oldest, now).as_secs()
        ),
        advice: format!("`ostler explain pool {id}` says what holds it up."),
    })
    .collect()
}

fn of_pool(view: &PoolView, now: Timestamp) -> Vec<Notice> {
    let id = &view.id;
    let notice = |occasion, sentence: String, advice: String| Notice {
        occasion,
        subject: id.to_string(),
        sentence,
        advice,
    };
    let mut notices = Vec::new();
    if view.stuck > 0 {
        notices.push(notice(
            Occasion::Stuck,
            format!("{} instance(s) of pool `{id}` make no progress.", view.stuck),
            format!(
                "`ostler instances --pool {id}` names them, `ostler explain instance` says why."
            ),
        ));
    }
    if let Some(since) = view.breaker {
        notices.push(notice(
            Occasion::Breaker,
            format!(
                "Pool `{id}` creates nothing: creation has failed again and again for {} s.",
                elapsed(since, now).as_secs()
            ),
            view.failing.as_ref().map_or_else(
                || format!("`ostler deaths --pool {id}` shows what the provider said."),
                |failing| {
                    let failure = &failing.failure;
                    format!(
                        "The last error, a fault of the {}: {}. {}",
                        failure.class, failure.error, failure.advice
                    )
                },
            ),
        ));
    }
    notices
}
