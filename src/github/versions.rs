//! How long GitHub will still send jobs to a version of the runner.
//!
//! GitHub says for each version when it stops working, to every identity that may list runners. Which
//! versions we run is known from the registrations themselves and from the tags of the images; other
//! runners of the scope are looked at too, and a warning about them does no harm.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use ostler_actors::model::Scope;
use serde::Deserialize;
use tracing::debug;

use super::GitHub;
use super::answer::ApiFailure;
use super::api::ApiRequest;
use super::governor::Lane;
use super::paging::List;
use super::route;
use super::wire::{self, maybe_date};
use crate::ports::EndingVersion;

/// How many days ahead the end of a version is reported.
const WARN_DAYS: i64 = 14;

/// The versions that end soon, by scope, from the last answer.
#[derive(Default)]
pub(super) struct Ending(Mutex<BTreeMap<Scope, Vec<EndingVersion>>>);

impl Ending {
    fn replace(&self, scope: &Scope, ending: Vec<EndingVersion>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(scope.clone(), ending);
    }

    /// Returns each version once, the one that ends first before the others.
    pub(super) fn all(&self) -> Vec<EndingVersion> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = known.values().flatten().cloned().collect();
        all.sort_by(|a, b| (a.ends_at, &a.version).cmp(&(b.ends_at, &b.version)));
        all.dedup();
        all
    }
}

#[derive(Deserialize)]
struct Deprecation {
    #[serde(default, deserialize_with = "maybe_date")]
    registration_deprecates_at: Option<Timestamp>,
    #[serde(default, deserialize_with = "maybe_date")]
    runtime_deprecates_at: Option<Timestamp>,
}

impl GitHub {
    /// Returns the versions in use that end within two weeks, and remembers them for
    /// [`figures`](Self::figures). What cannot be read is left out: old servers do not tell.
    pub async fn ending_versions(
        &self,
        scope: &Scope,
        images: &[&str],
        now: Timestamp,
    ) -> Vec<EndingVersion> {
        let mut versions: BTreeSet<String> =
            images.iter().filter_map(|image| version_of(image)).map(str::to_owned).collect();
        match self.versions_of_runners(scope).await {
            Ok(found) => versions.extend(found),
            Err(failure) => debug!(scope = %scope, "runner versions: {}", failure.why()),
        }
        let mut ending = Vec::new();
        for version in versions {
            match self.deprecation(scope, &version).await {
                Ok(Some(deprecation)) => ending.extend(judge(version, &deprecation, now)),
                Ok(None) => {}
                Err(failure) => debug!(scope = %scope, "runner {version}: {}", failure.why()),
            }
        }
        self.ending.replace(scope, ending.clone());
        ending
    }

    async fn versions_of_runners(&self, scope: &Scope) -> Result<BTreeSet<String>, ApiFailure> {
        let (route, etags) = (route::runners(scope), Some(&*self.etags));
        let list = List { scope, lane: Lane::List, route, field: "runners", etags };
        let runners = self.api.list::<wire::Runner>(list).await?;
        Ok(runners.into_iter().map(|it| it.version).filter(|it| !it.is_empty()).collect())
    }

    async fn deprecation(
        &self,
        scope: &Scope,
        version: &str,
    ) -> Result<Option<Deprecation>, ApiFailure> {
        let question = ApiRequest::get(route::deprecation(scope, version));
        let answer = self.api.ask(scope, Lane::List, &question).await?;
        match answer.status {
            200 => answer.read().map(Some),
            404 => Ok(None),
            _ => Err(answer.unexpected("cannot read when a runner version ends")),
        }
    }
}

/// Returns the version an image is tagged with, if it is one.
fn version_of(image: &str) -> Option<&str> {
    let tag = image.split('@').next()?.rsplit_once(':')?.1;
    let numbers = tag.split('.').filter(|part| part.parse::<u32>().is_ok()).count();
    (numbers == 3 && tag.split('.').count() == 3).then_some(tag)
}

/// Decides whether the end of a version is near: of registering or of running, the earlier.
fn judge(version: String, deprecation: &Deprecation, now: Timestamp) -> Option<EndingVersion> {
    let ends = [deprecation.registration_deprecates_at, deprecation.runtime_deprecates_at];
    let ending = EndingVersion { version, ends_at: ends.into_iter().flatten().min()? };
    (ending.days_left(now) <= WARN_DAYS).then_some(ending)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + hours * 3_600).expect("a date")
    }

    fn deprecation(registration: Option<i64>, runtime: Option<i64>) -> Deprecation {
        Deprecation {
            registration_deprecates_at: registration.map(at),
            runtime_deprecates_at: runtime.map(at),
        }
    }

    #[test]
    fn a_version_is_warned_of_two_weeks_ahead_and_for_ever_after() {
        let days = |it: &Deprecation| judge("2".into(), it, at(0)).map(|it| it.days_left(at(0)));
        assert_eq!(days(&deprecation(None, None)), None, "GitHub does not say");
        assert_eq!(days(&deprecation(None, Some(15 * 24))), None);
        assert_eq!(days(&deprecation(None, Some(15 * 24 - 1))), Some(14));
        assert_eq!(days(&deprecation(None, Some(23))), Some(0));
        assert_eq!(days(&deprecation(None, Some(-1))), Some(-1));
        assert_eq!(days(&deprecation(Some(48), Some(900))), Some(2), "the earlier end counts");
    }

    #[test]
    fn it_is_said_what_happens_when_and_what_to_do() {
        let said =
            |hours| EndingVersion { version: "2.300.0".into(), ends_at: at(hours) }.sentence(at(0));
        for (hours, words) in [
            (14 * 24, "for 14 more days"),
            (25, "for one more day"),
            (3, "no more jobs within a day"),
            (0, "is no longer sent jobs"),
            (-99, "is no longer sent jobs"),
        ] {
            assert!(said(hours).contains(words), "{}", said(hours));
            assert!(said(hours).contains("replace the image"), "{}", said(hours));
        }
    }

    #[test]
    fn a_version_of_several_scopes_is_listed_once_and_the_next_answer_replaces_the_last() {
        let (known, acme, other) =
            (Ending::default(), "acme".parse().unwrap(), "b/c".parse().unwrap());
        let of =
            |version: &str, hours| EndingVersion { version: version.into(), ends_at: at(hours) };
        known.replace(&acme, vec![of("2.1.0", 9), of("2.0.0", 5)]);
        known.replace(&other, vec![of("2.0.0", 5)]);
        assert_eq!(known.all(), [of("2.0.0", 5), of("2.1.0", 9)]);
        known.replace(&acme, vec![]);
        assert_eq!(known.all(), [of("2.0.0", 5)]);
    }

    #[test]
    fn the_version_is_read_from_a_tag_that_is_one() {
        let tagged = "ghcr.io/actions/actions-runner:2.336.0@sha256:00ff";
        assert_eq!(version_of(tagged), Some("2.336.0"));
        for other in ["runner", "runner:latest", "host:5000/runner", "runner:2.336", "", "r:2.3.x"]
        {
            assert_eq!(version_of(other), None, "{other}");
        }
    }
}
