//! Every route of the admin API, on a whole daemon: good, bad, unauthorised, forbidden, too large.

mod access;
mod routes;
mod schema;
mod stream;

use ostler::demo::agent::Step;
use serde_json::Value;

use crate::support::HANG_LIMIT;
use crate::support::daemon::{Daemon, Stage, pool, until};
use crate::support::http::Client;

const OPS: &str = "operators-own-token-4f2d";
const EYE: &str = "viewers-own-token-91c0";

/// A daemon with two tokens, and its clients.
struct House {
    stage: Stage,
    daemon: Daemon,
    anonymous: Client,
    ops: Client,
    eye: Client,
}

impl House {
    async fn open(pools: &str) -> Self {
        let stage = Stage::on_sqlite(pools);
        stage.write("ops", OPS);
        stage.write("eye", EYE);
        let tokens = r#"
[[http.token]]
name = "ops"
role = "operator"
secret = { file = "ops" }
[[http.token]]
name = "eye"
role = "viewer"
secret = { file = "eye" }
"#;
        stage.write_config(&format!("{}\n{tokens}\n{pools}", stage.base()));
        let mut daemon = stage.lead().await;
        let anonymous = Client::new(daemon.address().expect("it listens"));
        let (ops, eye) = (anonymous.with(OPS), anonymous.with(EYE));
        Self { stage, daemon, anonymous, ops, eye }
    }

    /// Waits until one instance is in a state, and returns it.
    async fn instance_in(&mut self, state: &str) -> Value {
        let path = format!("/api/v1/instances?state={state}");
        until(&format!("an instance is {state}"), async || {
            self.daemon.must_live();
            !self.eye.get(&path).json()["items"].as_array().expect("a list").is_empty()
        })
        .await;
        self.eye.get(&path).json()["items"][0].clone()
    }

    /// Runs one job that dies to its end, and returns the name of the instance it ran on.
    async fn death(&mut self) -> String {
        self.stage.queue(Step::Crash, 50);
        until("a death is on record", async || {
            self.daemon.must_live();
            let deaths = self.eye.get("/api/v1/deaths").json();
            !deaths["items"].as_array().expect("a list").is_empty()
        })
        .await;
        let deaths = self.eye.get("/api/v1/deaths").json();
        deaths["items"][0]["instance"].as_str().expect("a name").to_owned()
    }
}

fn one_idle() -> String {
    pool(1, 4)
}
