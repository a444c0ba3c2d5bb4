//! The daemon with machines that an external provider creates: crashes, wedges, and a whole life.
//!
//! What exists is read from the provider's own records, never from ours.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use ostler::config::{Outside, load};
use ostler::daemon::{Daemon as InProcess, Service, on_system};
use ostler::demo::agent::Step;
use ostler::ports::{History as _, InstanceQuery, Page};
use ostler::store::SqlStore;
use ostler_actors::fleet::{ToFleet, Victim};
use ostler_actors::mail::{ActorRef, Reply};
use ostler_actors::model::{
    InstanceId, RequestedBy, Setup, State, Subject, Urgency, VerdictClass, What,
};
use ostler_actors::ports::Records as _;
use rustix::process::Signal;
use tokio::sync::{mpsc as messages, watch};

use crate::support::daemon::{Daemon, Stage, until};
use crate::support::external::{Cloud, compiled, write_program};
use crate::support::http::Client;
use crate::support::port::Port;
use crate::support::skip;

/// Holds a stage whose machines are made by an executable.
struct Sky {
    stage: Stage,
    cloud: Cloud,
    port: Port,
    /// Lines of the provider's section.
    provider: &'static str,
}

impl Sky {
    fn new(provider: &'static str, pools: &str) -> Self {
        let port = Port::choose();
        let stage = Stage::on_sqlite("");
        let sky = Self { stage, cloud: Cloud::new(), port, provider };
        sky.configure(pools);
        sky
    }

    fn configure(&self, pools: &str) {
        let http = format!(
            "listen = \"127.0.0.1:{0}\"\npublic_url = \"http://127.0.0.1:{0}\"",
            self.port.number
        );
        let base = self.stage.base().replace("listen = \"127.0.0.1:0\"", &http);
        let base = base.replace("provider = \"local\"", "provider = \"cloud\"");
        let (executable, config) = (compiled(), self.cloud.config());
        self.stage.write_config(&format!(
            "{base}\n[provider.cloud]\nkind = \"external\"\nexecutable = \"{}\"\n\
             config_file = \"{}\"\n{}\n{pools}",
            executable.display(),
            config.display(),
            self.provider
        ));
    }

    /// Blocks the calls of a command until the returned file exists: for the pools `a` and `b` before
    /// the call does anything, for `c` and `d` after it did its work and before it answers.
    fn hold(&self, command: &str) -> PathBuf {
        let gate = self.cloud.state().join(format!("go.{command}"));
        let until = gate.display();
        let [a, b] = ["a", "b"].map(|pool| format!("before.{command}.{pool}=until:{until}"));
        let [c, d] = ["c", "d"].map(|pool| format!("after.{command}.{pool}=until:{until}"));
        self.cloud.behave(&[a, b, c, d].join("\n"));
        gate
    }

    /// Removes the pools and waits until no instance is left.
    async fn drain(&self, daemon: &mut Daemon) {
        self.configure(&pool("other", 0, 1, ""));
        daemon.signal(Signal::HUP);
        self.until_none_is_left(daemon).await;
    }

    async fn until_none_is_left(&self, daemon: &mut Daemon) {
        let records = self.stage.records().await;
        until("everyone is gone", async || {
            daemon.must_live();
            records.live_instances(None).await.is_ok_and(|rows| rows.is_empty())
        })
        .await;
        records.close().await;
    }

    /// Returns how often each name was made, by the provider's own records.
    fn births(&self) -> BTreeMap<String, usize> {
        let mut births = BTreeMap::new();
        for line in self.cloud.lines_of("made") {
            let name = line.split(' ').next_back().unwrap_or_default().to_owned();
            *births.entry(name).or_default() += 1;
        }
        births
    }

    /// Fails unless nothing was leaked and nothing doubled, by the provider's own records.
    fn check(&self) {
        assert_eq!(self.cloud.machines(), BTreeMap::new(), "machines were leaked");
        let doubled: Vec<_> = self.births().into_iter().filter(|(_, times)| *times > 1).collect();
        assert_eq!(doubled, [], "machines were doubled");
        let (created, deleted) =
            (self.cloud.lines_of("made").len(), self.cloud.lines_of("unmade").len());
        assert_eq!(created, deleted);
        assert_eq!(self.stage.github.runners().len(), 0, "registrations were left");
        self.stage.check_logs(&["is lost; standing by"]);
    }

    async fn rows(&self, records: &SqlStore, state: State) -> usize {
        let rows = records.live_instances(None).await.unwrap_or_default();
        rows.iter().filter(|row| row.state == state).count()
    }
}

fn pool(name: &str, min_idle: u32, max: u32, more: &str) -> String {
    format!(
        "[[pool]]\nname = \"{name}\"\nlabels = [\"self-hosted\", \"linux\"]\nimage = \"i\"\n\
         flavor = \"f\"\nmin_idle = {min_idle}\nmax = {max}\nstart_permits = 128\n{more}\n"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_killed_with_a_hundred_creates_and_deletes_in_flight_leaks_and_doubles_nothing() {
    let sky = Sky::new(
        "concurrency = 102\ntimeout = \"1h\"",
        &["a", "b", "c", "d"].map(|name| pool(name, 25, 25, "boot_timeout = \"1h\"")).concat(),
    );
    let gate = sky.hold("CreateInstance");
    let mut daemon = sky.stage.lead().await;
    let under_way = || sky.cloud.under_way();
    // Counting started calls is not enough: a provider whose caller died before it wrote the order
    // makes nothing, and that row is settled only by its own deadline. These have read their orders.
    until("a hundred creates are in flight, half of them with a machine", async || {
        daemon.must_live();
        sky.cloud.lines_of("told").len() == 100 && sky.births().len() == 50
    })
    .await;
    daemon.kill();
    // What the provider was asked for it does, daemon or not.
    std::fs::write(gate, "").expect("our folder");
    until("the provider is done", async || under_way() == 0).await;
    assert_eq!(sky.births().len(), 100);

    let mut daemon = sky.stage.lead().await;
    let records = sky.stage.records().await;
    until("every machine has its owner", async || {
        daemon.must_live();
        let rows = records.live_instances(None).await.unwrap_or_default();
        let owned = |name: &String| rows.iter().any(|row| row.machine.as_str() == name);
        rows.iter().filter(|row| row.uid.is_some()).count() == 100
            && sky.cloud.machines().values().all(owned)
    })
    .await;
    assert_eq!(sky.cloud.machines().len(), 100);

    let gate = sky.hold("DeleteInstance");
    sky.configure(&pool("other", 0, 1, ""));
    daemon.signal(Signal::HUP);
    until("a hundred deletes are in flight, half of them without a machine", async || {
        daemon.must_live();
        let asked = sky.cloud.calls().iter().filter(|it| *it == "DeleteInstance").count();
        asked == 100 && sky.cloud.lines_of("unmade").len() == 50
    })
    .await;
    assert_eq!(sky.rows(&records, State::Deleting).await, 100);
    records.close().await;
    daemon.kill();
    std::fs::write(gate, "").expect("our folder");

    let mut daemon = sky.stage.lead().await;
    sky.until_none_is_left(&mut daemon).await;
    until("the provider is done", async || under_way() == 0).await;
    println!("{} names made, {} calls", sky.births().len(), sky.cloud.calls().len());
    sky.check();
}

/// Runs a daemon in this process, for what only its own people may say to it.
struct Inside {
    actor_ref: ActorRef<ToFleet>,
    stop: watch::Sender<bool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Inside {
    fn start(config: PathBuf) -> Self {
        let (tell, told) = mpsc::channel();
        let (stop, stopped) = watch::channel(false);
        let thread = std::thread::spawn(move || {
            let work = async move {
                let loaded = load(&config, &Outside::real()).expect("a configuration");
                let daemon = InProcess::open(loaded, Service::default()).await.expect("a daemon");
                tell.send(daemon.actor_ref().clone()).expect("a listener");
                let (_keep, news) = messages::channel(1);
                daemon.run(news, stopped).await.expect("an end");
            };
            on_system(work).expect("a system");
        });
        let actor_ref = told.recv().expect("a daemon");
        Self { actor_ref, stop, thread: Some(thread) }
    }

    fn force(&self, instance: &InstanceId) {
        let by = RequestedBy { who: "test".into(), why: "it hangs".into() };
        let (instance, urgency) = (instance.clone(), Urgency::Force);
        let message = ToFleet::Retire { instance, urgency, by, reply: Reply::discard() };
        self.actor_ref.tell(message).expect("a fleet");
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// A machine may come to be when no owner waits for it any more: its pool is gone from the
/// configuration, and so are its last row and the daemon that ordered it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_appears_after_its_pool_has_gone_is_found_and_removed() {
    let sky = Sky::new("timeout = \"5m\"", &pool("linux", 1, 1, "boot_timeout = \"1h\""));
    let mut daemon = sky.stage.lead().await;
    until("there is a machine", async || sky.cloud.machines().len() == 1).await;
    let machines = sky.cloud.machines();
    let (id, name) = machines.first_key_value().expect("a machine");
    let record = sky.cloud.state().join("machines").join(id);
    let as_it_was = std::fs::read_to_string(&record).expect("a machine");
    sky.drain(&mut daemon).await;
    assert_eq!(sky.cloud.machines(), BTreeMap::new());

    // The provider had begun a second one, and no record named it.
    let late = sky.cloud.state().join("machines").join("vm-late");
    std::fs::write(&late, as_it_was).expect("our folder");
    daemon.kill();
    let mut daemon = sky.stage.lead().await;
    until("the late machine is gone", async || {
        daemon.must_live();
        !late.exists()
    })
    .await;
    sky.until_none_is_left(&mut daemon).await;
    let records = sky.stage.records().await;
    let adopted =
        |what: &What| matches!(what, What::Adopted { machine } if machine.as_str() == name);
    let events = ostler::ports::History::events_after(&records, 0, 10_000).await.expect("a read");
    assert!(events.iter().any(|it| adopted(&it.event.what)), "its adoption is on record");
    records.close().await;
    sky.stage.check_logs(&[]);
}

/// GARM #855: a delete is held for 12 s, and forced 2 s into it. GARM #699: the deleting owner is
/// gone before the delete is answered. Neither leaves anything stuck.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_delete_that_is_forced_or_orphaned_leaves_nothing_stuck() {
    let mut sky = Sky::new(
        "timeout = \"5m\"",
        &pool("linux", 3, 3, "boot_timeout = \"1h\"\nstuck_after = \"5m\""),
    );
    let daemon = Inside::start(sky.stage.path("ostler.toml"));
    let records = sky.stage.records().await;
    until("three machines live", async || {
        let rows = records.live_instances(None).await.unwrap_or_default();
        rows.iter().filter(|row| row.uid.is_some()).count() == 3
    })
    .await;
    sky.cloud.behave("before.DeleteInstance=12000");
    let rows = records.live_instances(None).await.expect("a read");
    let victims: Vec<InstanceId> = rows.iter().map(|row| row.id.clone()).collect();
    // No replacements: they would hide what is left.
    let (pool, who) = ("linux".into(), "test".to_owned());
    let drain = ToFleet::Drain { pool, drained: true, who, reply: Reply::discard() };
    daemon.actor_ref.tell(drain).expect("a fleet");
    for victim in &victims {
        daemon.force(victim);
    }
    until("all three are being deleted", async || {
        sky.cloud.calls().iter().filter(|it| *it == "DeleteInstance").count() >= 3
    })
    .await;
    tokio::time::sleep(Duration::from_secs(2)).await; // the recipe says: two seconds into it
    daemon.force(&victims[0]);
    let panic = ToFleet::Panic(Victim::Instance(victims[1].clone()));
    daemon.actor_ref.tell(panic).expect("a fleet");
    let panic = ToFleet::Panic(Victim::Pool("linux".into()));
    daemon.actor_ref.tell(panic).expect("a fleet");
    until("no machine is left", async || {
        records.live_instances(None).await.is_ok_and(|rows| rows.is_empty())
    })
    .await;
    assert_eq!(sky.cloud.machines(), BTreeMap::new());
    for victim in &victims {
        let timeline = records.timeline(&Subject::Instance(victim.clone())).await.expect("a read");
        assert!(timeline.iter().all(|event| event.what != What::Stuck), "{timeline:#?}");
        let row = records.instance(victim).await.expect("a read").expect("a row");
        assert_eq!(row.state, State::Deleted);
    }
    records.close().await;
    drop(daemon);
    sky.stage.leave();
}

impl Sky {
    /// Lets machines run the real script with a played agent in the image's cache: it runs the hooks of a
    /// job and has a worker, as the official one. What it does at its end is in `last`; the script gets these
    /// variables beside others.
    fn play_agent(&self, last: &str, variables: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        let cache = self.cloud.state().join("cache");
        std::fs::create_dir_all(cache.join("latest")).expect("our folder");
        let host = self.stage.github.url().trim_start_matches("http://").to_owned();
        let text = format!(
            r#"#!/bin/bash
sed -n 's/.*"token":"\([^"]*\)".*/\1/p' .credentials > .jit
hook() {{
    file="$(sed -n "s/^ACTIONS_RUNNER_HOOK_JOB_$1=//p" .env)"
    bash -e "$file" || echo "the hook $1 failed"
}}
{} demo-runner --github {host} --jit .jit 2>&1 | while read -r line; do
    echo "$line"
    case "$line" in
        "Running job"*)
            hook STARTED
            (exec -a "$PWD/bin/Runner.Worker" sleep 300 >/dev/null) &
            echo $! >.worker
            ;;
        "Job completed"*)
            kill "$(cat .worker)"
            hook COMPLETED
            ;;
    esac
done
status="${{PIPESTATUS[0]}}"
{last}
exit "$status"
"#,
            env!("CARGO_BIN_EXE_ostler")
        );
        write_program(&cache.join("latest/run.sh"), &text);
        // The job's user reads what is below it.
        let folders =
            [self.cloud.state().parent().expect("a folder").to_owned(), self.cloud.state()];
        for folder in folders {
            let open = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(folder, open).expect("our folder");
        }
        self.cloud.behave(&format!(
            "boot=RUNNER_USER=nobody RUNNER_HOME={{disk}}/runner RUNNER_CACHE={} SUPERVISORS={{disk}} \
             {variables}",
            cache.display()
        ));
    }

    /// Returns what the processes of machines carry in arguments and environment.
    fn seen_of_processes(&self) -> String {
        let mut seen = String::new();
        for entry in std::fs::read_dir("/proc").expect("processes").flatten() {
            let of = |file: &str| std::fs::read(entry.path().join(file)).unwrap_or_default();
            let (environ, arguments) = (of("environ"), of("cmdline"));
            let text = String::from_utf8_lossy(&environ).into_owned();
            if self.cloud.machines().keys().any(|id| text.contains(&format!("VM_ID={id}"))) {
                seen = format!("{seen}\n{text}\n{}", String::from_utf8_lossy(&arguments));
            }
        }
        seen
    }

    /// Returns what lies on the disks of machines, as far as it is text.
    fn on_disks(&self) -> String {
        let disks = self.cloud.state().join("disks");
        let found = std::process::Command::new("grep").args(["-rIs", ""]).arg(disks).output();
        String::from_utf8_lossy(&found.expect("grep").stdout).into_owned()
    }
}

/// The end of an agent that no provider could tell: its supervisor reports exit code and log. What the job
/// could read of the token that came with the machine opens nothing, and the user's own hook runs too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_supervisor_reports_how_the_agent_ended_and_leaves_a_job_no_token() {
    if !rustix::process::getuid().is_root() {
        return skip::say("the agent of this test has a user of its own, which takes root");
    }
    let sky = Sky::new("timeout = \"5m\"", &pool("linux", 1, 1, ""));
    let own = sky.cloud.state().join("own.sh");
    let ran = sky.cloud.state().join("cache/ran");
    write_program(&own, &format!("id -un >>{}\n", ran.display()));
    sky.play_agent("", "");
    std::fs::write(&ran, "").expect("our folder");
    let all = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o666);
    std::fs::set_permissions(&ran, all).expect("our folder");
    let hook = format!("env = {{ ACTIONS_RUNNER_HOOK_JOB_STARTED = \"{}\" }}", own.display());
    sky.configure(&pool("linux", 1, 1, &hook));
    let mut daemon = sky.stage.lead().await;
    until("its agent listens", async || {
        daemon.must_live();
        sky.on_disks().contains("Listening for Jobs")
    })
    .await;
    let name = sky.births().into_keys().next().expect("a name");
    let token = sky.cloud.bootstrap(&name)["instance-token"].as_str().expect("a token").to_owned();
    let machine = Client::new(daemon.address().expect("it listens")).with(&token);
    let body = serde_json::json!({ "event": "job_started" });
    for path in ["token", "report"] {
        let answer = machine.post(&format!("/runner/v1/{path}"), &body);
        assert_eq!(answer.status, 401, "{path}: what came with the machine is worthless");
    }
    assert_eq!(machine.get("/runner/v1/metadata/credentials/runner").status, 401);
    for (place, seen) in [("processes", sky.seen_of_processes()), ("disks", sky.on_disks())] {
        assert!(seen.contains("runner"), "{place} were read");
        assert!(!seen.contains("r1."), "the supervisor's token is on {place}");
    }

    let job = sky.stage.queue(Step::Abort, 2_000);
    sky.stage.until_at_work(&[job]).await;
    let records = sky.stage.records().await;
    let mut row = None;
    until("its end is on record", async || {
        daemon.must_live();
        row = records.instance(&name.as_str().into()).await.ok().flatten();
        row.as_ref().is_some_and(|row| row.verdict.is_some())
    })
    .await;
    let exit = records.exit(&name.as_str().into()).await.expect("a read").expect("a record");
    assert_eq!(exit.exit.as_ref().and_then(|exit| exit.code), Some(134), "{exit:?}");
    assert_eq!(exit.verdict.class, VerdictClass::Aborted, "{exit:?}");
    let ostler_actors::model::Tail::Captured(tail) = &exit.tail else { panic!("{exit:?}") };
    assert!(tail.contains("No space left on device"), "{tail}");
    assert!(!tail.contains("the hook STARTED failed"), "{tail}");
    assert_eq!(std::fs::read_to_string(&ran).expect("our folder"), "nobody\n");
    records.close().await;
    sky.drain(&mut daemon).await;
    sky.check();
}

/// The agent does not leave when its registration is removed, and the forge shows no repositories: the
/// supervisor's answer to the challenge is enough, and the deregistration is the only call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_machine_with_a_witness_leaves_for_one_call_to_the_forge() {
    let sky = Sky::new("timeout = \"5m\"", &pool("linux", 1, 1, "witness_timeout = \"30s\""));
    sky.stage.github.lie(|lies| lies.missing = vec!["/orgs/acme/repos"]);
    // A machine with a service manager, which is played as well.
    let programs = sky.cloud.state().join("programs");
    std::fs::create_dir_all(&programs).expect("our folder");
    let systemctl = r#"#!/bin/bash
echo "$@" >>"$SERVICES/systemctl.log"
[ "$1" = start ] || exit 0
setsid $(sed -n 's/^ExecStart=//p' "$SERVICES/$2") >/dev/null 2>&1 </dev/null &
"#;
    write_program(&programs.join("systemctl"), systemctl);
    let variables = format!(
        "SERVICES={{disk}} SYSTEMD={{disk}} PATH={}:/usr/bin:/bin:/usr/sbin",
        programs.display()
    );
    sky.play_agent("exec sleep 3600", &variables);
    let mut daemon = sky.stage.lead().await;
    let records = sky.stage.records().await;
    until("it is idle", async || {
        daemon.must_live();
        sky.rows(&records, State::Idle).await == 1
    })
    .await;
    let row = records.live_instances(None).await.expect("a read").remove(0);
    let before = sky.stage.github.calls().len();
    sky.drain(&mut daemon).await;
    let calls = sky.stage.github.calls().split_off(before);
    let of_runner: Vec<_> = calls.iter().filter(|it| it.path.contains("/runners/")).collect();
    assert_eq!(of_runner.len(), 1, "{of_runner:?}");
    assert_eq!(of_runner[0].method, "DELETE");
    assert!(!calls.iter().any(|it| it.path.ends_with("/repos")), "no search of repositories");
    let last = records.instance(&row.id).await.expect("a read").expect("a row");
    let warrant = last.warrant.expect("a warrant");
    assert_eq!(warrant.kind, ostler_actors::model::WarrantKind::Idle, "{warrant:?}");
    let evidence = warrant.evidence.join("; ");
    assert!(evidence.contains("the machine shows no worker"), "{evidence}");
    let disks = sky.on_disks();
    assert!(disks.contains("systemctl.log:start actions.runner.acme.service"), "as a service");
    assert!(!disks.contains("systemctl.log:enable"), "a spent runner is not started by a reboot");
    records.close().await;
    sky.check();
}

/// Machines fetch the real script, install a runner from the image's cache, and serve a job.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_installs_itself_serves_a_job_and_leaves_nothing() {
    let sky = Sky::new("timeout = \"5m\"", &pool("linux", 1, 2, ""));
    sky.play_agent("", "");
    let mut daemon = sky.stage.lead().await;
    let job = sky.stage.queue(Step::Succeed, 300);
    sky.stage.until_at_work(&[job]).await;
    sky.stage.until_all_jobs_are_over(&mut daemon).await;
    sky.drain(&mut daemon).await;
    sky.stage.check_jobs();
    sky.check();
    let records = sky.stage.records().await;
    let page = Page { limit: 100, cursor: None };
    let rows = records.instances(&InstanceQuery::default(), &page).await.expect("a read");
    let mut told = Vec::new();
    for row in &rows.items {
        assert_eq!(row.sealed_jit, None, "{row:?}");
        let of = Subject::Instance(row.id.clone());
        told.extend(records.timeline(&of).await.expect("a read").into_iter().map(|it| it.what));
    }
    let said = |setup| {
        told.iter().any(|it| matches!(it, What::SetupReported { setup: it, .. } if *it == setup))
    };
    assert!(said(Setup::Installing) && said(Setup::Idle), "{told:#?}");
    assert!(told.iter().any(|it| matches!(it, What::Runs(_))), "{told:#?}");
    records.close().await;
    check_secrets(&sky);
}

/// A machine that cannot be set up says so, and its words are the verdict's evidence.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_gives_up_is_a_boot_failure_with_its_own_message() {
    let sky = Sky::new(
        "timeout = \"5m\"\nrunner_mirror = \"http://127.0.0.1:9/nowhere\"",
        &pool("linux", 1, 1, ""),
    );
    let user = if rustix::process::getuid().is_root() { "root" } else { "nobody" };
    sky.cloud.behave(&format!("boot=RUNNER_USER={user} RUNNER_HOME={{disk}}/runner"));
    let mut daemon = sky.stage.lead().await;
    let records = sky.stage.records().await;
    let query = InstanceQuery::default();
    let page = Page { limit: 100, cursor: None };
    until("one has given up", async || {
        daemon.must_live();
        let rows = records.instances(&query, &page).await.map(|it| it.items).unwrap_or_default();
        rows.iter().any(|row| row.verdict.is_some())
    })
    .await;
    let rows = records.instances(&query, &page).await.expect("a read").items;
    let over = rows.iter().find(|row| row.verdict.is_some()).expect("one that is over");
    assert_eq!(over.verdict, Some(VerdictClass::BootFailed));
    let exit = records.exit(&over.id).await.expect("a read").expect("a record");
    let evidence = exit.verdict.evidence.join("\n");
    assert!(evidence.contains("cannot download http://127.0.0.1:9/nowhere"), "{evidence}");
    records.close().await;
    sky.drain(&mut daemon).await;
    sky.check();
}

/// Everything a machine may ask for, for as long as it is being set up, across a crash of the daemon.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_opens_what_one_machine_needs_until_it_is_done() {
    let more = "boot_timeout = \"1h\"\nproxy = { http = \"http://proxy:3128\" }";
    let sky = Sky::new("timeout = \"5m\"", &pool("linux", 1, 1, more));
    let mut daemon = sky.stage.lead().await;
    until("a machine is made", async || !sky.births().is_empty()).await;
    let name = sky.births().into_keys().next().expect("a name");
    let token = sky.cloud.bootstrap(&name)["instance-token"].as_str().expect("a token").to_owned();
    let stranger = Client::new(daemon.address().expect("it listens"));
    let machine = stranger.with(&token);
    let metadata = |path: &str| format!("/runner/v1/metadata/{path}");
    for path in [
        "install-script",
        "credentials/runner",
        "credentials/credentials",
        "credentials/credentials_rsaparams",
        "system/service-name",
        "systemd/unit-file",
        "system/cert-bundle",
        "runner-metadata",
    ] {
        for path in [metadata(path), format!("{}/", metadata(path))] {
            assert_eq!(machine.get(&path).status, 200, "{path}");
            let forged = token.replace("v1.", "v1.x");
            for caller in [&stranger, &stranger.with(&forged), &stranger.with("v1.")] {
                let answer = caller.get(&path);
                assert_eq!(answer.status, 401, "{path}");
                assert_eq!(answer.json(), serde_json::json!({ "error": "Authentication failed" }));
            }
        }
    }
    assert_eq!(machine.get(&metadata("system/service-name")).body, "actions.runner.acme");
    let unit = machine.get(&metadata("systemd/unit-file?runAsUser=ci"));
    assert!(unit.body.contains("User=ci") && unit.body.contains("http://proxy:3128"), "{unit:?}");
    let bad = machine.get(&metadata("systemd/unit-file?runAsUser=a%0Ab"));
    assert_eq!((bad.status, bad.json()["details"].is_string()), (400, true));
    assert_eq!(machine.get(&metadata("runner-registration-token")).status, 401);
    assert_eq!(machine.get(&metadata("credentials/passwd")).status, 404);
    let credentials = machine.get(&metadata("credentials/credentials")).body;
    assert!(credentials.contains("token"), "the runner's own file");

    let callback = |path: &str| format!("/runner/v1/callbacks/{path}");
    let garbage = machine.send("POST", &callback("status"), Some("{"));
    assert_eq!((garbage.status, garbage.json()["details"].is_string()), (400, true));
    let word =
        |status: &str| serde_json::json!({ "status": status, "message": "m", "agent_id": null });
    assert_eq!(machine.post(&callback("status"), &word("installing")).status, 200);

    daemon.kill();
    let mut daemon = sky.stage.lead().await;
    // Its owner may not be on the board yet; a machine that were refused would give up for good.
    until("its new owner answers", async || {
        let again = machine.get(&metadata("credentials/credentials"));
        assert!([200, 503].contains(&again.status), "{again:?}");
        again.status == 200
    })
    .await;
    let again = machine.get(&metadata("credentials/credentials"));
    assert_eq!((again.status, again.body), (200, credentials), "asked again, the same is given");

    let system = serde_json::json!({ "os_name": "Ubuntu", "os_version": "24.04" });
    assert_eq!(machine.post(&callback("system-info/"), &system).status, 200);
    assert_eq!(machine.post(&callback("status/"), &word("idle")).status, 200);
    for path in ["install-script", "credentials/runner", "runner-metadata"] {
        assert_eq!(machine.get(&metadata(path)).status, 401, "{path}: it has done its work");
    }
    assert_eq!(machine.post(&callback("status"), &word("failed")).status, 401);
    let records = sky.stage.records().await;
    let row = records.instance(&name.as_str().into()).await.expect("a read").expect("a row");
    assert!(row.sealed_jit.is_none() && row.ready_at.is_some(), "{row:?}");
    records.close().await;
    sky.drain(&mut daemon).await;
    sky.check();
    check_secrets(&sky);
}

/// No log holds a token of a machine.
fn check_secrets(sky: &Sky) {
    let logs = sky.stage.logs();
    let told = sky.births();
    assert!(!told.is_empty());
    for name in told.keys() {
        let token =
            sky.cloud.bootstrap(name)["instance-token"].as_str().expect("a token").to_owned();
        assert!(!logs.contains(&token), "a token was logged");
    }
}
