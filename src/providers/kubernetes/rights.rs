//! Whether the cluster would let us: every right we use, asked for by name, and every pool's pod in
//! a dry run.

use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::Api;
use kube::api::PostParams;
use ostler_actors::model::{Binding, PoolSpec, Stamp};
use ostler_actors::ports::{CreateOrder, DryRun, DryRunResult, Finding, Grade, SelfCheck};

use super::client::{CALL, Failure, within};
use super::pod;
use super::provider::Kubernetes;

/// How long one question may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Tells how much a right is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing works without it.
    Always,
    /// Pools that bind late do not work without it.
    Late,
    /// Pools that bind early do not work without it.
    Early,
    /// Less can be told or avoided without it.
    Advised,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right {
    pub verb: &'static str,
    /// To what: `pods`, `pods/log`.
    pub resource: &'static str,
    /// The API group; empty for the core.
    pub group: &'static str,
    /// Whether it is wanted for the whole cluster rather than for the namespace of the pods.
    pub everywhere: bool,
    /// How much it is needed.
    pub need: Need,
}

const fn here(verb: &'static str, resource: &'static str, need: Need) -> Right {
    Right { verb, resource, group: "", everywhere: false, need }
}

const fn everywhere(
    verb: &'static str,
    resource: &'static str,
    group: &'static str,
    need: Need,
) -> Right {
    Right { verb, resource, group, everywhere: true, need }
}

/// Every right we use; `config/kubernetes/rbac.yaml` grants exactly these.
pub const RIGHTS: &[Right] = &[
    here("create", "pods", Need::Always),
    here("get", "pods", Need::Always),
    here("list", "pods", Need::Always),
    here("watch", "pods", Need::Always),
    here("delete", "pods", Need::Always),
    here("patch", "pods", Need::Always),
    here("get", "pods/log", Need::Always),
    here("list", "events", Need::Advised),
    here("create", "secrets", Need::Early),
    here("delete", "secrets", Need::Early),
    everywhere("get", "nodes", "", Need::Advised),
    everywhere("list", "nodes", "", Need::Advised),
    everywhere("watch", "nodes", "", Need::Advised),
    everywhere("create", "tokenreviews", "authentication.k8s.io", Need::Late),
];

/// Tells whether we have a right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Granted {
    Yes,
    No,
    /// It could not be found out.
    Unknown(String),
}

impl std::fmt::Display for Right {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = if self.everywhere { "in the cluster" } else { "in the namespace" };
        write!(f, "{} {} {place}", self.verb, self.resource)
    }
}

impl Kubernetes {
    /// Asks the cluster whether we have a right.
    pub async fn has(&self, right: &Right) -> Granted {
        let reached = match self.state.cluster.reach().await {
            Ok(reached) => reached,
            Err(why) => return Granted::Unknown(why.to_string()),
        };
        let (resource, part) = match right.resource.split_once('/') {
            Some((resource, part)) => (resource, Some(part.to_owned())),
            None => (right.resource, None),
        };
        let attributes = ResourceAttributes {
            verb: Some(right.verb.into()),
            resource: Some(resource.into()),
            subresource: part,
            group: Some(right.group.into()),
            namespace: (!right.everywhere).then(|| reached.namespace.clone()),
            ..ResourceAttributes::default()
        };
        let question = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(attributes),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let reviews = Api::<SelfSubjectAccessReview>::all(reached.client.clone());
        match within(CALL_TIMEOUT, reviews.create(&PostParams::default(), &question)).await {
            Ok(answer) if answer.status.as_ref().is_some_and(|it| it.allowed) => Granted::Yes,
            Ok(_) => Granted::No,
            Err(why) => Granted::Unknown(why.to_string()),
        }
    }
}

#[async_trait]
impl DryRun for Kubernetes {
    async fn try_pool(&self, pool: &PoolSpec) -> DryRunResult {
        let order = CreateOrder {
            // Long enough to be refused where a real name would be.
            name: format!("{}-rehearsal000", pool.prefix).as_str().into(),
            stamp: Stamp { pool: Some(pool.id.clone()), ..Stamp::default() },
            machine: pool.machine.clone(),
            pool: std::sync::Arc::new(pool.clone()),
            avoid: Vec::new(),
            attempt: 1,
            jit: None,
            slot: ostler_actors::ports::CreateSlot::default(),
        };
        let made = pod::pod(&order, &self.state.settings).map_err(|error| error.to_string());
        let body = made.and_then(|pod| serde_json::to_vec(&pod).map_err(|error| error.to_string()));
        let body = match body {
            Ok(body) => body,
            Err(why) => return DryRunResult::Refused(why),
        };
        let params = PostParams { dry_run: true, ..PostParams::default() };
        match tokio::time::timeout(CALL, self.state.post(&body, &params)).await {
            Ok(Ok(_)) => DryRunResult::Fits,
            // A full quota is no fault of the pod.
            Ok(Err(failure)) if is_quota(&failure) => DryRunResult::Fits,
            Ok(Err(failure)) if matches!(failure.code(), Some(400 | 403 | 404 | 422)) => {
                DryRunResult::Refused(failure.to_string())
            }
            Ok(Err(failure)) => DryRunResult::Unknown(failure.to_string()),
            Err(_) => DryRunResult::Unknown("the API server does not answer".into()),
        }
    }
}

#[async_trait]
impl SelfCheck for Kubernetes {
    /// Asks for every right we use, and lets the cluster judge the pods of every pool.
    async fn check(&self, pools: &[PoolSpec]) -> Vec<Finding> {
        let bindings: Vec<Binding> = pools.iter().map(|pool| pool.binding).collect();
        let mut findings = Vec::new();
        for right in RIGHTS {
            match self.has(right).await {
                Granted::No if is_needed(right, &bindings) => findings.push(Finding::new(
                    "rights",
                    Grade::Wrong,
                    format!("may not {right}; grant it as in config/kubernetes/rbac.yaml"),
                )),
                Granted::No if right.need == Need::Advised => findings.push(Finding::new(
                    "rights",
                    Grade::Doubt,
                    format!("may not {right}: less can be told about deaths and drained nodes"),
                )),
                Granted::Yes | Granted::No => {}
                Granted::Unknown(why) => {
                    let says = format!("cannot be asked: {why}");
                    findings.push(Finding::new("cluster", Grade::Wrong, says));
                    return findings;
                }
            }
        }
        if findings.is_empty() {
            findings.push(Finding::new("rights", Grade::Ok, "may do all that is needed"));
        }
        for pool in pools {
            let id = &pool.id;
            let (grade, says) = match self.try_pool(pool).await {
                DryRunResult::Fits => (Grade::Ok, format!("pods of pool `{id}` are accepted")),
                DryRunResult::Refused(why) => {
                    (Grade::Wrong, format!("pods of pool `{id}` are refused: {why}"))
                }
                DryRunResult::Unknown(why) => {
                    (Grade::Doubt, format!("pods of pool `{id}` could not be tried: {why}"))
                }
            };
            findings.push(Finding::new("pod", grade, says));
        }
        findings
    }
}

/// Returns whether the pods of the namespace have used up what they may.
pub(super) fn is_quota(failure: &Failure) -> bool {
    match failure {
        Failure::Refused(status) => status.code == 403 && status.message.contains("exceeded quota"),
        Failure::Unanswered(_) => false,
    }
}

/// Returns whether a right is needed for pools that bind like this.
fn is_needed(right: &Right, bindings: &[Binding]) -> bool {
    match right.need {
        Need::Always => true,
        Need::Late => bindings.contains(&Binding::Late),
        Need::Early => bindings.contains(&Binding::Early),
        Need::Advised => false,
    }
}
