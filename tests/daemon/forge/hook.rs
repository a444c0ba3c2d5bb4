//! `ostler hook`: installs once, mends, and says what is wrong.

use std::sync::atomic::Ordering;

use ostler::demo::github::SimHookOwner;
use ostler_actors::model::{Place, Scope};

use super::fixture::ForgeFixture;

fn acme() -> SimHookOwner {
    SimHookOwner::Scope(Scope::Organization("acme".into()))
}

fn web() -> Place {
    Place { owner: "acme".into(), repository: "web".into(), enterprise: None }
}

/// Waits until every delivery has its answer.
async fn settled(fixture: &ForgeFixture, hook: u64) {
    fixture.sim.until(|sim| sim.attempts(hook).iter().all(|it| it.status != 0)).await;
}

#[tokio::test]
async fn a_hook_is_created_once_and_then_repaired() {
    let fixture = ForgeFixture::with_token();
    let said = fixture.run(&["hook", "install"]);
    assert_eq!(said.code, 0, "{said:?}");
    let hooks = fixture.sim.hooks();
    assert_eq!(hooks.len(), 1);
    let hook = &hooks[0];
    assert_eq!(hook.url, format!("{}/webhooks/github", fixture.hook_target.url));
    assert_eq!((hook.secret.as_str(), hook.content_type.as_str()), ("hush-hush-hush-hush", "json"));
    assert_eq!(hook.events, ["workflow_job"]);
    settled(&fixture, hook.id).await;
    assert_eq!(fixture.run(&["hook", "status"]).code, 0);
    fixture.sim.edit_hook(hook.id, |hook| {
        hook.events = vec!["push".into()];
        hook.active = false;
        hook.secret.clear();
        hook.content_type = "form".into();
    });
    let said = fixture.run(&["hook", "status"]);
    assert_eq!((said.code, said.out.matches("  problem ").count()), (1, 4), "{said:?}");
    fixture.write("hook.secret", "another-secret-of-ours");
    let said = fixture.run(&["hook", "install"]);
    assert!(said.code == 0 && said.out.contains("existed"), "{said:?}");
    let hooks = fixture.sim.hooks();
    assert_eq!((hooks.len(), hooks[0].secret.as_str()), (1, "another-secret-of-ours"));
    assert!(hooks[0].active && hooks[0].events == ["workflow_job"]);
    assert!(!format!("{said:?}").contains("another-secret"), "a secret is never printed");
}

#[tokio::test]
async fn a_wrong_secret_is_inferred_from_how_deliveries_were_answered() {
    let fixture = ForgeFixture::with_token();
    let url = format!("{}/webhooks/github", fixture.hook_target.url);
    let id = fixture.sim.add_hook(acme(), &url, "something else");
    fixture.hook_target.answer.store(401, Ordering::Relaxed);
    fixture.sim.queue(&web(), ostler::demo::github::JobPlan::default());
    settled(&fixture, id).await;
    let said = fixture.run(&["hook", "status"]);
    assert_eq!(said.code, 1);
    assert!(said.out.contains("401") && said.out.contains("another secret"), "{said:?}");
    let json: serde_json::Value =
        serde_json::from_str(&fixture.run(&["hook", "status", "--json"]).out).expect("JSON");
    assert_eq!(json[0]["deliveries"][0]["status_code"], 401);
    assert_eq!(json[0]["faults"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn the_hook_of_an_app_that_sends_to_us_is_enough() {
    let fixture = ForgeFixture::with_app();
    let said = fixture.run(&["hook", "status"]);
    assert!(said.code == 3 && said.out.contains("hook install"), "{said:?}");
    fixture.sim.add_hook(
        SimHookOwner::App,
        &format!("{}/webhooks/github", fixture.hook_target.url),
        "hush-hush-hush-hush",
    );
    let said = fixture.run(&["hook", "install"]);
    assert!(said.code == 0 && said.out.contains("the hook of the App"), "{said:?}");
    assert_eq!(fixture.sim.hooks().len(), 1);
    assert_eq!(fixture.run(&["hook", "status"]).code, 0);
}

#[tokio::test]
async fn what_cannot_be_done_is_said_with_the_right_code() {
    let fixture = ForgeFixture::with_token();
    assert_eq!(fixture.run(&["hook", "status", "--forge", "unknown"]).code, 3);
    let said = fixture.run(&["hook", "install", "--scope", "enterprises/initech"]);
    assert!(said.code == 1 && said.err.contains("enterprise"), "{said:?}");
    let said = fixture.run(&["hook", "install", "--scope", "acme/web"]);
    assert_eq!(said.code, 0, "{said:?}");
    fixture.sim.lie(|lies| lies.forbidden = vec!["/hooks"]);
    let said = fixture.run(&["hook", "install"]);
    assert!(said.code == 1 && said.err.contains("admin:org_hook"), "{said:?}");
    let text = fixture.read("ostler.toml");
    let without: Vec<&str> = text.lines().filter(|it| !it.starts_with("public_url")).collect();
    fixture.write("ostler.toml", &without.join("\n"));
    let said = fixture.run(&["hook", "install"]);
    assert!(said.code == 2 && said.err.contains("public_url"), "{said:?}");
    fixture.write("ostler.toml", "nonsense = 1");
    assert_eq!(fixture.run(&["hook", "status"]).code, 2);
}
