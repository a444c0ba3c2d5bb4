//! Whose a token is: asked of the API server, remembered for a while.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use k8s_openapi::api::authentication::v1::{
    TokenReview as KubeTokenReview, TokenReviewSpec, TokenReviewStatus, UserInfo,
};
use kube::Api;
use kube::api::PostParams;
use ostler_actors::ports::{MachineAuth, MachineRef, MachineToken, TokenReview};
use serde::Deserialize;
use tokio::time::Instant;

use super::client::within;
use super::provider::Kubernetes;
use super::settings::AUDIENCE;

/// How long an answer is believed.
const GOOD: Duration = Duration::from_mins(5);
const BAD: Duration = Duration::from_secs(10);
/// How long the server may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// How many answers are remembered at most.
const MANY: usize = 50_000;

/// Remembers answers by the hash of their token; a token itself is never kept.
#[derive(Default)]
pub(super) struct Reviews(Mutex<BTreeMap<[u8; 32], (Instant, TokenReview)>>);

impl Reviews {
    fn known(&self, token: &[u8; 32]) -> Option<TokenReview> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(token).filter(|(until, _)| *until > Instant::now()).map(|(_, it)| it.clone())
    }

    fn keep(&self, token: [u8; 32], reviewed: &TokenReview) {
        let good_for = match reviewed {
            TokenReview::Belongs(_) => GOOD,
            TokenReview::Refused(_) => BAD,
            TokenReview::Unknown(_) => return,
        };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MANY {
            known.retain(|_, (until, _)| *until > Instant::now());
        }
        if known.len() < MANY {
            known.insert(token, (Instant::now() + good_for, reviewed.clone()));
        }
    }
}

#[async_trait]
impl MachineAuth for Kubernetes {
    async fn review(&self, token: &MachineToken) -> TokenReview {
        // Any client may send a token, and machines of other providers have tickets of their own: what is not
        // even meant for us is nothing a cluster should see, and no reason to ask it.
        if !is_for_us(token.reveal()) {
            return TokenReview::Refused("this token is for another service".into());
        }
        let hash = hash(token);
        if let Some(known) = self.state.reviews.known(&hash) {
            return known;
        }
        let reviewed = self.ask(token).await;
        self.state.reviews.keep(hash, &reviewed);
        reviewed
    }
}

impl Kubernetes {
    async fn ask(&self, token: &MachineToken) -> TokenReview {
        let reached = match self.state.cluster.reach().await {
            Ok(reached) => reached,
            Err(why) => return TokenReview::Unknown(why.to_string()),
        };
        let question = KubeTokenReview {
            spec: TokenReviewSpec {
                audiences: Some(vec![AUDIENCE.into()]),
                token: Some(token.reveal().to_owned()),
            },
            ..KubeTokenReview::default()
        };
        let reviews = Api::<KubeTokenReview>::all(reached.client.clone());
        match within(CALL_TIMEOUT, reviews.create(&PostParams::default(), &question)).await {
            Ok(answer) => judge(answer.status.unwrap_or_default(), &reached.namespace),
            Err(why) => TokenReview::Unknown(why.to_string()),
        }
    }
}

/// Returns whether a token claims to be for us; whether that is true only the server can say.
fn is_for_us(token: &str) -> bool {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Audience {
        One(String),
        Many(Vec<String>),
    }
    #[derive(Deserialize)]
    struct Claims {
        aud: Audience,
    }
    let [_, claims, _] = token.split('.').collect::<Vec<_>>()[..] else { return false };
    let claims = BASE64_URL_SAFE_NO_PAD.decode(claims).unwrap_or_default();
    match serde_json::from_slice::<Claims>(&claims).map(|claims| claims.aud) {
        Ok(Audience::One(audience)) => audience == AUDIENCE,
        Ok(Audience::Many(audiences)) => audiences.iter().any(|audience| audience == AUDIENCE),
        Err(_) => false,
    }
}

/// Judges the server's answer: good, for us, of a pod in our namespace.
fn judge(status: TokenReviewStatus, namespace: &str) -> TokenReview {
    let refused = |why: &str| TokenReview::Refused(why.to_owned());
    if status.authenticated != Some(true) {
        return refused("the cluster does not know this token, or it is too old");
    }
    // A server that does not know audiences would call any token good.
    if !status.audiences.unwrap_or_default().iter().any(|audience| audience == AUDIENCE) {
        return refused("this token is for another service");
    }
    let user = status.user.unwrap_or_default();
    let ours = format!("system:serviceaccount:{namespace}:");
    if !user.username.as_ref().is_some_and(|name| name.starts_with(&ours)) {
        return refused("this token is from another namespace");
    }
    match (extra(&user, "pod-name"), extra(&user, "pod-uid")) {
        (Some(name), Some(uid)) => {
            TokenReview::Belongs(MachineRef { name: name.as_str().into(), uid: Some(uid) })
        }
        (_, _) => refused("this token is bound to no pod"),
    }
}

fn extra(user: &UserInfo, key: &str) -> Option<String> {
    let found = user.extra.as_ref()?.get(&format!("authentication.kubernetes.io/{key}"))?;
    found.first().filter(|text| !text.is_empty()).cloned()
}

fn hash(token: &MachineToken) -> [u8; 32] {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, token.reveal().as_bytes());
    let mut hash = [0; 32];
    hash.copy_from_slice(digest.as_ref());
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> TokenReviewStatus {
        let of = |text: &str| vec![text.to_owned()];
        let extra = BTreeMap::from([
            ("authentication.kubernetes.io/pod-name".to_owned(), of("linux-1")),
            ("authentication.kubernetes.io/pod-uid".to_owned(), of("u1")),
        ]);
        TokenReviewStatus {
            authenticated: Some(true),
            audiences: Some(of(AUDIENCE)),
            user: Some(UserInfo {
                username: Some("system:serviceaccount:runners:default".into()),
                extra: Some(extra),
                ..UserInfo::default()
            }),
            error: None,
        }
    }

    #[test]
    fn a_token_of_a_pod_names_the_pod() {
        let machine = MachineRef { name: "linux-1".into(), uid: Some("u1".into()) };
        assert_eq!(judge(status(), "runners"), TokenReview::Belongs(machine));
    }

    #[test]
    fn a_token_that_lacks_any_part_of_the_proof_is_refused() {
        let mut bad = vec![TokenReviewStatus { authenticated: None, ..status() }];
        bad.push(TokenReviewStatus { audiences: None, ..status() });
        bad.push(TokenReviewStatus { audiences: Some(vec!["https://api".into()]), ..status() });
        bad.push(TokenReviewStatus { user: None, ..status() });
        let user = UserInfo { extra: None, ..status().user.unwrap() };
        bad.push(TokenReviewStatus { user: Some(user), ..status() });
        for status in bad {
            assert!(matches!(judge(status, "runners"), TokenReview::Refused(_)));
        }
        assert!(matches!(judge(status(), "runner"), TokenReview::Refused(_)));
    }

    #[test]
    fn a_token_that_is_not_meant_for_us_is_asked_about_nowhere() {
        let token = |claims: &str| format!("head.{}.sign", BASE64_URL_SAFE_NO_PAD.encode(claims));
        assert!(is_for_us(&token(r#"{"aud":["ostler-dispatch"],"exp":1}"#)));
        assert!(is_for_us(&token(r#"{"aud":"ostler-dispatch"}"#)));
        for claims in [r#"{"aud":["https://kubernetes.default.svc"]}"#, r#"{"aud":7}"#, "{}", ""] {
            assert!(!is_for_us(&token(claims)), "{claims}");
        }
        for garbage in ["", "t", "a.b", "a.b.c", "a..b", "..", "a.b.c.d", "a.\u{0}.c"] {
            assert!(!is_for_us(garbage), "{garbage}");
        }
    }

    #[test]
    fn a_failure_to_ask_is_not_remembered() {
        let reviews = Reviews::default();
        reviews.keep([1; 32], &TokenReview::Unknown("down".into()));
        assert_eq!(reviews.known(&[1; 32]), None);
        reviews.keep([1; 32], &TokenReview::Refused("no".into()));
        assert_eq!(reviews.known(&[1; 32]), Some(TokenReview::Refused("no".into())));
    }
}
