//! Edits of a daemon that serves.

use ostler_actors::model::{ForgeId, Scope};

use super::*;
use crate::config::{Outside, ProviderSettings, load};

const FILE: &str = r#"
[daemon]
state_dir = "FOLDER/var"
[store]
url = "sqlite://FOLDER/var/ostler.db"
[http]
listen = "127.0.0.1:0"
[forge.github]
kind = "github"
api_url = "http://127.0.0.1:1"
token = { file = "token" }
webhook_secret = { file = "token" }
[provider.local]
kind = "process"
command = ["./run.sh", "{jit_file}"]
[[pool]]
name = "linux"
forge = "github"
provider = "local"
scope = "acme"
labels = ["linux"]
max = 1
"#;

async fn daemon(folder: &std::path::Path) -> Daemon {
    let path = folder.join("ostler.toml");
    std::fs::write(folder.join("token"), "a-secret-of-some-length-0123456789").expect("a token");
    let file = FILE.replace("FOLDER", &folder.display().to_string());
    std::fs::write(&path, file).expect("a file");
    let loaded = load(&path, &Outside::real()).unwrap_or_else(|problems| panic!("{problems}"));
    Daemon::open(loaded, crate::daemon::Service::default()).await.expect("a daemon")
}

/// Returns the configuration with another directory of the runner.
fn with_runner_dir(config: &Config, path: &std::path::Path) -> Arc<Config> {
    let mut new = config.clone();
    for provider in new.providers.values_mut() {
        if let ProviderSettings::Process(process) = provider {
            process.runner_dir = Some(path.to_owned());
        }
    }
    Arc::new(new)
}

#[actix_rt::test]
async fn an_edit_whose_providers_cannot_be_built_changes_nothing_and_is_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut daemon = daemon(folder.path()).await;
    let before = Arc::clone(&daemon.config);
    let bad = with_runner_dir(&before, &folder.path().join("nowhere"));
    assert!(daemon.apply_while_leading(Ok(bad)).await.is_none(), "the fleet goes on");
    assert!(Arc::ptr_eq(&before, &daemon.config));
    let shown = daemon.status.shown().config_problem.expect("a problem");
    assert!(shown.contains("provider `local`") && shown.contains("runner_dir"), "{shown}");

    let good = with_runner_dir(&before, folder.path());
    assert!(daemon.apply_while_leading(Ok(good)).await.is_some(), "the fleet is started again");
    assert_eq!(daemon.status.shown().config_problem, None);
}

#[actix_rt::test]
async fn an_edit_that_only_has_to_wait_is_put_in_force_by_itself_and_a_newer_one_takes_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut daemon = daemon(folder.path()).await;
    assert!(daemon.try_again_leading().await.is_none(), "there is nothing to try");
    let before = Arc::clone(&daemon.config);
    let disk = folder.path().join("not-mounted-yet");
    let early = with_runner_dir(&before, &disk);
    assert!(daemon.apply_while_leading(Ok(Arc::clone(&early))).await.is_none());
    assert!(daemon.try_again_leading().await.is_none(), "nothing has changed");
    let shown = daemon.status.shown().config_problem.expect("a problem");
    assert!(shown.ends_with("it is tried again by itself"), "{shown}");
    std::fs::create_dir(&disk).expect("a folder");
    assert!(daemon.try_again_leading().await.is_some(), "the fleet is started again");
    assert!(Arc::ptr_eq(&daemon.config, &early));
    assert_eq!(daemon.status.shown().config_problem, None);

    let never = with_runner_dir(&before, &folder.path().join("nowhere"));
    assert!(daemon.apply_while_leading(Ok(never)).await.is_none());
    let mut restart = Config::clone(&early);
    restart.http.public_url = Some("https://elsewhere.example".into());
    assert!(daemon.apply_while_leading(Ok(Arc::new(restart))).await.is_none());
    let shown = daemon.status.shown().config_problem.expect("a problem");
    assert!(shown.ends_with("takes a restart"), "{shown}");
    assert!(daemon.deferred.is_none(), "an edit that was replaced is not brought back");
}

#[actix_rt::test]
async fn a_pool_that_goes_is_listened_to_for_as_long_as_it_may_have_runners() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut daemon = daemon(folder.path()).await;
    let acme = (ForgeId::new("github"), Scope::Organization("acme".into()));
    let none = Arc::new(Config { pools: Vec::new(), ..Config::clone(&daemon.config) });
    daemon.apply_in_standby(Ok(none)).await;
    assert_eq!(daemon.left, [acme]);
    let again = Arc::new(Config::clone(&daemon.config));
    daemon.apply_in_standby(Ok(again)).await;
    assert_eq!(daemon.left, [], "no row is left of it");
}
