//! Logs, metrics, notifications and traces.
//!
//! Logs are sentences with keys, as text for people on a terminal and as JSON for programs.
//! [`chronicle`] calls listeners with every event of the store: [`metrics`] counts them, [`notify`] tells
//! people when they are needed, [`traces`] sends finished instances to a collector.

pub mod chronicle;
pub mod metrics;
pub mod notify;
mod outgoing;
pub mod traces;
pub mod waits;

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// The log filter when none is given: our own messages, and warnings of the libraries.
const DEFAULT_FILTER: &str = "warn,ostler=info,ostler_actors=info,octocrab=off";

/// The log filter cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("`--log {filter}` is not a filter; write for instance `info` or `ostler=debug,warn`")]
pub struct BadFilter {
    filter: String,
    #[source]
    source: tracing_subscriber::filter::ParseError,
}

/// Starts to log to standard error.
pub fn begin(filter: Option<&str>) -> Result<(), BadFilter> {
    let text = filter.unwrap_or(DEFAULT_FILTER);
    let filter = EnvFilter::builder()
        .parse(text)
        .map_err(|source| BadFilter { filter: text.to_owned(), source })?;
    let registry = tracing_subscriber::registry().with(filter);
    let begun = if std::io::stderr().is_terminal() {
        let layer =
            tracing_subscriber::fmt::layer().with_target(false).with_writer(std::io::stderr);
        registry.with(layer).try_init()
    } else {
        let layer = tracing_subscriber::fmt::layer()
            .json()
            .flatten_event(true)
            .with_writer(std::io::stderr);
        registry.with(layer).try_init()
    };
    // Fails when this process logs already, as in tests; that logger serves as well.
    drop(begun);
    Ok(())
}
