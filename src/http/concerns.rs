//! What keeps the fleet from its work: pools whose instances fail, and forges and providers that do
//! not answer or refuse us.

use ostler_actors::model::{PoolId, Timestamp};
use ostler_actors::pool::blamed_images;
use ostler_actors::registry::PoolView;

use super::AppState;
use crate::ports::{CallTrouble, Concern, ConcernKind};

/// From how many failed lives on a pool is a concern, also while its breaker is closed.
const FAILURES_OF_CONCERN: u32 = 2;

impl AppState {
    /// Returns what keeps the fleet from its work, credentials first.
    pub(super) fn concerns(&self) -> Vec<Concern> {
        let mut concerns = Vec::new();
        for (id, forge) in self.forges.load().iter() {
            for trouble in forge.monitor.figures().troubles {
                concerns.push(of_forge(id.as_str(), trouble));
            }
        }
        concerns.extend(self.provider_health.troubles().into_iter().map(of_provider));
        let views = self.registry.pools();
        let views: Vec<&PoolView> = views.iter().map(|view| &**view).collect();
        let config = self.config.load();
        let image_of = |id: &PoolId| {
            let pool = config.pools.iter().find(|pool| pool.name == id.as_str())?;
            Some(pool.image.as_str())
        };
        let blamed = blamed_images(&views, image_of);
        let since = |pools: &[PoolId]| {
            let failing = views.iter().filter(|view| pools.contains(&view.id));
            failing.filter_map(|view| Some(view.failing.as_ref()?.since)).min()
        };
        concerns.extend(
            blamed.iter().filter_map(|(image, pools)| Some(of_image(image, pools, since(pools)?))),
        );
        concerns.extend(views.into_iter().filter_map(of_pool));
        concerns.sort_by_key(|concern| std::cmp::Reverse(concern.kind));
        concerns
    }
}

fn of_forge(forge: &str, trouble: CallTrouble) -> Concern {
    let CallTrouble { who, since, error, credential } = trouble;
    let (kind, sentence, advice) = if credential {
        let advice = "Renew the credential; `ostler check --live` says what it may do.";
        (ConcernKind::Credential, format!("forge {forge} refuses {who}: {error}"), advice)
    } else {
        let advice = "Look at the forge's own status, and at the network between it and us.";
        (ConcernKind::Forge, format!("forge {forge} does not serve {who}: {error}"), advice)
    };
    Concern { kind, subject: forge.into(), since, sentence, advice: advice.into() }
}

fn of_provider(trouble: CallTrouble) -> Concern {
    let CallTrouble { who, since, error, credential } = trouble;
    let (kind, sentence, advice) = if credential {
        let advice = "Renew the provider's credential, or give it the rights that its error names.";
        (ConcernKind::Credential, format!("provider {who} refuses our credential: {error}"), advice)
    } else {
        let advice = "Look at the provider's own status; nothing is created or deleted there now.";
        (ConcernKind::Provider, format!("provider {who} does not serve calls: {error}"), advice)
    };
    Concern { kind, subject: who, since, sentence, advice: advice.into() }
}

fn of_image(image: &str, pools: &[PoolId], since: Timestamp) -> Concern {
    let pools = pools.iter().map(PoolId::as_str).collect::<Vec<_>>().join(", ");
    Concern {
        kind: ConcernKind::Image,
        subject: image.into(),
        since,
        sentence: format!("image {image} fails in pools {pools} and serves in none"),
        advice: "Start it by hand, or go back to the last image that served.".into(),
    }
}

fn of_pool(view: &PoolView) -> Option<Concern> {
    let id = &view.id;
    let concern = |since, sentence, advice| Concern {
        kind: ConcernKind::Pool,
        subject: id.to_string(),
        since,
        sentence,
        advice,
    };
    match (&view.failing, view.breaker) {
        (Some(failing), held) if held.is_some() || failing.failures >= FAILURES_OF_CONCERN => {
            let failure = &failing.failure;
            let state = if held.is_some() { "creates no runners but probes" } else { "fails" };
            let sentence = format!(
                "pool {id} {state}: {} failed in a row, fault of the {} (stage {}): {}",
                failing.failures, failure.class, failure.stage, failure.error
            );
            Some(concern(held.unwrap_or(failing.at), sentence, failure.advice.to_string()))
        }
        (None, Some(since)) => Some(concern(
            since,
            format!("pool {id} creates no runners but probes: they failed before the last restart"),
            format!("See `ostler explain pool {id}`."),
        )),
        (Some(_), _) | (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_credential_is_never_a_matter_of_quota() {
        let since = Timestamp::UNIX_EPOCH;
        let error = "GitHub does not accept token 1: 401 Bad credentials; renew the credential";
        let trouble =
            CallTrouble { who: "token 1".into(), since, error: error.into(), credential: true };
        let concern = of_forge("github", trouble.clone());
        assert_eq!((concern.kind, concern.subject.as_str()), (ConcernKind::Credential, "github"));
        assert!(concern.sentence.contains("401 Bad credentials"), "{}", concern.sentence);
        assert!(!concern.advice.contains("quota"), "{}", concern.advice);
        assert_eq!(of_provider(trouble).kind, ConcernKind::Credential);
    }
}
