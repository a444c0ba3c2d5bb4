//! What is told to the outside without being asked: logs, events, figures.
//!
//! Logs are sentences with keys, as text for people on a terminal and as JSON for programs.
//! [`chronicle`] tells every event of the store to whoever must not miss one: [`metrics`] counts them,
//! [`notify`] tells people when one of them is needed, [`traces`] tells whole lives to a collector.

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

/// What is logged when nothing is said: our own words, and trouble of the libraries.
const USUAL: &str = "warn,ostler=info,ostler_actors=info,octocrab=off";

/// Tells why logging cannot begin.
#[derive(Debug, thiserror::Error)]
#[error("`--log {filter}` is not a filter; write for instance `info` or `ostler=debug,warn`")]
pub struct BadFilter {
    filter: String,
    #[source]
    source: tracing_subscriber::filter::ParseError,
}

/// Begins to log to the standard error output.
pub fn begin(filter: Option<&str>) -> Result<(), BadFilter> {
    let text = filter.unwrap_or(USUAL);
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
    // Somebody in this process began before us, and that is as good.
    drop(begun);
    Ok(())
}
