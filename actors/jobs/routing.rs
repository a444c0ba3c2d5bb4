//! Whose demand a job is.
//!
//! A pool can serve a job of its forge and scope whose labels are a subset of the pool's.
//! Of those, the one with the fewest labels to spare comes first, then the order of the
//! config, so that a plain job does not take a runner with a rare label. A pool that
//! refuses is passed over; when all refuse, the job stays with its first choice as
//! *blocked* demand, which is worth one instance.

use super::Accepts;
use crate::model::{ForgeId, Job, Labels, Place, PoolId, PoolSpec};

/// Holds what a job requires of a pool; jobs that require the same are routed the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct JobRequirements {
    pub(crate) forge: ForgeId,
    pub(crate) place: Place,
    pub(crate) labels: Labels,
}

impl JobRequirements {
    /// Returns what a job requires.
    pub(crate) fn of(job: &Job) -> Self {
        Self { forge: job.id.forge.clone(), place: job.place.clone(), labels: job.labels.clone() }
    }

    /// Returns whether `pool` fits.
    pub(crate) fn fit(&self, pool: &PoolSpec) -> bool {
        misfit(self, pool).is_none()
    }
}

/// Tells whose demand a job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JobRoute {
    To(PoolId),
    /// Its first choice refuses, and so do all others.
    Held {
        pool: PoolId,
        why: Accepts,
    },
    Unserved(String),
}

/// Decides whose demand a job is; `pools` are in the order of the config.
pub(crate) fn route(requirements: &JobRequirements, pools: &[(&PoolSpec, Accepts)]) -> JobRoute {
    let mut fitting: Vec<_> = pools.iter().filter(|(pool, _)| requirements.fit(pool)).collect();
    // The sort is stable: equal ones stay in the order of the config.
    fitting.sort_by_key(|(pool, _)| pool.labels.len());
    let taker = fitting.iter().find(|(_, accepts)| *accepts == Accepts::Work);
    match (taker, fitting.first()) {
        (Some((pool, _)), _) => JobRoute::To(pool.id.clone()),
        (None, Some((pool, why))) => JobRoute::Held { pool: pool.id.clone(), why: *why },
        (None, None) => JobRoute::Unserved(why_unserved(requirements, pools)),
    }
}

/// Tells why a pool cannot serve a job; later ones are nearer misses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PoolMisfit {
    Forge,
    Scope,
    Unlabelled,
    Labels,
}

fn misfit(requirements: &JobRequirements, pool: &PoolSpec) -> Option<PoolMisfit> {
    if pool.forge != requirements.forge {
        Some(PoolMisfit::Forge)
    } else if !pool.scope.covers(&requirements.place) {
        Some(PoolMisfit::Scope)
    } else if requirements.labels.is_empty() {
        (!pool.accept_unlabelled).then_some(PoolMisfit::Unlabelled)
    } else {
        (!pool.labels.serve(&requirements.labels)).then_some(PoolMisfit::Labels)
    }
}

/// Returns the nearest miss as a sentence.
fn why_unserved(requirements: &JobRequirements, pools: &[(&PoolSpec, Accepts)]) -> String {
    let nearest = pools.iter().filter_map(|(pool, _)| misfit(requirements, pool)).max();
    let Place { owner, repository, .. } = &requirements.place;
    match nearest {
        None => "there is no pool".into(),
        Some(PoolMisfit::Forge) => format!("no pool serves forge `{}`", requirements.forge),
        Some(PoolMisfit::Scope) => format!("no pool serves `{owner}/{repository}`"),
        Some(PoolMisfit::Unlabelled) => {
            "it asks for no labels, and no pool has `accept_unlabelled`".into()
        }
        Some(PoolMisfit::Labels) => lacking(requirements, pools),
    }
}

/// Returns which pool comes nearest to the labels, and what it lacks.
fn lacking(requirements: &JobRequirements, pools: &[(&PoolSpec, Accepts)]) -> String {
    let missing = |pool: &PoolSpec| -> Labels {
        let has: Vec<&str> = pool.labels.iter().collect();
        requirements.labels.iter().filter(|label| !has.contains(label)).collect()
    };
    let nearest = pools
        .iter()
        .filter(|(pool, _)| misfit(requirements, pool) == Some(PoolMisfit::Labels))
        .map(|(pool, _)| (missing(pool), &pool.id))
        .min_by_key(|(missing, _)| missing.len());
    match nearest {
        Some((missing, pool)) => format!(
            "no pool has all labels of {}; `{pool}` comes nearest and lacks {missing}",
            requirements.labels
        ),
        None => format!("no pool has all labels of {}", requirements.labels),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::tests::{place, pool};

    fn requiring(labels: &[&str]) -> JobRequirements {
        JobRequirements { forge: "github".into(), place: place(), labels: labels.iter().collect() }
    }

    /// Routes among `linux` [linux], `gpu` [gpu, linux] and `twin` [linux], in this order.
    fn among(labels: &[&str], accepts: [Accepts; 3]) -> JobRoute {
        let pools =
            [pool("linux", &["linux"]), pool("gpu", &["gpu", "linux"]), pool("twin", &["linux"])];
        let pools: Vec<_> = pools.iter().zip(accepts).collect();
        route(&requiring(labels), &pools)
    }

    fn to(pool: &str) -> JobRoute {
        JobRoute::To(pool.into())
    }

    #[test]
    fn a_job_goes_to_the_pool_with_the_fewest_extra_labels_then_by_config_order() {
        use Accepts::{Broken, Draining, Full, Work};
        for (labels, accepts, expected) in [
            (vec!["linux"], [Work, Work, Work], to("linux")),
            (vec!["LINUX"], [Work, Work, Work], to("linux")),
            (vec!["gpu"], [Work, Work, Work], to("gpu")),
            (vec!["linux", "gpu"], [Work, Work, Work], to("gpu")),
            (vec!["linux"], [Full, Work, Work], to("twin")),
            (vec!["linux"], [Draining, Work, Broken], to("gpu")),
            (
                vec!["linux"],
                [Full, Broken, Draining],
                JobRoute::Held { pool: "linux".into(), why: Full },
            ),
            (vec!["gpu"], [Work, Broken, Work], JobRoute::Held { pool: "gpu".into(), why: Broken }),
        ] {
            assert_eq!(among(&labels, accepts), expected, "{labels:?} with {accepts:?}");
        }
    }

    #[test]
    fn an_unserved_job_says_which_pool_comes_nearest() {
        let work = [Accepts::Work; 3];
        let JobRoute::Unserved(why) = among(&["linux", "arm"], work) else { panic!("served") };
        assert!(why.contains("lacks [arm]"), "{why}");
        let JobRoute::Unserved(why) = among(&[], work) else { panic!("served") };
        assert!(why.contains("accept_unlabelled"), "{why}");
        assert_eq!(
            route(&requiring(&["linux"]), &[]),
            JobRoute::Unserved("there is no pool".into())
        );
    }

    #[test]
    fn forge_and_scope_must_be_the_pools_own() {
        let linux = pool("linux", &["linux"]);
        let pools = [(&linux, Accepts::Work)];
        let elsewhere = JobRequirements { forge: "ghes".into(), ..requiring(&["linux"]) };
        assert_eq!(
            route(&elsewhere, &pools),
            JobRoute::Unserved("no pool serves forge `ghes`".into())
        );
        let foreign = Place { owner: "other".into(), ..place() };
        let foreign = JobRequirements { place: foreign, ..requiring(&["linux"]) };
        assert_eq!(
            route(&foreign, &pools),
            JobRoute::Unserved("no pool serves `other/web`".into())
        );
    }

    #[test]
    fn jobs_without_labels_go_only_to_a_pool_that_accepts_them() {
        let mut open = pool("any", &["linux", "x64"]);
        open.accept_unlabelled = true;
        let linux = pool("linux", &["linux"]);
        let pools = [(&linux, Accepts::Work), (&open, Accepts::Work)];
        assert_eq!(route(&requiring(&[]), &pools), to("any"));
    }
}
