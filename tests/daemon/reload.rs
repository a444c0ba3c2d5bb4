//! The configuration is edited while the daemon runs: all of an edit is applied, or nothing.

use ostler::demo::agent::Step;
use rustix::process::Signal;

use crate::support::daemon::{Daemon, LONG_JOB, Stage, pool, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edited_pool_is_applied_and_a_broken_edit_changes_nothing() {
    let mut stage = Stage::on_sqlite(&pool(1, 4));
    let mut daemon = stage.lead().await;
    until("one runner is there", async || stage.machines().len() == 1).await;
    stage.configure(&pool(2, 4));
    until("two runners are there", async || stage.machines().len() == 2).await;
    // A keeper and a runner each.
    until("all are at home", async || stage.processes().len() == 4).await;
    let (machines, processes) = (stage.machines(), stage.processes());

    stage.configure("[[pool]]\nname = \"linux\"\nmax = \"many\"\n");
    until_config(&mut daemon, "the problem is shown", |text| text.contains("max")).await;
    assert_eq!(daemon.ready().expect("it answers").status, 200, "a bad edit stops nothing");
    assert_eq!((stage.machines(), stage.processes()), (machines, processes));

    stage.configure(&pool(3, 4));
    until("three runners are there", async || stage.machines().len() == 3).await;
    until_config(&mut daemon, "nothing is wrong", |text| text == "ok").await;
    stage.leave();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hangup_reloads_at_once_changed_or_not() {
    let stage = Stage::on_sqlite(&pool(0, 1));
    let daemon = stage.lead().await;
    assert!(!daemon.log().contains("the configuration is reloaded"));
    daemon.signal(Signal::HUP);
    until("it reloads", async || daemon.log().contains("the configuration is reloaded")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_forges_or_providers_restart_the_fleet_and_touch_no_machine() {
    let mut stage = Stage::on_sqlite(&pool(1, 4));
    let mut daemon = stage.lead().await;
    let job = stage.queue(Step::Succeed, LONG_JOB);
    stage.until_at_work(&[job]).await;
    until("one runner is idle", async || stage.machines().len() == 2).await;
    until("all are at home", async || stage.processes().len() == 4).await;
    let processes = stage.processes();

    let edited = stage.base().replace("jit_per_minute = 0", "jit_per_minute = 100");
    stage.write_config(&format!("{edited}\n{}", pool(1, 4)));
    daemon.signal(Signal::HUP);
    until("the fleet starts again", async || daemon.log().contains("starting the fleet again"))
        .await;
    assert_eq!(stage.processes(), processes, "a machine was touched");
    stage.until_all_jobs_are_over(&mut daemon).await;
    stage.check_jobs();
    // The restarted fleet works, and hears of jobs.
    stage.queue(Step::Succeed, 100);
    stage.until_all_jobs_are_over(&mut daemon).await;
    stage.check_jobs();
    stage.check_logs(&[]);
    stage.leave();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_key_of_the_app_is_taken_up_from_its_file_and_no_job_is_lost() {
    let mut stage = Stage::on_sqlite(&pool(0, 2));
    let (client_id, key) = stage.github.app();
    stage.write("app.pem", &key);
    let app =
        format!("app = {{ client_id = \"{client_id}\", private_key = {{ file = \"app.pem\" }} }}");
    let base = stage.base().replace("token = { file = \"token\" }", &app);
    assert!(base.contains("app.pem"), "{base}");
    stage.write_config(&format!("{base}\n{}", pool(0, 2)));
    let mut daemon = stage.lead().await;
    stage.queue(Step::Succeed, 100);
    stage.until_all_jobs_are_over(&mut daemon).await;

    let key = stage.github.change_app_key().expect("a key");
    let job = stage.queue(Step::Succeed, 100);
    until("GitHub refuses the old key", async || {
        stage.github.calls().iter().any(|call| call.status == 401)
    })
    .await;
    assert_eq!(stage.job(job).starts, 0);
    stage.write("app.pem", &key);
    stage.until_all_jobs_are_over(&mut daemon).await;
    stage.check_jobs();
    stage.check_logs(&["PRIVATE KEY"]);
    stage.leave();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runner_versions_that_end_soon_are_shown_and_measured() {
    let mut stage = Stage::on_sqlite(&pool(1, 1));
    let ends = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(75);
    stage.github.lie(|lies| lies.version_ends = Some(ends));
    // Which versions are in use is asked at the start, and now and then.
    let first = stage.lead().await;
    until("a runner is registered", async || !stage.github.runners().is_empty()).await;
    first.kill();
    let mut daemon = stage.lead().await;
    let client = crate::support::http::Client::new(daemon.address().expect("it listens"));
    let ending = || client.get("/api/v1/fleet").json()["forges"][0]["ending_versions"].clone();
    until("the end is near", async || ending()[0]["version"] == "2.336.0").await;
    let said = ending()[0]["sentence"].to_string();
    assert!(said.contains("runner 2.336.0 is sent jobs for 3 more days"), "{said}");
    let scrape = client.get("/metrics").body;
    assert!(scrape.contains("ostler_runner_version_days_left{forge=\"github\"} 3\n"), "{scrape}");
    assert!(daemon.log().contains("for 3 more days"), "{}", daemon.log());
    stage.leave();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_cannot_be_opened_is_refused_and_the_old_ones_stay() {
    let mut stage = Stage::on_sqlite(&pool(1, 4));
    let mut daemon = stage.lead().await;
    until("one runner is there", async || stage.machines().len() == 1).await;
    stage.write("in-the-way", "a file, not a folder");
    let spare = provider(&stage, "in-the-way/machines");
    stage.configure(&format!("{spare}\n{}", pool(2, 4)));
    daemon.signal(Signal::HUP);
    until_config(&mut daemon, "the problem is shown", |text| text.contains("spare")).await;
    assert_eq!(daemon.ready().expect("it answers").status, 200);
    assert_eq!(stage.machines().len(), 1, "half of the edit was applied");
    stage.leave();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_goes_only_when_nothing_uses_it_any_more() {
    let stage = Stage::on_sqlite("");
    let provider = provider(&stage, "machines");
    let spare = pool(0, 2).replace("max", "provider = \"spare\"\nmax");
    let other = "[[pool]]\nname = \"other\"\nlabels = [\"other\"]\nmax = 1\n";
    stage.configure(&format!("{provider}\n{spare}\n{other}"));
    let mut daemon = stage.lead().await;
    let job = stage.queue(Step::Succeed, LONG_JOB);
    stage.until_at_work(&[job]).await;

    // Pool and provider at once: the machine would have no provider that can delete it.
    stage.configure(other);
    daemon.signal(Signal::HUP);
    let used = |text: &str| {
        text.contains("provider spare") && text.contains("machines of pool linux are left")
    };
    until_config(&mut daemon, "the edit is refused", used).await;
    // The pool first, which drains; the provider still has to wait for its machine.
    stage.configure(&format!("{provider}\n{other}"));
    daemon.signal(Signal::HUP);
    until_config(&mut daemon, "the pool is removed", |text| text == "ok").await;
    stage.configure(other);
    daemon.signal(Signal::HUP);
    until_config(&mut daemon, "the provider is kept", used).await;

    stage.configure(&format!("{provider}\n{other}"));
    daemon.signal(Signal::HUP);
    until_config(&mut daemon, "all is well", |text| text == "ok").await;
    stage.until_all_jobs_are_over(&mut daemon).await;
    stage.check_jobs();
    stage.drain_to(&mut daemon, &format!("{provider}\n{other}")).await;
    stage.configure(other);
    daemon.signal(Signal::HUP);
    until("the provider goes", async || {
        daemon.log().matches("starting the fleet again").count() == 1
    })
    .await;
    until_config(&mut daemon, "all is well", |text| text == "ok").await;
}

/// Returns a second provider beside the first one.
fn provider(stage: &Stage, work_dir: &str) -> String {
    let base = stage.base();
    let (_, rest) = base.split_once("[provider.local]").expect("the first provider");
    let (first, _) = rest.split_once("[reaper]").expect("what follows it");
    let old = format!("work_dir = \"{}\"", stage.path("machines").display());
    let new = format!("work_dir = \"{}\"", stage.path(work_dir).display());
    format!("[provider.spare]\n{}", first.replace(&old, &new))
}

async fn until_config(daemon: &mut Daemon, what: &str, is_right: impl Fn(&str) -> bool) {
    until(what, async || {
        daemon.must_live();
        daemon.ready().is_some_and(|ready| is_right(ready.config()))
    })
    .await;
}
