//! How far the log of a hook was swept, as it is kept between two sweeps.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Says how far a hook was swept. Its text can be kept, and read again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepCursor {
    /// Everything up to this date was swept, but for the rest.
    pub until: Timestamp,
    /// What was not read yet of logs that were too long for one sweep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) rest: Vec<Rest>,
}

/// Holds what is still to be read of one log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Rest {
    pub(super) log: String,
    pub(super) page: String,
    pub(super) since: Timestamp,
}

impl SweepCursor {
    /// Returns a place with nothing left to read before it.
    pub fn all_until(until: Timestamp) -> Self {
        Self { until, rest: Vec::new() }
    }

    /// Tells whether everything was read.
    pub fn is_whole(&self) -> bool {
        self.rest.is_empty()
    }
}

impl fmt::Display for SweepCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rest.is_empty() {
            return write!(f, "{}", self.until);
        }
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for SweepCursor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(until) => Ok(Self::all_until(until)),
            Err(_) => serde_json::from_str(text).map_err(|error| error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + minute * 60).unwrap()
    }

    #[test]
    fn a_cursor_can_be_kept_as_text() {
        let whole = SweepCursor::all_until(at(5));
        assert_eq!(whole.to_string().parse(), Ok(whole.clone()));
        assert_eq!(at(5).to_string().parse(), Ok(whole.clone()), "as earlier releases kept it");
        let rest = Rest { log: "App x".into(), page: "v1_7".into(), since: at(-9) };
        let stopped = SweepCursor { rest: vec![rest], ..whole };
        assert_eq!(stopped.to_string().parse(), Ok(stopped.clone()));
        assert!("nonsense".parse::<SweepCursor>().is_err());
    }
}
