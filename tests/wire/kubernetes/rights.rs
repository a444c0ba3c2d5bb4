//! Least privilege, on a server with RBAC on: the shipped role is enough, and a role without one
//! verb away is told which.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::StreamExt as _;
use ostler::providers::kubernetes::{AUDIENCE, DrainedNodes, Granted, Kubernetes, RIGHTS, Right};
use ostler_actors::model::{Binding, MachineName, MachineView, Observation, Sighting, Tail};
use ostler_actors::ports::{
    DryRun as _, DryRunResult, Grace, Inventory as _, MachineAuth as _, MachineMarks as _,
    MachineRef, MachineSink, MachineToken, Protection, Provider as _, TokenReview,
};
use serde_json::{Value, json};

use super::fixture::{Fixture, Log, by_name, ended, exact, order, runner, settings};
use crate::support::cluster::Place;
use crate::support::daemon::until;

/// Opens a provider with the rights of a service account.
async fn as_account(place: &Place, account: &str) -> Kubernetes {
    let token = place.token(account, None, None).await;
    Kubernetes::open(settings(place, Some(&token))).unwrap()
}

/// Waits until the server has heard of a role: it follows them with a delay.
async fn until_granted(provider: &Kubernetes, lacks: Option<&Right>) {
    until("the role is known", async || {
        for right in RIGHTS {
            let wanted = if Some(right) == lacks { Granted::No } else { Granted::Yes };
            if provider.has(right).await != wanted {
                return false;
            }
        }
        true
    })
    .await;
}

#[derive(Default)]
struct Ear(std::sync::Mutex<BTreeSet<String>>);

impl MachineSink for Ear {
    fn seen(&self, view: MachineView) {
        self.0.lock().unwrap().insert(view.name.to_string());
    }

    fn missed(&self, machine: MachineName) {
        self.0.lock().unwrap().insert(format!("missed {machine}"));
    }
}

#[tokio::test]
async fn with_the_shipped_role_everything_works() {
    let Some(fixture) = Fixture::open().await else { return };
    fixture.place.apply("rbac.yaml").await;
    fixture.place.add_account("warm").await;
    let provider = as_account(&fixture.place, "ostler").await;
    until_granted(&provider, None).await;
    let ear = Arc::new(Ear::default());
    let watching = provider.watch(Arc::<Ear>::clone(&ear));

    let view = provider.create(order("m1", Binding::Early)).await.unwrap();
    assert!(matches!(provider.read(&exact(&view)).await, Sighting::Seen(_)));
    assert!(matches!(provider.list().await, Observation::Complete(all) if all.len() == 1));
    until("the pod is heard of", async || ear.0.lock().unwrap().contains("m1")).await;
    provider.mark(&exact(&view), Protection::Busy, None).await.unwrap();
    provider.forget_jit(&exact(&view)).await.unwrap();
    assert_eq!(provider.try_pool(&order("m1", Binding::Late).pool).await, DryRunResult::Fits);
    let leaving = leaving(&provider).await.unwrap();
    assert!(leaving.keys().all(|node| node.as_str() != fixture.place.node()));
    let token = fixture.place.token("warm", Some(AUDIENCE), Some("m1")).await;
    let identity = MachineRef { name: "m1".into(), uid: view.uid.clone() };
    assert_eq!(provider.review(&MachineToken::new(token)).await, TokenReview::Belongs(identity));

    fixture.place.bind("m1").await;
    fixture.place.kubelet.wrote("m1", "runner", "the end\n");
    fixture.place.say("m1", runner("Failed", ended(1, "Error"))).await;
    let exit_report = provider.exit_report(&exact(&view), true).await;
    assert_eq!(exit_report.tail, Tail::Captured("the end".into()));
    assert_eq!(exit_report.remarks, Vec::<String>::new(), "nothing was forbidden");
    provider.delete(&exact(&view), Grace::Zero).await.unwrap();
    until("its end is heard of", async || ear.0.lock().unwrap().contains("missed m1")).await;
    drop(watching);
    // And nothing beyond: no secret can be read, no pod of another namespace.
    for beyond in [
        Right { verb: "get", resource: "secrets", ..RIGHTS[0] },
        Right { verb: "list", resource: "secrets", ..RIGHTS[0] },
        Right { everywhere: true, ..RIGHTS[0] },
        Right { verb: "create", resource: "pods/exec", ..RIGHTS[0] },
    ] {
        assert_eq!(provider.has(&beyond).await, Granted::No, "{beyond}");
    }
}

/// Grants an account the shipped rights but one.
async fn grant_all_but(place: &Place, account: &str, lacks: &Right) {
    place.add_account(account).await;
    for mut object in place.read("rbac.yaml") {
        let kind = object["kind"].as_str().unwrap().to_owned();
        if !kind.ends_with("Role") && !kind.ends_with("RoleBinding") {
            continue;
        }
        let name = format!("{account}-{}", place.namespace);
        object["metadata"]["name"] = json!(name);
        if kind.ends_with("Binding") {
            object["roleRef"]["name"] = json!(name);
            object["subjects"][0]["name"] = json!(account);
        } else {
            for rule in object["rules"].as_array_mut().unwrap() {
                if rule["resources"] == json!([lacks.resource]) {
                    let verbs: Vec<Value> = rule["verbs"].as_array().unwrap().clone();
                    let left = verbs.into_iter().filter(|verb| verb != lacks.verb);
                    rule["verbs"] = left.collect();
                }
            }
            let rules = object["rules"].as_array_mut().unwrap();
            rules.retain(|rule| rule["verbs"] != json!([]));
        }
        place.apply_object(object).await;
    }
}

/// Does what needs a right, and returns the words of the refusal.
async fn refused(fixture: &Fixture, provider: &Kubernetes, right: &Right) -> String {
    let pod = by_name("there");
    match (right.verb, right.resource) {
        ("create", "pods") => {
            provider.create(order("new", Binding::Late)).await.unwrap_err().to_string()
        }
        ("get", "pods") => format!("{:?}", provider.read(&pod).await),
        ("list", "pods") => format!("{:?}", provider.list().await),
        ("watch", "pods") => logged_failure(provider).await,
        ("delete", "pods") => {
            let exact = exact(&fixture.view("there").await);
            provider.delete(&exact, Grace::Usual).await.unwrap_err().to_string()
        }
        ("patch", "pods") => provider.mark(&pod, Protection::Busy, None).await.unwrap_err(),
        ("get", "pods/log") => format!("{:?}", provider.exit_report(&pod, true).await.tail),
        ("list", "events") | ("get", "nodes") => {
            provider.exit_report(&pod, true).await.remarks.join("\n")
        }
        ("create", "secrets") => {
            provider.create(order("early", Binding::Early)).await.unwrap_err().to_string()
        }
        ("delete", "secrets") => provider.forget_jit(&pod).await.unwrap_err(),
        ("list" | "watch", "nodes") => leaving_refused(provider).await,
        ("create", "tokenreviews") => {
            let token = fixture.place.token("less-0", Some(AUDIENCE), None).await;
            format!("{:?}", provider.review(&MachineToken::new(token)).await)
        }
        other => panic!("no test tries {other:?}"),
    }
}

/// Returns the nodes that are being emptied, as they are told first.
async fn leaving(provider: &Kubernetes) -> Result<DrainedNodes, String> {
    let first = Box::pin(provider.node_conditions().await?).next().await.expect("it never ends");
    first.map(|nodes| nodes.drained)
}

/// Follows the nodes until that is refused.
async fn leaving_refused(provider: &Kubernetes) -> String {
    let mut nodes = Box::pin(provider.node_conditions().await.unwrap());
    loop {
        if let Err(why) = nodes.next().await.expect("it never ends") {
            return why;
        }
    }
}

/// Watches until the log says what is wrong. This test has one thread, so its log is all there is.
async fn logged_failure(provider: &Kubernetes) -> String {
    let (log, _listening) = Log::listen();
    let watching = provider.watch(Arc::new(Ear::default()));
    until("the log tells", async || log.text().contains("cannot")).await;
    drop(watching);
    log.text()
}

#[tokio::test]
async fn a_missing_verb_is_named() {
    let Some(fixture) = Fixture::open().await else { return };
    fixture.stand("there", runner("Failed", ended(1, "Error"))).await;
    fixture.place.kubelet.wrote("there", "runner", "x\n");
    for (number, right) in RIGHTS.iter().enumerate() {
        let account = format!("less-{number}");
        grant_all_but(&fixture.place, &account, right).await;
        let provider = as_account(&fixture.place, &account).await;
        until_granted(&provider, Some(right)).await;
        let told = refused(&fixture, &provider, right).await;
        let told = told.replace('\\', "");
        let named = format!("cannot {} resource \"{}\"", right.verb, right.resource);
        assert!(told.contains(&named), "{right}: {told}");
    }
}

#[tokio::test]
async fn the_other_manifests_are_taken_by_the_server() {
    let Some(fixture) = Fixture::open().await else { return };
    fixture.place.apply("rbac.yaml").await;
    fixture.place.apply("network.yaml").await;
    fixture.place.apply("daemon.yaml").await;
    let namespace = &fixture.place.read("namespace.yaml")[0];
    assert_eq!(namespace["kind"], "Namespace");
}

#[test]
fn the_shipped_role_grants_what_is_used_and_nothing_else() {
    let text = include_str!("../../../config/kubernetes/rbac.yaml");
    let mut granted = BTreeSet::new();
    for object in crate::support::cluster::documents(text) {
        let everywhere = object["kind"] == "ClusterRole";
        for rule in object["rules"].as_array().into_iter().flatten() {
            for verb in rule["verbs"].as_array().unwrap() {
                let (group, resource) = (&rule["apiGroups"][0], &rule["resources"][0]);
                granted.insert(format!("{everywhere} {group} {resource} {verb}"));
            }
        }
    }
    let used: BTreeSet<String> = RIGHTS
        .iter()
        .map(|it| {
            format!(
                "{} {} {} {}",
                it.everywhere,
                json!(it.group),
                json!(it.resource),
                json!(it.verb)
            )
        })
        .collect();
    assert_eq!(granted, used);
}

#[test]
fn the_disruption_budget_selects_pods_at_work_by_a_whole_number() {
    // The server of the tests has no policy/v1; so this one is held to its text.
    let text = include_str!("../../../config/kubernetes/disruption.yaml");
    let budget = &crate::support::cluster::documents(text)[0];
    assert_eq!(
        budget,
        &json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": { "name": "ostler-busy", "namespace": "ostler" },
            "spec": {
                "minAvailable": 1_000_000,
                "selector": { "matchLabels": {
                    "app.kubernetes.io/managed-by": "ostler", "ostler.dev/state": "busy",
                } },
            },
        })
    );
}
