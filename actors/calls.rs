//! Calls to adapters: each is answered in time, or there is a reason why it was not.
//!
//! An adapter is code of others, behind it a library and a network. It may be late, and it may panic;
//! neither may leave its caller waiting.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::timeout;

use crate::mutants::{self, Mutant};

/// How long a read of the records may take.
pub(crate) const RECORDS_TIMEOUT: Duration = Duration::from_mins(2);

/// Awaits a call for at most `limit`. Returns the reason if it is late or panics.
pub(crate) async fn answered<T>(
    limit: Duration,
    call: impl Future<Output = T>,
) -> Result<T, String> {
    match timeout(limit, unwound(call)).await {
        Ok(answer) => answer,
        Err(_) => Err(format!("no answer in {} s", limit.as_secs())),
    }
}

/// Awaits a call. Returns what it panicked with, if it did; it is not polled again then.
async fn unwound<T>(call: impl Future<Output = T>) -> Result<T, String> {
    let mut call = pin!(call);
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(context))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(answer)) => Poll::Ready(Ok(answer)),
        Err(panic) if mutants::is(Mutant::EffectWithoutAnswer) => resume_unwind(panic),
        Err(panic) => Poll::Ready(Err(format!("the call panicked: {}", message_of(&*panic)))),
    })
    .await
}

/// Returns the message of a panic.
fn message_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn panicking(message: String) -> u32 {
        tokio::task::yield_now().await;
        resume_unwind(Box::new(message))
    }

    #[test]
    fn a_call_is_answered_or_says_why_it_was_not() {
        let paused =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        paused.unwrap().block_on(async {
            let limit = Duration::from_secs(5);
            assert_eq!(answered(limit, async { 7 }).await, Ok(7));
            let panicked = answered(limit, panicking("index out of bounds".into())).await;
            assert_eq!(panicked, Err("the call panicked: index out of bounds".into()));
            let late = answered(limit, std::future::pending::<u32>()).await;
            assert_eq!(late, Err("no answer in 5 s".into()));
        });
    }
}
