//! Remembers what GitHub could not say about runners, for people who ask why a machine is kept.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use ostler_actors::model::{JobId, RunnerName, Sighting};

/// How many runners are remembered; then all is begun anew.
const MAX_RUNNERS: usize = 10_000;

/// Holds since when, and why, it is not known whether a runner works.
#[derive(Default)]
pub(super) struct UnknownRunners(Mutex<BTreeMap<RunnerName, (Timestamp, String)>>);

impl UnknownRunners {
    /// Takes note of what came of a look: a doubt replaces the last one, an answer ends it.
    pub(super) fn note(&self, name: &RunnerName, seen: &Sighting<JobId>, now: Timestamp) {
        let mut unknown_runners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match seen {
            Sighting::Unknown(why) => {
                if unknown_runners.len() >= MAX_RUNNERS {
                    unknown_runners.clear();
                }
                unknown_runners.insert(name.clone(), (now, why.clone()));
            }
            Sighting::Seen(_) | Sighting::Absent => {
                unknown_runners.remove(name);
            }
        }
    }

    /// Returns the doubt that stands about a runner.
    pub(super) fn about(&self, name: &RunnerName) -> Option<(Timestamp, String)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doubt_stands_until_an_answer_comes() {
        let (unknown_runners, runner) = (UnknownRunners::default(), RunnerName::new("linux-1"));
        let at = |second| Timestamp::from_second(second).unwrap();
        let unknown = |why: &str| Sighting::Unknown(why.into());
        unknown_runners.note(&runner, &unknown("no access"), at(1));
        unknown_runners.note(&runner, &unknown("no answer"), at(2));
        assert_eq!(unknown_runners.about(&runner), Some((at(2), "no answer".into())));
        assert_eq!(unknown_runners.about(&RunnerName::new("linux-2")), None);
        unknown_runners.note(&runner, &Sighting::Absent, at(3));
        assert_eq!(unknown_runners.about(&runner), None);
    }
}
