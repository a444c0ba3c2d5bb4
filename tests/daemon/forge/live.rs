//! `ostler check --live`: what is missing is named, one sentence each.

use ostler_actors::model::Scope;
use serde_json::Value;

use super::fixture::ForgeFixture;

/// Returns the grades by what was tried, and the whole text.
fn tried(fixture: &ForgeFixture, code: i32) -> (Vec<(String, String)>, String) {
    let said = fixture.run(&["check", "--live", "--json"]);
    assert_eq!(said.code, code, "{said:?}");
    let rows: Value = serde_json::from_str(&said.out).expect("JSON");
    let word = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let rows = rows.as_array().expect("a list");
    (rows.iter().map(|row| (word(row, "what"), word(row, "grade"))).collect(), said.out)
}

fn grade<'a>(rows: &'a [(String, String)], what: &str) -> &'a str {
    rows.iter().find(|(it, _)| it == what).map_or("not tried", |(_, grade)| grade)
}

/// Makes a desk where everything is right.
async fn good(fixture: ForgeFixture) -> ForgeFixture {
    let place = "acme/web".parse::<Scope>().expect("a scope");
    let Scope::Repository { owner, name: repository } = place else {
        unreachable!("it has a slash")
    };
    let place = ostler_actors::model::Place { owner, repository, enterprise: None };
    fixture.sim.add_repository(&place, jiff::Timestamp::now());
    assert_eq!(fixture.run(&["hook", "install"]).code, 0);
    let hook = fixture.sim.hooks()[0].id;
    fixture.sim.until(|sim| sim.attempts(hook).iter().all(|it| it.status != 0)).await;
    fixture
}

#[tokio::test]
async fn a_fleet_that_can_work_is_well_in_every_point() {
    for fixture in [ForgeFixture::with_token(), ForgeFixture::with_app()] {
        let fixture = good(fixture).await;
        let (rows, text) = tried(&fixture, 0);
        assert!(rows.iter().all(|(_, grade)| grade == "ok"), "{text}");
        let tried: Vec<&str> = rows.iter().map(|(what, _)| what.as_str()).collect();
        let all =
            ["credential", "runners", "repositories", "jobs", "group", "hook", "clock", "provider"];
        assert_eq!(tried, all);
        assert!(
            !fixture.sim.calls().iter().any(|call| call.method == "DELETE"),
            "nothing is changed"
        );
        let table = fixture.run(&["check", "--live"]);
        assert!(table.code == 0 && table.out.contains("forge github acme"), "{table:?}");
    }
}

#[tokio::test]
async fn a_right_that_is_missing_is_named() {
    let fixture = good(ForgeFixture::with_token()).await;
    let cases = [
        ("/registration-token", "runners", "wrong", "Self-hosted runners: write"),
        ("/actions/runners", "credential", "wrong", "admin:org"),
        ("/actions/runs", "jobs", "wrong", "Actions: read"),
        ("/orgs/acme/repos", "repositories", "wrong", "Metadata: read"),
        ("/orgs/acme/hooks", "hook", "doubt", "admin:org_hook"),
    ];
    for (path, what, expected, says) in cases {
        fixture.sim.lie(|lies| lies.forbidden = vec![path]);
        let (rows, text) = tried(&fixture, i32::from(expected == "wrong"));
        assert_eq!(grade(&rows, what), expected, "{text}");
        assert!(text.contains(says), "{path}: {text}");
    }
}

#[tokio::test]
async fn an_app_that_is_installed_on_selected_repositories_is_reported() {
    let fixture = good(ForgeFixture::with_app()).await;
    fixture.sim.lie(|lies| lies.selected = Some(vec!["web".into()]));
    let (rows, text) = tried(&fixture, 0);
    assert_eq!(grade(&rows, "repositories"), "doubt", "{text}");
    assert!(text.contains("install it on all repositories"), "{text}");
}

#[tokio::test]
async fn a_credential_that_is_refused_ends_the_questions() {
    let fixture = ForgeFixture::with_token();
    fixture.write("token", "ghp_of_somebody_who_left");
    let (rows, text) = tried(&fixture, 1);
    assert_eq!((grade(&rows, "credential"), grade(&rows, "runners")), ("wrong", "not tried"));
    assert!(text.contains("renew the credential") && !text.contains("ghp_of"), "{text}");
}

#[tokio::test]
async fn a_wrong_clock_a_missing_group_and_a_missing_hook_are_reported() {
    let fixture = ForgeFixture::with_token();
    fixture.configure("token = { file = \"token\" }", "scope = \"acme\"\nrunner_group = \"fast\"");
    fixture.sim.lie(|lies| lies.clock_ahead = std::time::Duration::from_secs(90));
    let (rows, text) = tried(&fixture, 1);
    for what in ["group", "hook", "clock"] {
        assert_eq!(grade(&rows, what), "wrong", "{text}");
    }
    assert!(text.contains("`fast`") && text.contains("s behind GitHub's"), "{text}");
    assert_eq!(grade(&rows, "repositories"), "doubt", "nothing can be seen: {text}");
}

#[tokio::test]
async fn a_group_that_lets_only_some_in_is_reported() {
    let fixture = good(ForgeFixture::with_token()).await;
    for (key, value, grade_of_it, says) in [
        ("visibility", Value::from("selected"), "doubt", "selected repositories only"),
        ("restricted_to_workflows", Value::from(true), "doubt", "selected workflows only"),
        ("allows_public_repositories", Value::from(false), "ok", "public repositories are not"),
        ("allows_public_repositories", Value::Null, "ok", "`Default` is there\""),
    ] {
        fixture.sim.lie(|lies| lies.groups_are = vec![(key, value)]);
        let (rows, text) = tried(&fixture, 0);
        assert_eq!(grade(&rows, "group"), grade_of_it, "{text}");
        assert!(text.contains(says), "{text}");
    }
}

#[tokio::test]
async fn a_configuration_that_cannot_be_used_calls_no_forge() {
    let fixture = ForgeFixture::with_token();
    fixture.write("ostler.toml", "nonsense = 1");
    assert_eq!(fixture.run(&["check", "--live"]).code, 2);
    assert!(fixture.sim.calls().is_empty());
}
