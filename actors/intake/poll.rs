//! Asks one scope for its open jobs and tells the ledger.

use std::sync::Arc;
use std::time::Duration;

use tracing::info;

use crate::jobs::ToLedger;
use crate::mail::ActorRef;
use crate::model::{JobNotice, Observation, Scope};
use crate::ports::{Records, Roster};

/// How long a forge may take.
const POLL_TIMEOUT: Duration = Duration::from_mins(1);

/// Asks a scope for its open jobs and tells the ledger of each.
pub(crate) async fn ask(roster: Arc<dyn Roster>, scope: Scope, ledger: ActorRef<ToLedger>) {
    let listing = tokio::time::timeout(POLL_TIMEOUT, roster.open_jobs(&scope))
        .await
        .unwrap_or_else(|_| Observation::Unusable("no answer in time".into()));
    match listing {
        Observation::Complete(jobs) => {
            for notice in jobs.into_iter().map(undelivered) {
                let _ = ledger.tell(ToLedger::Notice(notice));
            }
        }
        Observation::Unusable(why) => {
            info!(scope.name = %scope, "cannot ask `{scope}` for open jobs: {why}");
        }
    }
}

/// Tells the ledger of deliveries that were accepted and never handled: their letter found a
/// ledger that was just dying. Said twice is said once.
pub(crate) async fn replay(records: Arc<dyn Records>, ledger: ActorRef<ToLedger>) {
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
