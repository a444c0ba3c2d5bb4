//! External providers for real: executables that keep GARM's contract, and those that break it.

mod fixture;
mod hostile;
mod scripts;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ostler::providers::external::{External, Interface, Support};
use ostler_actors::model::{MachineName, Observation, Sighting, Stamp};
use ostler_actors::ports::{CreateOrder, Grace, Inventory as _, Provider as _};
use ostler_actors::testing::contract::{ProviderBench, Tells, provider_contract};

use crate::support::external::{compiled, in_shell};
use fixture::{Fixture, holder, named, order};

/// Runs the contract of all providers on an executable.
struct Bench {
    executable: PathBuf,
    config: &'static str,
    fixture: Fixture,
}

impl Bench {
    fn on(executable: PathBuf, config: &'static str) -> Self {
        let fixture = Fixture::on(&executable);
        Self { executable, config, fixture }
    }
}

impl ProviderBench for Bench {
    type Provider = External;

    async fn open(&mut self) -> Arc<External> {
        self.fixture = Fixture::on(&self.executable);
        self.fixture.cloud.behave(self.config);
        Arc::new(self.fixture.open())
    }

    fn order(&self, name: &str, stamp: Stamp) -> CreateOrder {
        self.fixture.record(name, &stamp);
        CreateOrder { stamp, ..order(name) }
    }

    fn tells(&self) -> Tells {
        Tells::WhenAsked
    }

    async fn end_with_seven(&mut self, machine: &MachineName) {
        self.fixture.cloud.set_status(machine.as_str(), "stopped");
    }

    async fn pass(&mut self) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_compiled_provider_keeps_the_contract_of_providers() {
    provider_contract(&mut Bench::on(compiled(), "")).await;
}

#[tokio::test]
async fn a_provider_in_shell_keeps_the_contract_of_providers() {
    provider_contract(&mut Bench::on(in_shell(), "")).await;
}

#[tokio::test]
async fn a_provider_without_a_code_for_absence_keeps_the_contract_of_providers() {
    provider_contract(&mut Bench::on(compiled(), "missing=1")).await;
}

#[tokio::test]
async fn a_provider_that_shows_nothing_for_absence_keeps_the_contract_of_providers() {
    provider_contract(&mut Bench::on(compiled(), "missing=empty")).await;
}

#[tokio::test]
async fn the_second_version_keeps_the_contract_of_providers() {
    let mut fixture = Fixture::on(&compiled());
    fixture.settings.interface = Interface::V011;
    let provider = fixture.open();
    let made = provider.create(fixture.order("m1")).await.unwrap();
    let Sighting::Seen(read) = provider.read(&named("m1")).await else { panic!("not seen") };
    assert_eq!(read.uid, made.uid);
    provider.delete(&named("m1"), Grace::Usual).await.unwrap();
    assert_eq!(provider.read(&named("m1")).await, Sighting::Absent);
}

#[tokio::test]
async fn a_provider_gets_its_own_environment_and_nothing_of_the_daemons() {
    let fixture = Fixture::on(&compiled());
    let provider = fixture.open();
    provider.create(fixture.order("m1")).await.unwrap();
    let told = fixture.cloud.bootstrap("m1");
    assert_eq!(told["name"], "m1");
    assert_eq!(told["metadata-url"], "https://ci.example.com/runner/v1/metadata");
    assert_eq!(told["jit_config_enabled"], true);
    let token = told["instance-token"].as_str().unwrap();
    let bearer = fixture.tokens.check(token).expect("our token");
    assert_eq!((bearer.instance.as_str(), bearer.attempt), ("m1", 1));
    let uuid = told["pool_id"].as_str().unwrap();
    assert!(uuid::Uuid::parse_str(uuid).is_ok(), "{uuid}");
}

#[tokio::test]
async fn pools_keep_their_ids_so_that_listings_find_what_an_earlier_daemon_made() {
    let fixture = Fixture::on(&compiled());
    fixture.open().create(fixture.order("m1")).await.unwrap();
    let Observation::Complete(listed) = fixture.open().list().await else { panic!("not listed") };
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].stamp.instance, Some("m1".into()));
}

#[tokio::test]
async fn a_machine_that_was_never_ordered_is_nobodys_and_can_be_adopted_alone() {
    let fixture = Fixture::on(&compiled());
    fixture.open().create(fixture.order("m1")).await.unwrap();
    fixture.open().create(fixture.order("m2")).await.unwrap();
    fixture.forget("m2");
    let Observation::Complete(listed) = fixture.open().list().await else { panic!("not listed") };
    assert_eq!(listed[0].stamp.holder, Some(holder()));
    let foreign = listed[1].stamp.holder.clone().unwrap();
    assert_eq!((foreign.as_str(), &listed[1].stamp.instance), ("vm/m2", &None));
    assert_eq!(listed[1].stamp.controller, listed[0].stamp.controller);
}

#[tokio::test]
async fn a_provider_tells_its_version_or_is_used_without() {
    let probe = Fixture::on(&compiled()).open().probe().await.unwrap();
    assert_eq!((probe.version, probe.interface), (Ok("v9.9.9".into()), Support::Yes));
    let old = Fixture::on(&in_shell()).open().probe().await.unwrap();
    assert!(old.version.unwrap_err().contains("unknown GARM_COMMAND"));
    assert_eq!(old.interface, Support::Unstated);
}
