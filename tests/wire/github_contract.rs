//! The adapter over HTTP keeps the contract of every forge, in every scope.

use std::sync::Arc;

use ostler::demo::github::{Options, SimGitHub};
use ostler::github::GitHub;
use ostler_actors::model::{JobId, Place, Scope, Sighting};
use ostler_actors::ports::{Forge as _, RunnerRef};
use ostler_actors::testing::contract::{BenchJob, ForgeBench, forge_contract};
use tokio::sync::Mutex;

use super::github_support::{
    adapter, job_id, order, removal, settings, start, take_job, token_of, web,
};

struct Bench {
    scope: Scope,
    place: Place,
    options: Options,
    now: Mutex<(SimGitHub, Arc<GitHub>)>,
}

fn fresh(options: &Options, place: &Place) -> (SimGitHub, Arc<GitHub>) {
    let sim = start(options.clone());
    let github = adapter(settings(&sim, token_of(&sim)));
    github.remember(place);
    (sim, Arc::new(github))
}

impl Bench {
    fn new(scope: &str, options: Options) -> Self {
        let place = Place { enterprise: Some("initech".into()), ..web() };
        let now = Mutex::new(fresh(&options, &place));
        Self { scope: scope.parse().unwrap(), place, options, now }
    }

    fn pointer(&self, sim: &SimGitHub, number: u64) -> BenchJob {
        let run = sim.jobs().iter().find(|job| job.id == number).unwrap().run;
        let listed = Place { enterprise: None, ..self.place.clone() };
        let place = match self.scope {
            Scope::Repository { .. } => listed,
            Scope::Organization(_) | Scope::Enterprise(_) => self.place.clone(),
        };
        BenchJob { id: job_id(number), place, run }
    }
}

impl ForgeBench for Bench {
    type Forge = GitHub;

    async fn open(&self) -> Arc<GitHub> {
        let mut now = self.now.lock().await;
        *now = fresh(&self.options, &self.place);
        Arc::clone(&now.1)
    }

    fn scope(&self) -> Scope {
        self.scope.clone()
    }

    /// The repositories of an enterprise cannot be listed, so a job cannot be ruled out.
    fn without_work(&self) -> Sighting<JobId> {
        match self.scope {
            Scope::Enterprise(_) => Sighting::Unknown(String::new()),
            Scope::Repository { .. } | Scope::Organization(_) => Sighting::Absent,
        }
    }

    async fn queue(&self) -> BenchJob {
        let now = self.now.lock().await;
        let number = now.0.queue(&self.place, removal(&["linux", "no-runner-has-this"]));
        self.pointer(&now.0, number)
    }

    async fn put_to_work(&self, name: &str) -> (RunnerRef, BenchJob) {
        let now = self.now.lock().await;
        let minted = now.1.mint(order(&self.scope, name)).await.expect("a fresh name");
        let number = now.0.queue(&self.place, removal(&["linux"]));
        assert_eq!(take_job(&now.0, &minted.jit).await, number);
        (RunnerRef { name: name.into(), id: Some(minted.id) }, self.pointer(&now.0, number))
    }

    async fn finish(&self, job: &BenchJob) {
        self.now.lock().await.0.finish(job.id.number, "cancelled");
    }
}

#[tokio::test]
async fn the_adapter_keeps_the_contract_in_an_organization() {
    forge_contract(&Bench::new("acme", Options::default())).await;
}

#[tokio::test]
async fn the_adapter_keeps_the_contract_in_a_repository() {
    forge_contract(&Bench::new("acme/web", Options::default())).await;
}

#[tokio::test]
async fn the_adapter_keeps_the_contract_in_an_enterprise_on_its_own_server() {
    let options = Options { prefix: "/api/v3".into(), rate_limit: None, ..Options::default() };
    forge_contract(&Bench::new("enterprises/initech", options)).await;
}
