//! Local processes for real: runners that exit, hang, fork away, flood, and outlive the daemon.

mod deaths;
mod deletion;
mod fixture;
mod late;
mod restarts;
mod secrets;

use std::sync::Arc;
use std::time::Duration;

use ostler::providers::process::LocalProcess;
use ostler_actors::model::{MachineName, Stamp};
use ostler_actors::ports::CreateOrder;
use ostler_actors::testing::contract::{ProviderBench, provider_contract};

use fixture::Fixture;

/// Runs the contract of all providers on a runner that waits for a file.
struct Bench(Fixture);

impl ProviderBench for Bench {
    type Provider = LocalProcess;

    async fn open(&mut self) -> Arc<LocalProcess> {
        self.0 = Fixture::running(
            "while test -d \"$PWD\" && ! test -e end; do sleep 0.02; done; exit 7",
        );
        Arc::new(self.0.provider())
    }

    fn order(&self, name: &str, stamp: Stamp) -> CreateOrder {
        CreateOrder { stamp, ..fixture::order(name) }
    }

    async fn end_with_seven(&mut self, machine: &MachineName) {
        std::fs::write(self.0.work(machine.as_str()).join("end"), "").unwrap();
    }

    async fn pass(&mut self) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn in_a_folder_that_was_never_opened_nothing_lives() {
    assert_eq!(Fixture::running("exit 0").living(), []);
}

#[tokio::test]
async fn local_processes_keep_the_contract_of_providers() {
    provider_contract(&mut Bench(Fixture::running("exit 0"))).await;
}
